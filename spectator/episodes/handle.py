"""The handle of an episode in this process: observe, pause, pace and end it.

An external episode is played in another process, reported to this one and shown here.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NoReturn

from pydantic import BaseModel

from spectator.clock import Clock, first_of, whole
from spectator.core_events import EpisodeEnded, EpisodePaused, EpisodeResumed, PaceChanged, core_fact
from spectator.environments.contract import ObservationModel, OptionsModel, StateModel, Stepper
from spectator.environments.world import Pack, World
from spectator.episodes.controls import Control, ControlledWait, EndRequest, EndRequested, EpisodeLimits, Pace
from spectator.episodes.decisions import FailureRule, Thinking
from spectator.episodes.derived_stream import Stream
from spectator.episodes.driver import Checkpoints, Driver, Past
from spectator.episodes.plan import EpisodePlan
from spectator.episodes.steps import cut_short
from spectator.episodes.stream import JournalTrouble, TurnFacts
from spectator.episodes.view import State
from spectator.errors import EndReason, EpisodeError, EpisodeOver, EpisodeUnfinished, JournalUnavailable
from spectator.events import EventData, Fact
from spectator.journal.contract import Attachments
from spectator.observations import Observation
from spectator.policies.policy import Policy, Preset
from spectator.policies.spending import EpisodeBudget, SpendLedger, Spent
from spectator.steppers.remote import AGENT, Observed
from spectator.steppers.remote_world import UNKNOWN, comment_observed, project_observed

logger = logging.getLogger(__name__)

MAX_FACTS: Final = 20_000
"""Maximum facts of an external episode; then this process ends it, even if it is still being played."""

ENDING_S: Final = 1.0
"""How long a start waits for the slot of an episode that is over, seconds."""


class ExternalDriver:
    """Replaces the driver of an episode that is played in another process.

    Args:
        control: Receives the server's request to end it.
        characters: Maximum characters of its record; then it is no longer shown.
    """

    deciding: None = None
    awaited: None = None

    def __init__(self, stream: Stream, control: Control, characters: float = math.inf) -> None:
        self.turn = 0
        """Actions taken or refused so far."""
        self.ended: EpisodeEnded | None = None
        """The end, once there is one."""
        self._stream = stream
        self._control = control
        self._characters = characters
        self._facts = 0
        self._truth: str | None = None
        self._over: asyncio.Future[EpisodeEnded] = asyncio.get_running_loop().create_future()

    @property
    def over(self) -> bool:
        """Whether no more facts are accepted."""
        return self._over.done() or self._control.end is not None

    async def record(self, turn: int, facts: Sequence[Fact], attachments: Attachments | None = None) -> None:
        """Record and publish the facts of one turn; a failure ends the episode, but only here."""
        if self.over:
            return
        self._facts += len(facts)
        if self._facts > MAX_FACTS:
            self.give_up("step_cap", f"more than {MAX_FACTS} events; play may continue in its own process")
            return
        try:
            steps = [(turn, facts)]
            recorded = await self._stream.emit_steps(steps, patient=False, attachments=attachments)
            self.turn = turn
            if recorded > self._characters:
                self.give_up("step_cap", f"its record reached {self._characters / 1e6:g} MB")
        except EpisodeError as error:
            logger.warning("episode %s is no longer shown: %s", self._stream.episode_id, error)
            self.give_up("interrupted", f"it could not be recorded: {error}")

    def finish(self, ended: EpisodeEnded, truth: str | None = None) -> None:
        """Set its end; ``truth`` is the world's sealed truth as JSON text, if the end has its digest."""
        if not self._over.done():
            self._truth = truth
            self._over.set_result(ended)

    def give_up(self, reason: EndReason, detail: str) -> None:
        """End it here because it can no longer be shown."""
        self.finish(cut_short(reason, detail, self.turn))

    async def run(self) -> EpisodeEnded:
        """Wait for its end and record it."""
        try:
            async with ControlledWait(self._control):
                ended = await self._over
        except EndRequested:
            end = self._control.end
            full = end is not None and end.reason == "step_cap"
            ended = cut_short("step_cap", end.detail, self.turn) if end and full else self._gone()
        except asyncio.CancelledError:
            await self._report_end(self._gone())
            raise
        await self._report_end(ended)
        return ended

    async def _report_end(self, ended: EpisodeEnded) -> None:
        self.ended = self.ended or ended
        try:
            attachments = None if ended.truth is None else Attachments(truth=self._truth)
            await self._stream.emit(self.turn, [core_fact(ended)], attachments=attachments)
        except EpisodeError:
            logger.exception("episode %s: its end could not be recorded", self._stream.episode_id)

    def _gone(self) -> EpisodeEnded:
        return cut_short("interrupted", "the server that showed it went away", self.turn)

    def policy(self, actor: str) -> Policy | None:
        """Return ``None``: its policies are in another process."""
        return None

    def hold(self, held: bool) -> None:
        """Do nothing: its policies are in another process."""

    async def let_go(self) -> None:
        """Do nothing: there is nothing to close."""


