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

from spectator.core_events import DecisionSource
from spectator.errors import ConfigurationError, FailureClass
from spectator.events import encode_json
from spectator.llm.chat import ChatEndpoint, DeltaKind
from spectator.model_calls import ModelCall
from spectator.observations import Observation

Action = Mapping[str, Any]
"""Plain JSON in the shape of the world's action model; the world checks whether it is legal."""


@dataclass(frozen=True, slots=True)
class Decision:
    """An action and its origin.

    Args:
        action: The action for the world.
        source: Who made the decision; a fallback's decision is always marked as such.
        reasoning: The stated reason, for people; may be empty.
        raw_text: The model's text before parsing.
        parse: How the text became an action; ``None`` if no text was parsed.
        fallback_reason: Why the fallback decided, for people.
        failure_class: Kind of the failure that caused the fallback; ``None`` without a failure.
        model: Name of the model that answered.
        latency_s: Seconds that the policy took; ``None`` lets the driver measure it.
        tokens_in: Prompt tokens, if known.
        tokens_out: Completion tokens, if known.
        tokens_estimated: Whether some tokens were estimated instead of counted by the endpoint.
        cost: Cost at the captain's prices, if known.
        prompt: Edition of the prompt; see :mod:`spectator.policies.prompts`.
        constraint: How the model's answer was constrained; see :mod:`spectator.llm.constraint`.
        exchanges: Requests to the model and their results, as events; see :mod:`spectator.llm.exchanges`.
        calls: The complete calls for the training record: one per exchange, or none at all.
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
    prompt: Literal[1, 2, 3, 4] | None = None
    constraint: str | None = None
    exchanges: Sequence[Mapping[str, Any]] = ()
    calls: Sequence[ModelCall] = ()


@lru_cache(maxsize=1024)
def offers(kind: type, protocol: type) -> bool:
    """Whether policies of this class implement ``protocol``.

    Cached, because ``isinstance`` with a protocol takes 10 us.

    >>> offers(RandomPolicy, Restorable), offers(RandomPolicy, KeepsTime)
    (True, False)
    """
    return issubclass(kind, protocol)


class Policy(Protocol):
    """Decides for one actor during one episode."""

    async def decide(self, observation: Observation, *, deadline: float) -> Decision:
        """Decide what to do.

        Args:
            observation: What this actor sees; ``observation.actor`` is this policy's actor.
            deadline: Seconds from now; later decisions are ignored.

        Raises:
            Exception: Any; the driver ends the episode with ``policy_error``. A policy with a fallback
                does not raise, but returns the fallback's decision, marked as such.
        """
        ...

    async def aclose(self) -> None:
        """Release resources. Called exactly once."""
        ...


@runtime_checkable
class KeepsTime(Protocol):
    """A policy whose clock must stop while play is paused."""

    def hold(self, held: bool) -> None:
        """Stop the clock, or let it run."""
        ...


class Stateless:
    """Base of policies that depend only on their seed and the current observation.

    They need not see past observations, for example when they take a seat in a fork.
    """

    __slots__ = ()


@runtime_checkable
class WaitsForRest(Protocol):
    """A ``Preset.build`` for policies that can wait for a paused endpoint."""

    def waiting_for_rest(self) -> Callable[[int], Policy]:
        """Return a build whose decisions wait for a paused endpoint, if time allows."""
        ...


@runtime_checkable
class SeesTruth(Protocol):
    """A policy that gets the whole state of the world, including hidden parts."""

    def see(self, snapshot: bytes) -> None:
        """Receive the world's state before the decision; see ``Environment.snapshot``."""
        ...


@runtime_checkable
class Remembers(Protocol):
    """A policy that depends on its past decisions and can replay them from a record."""

    def remember(self, observation: Observation, decided: Mapping[str, Any]) -> object:
        """Replay a recorded decision, without requests to endpoints and without spending.

        Args:
            decided: Data of the decision's ``decision.made``.
        """
        ...


@runtime_checkable
class Restorable(Protocol):
    """A policy whose state can be saved and restored.

    After a restart, other scripted policies must repeat all their decisions. A subclass with further state
    extends both methods.
    """

    def snapshot(self) -> Any:
        """Return the state that the next decisions depend on, as plain JSON."""
        ...

    def restore(self, snapshot: Any) -> None:
        """Continue from a ``snapshot``.

        Raises:
            Exception: The snapshot is not from this kind of policy.
        """
        ...


def generator_snapshot(generator: random.Random) -> list[Any]:
    """Return the state of a random generator as plain JSON.

    >>> first, second = random.Random(7), random.Random(8)
    >>> restore_generator(second, generator_snapshot(first))
    >>> first.random() == second.random()
    True
    """
    version, internal, gauss = generator.getstate()
    return [version, list(internal), gauss]


