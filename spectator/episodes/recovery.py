"""Recover episodes that an earlier process left unfinished, one by one.

A suspended episode is played on in a running process too, when someone asks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeVar

from spectator.clock import Clock, first_of, timestamp
from spectator.episodes.handle import EpisodeHandle
from spectator.episodes.plan import EpisodePlan
from spectator.episodes.restore import RestoreFailed, UnfinishedRecord, rebuild
from spectator.episodes.steps import cut_short
from spectator.episodes.supervisor import Supervisor
from spectator.episodes.view import is_derived, unchanged, with_patch
from spectator.errors import (
    EpisodeDamaged,
    EpisodeError,
    EpisodeNotFound,
    EpisodeOver,
    FieldError,
    InvalidRequest,
    JournalError,
    JournalUnavailable,
    Recovering,
    SpectatorError,
    typed_as,
)
from spectator.events import Event, RecordedEvent, core_fact, record
from spectator.journal.contract import EpisodeFilter, EpisodeSummary, Journal

logger = logging.getLogger(__name__)

_Read = TypeVar("_Read")

AGAIN_S: Final = 2.0
"""Seconds after which an episode is looked at again whose end could not be recorded."""

PAGE: Final = 1000
"""Episodes that are listed at once."""

GONE: Final = "the server went away before the end"


@dataclass(frozen=True, slots=True)
class Recovered:
    """What became of episodes without an end.

    Args:
        playing: Ids of those that are played on.
        interrupted: Ids of those that were ended.
        stopped: Ids of those that were ended since they were to be stopped before.
    """

    playing: list[str] = field(default_factory=list)
    interrupted: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)


async def recover(
    journal: Journal, clock: Clock, supervisor: Supervisor | None = None, *, limit_s: float = 60.0
) -> Recovered:
    """Play on every episode that has no end, or end it; see :class:`Recovery`.

    Raises:
        JournalError: The index cannot be read.
    """
    recovery = Recovery(journal, clock, supervisor, limit_s=limit_s)
    await recovery.find()
    return await recovery.run()


class EpisodeClaims(Protocol):
    """Knows whose an episode is where several processes record into one journal."""

    async def claim(self, episode_id: str) -> EpisodeSummary | None:
        """Make an episode this process's own; its summary as it is from now on.

        Returns:
            ``None`` where it has ended, another process has it, or there is no slot for it here.
        """
        ...

    async def release(self, episode_id: str) -> None:
        """Leave an episode to others."""
        ...


def _nobody_asks(episode: EpisodeHandle) -> None:
    """Nobody wants to know which episodes are played on."""


class Recovery:
    """Plays on every episode that has no end, or ends it as ``interrupted``.

    The newest are played on first, as far as there are slots. One whose record is damaged is left as it is.
    :meth:`find` comes before any episode is started here, for those would be taken for left ones; :meth:`run`
    may go on in the background. Nothing that takes a slot may be started until it is over.

    Args:
        journal: Where they are.
        clock: Stamps the ends.
        supervisor: Who plays on; without one, all are ended.
        limit_s: Seconds that rebuilding one may take.
        played_on: Is told of each that is played on.
        shared: Whose each is, where other processes record into the journal too; those for which there is
            no slot are left to them.
    """

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        supervisor: Supervisor | None = None,
        *,
        limit_s: float = 60.0,
        played_on: Callable[[EpisodeHandle], None] = _nobody_asks,
        shared: EpisodeClaims | None = None,
    ) -> None:
        self.recovered = Recovered()
        """What became of those that were looked at."""
        self._journal = journal
        self._clock = clock
        self._supervisor = supervisor
        self._limit_s = limit_s
        self._played_on = played_on
        self._shared = shared
        self._left: dict[str, EpisodeSummary] = {}
        self._looked_at: dict[str, asyncio.Event] = {}
        self._found = 0
        self._listed = False
        self._reading: asyncio.Task[Any] | None = None
        self._leaving = asyncio.Event()

    async def find(self) -> None:
        """Find the episodes that have no end.

        Raises:
            JournalError: The index cannot be read.
        """
        before = None
        while page := await self._journal.episodes(EpisodeFilter(ended=False, before=before, limit=PAGE)):
            self._left |= {summary.episode_id: summary for summary in page}
            before = page[-1].episode_id
        self._found, self._listed = len(self._left), True

    def add(self, summaries: Sequence[EpisodeSummary]) -> None:
        """Have :meth:`run` look at further ones, which another process left."""
        self._left |= {summary.episode_id: summary for summary in summaries}
        self._found += len(summaries)

    @property
    def over(self) -> bool:
        """Whether all were looked at."""
        return self._listed and not self._left

    def awaits_recovery(self, episode_id: str) -> bool:
        """Whether it is not known yet what becomes of an episode."""
        return episode_id in self._left

    def progress(self) -> Recovering:
        """How far it has come, as the error of whoever cannot wait."""
        return Recovering(self._found - len(self._left), self._found)

    async def settled(self, episode_id: str) -> None:
        """Wait until it is known what becomes of an episode; at once where nothing is to be done about it."""
        if episode_id in self._left:
            await self._looked_at.setdefault(episode_id, asyncio.Event()).wait()

    async def run(self) -> Recovered:
        """Look at each that :meth:`find` found, until :meth:`leave`."""
        while self._left and not self._leaving.is_set():
            summary = next(iter(self._left.values()))
            try:
                with typed_as(
                    partial(_unreadable, summary.episode_id), passing=(SpectatorError, _Leaving, _NoRoom)
                ):
                    await self._look_at_own(summary)
            except _Leaving:
                break
            except JournalUnavailable as error:
                logger.error("episode %s waits to be recovered: %s", summary.episode_id, error)
                await first_of(self._clock.sleep(AGAIN_S), self._leaving.wait())
                continue
            except JournalError:
                what = "was left without an end, and its record is damaged or cannot be read"
                logger.exception("episode %s %s", summary.episode_id, what)
            del self._left[summary.episode_id]
            if (waiting := self._looked_at.pop(summary.episode_id, None)) is not None:
                waiting.set()
        return self.recovered

    def leave(self) -> None:
        """Begin nothing more; what is being rebuilt is left as it was, for another process."""
        self._leaving.set()
        if self._reading is not None:
            self._reading.cancel()

    async def _look_at_own(self, summary: EpisodeSummary) -> None:
        """Look at an episode unless it is another process's."""
        if self._shared is None:
            return await self._look_at(summary)
        claimed = await self._shared.claim(summary.episode_id)
        if claimed is None:
            return None
        try:
            await self._look_at(claimed)
        except (_Leaving, _NoRoom):
            await self._shared.release(summary.episode_id)

    async def _look_at(self, summary: EpisodeSummary) -> None:
        left = await UnfinishedRecord.read(self._journal, summary)
        stops = None if self._supervisor is None else self._supervisor.stops
        if stops is not None and (detail := stops.detail(summary.episode_id)) is not None:
            await self._end_stopped(left, detail)
            stops.forget(summary.episode_id)
            return
        why = await self._play_on(left)
        if why is None:
            self.recovered.playing.append(summary.episode_id)
            return
        if self._leaving.is_set():
            raise _Leaving
        await self._journal.append([interrupted(left.first, left.last, self._clock, why)])
        logger.warning("episode %s was left without an end: interrupted: %s", summary.episode_id, why)
        self.recovered.interrupted.append(summary.episode_id)

    async def end_stopped(self, summary: EpisodeSummary, detail: str) -> None:
        """End an episode as ``stopped`` that this process may record and nobody plays.

        Args:
            summary: Which, as it is now.
            detail: Who wanted it, in words.

        Raises:
            EpisodeDamaged: Its record is; nothing is put behind it.
            JournalError: The end cannot be recorded now.
        """
        with contextlib.suppress(_Leaving):
            await self._end_stopped(await UnfinishedRecord.read(self._journal, summary), detail)

    async def _end_stopped(self, left: UnfinishedRecord, detail: str) -> None:
        episode_id = left.first.episode_id
        await self._unless_leaving(left.check())
        await self._journal.append([_end(left.first, left.last, self._clock, "stopped", detail)])
        logger.warning("episode %s was to be stopped when the server went away: %s", episode_id, detail)
        self.recovered.stopped.append(episode_id)

    async def _play_on(self, left: UnfinishedRecord) -> str | None:
        """Why the episode cannot be played on; ``None`` when it is."""
        supervisor = self._supervisor
        if supervisor is None or len(supervisor.running()) >= supervisor.slots:
            if self._shared is not None:
                raise _NoRoom
            await self._unless_leaving(left.check())  # nothing is put behind a damaged record
            return GONE if supervisor is None else f"{GONE}, and every slot is taken"
        try:
            load = supervisor.load_left(left.first.data)
            rebuilding = rebuild(left, limit_s=self._limit_s, load=load)
            episode = await supervisor.play_on(await self._unless_leaving(rebuilding))
        except JournalError:
            raise
        except EpisodeError as error:
            return f"{GONE}, and it could not be played on: {error}"
        logger.info("episode %s is played on from turn %d", episode.episode_id, left.last.turn)
        self._played_on(episode)
        return None

    async def _unless_leaving(self, reading: Coroutine[Any, Any, _Read]) -> _Read:
        """What may take long, given up by :meth:`leave`."""
        self._reading = task = asyncio.get_running_loop().create_task(reading)
        try:
            return await task
        except asyncio.CancelledError:
            if not self._leaving.is_set():
                raise
            raise _Leaving from None
        finally:
            self._reading = None