def external_plan(environment: str, title: str, agent: str, seed: int) -> EpisodePlan:
    """Make the plan of an episode in an environment of another process.

    Args:
        title: Its name for people.
        agent: Name of its decision maker, for people.
        seed: Its seed; 0 if unknown.
    """
    captain = Preset("remote", agent, "Decides elsewhere.", "remote", _elsewhere)
    pack = Pack("default", "1", "The episodes of the other server.")
    world = World(
        name=environment,
        version="elsewhere",
        title=title,
        summary="Played elsewhere.",
        actors=(AGENT,),
        environment=lambda: _elsewhere(0),
        action_type=BaseModel,
        observation_type=ObservationModel,
        state_type=StateModel,
        options_type=OptionsModel,
        events={"remote.observed": Observed},
        projection=project_observed,
        commentator=comment_observed,
        captains={"remote": captain},
        packs={"default": pack},
        step_cap=lambda options: 1_000_000,
        default_captain="remote",
        profile=UNKNOWN,
    )
    return EpisodePlan(world, captain, None, pack, seed, Pace.MAX, False, {})


def _elsewhere(_: int) -> NoReturn:
    raise NotImplementedError("it is played elsewhere")


class EpisodeHandle:
    """A running episode of this process; viewers use it as an :class:`~.episode_view.EpisodeView`.

    Args:
        control: Its end, its pause and its pace.
    """

    def __init__(
        self,
        plan: EpisodePlan,
        *,
        stream: Stream,
        control: Control,
        driver: Driver | ExternalDriver,
        thinking: Thinking,
        started_at: datetime,
    ) -> None:
        self.plan = plan
        """What is played."""
        self.episode_id = stream.episode_id
        """Id of the episode."""
        self.epoch = stream.epoch
        """Id of its numbering."""
        self.thinking = thinking
        """The current partial decision; never recorded."""
        self.open, self.subscribe, self.news = stream.open, stream.subscribe, stream.news
        self.started_at = started_at
        """When it began."""
        self.withholds = stream.embargo is not None
        """Whether decisions are shown only together with what they led to."""
        self._stream, self._shown = stream, stream.embargo or stream
        self._control = control
        self._driver = driver
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended: asyncio.Future[EpisodeEnded] = asyncio.get_running_loop().create_future()
        self._order = asyncio.Lock()

    @property
    def head_seq(self) -> int:
        """Number of the last public event."""
        return self._shown.head_seq

    @property
    def state(self) -> State:
        """The viewers' state after event ``head_seq``; never changed in place."""
        return self._shown.state

    @property
    def usage(self) -> Mapping[str, Any]:
        """What models used so far, by actor."""
        return self._stream.usage

    @property
    def turn(self) -> int:
        """Actions taken or refused so far."""
        return self._driver.turn

    @property
    def pace(self) -> Pace:
        """The current pace."""
        return self._control.pace

    @property
    def paused(self) -> bool:
        """Whether play is paused."""
        return self._control.paused

    @property
    def deciding(self) -> str | None:
        """The actor that is deciding now, if any."""
        return self._driver.deciding

    @property
    def awaited(self) -> Observation | None:
        """What the next actor to decide sees, after :attr:`turn`; ``None`` if unknown."""
        return self._driver.awaited

    def policy(self, actor: str) -> Policy | None:
        """Return the policy of ``actor``; ``None`` before the policies are built."""
        return self._driver.policy(actor)

    @property
    def trouble(self) -> JournalTrouble | None:
        """Why its record cannot be written now; play is paused meanwhile."""
        return self._stream.trouble

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._ended.done()

    @property
    def end_recorded(self) -> bool:
        """Whether its end is recorded; false also if recording it failed for good."""
        return self._stream.ended

    async def wait(self) -> EpisodeEnded:
        """Wait for its end.

        Raises:
            EpisodeUnfinished: It was left without an end.
        """
        return await asyncio.shield(self._ended)

    async def begin(self) -> None:
        """Wait until its first event is recorded and published; call once, after :meth:`play`.

        Cancelling the wait cancels the episode.

        Raises:
            EpisodeError: The first event could not be recorded, so there is no episode.
        """
        try:
            await asyncio.shield(self._started)
        except asyncio.CancelledError:
            self._control.request_end(EndRequest("interrupted", "its starter went away"))
            raise

    async def play(self, opening: Sequence[TurnFacts], attachments: Attachments | None = None) -> None:
        """Record its opening and attachments, all or none, then play it to its end."""
        try:
            await self._stream.emit_steps(opening, patient=False, attachments=attachments)
            self._started.set_result(None)
            await self._driver.run()
            await self._settle_record()
        except asyncio.CancelledError:
            if self._driver.ended is None:
                self._control.request_end(EndRequest("interrupted", "the server went away"))
                await self._driver.run()
            raise
        except EpisodeError as error:
            self._started.set_exception(error)
            await self._driver.let_go()
        finally:
            self._settle()

    async def _settle_record(self) -> None:
        """Record the waiting steps of an episode without an end."""
        try:
            await self._stream.settle()
        except EpisodeError:
            logger.exception("episode %s: its last steps could not be recorded", self.episode_id)

    def _settle(self) -> None:
        if not self._started.done():
            self._started.set_exception(EpisodeOver(self.episode_id))
        if self._driver.ended is not None:
            self._ended.set_result(self._driver.ended)
        else:
            self._ended.set_exception(EpisodeUnfinished(self.episode_id))
        for future in (self._started, self._ended):
            future.exception()  # mark it as retrieved, as there may be no waiter

    async def pause(self, by: str) -> None:
        """Pause play; repeating changes nothing. Survives cancellation, as every change does."""
        await whole(self._pause(by))

    async def _pause(self, by: str) -> None:
        async with self._order:
            if not self.paused:
                self._hold(True)
                try:
                    paused = core_fact(EpisodePaused(by=by))
                    await self._stream.emit(self.turn, [paused], patient=False)
                except EpisodeError:
                    self._hold(False)
                    raise

    async def resume(self, by: str) -> None:
        """Resume play; repeating changes nothing."""
        await whole(self._resume(by))

    async def _resume(self, by: str) -> None:
        async with self._order:
            if self.paused:
                resumed = core_fact(EpisodeResumed(by=by))
                await self._stream.emit(self.turn, [resumed], patient=False)
                self._hold(False)

    def _hold(self, held: bool) -> None:
        self._driver.hold(held)
        if held:
            self._control.pause()
        else:
            self._control.resume()

    async def set_pace(self, pace: Pace, by: str) -> None:
        """Change the pace; setting the current one changes nothing."""
        await whole(self._set_pace(pace, by))

    async def _set_pace(self, pace: Pace, by: str) -> None:
        async with self._order:
            if pace is not self.pace:
                changed = core_fact(PaceChanged(pace=pace.value, by=by))
                await self._stream.emit(self.turn, [changed], patient=False)
                self._control.set_pace(pace)

    async def record_fact(self, data: EventData) -> None:
        """Record and publish an event from outside, such as a clip of speech.

        Raises:
            EpisodeOver: The episode has ended.
            JournalError: It could not be recorded.
        """
        await self._stream.emit(self.turn, [core_fact(data)], patient=False)

    def breathe(self, seconds: float) -> None:
        """Delay the next step by ``seconds`` at the broadcast pace."""
        self._control.breathe(seconds)

    def request_end(self, request: EndRequest) -> None:
        """Request its end without waiting; the first request determines the reason."""
        self._control.request_end(request)
        self._stream.give_up_waiting(for_good=request.reason != "stopped")

    async def end(self, request: EndRequest) -> EpisodeEnded:
        """Request its end and wait for it.

        Raises:
            EpisodeUnfinished: It has no end.
            JournalUnavailable: The end is not recorded yet, or could not be.
        """
        self.request_end(request)
        while not self.ended:
            await first_of(self.wait(), self._stream.news())
            if self.trouble is not None and not self.ended:
                raise JournalUnavailable(
                    f"{self.trouble.message}; the end will be recorded as soon as possible"
                )
        ended = await self.wait()
        if not self.end_recorded:
            raise JournalUnavailable("the episode is over, but its end could not be recorded; see the log")
        return ended


