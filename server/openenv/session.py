"""One private environment, on its own thread or on one shared by quick worlds.

Few environments compute at once, since they share one interpreter with the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from spectator.clock import Clock
from spectator.episodes.plan import EpisodePlan
from spectator.episodes.single_agent import NoEpisode, SingleAgent
from spectator.episodes.stream import NO_TURNS, RecordedTurns
from spectator.errors import EnvironmentFault, EpisodeError, FieldError, InvalidRequest, typed_as
from spectator.observations import Observation
from spectator.steppers.local import OwnThread
from spectator.steppers.shared_thread import SharedObject, SharedThread

from ..security.bodies import LARGE
from ..security.budget import ClientAccount, Costly
from ..security.permissions import Offer
from .messages import MAX_REPORTED_ERRORS, ResetRequest
from .publisher import ClientPublisher, PublishedEpisode, not_allowed
from .worlds import WireWorld, encode_answer, encode_observation, tool

COMPUTE_AT_ONCE: Final = 4
"""Environments that compute at once.

If every thread computes, each other request waits behind all of them: with 32 environments at full speed,
`/health` took 11 ms, and 2 ms with four.
"""

COMPUTE_HOLD_S: Final = 0.5
"""Seconds after which an environment that takes long, or waits for something, gives up its place."""


@asynccontextmanager
async def compute_slot(slots: asyncio.Semaphore, hold_s: float = COMPUTE_HOLD_S) -> AsyncIterator[None]:
    """Hold one of ``slots`` during the ``with``, at most ``hold_s`` seconds."""
    await slots.acquire()
    with ExitStack() as held:
        held.callback(slots.release)
        expiry = asyncio.get_running_loop().call_later(hold_s, held.close)
        try:
            yield
        finally:
            expiry.cancel()


logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Limits of private environments.

    Args:
        idle_s: Seconds without a message after which one is closed.
        step_s: Seconds for one step, including the other actors' decisions.
        reset_s: Seconds for a construction and for a reset, which may load data.
        by_address: Environments that one address may have open at once; 0 = no limit.
    """

    sessions: int
    idle_s: float
    step_s: float
    reset_s: float
    offer: Offer = field(default_factory=Offer)
    by_address: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to an agent.

    Args:
        text: The observation with reward and done, as JSON.
        refused: Whether the action was rejected.
        said: The observation alone, if it is shown as text.
    """

    text: str
    refused: bool
    said: str | None = None


@dataclass(frozen=True, slots=True)
class _Played:
    """An answer, with the turns to record, if published; after a reset also the plan."""

    answer: Answer
    turns: RecordedTurns = NO_TURNS
    plan: EpisodePlan | None = None


@dataclass(slots=True)
class _ComputedTime:
    """Measures how long a call computes, without waiting for its turn.

    Args:
        took_s: Seconds; ``None`` until the call ends.
    """

    clock: Clock
    took_s: float | None = None

    def around(
        self,
        agent: SingleAgent,
        function: Callable[Concatenate[SingleAgent, _Arguments], _Result],
        /,
        *arguments: _Arguments.args,
        **named: _Arguments.kwargs,
    ) -> _Result:
        began = self.clock.monotonic()
        try:
            return function(agent, *arguments, **named)
        finally:
            self.took_s = self.clock.monotonic() - began


class Session:
    """One private environment.

    Args:
        slots: Limits how many compute at once on threads of their own.
        shared: The thread of worlds that can share one.
        kept: Whether it lives between requests, until it is closed or idle for too long.
    """

    def __init__(
        self,
        session_id: str,
        wire: WireWorld,
        limits: SessionLimits,
        clock: Clock,
        slots: asyncio.Semaphore,
        shared: SharedThread,
        *,
        kept: bool,
    ) -> None:
        self.session_id = session_id
        self.wire = wire
        self.kept = kept
        self.address = ""
        self.left_before: str | None = None
        """Message about an expired earlier environment of the same address, until a reset."""
        self.account: ClientAccount | None = None
        """The account of its client, if known."""
        self._begun = False
        self._known: dict[str, dict[str, Any]] = {}
        self.publisher: ClientPublisher | None = None
        """Publishes its episodes, if its client may."""
        self._published: PublishedEpisode | None = None
        self._limits = limits
        self._clock = clock
        self._slots = slots
        self._used_at = clock.monotonic()
        self._calls = 0
        self._construction_s = 0.0  # not charged yet
        self._thread = self._held(shared)

    @property
    def given_up(self) -> bool:
        """Whether a call missed its deadline, so that the environment is unusable."""
        return self._thread.given_up

    @property
    def expired(self) -> bool:
        """Whether a kept environment was idle for longer than the limit."""
        return self.kept and not self._calls and self._clock.monotonic() - self._used_at > self._limits.idle_s

    async def build(self) -> None:
        """Construct the environment."""
        await self._run(self._limits.reset_s, lambda agent: None)  # constructs it

    async def read(self, text: str | None, reading: Callable[[str | None], _Result]) -> _Result:
        """Return ``reading(text)``, run on the environment's thread if the text is large."""
        if text is None or len(text) <= LARGE:
            return reading(text)
        return await self._run(self._limits.step_s, lambda agent: reading(text))

    async def reset(self, request: ResetRequest) -> Answer:
        """Begin an episode.

        Raises:
            InvalidRequest: A parameter is invalid; the current episode continues.
            Refused: Its client began too many recently; the current episode continues.
            EpisodeError: The opponent or the world failed; the next reset starts again.
            JournalError: The rate of all servers together cannot be counted now.
        """
        self._limits.offer.check(self.wire.world.name, request.options, prefix="")
        if request.publish and self.publisher is None:
            raise not_allowed()
        async with AsyncExitStack() as spent:
            await spent.enter_async_context(self._beginning())
            shown = self.publisher if request.publish else None
            place = None if shown is None else await shown.place(spent)
            return await self._reset(request, place)

    def _beginning(self) -> AbstractAsyncContextManager[None]:
        return nullcontext() if self.account is None else self.account.spend(Costly.RESETS)

    async def _reset(self, request: ResetRequest, place: Mapping[str, Any] | None) -> Answer:
        try:
            played = await self._run(self._limits.reset_s, _reset, request, place)
        except InvalidRequest as error:
            raise InvalidRequest(
                self._as_sent(wrong) for wrong in error.fields[:MAX_REPORTED_ERRORS]
            ) from error
        except EpisodeError as error:
            self._leave(f"the next episode failed to begin: {error}")
            raise
        self._begun, self._known, self.left_before = True, {}, None
        self._leave("its client began another episode")
        if self.publisher is not None and place is not None and "episode_id" in place and played.plan:
            self._published = await self.publisher.show(place["episode_id"], played.plan, request.publish_as)
        if self._published is not None:
            await self._published.publish(played.turns)
        return played.answer

    async def step(self, sent: dict[str, Any], limit_s: float | None = None) -> Answer:
        """Take an action.

        Args:
            limit_s: Time limit in seconds, if below the general limit.

        Raises:
            NoEpisode: There is no episode.
            EpisodeError: The opponent or the world failed; the next reset starts again.
        """
        limit = self._limits.step_s if limit_s is None else min(limit_s, self._limits.step_s)
        try:
            played = await self._run(limit, _step, sent)
        except EpisodeError as error:
            self._leave(str(error))
            raise
        if self._published is not None:
            await self._published.publish(played.turns)
        return played.answer

    def _leave(self, detail: str) -> None:
        if self._published is not None:
            self._published.leave(detail)
            self._published = None

    async def state(self) -> str:
        """Return the public state as JSON.

        Raises:
            NoEpisode: There is no episode.
        """
        return await self._run(self._limits.step_s, lambda agent: encode_answer(agent.state))

    async def begin(self) -> None:
        """Begin an episode with default parameters, if there is none."""
        async with nullcontext() if self._begun else self._beginning():
            await self._run(self._limits.reset_s, _begin)
        self._begun = True

    async def tools(self) -> list[dict[str, Any]]:
        """Return all actions of an episode as MCP tools.

        Begins an episode if there is none and only an episode determines the tools.
        """
        if not self._begun and self.wire.world.tools:
            return [tool(one) for one in self.wire.world.tools]
        await self.begin()
        found = await self._run(self._limits.step_s, _tools)
        self._known |= {one["name"]: one for one in found}
        return list(self._known.values())

    def close(self) -> None:
        """Close the environment; a running call ends by itself."""
        self._leave("its client disconnected before the end")
        self._thread.close()

    def _as_sent(self, wrong: FieldError) -> FieldError:
        """Return an invalid field under the client's name: options are next to the seed."""
        field = wrong.field.removeprefix("options.")
        known = [*ResetRequest.model_fields, *self.wire.world.options_type.model_fields]
        if field == wrong.field or field.split(".")[0] in known:
            return FieldError(field, wrong.rule)
        return FieldError(field, f"unknown parameter; use one of {', '.join(known)}")

    def _held(self, shared: SharedThread) -> OwnThread[SingleAgent] | SharedObject[SingleAgent]:
        if self.wire.world.any_thread:
            return shared.hold(self._construct, SingleAgent.close)
        return OwnThread(self._construct, name=f"openenv-{self.session_id[:8]}", dispose=SingleAgent.close)

    def _construct(self) -> SingleAgent:
        began = self._clock.monotonic()
        try:
            return SingleAgent(self.wire.world.name)
        finally:
            self._construction_s += self._clock.monotonic() - began

    async def _run(
        self,
        limit_s: float,
        function: Callable[Concatenate[SingleAgent, _Arguments], _Result],
        *arguments: _Arguments.args,
        **named: _Arguments.kwargs,
    ) -> _Result:
        """Run ``function`` on the environment's thread; errors become EnvironmentFault."""
        if self.account is not None:
            self.account.require_compute()
        self._calls += 1
        asked, computed = self._clock.monotonic(), _ComputedTime(self._clock)
        run, call = self._thread.call_within, computed.around
        try:
            with typed_as(self._failed):
                if isinstance(self._thread, SharedObject):
                    return await run(limit_s, call, function, *arguments, **named)
                async with compute_slot(self._slots):
                    return await run(limit_s, call, function, *arguments, **named)
        finally:
            self._calls -= 1
            self._used_at = self._clock.monotonic()
            if self.account is not None:
                took = self._used_at - asked
                if computed.took_s is not None:
                    took, self._construction_s = computed.took_s + self._construction_s, 0.0
                self.account.charge(took)

    def _failed(self, error: Exception) -> EnvironmentFault:
        name = self.wire.world.name
        logger.error("openenv session %s of %s failed", self.session_id, name, exc_info=error)
        return EnvironmentFault(f"the environment failed: {type(error).__name__}")