class _NoRoom(Exception):
    """Every slot was taken meanwhile; another process may have one."""


class _Leaving(Exception):
    """The server goes away; the rest is for another process."""


def _unreadable(episode_id: str, error: Exception) -> JournalError:
    return EpisodeDamaged(f"the record of {episode_id} cannot be read: {type(error).__name__}: {error}")


def interrupted(started: Event, last: Event, clock: Clock, why: str) -> RecordedEvent:
    """The event that ends an episode which cannot be played on.

    Args:
        started: Its first event.
        last: Its last event so far.
        clock: Stamps it.
        why: In words.
    """
    return _end(started, last, clock, "interrupted", why)


def _end(
    started: Event, last: Event, clock: Clock, reason: Literal["interrupted", "stopped"], why: str
) -> RecordedEvent:
    fact = core_fact(cut_short(reason, why, last.turn))
    draft = replace(
        last, seq=last.seq + 1, at=timestamp(clock.now()), type=fact.type, data=fact.data, patch={}
    )
    # What the end changes of the view does not depend on what was there before.
    return record(draft if is_derived(started) else with_patch({}, draft, unchanged))


class SuspendedEpisodes:
    """Plays suspended episodes on, each by one caller at a time.

    Args:
        journal: Where they are recorded.
        supervisor: Who plays on.
        limit_s: Seconds that rebuilding one may take.
    """

    def __init__(self, journal: Journal, supervisor: Supervisor, *, limit_s: float = 60.0) -> None:
        self._journal = journal
        self._supervisor = supervisor
        self._limit_s = limit_s
        self._resuming: set[str] = set()

    async def play_on(
        self, episode_id: str, may_play: Callable[[EpisodePlan], Awaitable[None]]
    ) -> EpisodeHandle:
        """Play a suspended episode on; returns once that is recorded.

        Args:
            episode_id: Which.
            may_play: Raises where what is played may not be.

        Raises:
            EpisodeNotFound: There is none.
            EpisodeOver: It has ended, or is not suspended.
            InvalidRequest: It cannot be played on, or somebody else is about to.
            EpisodeBusy: Every slot is taken.
            JournalError: Its record cannot be read, or not be written.
            StepTimeout: Rebuilding it took too long.
        """
        if episode_id in self._resuming:
            raise _wrong("is being resumed already")
        self._resuming.add(episode_id)
        try:
            return await self._play_on(episode_id, may_play)
        finally:
            self._resuming.discard(episode_id)

    async def _play_on(
        self, episode_id: str, may_play: Callable[[EpisodePlan], Awaitable[None]]
    ) -> EpisodeHandle:
        summary = await self._journal.episode(episode_id)
        if summary is None:
            raise EpisodeNotFound(episode_id)
        running = self._supervisor.live(episode_id) is not None
        left = (
            None
            if running or summary.ended_at is not None
            else await UnfinishedRecord.read(self._journal, summary)
        )
        if left is None or left.last.type != "episode.suspended":
            raise EpisodeOver(episode_id)
        supervisor = self._supervisor
        try:
            rebuilt = await rebuild(
                left,
                limit_s=self._limit_s,
                load=supervisor.load_left(left.first.data),
                attempts=math.inf,
                open_stepper=supervisor.open_stepper,
            )
        except RestoreFailed as error:
            raise _wrong(f"cannot be played on: {error}") from error
        try:
            await may_play(rebuilt.plan)
        except BaseException:
            await rebuilt.stepper.aclose()
            raise
        return await supervisor.play_on(rebuilt)


def _wrong(rule: str) -> InvalidRequest:
    return InvalidRequest([FieldError("episode_id", rule)])
