"""An episode that runs here: what can be known of it, and how it is paused, paced and ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from spectator.clock import first_of
from spectator.episodes.host.external import ExternalDriver
from spectator.episodes.record.opening import Stream
from spectator.episodes.record.recorder import Trouble
from spectator.episodes.record.stream import TurnFacts
from spectator.episodes.record.view import State
from spectator.episodes.run.controls import Control, EndRequest
from spectator.episodes.run.driver import Driver
from spectator.episodes.run.pacing import Pace
from spectator.episodes.run.partial_decision import Thinking
from spectator.episodes.run.plan import EpisodePlan
from spectator.errors import (
    EpisodeError,
    EpisodeOver,
    EpisodeUnfinished,
    JournalUnavailable,
)
from spectator.events import (
    EpisodeEnded,
    EpisodePaused,
    EpisodeResumed,
    EventData,
    PaceChanged,
    core_fact,
)
from spectator.futures import whole
from spectator.journal.attachments import Attachments
from spectator.policies.base import Policy

logger = logging.getLogger(__name__)


class EpisodeHandle:
    """An episode that runs here; viewers see it as an :class:`~.episode_view.EpisodeView`.

    Args:
        plan: What is played.
        stream: Its events.
        control: Its end, its pause and its pace.
        driver: Its loop.
        thinking: What its captains think at the moment.
        started_at: When it began.
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
        """Its one id, everywhere."""
        self.epoch = stream.epoch
        """Identity of its numbering."""
        self.thinking = thinking
        """What its captains think at the moment; never recorded."""
        self.open, self.subscribe, self.news = stream.open, stream.subscribe, stream.news
        self.started_at = started_at
        """When it began."""
        self.withholds = stream.shown is not stream
        """Whether viewers are shown decisions only together with what they led to."""
        self._stream, self._shown = stream, stream.shown
        self._control = control
        self._driver = driver
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended: asyncio.Future[EpisodeEnded] = asyncio.get_running_loop().create_future()
        self._order = asyncio.Lock()

    @property
    def head_seq(self) -> int:
        """Number of the last event that viewers may see."""
        return self._shown.head_seq

    @property
    def state(self) -> State:
        """What viewers see after event ``head_seq``; never changed in place."""
        return self._shown.state

    @property
    def usage(self) -> Mapping[str, Any]:
        """What models took so far, by actor."""
        return self._stream.usage

    @property
    def turn(self) -> int:
        """Actions taken or refused so far."""
        return self._driver.turn

    @property
    def pace(self) -> Pace:
        """How fast it is played now."""
        return self._control.pace

    @property
    def paused(self) -> bool:
        """Whether play stands still."""
        return self._control.paused

    @property
    def deciding(self) -> str | None:
        """The actor whose decision is waited for now, if any is."""
        return self._driver.deciding

    def policy(self, actor: str) -> Policy | None:
        """Who decides for ``actor``; ``None`` before the seats are taken."""
        return self._driver.policy(actor)

    @property
    def trouble(self) -> Trouble | None:
        """What keeps its record from being written now; play stands still meanwhile."""
        return self._stream.trouble

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self._ended.done()

    @property
    def end_recorded(self) -> bool:
        """Whether its end is in the record; not so where that failed for good."""
        return self._stream.ended

    async def wait(self) -> EpisodeEnded:
        """Wait for its end.

        Raises:
            EpisodeUnfinished: It was left without one.
        """
        return await asyncio.shield(self._ended)

    async def begin(self) -> None:
        """Wait until its first event is recorded and published; to be called once, after :meth:`play`.

        Whoever gives up waiting gives up the episode.

        Raises:
            EpisodeError: The first event could not be recorded; there is no such episode.
        """
        try:
            await asyncio.shield(self._started)
        except asyncio.CancelledError:
            self._control.request_end(EndRequest("interrupted", "whoever started it went away"))
            raise

    async def play(self, opening: Sequence[TurnFacts], attachments: Attachments | None = None) -> None:
        """Record its opening and what belongs to it, all or none, then play it to its end."""
        try:
            recorded = self._stream.begin(opening, attachments=attachments)
            if isinstance(recorded, asyncio.Future):
                recorded.add_done_callback(self._begun)
            else:
                await recorded
                self._started.set_result(None)
            await self._driver.run()
            await self._settle_record()
            if isinstance(recorded, asyncio.Future) and recorded.done():
                self._begun(recorded)  # it may be over before its callback has run
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

    def _begun(self, recorded: asyncio.Future[Any]) -> None:
        """Whoever waits for the start learns whether it is recorded; play goes on meanwhile."""
        if self._started.done() or recorded.cancelled():
            return
        error = recorded.exception()
        if error is None:
            self._started.set_result(None)
        else:
            self._started.set_exception(error)

    async def _settle_record(self) -> None:
        """Record what waits, where no end took it along."""
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
        for told in (self._started, self._ended):
            told.exception()  # nobody may be waiting for it

    async def pause(self, by: str) -> None:
        """Let play stand still; asking twice changes nothing. Survives cancellation, as every change does."""
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
        """Let play go on; asking twice changes nothing."""
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
        """Play at another pace; asking for the one that holds changes nothing."""
        await whole(self._set_pace(pace, by))

    async def _set_pace(self, pace: Pace, by: str) -> None:
        async with self._order:
            if pace is not self.pace:
                changed = core_fact(PaceChanged(pace=pace.value, by=by))
                await self._stream.emit(self.turn, [changed], patient=False)
                self._control.set_pace(pace)

    async def record_fact(self, data: EventData) -> None:
        """Record and publish something that was observed from outside, such as a clip of speech.

        Raises:
            EpisodeOver: Its end was told before.
            JournalError: It could not be recorded.
        """
        await self._stream.emit(self.turn, [core_fact(data)], patient=False)

    def breathe(self, seconds: float) -> None:
        """Let the next step wait ``seconds`` at the broadcast pace."""
        self._control.breathe(seconds)

    def request_end(self, request: EndRequest) -> None:
        """Ask for its end and do not wait; the first who asks gives the reason."""
        self._control.request_end(request)
        self._stream.give_up_waiting(for_good=request.reason != "stopped")

    async def end(self, request: EndRequest) -> EpisodeEnded:
        """Ask for its end and wait for it.

        Raises:
            EpisodeUnfinished: It has no end.
            JournalUnavailable: The end is not recorded: it is as soon as it can be, or it could not be.
        """
        self.request_end(request)
        while not self.ended:
            await first_of(self.wait(), self._stream.news())
            if self.trouble is not None and not self.ended:
                raise JournalUnavailable(f"{self.trouble.message}; the end is recorded as soon as it can be")
        ended = await self.wait()
        if not self.end_recorded:
            raise JournalUnavailable("it is over, and its end could not be recorded; the log says why")
        return ended