def _reset(agent: SingleAgent, request: ResetRequest, place: Mapping[str, Any] | None) -> _Played:
    observation = agent.reset(
        request.seed,
        request.episode_id,
        options=request.options,
        opponent=request.opponent_choice,
        pack=request.eval_pack_id,
        tell=place is not None and "episode_id" in place,
        observe=request.observe,
    )
    if place is not None:
        observation = replace(observation, metadata={**observation.metadata, "published": dict(place)})
    return replace(_played(agent, observation), plan=agent.plan)


def _step(agent: SingleAgent, sent: dict[str, Any]) -> _Played:
    """Take any sent action: the world rejects and counts malformed ones."""
    action = {name: value for name, value in sent.items() if name != "metadata"}
    metadata = sent.get("metadata")
    said = metadata.get("reasoning") if isinstance(metadata, dict) else None
    return _played(agent, agent.step(action, reasoning=said if isinstance(said, str) else ""))


def _played(agent: SingleAgent, observation: Observation) -> _Played:
    """Return the answer to the agent.

    An observation that cannot be encoded ends the episode.
    """
    try:
        shown = agent.shown
        said = shown.get("text") if agent.observe == "text" else None
        answer = Answer(encode_observation(observation, shown), observation.refused is not None, said)
    except EnvironmentFault:
        agent.abandon()
        raise
    return _Played(answer, agent.take_recorded() if agent.tells or observation.done else NO_TURNS)


def _begin(agent: SingleAgent) -> None:
    try:
        agent.state  # noqa: B018  # raises if there is no episode
    except NoEpisode:
        agent.reset()


def _tools(agent: SingleAgent) -> list[dict[str, Any]]:
    world, observation = agent.world, agent.observation
    if world.standing:
        return [tool(one) for one in world.standing]
    actions = world.briefing.rendering.actions
    found = {one["tool"]: one for one in world.tools}
    found |= {
        one["tool"]: one for one in (observation.legal_actions if actions is None else actions(observation))
    }
    return [tool(one) for one in found.values()]
