"""The policy contract, ``decide(observation) -> Decision``, and random policies."""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, Protocol, runtime_checkable

from spectator.errors import ConfigurationError, FailureClass
from spectator.events import DecisionSource, encode_json
from spectator.llm.chat import DeltaKind
from spectator.model_calls import ModelCall
from spectator.observations import Observation

Action = Mapping[str, Any]
"""Plain JSON in the shape of the world's action model; the world itself says whether it is legal."""


@dataclass(frozen=True, slots=True)
class Decision:
    """An action and where it came from.

    Args:
        action: What to send to the world.
        source: Who really made it; a fallback is never dressed up as a model's.
        reasoning: The stated reason, for people; may be empty.
        raw_text: What a model wrote, before parsing.
        parse: How the text became an action; ``None`` where no text was parsed.
        fallback_reason: Why ``source`` had to step in, for people.
        failure_class: The kind of failure for which it had to; ``None`` where whoever was asked decided.
        model: Name of the model that answered.
        latency_s: How long the policy took by its own clock; ``None`` lets the driver measure it.
        tokens_in: Prompt tokens, where known.
        tokens_out: Completion tokens, where known.
        tokens_estimated: Whether the endpoint did not count all of them.
        cost: By the prices of the captains' catalogue, where they are known.
        prompt: Edition of the prompt that a model was asked with, see :mod:`spectator.policies.prompts`.
        exchanges: The questions to a model and what came back, see :mod:`spectator.llm.exchanges`.
        calls: The same whole, for the training record: one for each of ``exchanges``, or none at all.
    """

    action: Action
    source: DecisionSource
    reasoning: str = ""
    raw_text: str | None = None
    parse: Literal["ok", "repaired", "failed"] | None = None
    fallback_reason: str | None = None
    failure_class: FailureClass | None = None
    model: str | None = None
    latency_s: float | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_estimated: bool = False
    cost: float | None = None
    prompt: Literal[1, 2] | None = None
    exchanges: Sequence[Mapping[str, Any]] = ()
    calls: Sequence[ModelCall] = ()


@lru_cache(maxsize=1024)
def offers(kind: type, protocol: type) -> bool:
    """Whether policies of this class have the methods of ``protocol``.

    ``isinstance`` finds that out anew every time, in 10 us.

    >>> offers(RandomPolicy, Restorable), offers(RandomPolicy, KeepsTime)
    (True, False)
    """
    return issubclass(kind, protocol)


class Policy(Protocol):
    """Whoever decides for one actor during one episode."""

    async def decide(self, observation: Observation, *, deadline: float) -> Decision:
        """Decide what to do.

        Args:
            observation: What this actor sees; ``observation.actor`` is this policy's actor.
            deadline: Seconds from now after which nobody waits for the answer.

        Raises:
            Exception: Anything; the driver ends the episode with ``policy_error``. A policy that can
                fall back does so itself and labels the decision.
        """
        ...

    async def aclose(self) -> None:
        """Let go of what the policy holds. Called once, whatever the end."""
        ...


@runtime_checkable
class KeepsTime(Protocol):
    """A policy whose own clock stands still while play does."""

    def hold(self, held: bool) -> None:
        """Let the clock stand still, or run on."""
        ...


class EndsWhenCancelled:
    """Base of policies whose ``decide`` ends as soon as it is cancelled, whatever it waits for.

    They are asked in the task of the episode; others in one of their own, which can be given up.
    """

    __slots__ = ()


class Stateless:
    """Base of policies whose decisions depend on their seed and the observation they are shown, nothing else.

    They need not have seen the past: one that takes a seat in a fork is first asked where the fork begins.
    """

    __slots__ = ()


@runtime_checkable
class WaitsForRest(Protocol):
    """What builds a policy that asks an endpoint, and can build it so that it waits for one left alone."""

    def waiting_for_rest(self) -> Callable[[int], Policy]:
        """The same, with decisions that wait, while they have time, for an endpoint that rests."""
        ...


@runtime_checkable
class SeesTruth(Protocol):
    """A policy that is shown the world itself, its hidden part and its luck included; its preset says so."""

    def see(self, snapshot: bytes) -> None:
        """Take the world as it stands before the decision; see ``Environment.snapshot``."""
        ...


