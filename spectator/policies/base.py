"""The policy contract: ``decide(observation) -> Decision``."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol, runtime_checkable

from spectator.checked_dataclass import checked_dataclass
from spectator.events import DecisionSource
from spectator.failures import FailureClass
from spectator.model_calls import ModelCall
from spectator.observations import Observation

Action = Mapping[str, Any]
"""Plain JSON in the shape of the world's action model; the world itself says whether it is legal."""


@checked_dataclass(frozen=True, slots=True)
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
        prompt: Edition of the prompt that a model was asked with, see :mod:`spectator.policies.prompting`.
        exchanges: The questions to a model and what came back, see :mod:`spectator.llm.exchange`.
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


class DecidesAfresh:
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