def restore_generator(generator: random.Random, snapshot: Sequence[Any]) -> None:
    """Set the state of a random generator from :func:`generator_snapshot`."""
    version, internal, gauss = snapshot
    generator.setstate((version, tuple(internal), gauss))


class ScriptedPolicy(ABC):
    """A policy that decides at once, without waiting; needs no event loop."""

    @abstractmethod
    def choose(self, observation: Observation) -> Decision:
        """Decide what to do, in well under a millisecond."""

    async def decide(self, observation: Observation, *, deadline: float) -> Decision:
        """Decide what to do; see :meth:`Policy.decide`."""
        return self.choose(observation)

    async def aclose(self) -> None:  # noqa: B027 - most have nothing to release
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A policy that can be chosen by name.

    Args:
        name: Name in the catalogue, such as ``heuristic``.
        label: Display name.
        summary: One sentence about how it plays.
        source: Kind of decision maker.
        build: Makes the policy for one actor of one episode from a seed.
        missing: What is needed before it can be used here; ``None`` if it is available.
        costs_money: Whether starting it needs the operator's token.
        mirrors: Whether it represents the preset of the agent's seat; never built itself.
        fingerprint: Hash of a model's settings or weights; ``None`` for other policies.
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
    """Chooses uniformly among the legal actions, with default arguments.

    Args:
        seed: Seed of its random generator.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def choose(self, observation: Observation) -> Decision:
        """Draw one legal action."""
        legal = self._random.choice(observation.legal_actions)
        arguments = self.arguments(legal["arguments"])
        return Decision({"tool": legal["tool"], "arguments": arguments}, "random", "drawn at random")

    def arguments(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments for an action with this JSON schema: none, for the defaults."""
        return {}

    def snapshot(self) -> Any:
        """Return the state of its random generator."""
        return generator_snapshot(self._random)

    def restore(self, snapshot: Any) -> None:
        """Set the state of its random generator."""
        restore_generator(self._random, snapshot)


THOUGHT_LIMIT: Final = 8_192
"""Maximum characters of one part of a thought."""


class Thought(NamedTuple):
    """A streamed part of a decision in progress, for viewers; never recorded.

    Args:
        actor: The deciding actor.
        decision: Number of the actor's decision, from 1.
        kind: Kind of the part; ``restart`` discards earlier parts of the same decision.
        text: The added text.
    """

    actor: str
    decision: int
    kind: DeltaKind
    text: str


@runtime_checkable
class StreamsThoughts(Protocol):
    """A policy that can stream its thoughts."""

    def stream_thoughts(self, listener: Callable[[Thought], None] | None) -> None:
        """Call ``listener`` with each thought on the event loop; it must return at once."""
        ...


@runtime_checkable
class HasFallback(Protocol):
    """A ``Preset.build`` for policies with a fallback that can be replaced."""

    def falling_back_to(self, fallback: Callable[[int], Policy]) -> Callable[[int], Policy]:
        """Return a build with another fallback."""
        ...


@runtime_checkable
class AsksEndpoint(Protocol):
    """A ``Preset.build`` for models; a recorded endpoint can take the place of theirs."""

    def asking(self, client: ChatEndpoint, seed: int) -> Policy:
        """Return a new policy that uses ``client``."""
        ...


class RandomFallback(ScriptedPolicy):
    """Draws an action that depends only on seed and observation, not on past draws.

    Args:
        build: Makes a random captain from a seed.
    """

    def __init__(self, build: Callable[[int], Policy], seed: int) -> None:
        self._build = build
        self._seed = seed
        self._drawn: Counter[str] = Counter()  # so that a rejected action is not drawn again and again

    def choose(self, observation: Observation) -> Decision:
        """Draw one legal action.

        Raises:
            ConfigurationError: The random captain is not a scripted policy.
        """
        seen = hashlib.sha256(encode_json(dict(observation.content)).encode()).hexdigest()
        self._drawn[seen] += 1
        key = f"{self._seed}\x1f{seen}\x1f{self._drawn[seen]}"
        captain = self._build(int.from_bytes(hashlib.sha256(key.encode()).digest()[:6]))
        if not isinstance(captain, ScriptedPolicy):
            raise ConfigurationError("the random captain of a world must be a scripted policy")
        return captain.choose(observation)


WORDS: Final = ("yes", "no", "wait", "look", "north", "open", "answer", "42")
"""Values for free text."""

MAX_DEPTH: Final = 8
"""Maximum nesting of drawn values."""


def random_json(schema: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """Draw an object that fits ``schema``, with each optional member half of the time.

    Respects types, bounds, ``enum``, ``const``, ``$ref``, ``anyOf`` and ``oneOf``, but not patterns.

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