@runtime_checkable
class Remembers(Protocol):
    """A policy whose decisions depend on those before, and that can be brought to where a record stops."""

    def remember(self, observation: Observation, decided: Mapping[str, Any]) -> object:
        """Take in a decision that it made before, without asking anybody or spending anything.

        Args:
            observation: What it saw.
            decided: Data of the decision's ``decision.made``.
        """
        ...


@runtime_checkable
class Restorable(Protocol):
    """A policy whose memory can be kept and given back: it need not see the past again to play on.

    A scripted policy that does not offer this is asked for all its decisions again after a restart. A
    subclass that remembers more extends both.
    """

    def snapshot(self) -> Any:
        """All that its next decisions depend on, as plain JSON."""
        ...

    def restore(self, snapshot: Any) -> None:
        """Decide from here on as the policy whose ``snapshot`` it is.

        Raises:
            Exception: It is not one of its own.
        """
        ...


def generator_snapshot(generator: random.Random) -> list[Any]:
    """The state of a generator as plain JSON.

    >>> first, second = random.Random(7), random.Random(8)
    >>> restore_generator(second, generator_snapshot(first))
    >>> first.random() == second.random()
    True
    """
    version, internal, gauss = generator.getstate()
    return [version, list(internal), gauss]


def restore_generator(generator: random.Random, snapshot: Sequence[Any]) -> None:
    """Bring a generator to where another one stood."""
    version, internal, gauss = snapshot
    generator.setstate((version, tuple(internal), gauss))