async def let_end(episodes: Iterable[EpisodeHandle]) -> None:
    """Wait for those whose ends are being recorded: an instant, or :data:`ENDING_S` at most."""
    ending = [one._ended for one in episodes if one._driver.ended is not None]
    if ending:
        await asyncio.wait(ending, timeout=ENDING_S)


def prepare(
    plan: EpisodePlan,
    stream: Stream,
    stepper: Stepper,
    *,
    clock: Clock,
    limits: EpisodeLimits,
    ledger: SpendLedger,
    pace: Pace | None = None,
    paused: bool = False,
    past: Past | None = None,
    rule: FailureRule | None = None,
    checkpoints: Checkpoints | None = None,
) -> Driver:
    """Build the driver of an episode, for a server or for a run.

    Args:
        stream: Records its events, and knows what was spent before.
        stepper: Its environment, closed by the driver.
        pace: The initial pace; the plan's if omitted.
        paused: Whether it begins paused.
        past: Where another process left it; ``None`` to begin.
        rule: What a failed decision does to it; the plan's ``on_failure`` if omitted.
        checkpoints: Keeps checkpoints; none if omitted.
    """
    control = Control(pace or plan.pace, clock)
    if paused:
        control.pause()
    spent = {
        actor: Spent(used["tokens_in"] + used["tokens_out"], used["cost"], used["latency_s"])
        for actor, used in stream.state.get("usage", {}).items()
    }
    return Driver(
        plan,
        stream.episode_id,
        stepper=stepper,
        emit=stream.emit_steps,
        control=control,
        clock=clock,
        limits=limits,
        past=past,
        budget=EpisodeBudget(ledger, spent),
        rule=rule,
        checkpoints=checkpoints,
    )