class ScriptedPolicy(ABC):
    """A policy that decides at once, without waiting for anything; usable with and without an event loop."""

    @abstractmethod
    def choose(self, observation: Observation) -> Decision:
        """Decide what to do, in well under a millisecond."""

    async def decide(self, observation: Observation, *, deadline: float) -> Decision:
        """Decide what to do; see :meth:`Policy.decide`."""
        return self.choose(observation)

    async def aclose(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Let go of nothing."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A policy that can be chosen by name.

    Args:
        name: Name in the catalogue, such as ``heuristic``.
        label: Name shown to people.
        summary: A sentence on how it plays.
        source: Kind of decision maker.
        build: Makes the policy for one actor of one episode from its own seed.
        missing: What is needed before it can be used here; ``None`` when it is available.
        costs_money: Whether starting it needs the operator's token.
        mirrors: Whether it stands for whoever takes the agent's seat; never built itself.
        fingerprint: How a model is asked, as a digest; ``None`` for everybody else.
    """

    name: str
    label: str
    summary: str
    source: DecisionSource
    build: Callable[[int], Policy]
    missing: str | None = None
    costs_money: bool = False
    mirrors: bool = False
    fingerprint: str | None = None


class RandomPolicy(ScriptedPolicy):
    """Chooses evenly among the legal kinds of action and leaves the arguments to the world's defaults.

    Args:
        seed: Seed of its own generator.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def choose(self, observation: Observation) -> Decision:
        """Draw one legal action."""
        legal = self._random.choice(observation.legal_actions)
        arguments = self.arguments(legal["arguments"])
        return Decision({"tool": legal["tool"], "arguments": arguments}, "random", "drawn at random")

    def arguments(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of an action with this JSON schema: none, which leaves them to their defaults."""
        return {}

    def snapshot(self) -> Any:
        """Where its generator stands."""
        return generator_snapshot(self._random)

    def restore(self, snapshot: Any) -> None:
        """Draw on from there."""
        restore_generator(self._random, snapshot)


THOUGHT_LIMIT: Final = 8_192
"""Characters of one part of a thought."""


class Thought(NamedTuple):
    """A part of a decision that is forming; for viewers, and gone once the decision is there.

    Args:
        actor: Who is thinking.
        decision: Which of the actor's decisions, 1 the first.
        kind: What grew; ``restart`` voids what came before it in the same decision.
        text: What was added.
    """

    actor: str
    decision: int
    kind: DeltaKind
    text: str


@runtime_checkable
class StreamsThoughts(Protocol):
    """A policy whose thoughts can be heard while they form."""

    def stream_thoughts(self, listener: Callable[[Thought], None] | None) -> None:
        """Send thoughts to ``listener``, which is called on the event loop and returns at once."""
        ...


@runtime_checkable
class HasFallback(Protocol):
    """What builds a policy with a fallback, and can build it with another."""

    def falling_back_to(self, fallback: Callable[[int], Policy]) -> Callable[[int], Policy]:
        """The same, with ``fallback`` deciding where the policy does not."""
        ...


class RandomFallback(ScriptedPolicy):
    """Draws by what is seen alone, so that nothing has to be remembered of the draws before.

    Args:
        build: Makes a random captain from a seed.
        seed: Its own.
    """

    def __init__(self, build: Callable[[int], Policy], seed: int) -> None:
        self._build = build
        self._seed = seed
        self._drawn: Counter[str] = Counter()  # one that the world refuses is not drawn for ever

    def choose(self, observation: Observation) -> Decision:
        """Draw one legal action.

        Raises:
            ConfigurationError: The random captain is not a scripted one.
        """
        seen = hashlib.sha256(encode_json(dict(observation.content)).encode()).hexdigest()
        self._drawn[seen] += 1
        key = f"{self._seed}\x1f{seen}\x1f{self._drawn[seen]}"
        captain = self._build(int.from_bytes(hashlib.sha256(key.encode()).digest()[:6]))
        if not isinstance(captain, ScriptedPolicy):
            raise ConfigurationError("the random captain of a world must be a scripted policy")
        return captain.choose(observation)


WORDS: Final = ("yes", "no", "wait", "look", "north", "open", "answer", "42")
"""What free text is drawn from."""

MAX_DEPTH: Final = 8
"""Levels of nesting beyond which nothing more is drawn."""


def random_json(schema: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """An object in the shape of ``schema``: every required member, and each optional one half the time.

    Types, bounds, ``enum``, ``const``, ``$ref``, ``anyOf`` and ``oneOf`` are kept; patterns are not.

    >>> schema = {"properties": {"bet": {"type": "integer", "minimum": 5, "maximum": 5}}, "required": ["bet"]}
    >>> random_json(schema, random.Random(1))
    {'bet': 5}
    """
    drawn: dict[str, Any] = _draw({**schema, "type": "object"}, schema, rng, 0)
    return drawn


def _draw(schema: Any, root: Mapping[str, Any], rng: random.Random, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return None
    if "$ref" in schema:
        return _draw(_target(str(schema["$ref"]), root), root, rng, depth + 1)
    if "const" in schema:
        return schema["const"]
    for choice in ("enum", "anyOf", "oneOf"):
        if schema.get(choice):
            drawn = rng.choice(schema[choice])
            return drawn if choice == "enum" else _draw(drawn, root, rng, depth + 1)
    kind = schema.get("type")
    return _draw_kind(rng.choice(kind) if isinstance(kind, list) and kind else kind, schema, root, rng, depth)


def _draw_kind(
    kind: Any, schema: Mapping[str, Any], root: Mapping[str, Any], rng: random.Random, depth: int
) -> Any:
    match kind:
        case "object":
            required = schema.get("required") or ()
            members = (schema.get("properties") or {}).items()
            return {
                name: _draw(one, root, rng, depth + 1)
                for name, one in members
                if name in required or (depth < MAX_DEPTH // 2 and rng.random() < 0.5)
            }
        case "array":
            least = schema.get("minItems", 0)
            count = rng.randint(least, min(schema.get("maxItems", least + 2), least + 2))
            return [_draw(schema.get("items", {}), root, rng, depth + 1) for _ in range(count)]
        case "integer":
            low, high = _bounds(schema)
            return rng.randint(int(low), int(high))
        case "number":
            return round(rng.uniform(*_bounds(schema)), 3)
        case "boolean":
            return rng.random() < 0.5
        case "string":
            text = rng.choice(WORDS)[: schema.get("maxLength")]
            return text.ljust(schema.get("minLength", 0), ".")
    return None


def _bounds(schema: Mapping[str, Any]) -> tuple[float, float]:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is None:
        low = 0 if high is None else high - 10
    return low + ("exclusiveMinimum" in schema), (low + 10 if high is None else high) - (
        "exclusiveMaximum" in schema
    )


def _target(reference: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
