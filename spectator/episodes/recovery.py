"""Recover episodes that an earlier process left unfinished, one by one.

A suspended episode can also be resumed in a running process, on request.
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
from spectator.core_events import core_fact
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
from spectator.events import Event, RecordedEvent, record
from spectator.journal.contract import EpisodeFilter, EpisodeSummary, Journal

logger = logging.getLogger(__name__)

_Read = TypeVar("_Read")

AGAIN_S: Final = 2.0
"""Seconds before recovery is retried for an episode whose journal is unavailable."""

REBUILD_S: Final = 60.0
"""Time limit for rebuilding one episode, seconds."""

PAGE: Final = 1000
"""Episodes listed at once."""

GONE: Final = "the server went away before the end"


@dataclass(frozen=True, slots=True)
class Recovered:
    """The outcome of a recovery.

    Args:
        interrupted: Ids of episodes ended as ``interrupted``.
        stopped: Ids of episodes ended as ``stopped``, as requested before the restart.
    """

    playing: list[str] = field(default_factory=list)
    interrupted: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)


class EpisodeClaims(Protocol):
    """Assigns episodes to processes that share one journal."""

    async def claim(self, episode_id: str) -> EpisodeSummary | None:
        """Claim an episode for this process.

        Returns:
            Its current summary; ``None`` if it has ended, another process has it, or no slot is free here.
        """

    async def release(self, episode_id: str) -> None:
        """Release an episode for other processes."""


def _ignore(episode: EpisodeHandle) -> None:
    """Do nothing about a resumed episode."""


class Recovery:
    """Resumes every episode that has no end, or ends it as ``interrupted``.

    The newest are resumed first, while slots are free. An episode with a damaged record is left unchanged.
    Call :meth:`find` before any episode is started here, because those would be mistaken for unfinished ones;
    :meth:`run` may run in the background. Start nothing that takes a slot until it has finished.

    Args:
        supervisor: Resumes episodes; without one, all are ended.
        played_on: Called with each resumed episode.
        shared: Assigns episodes if other processes share the journal; episodes without a free slot are left
            to them.
    """

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        supervisor: Supervisor | None = None,
        *,
        played_on: Callable[[EpisodeHandle], None] = _ignore,
        shared: EpisodeClaims | None = None,
    ) -> None:
        self.recovered = Recovered()
        """The outcome so far."""
        self._journal = journal
        self._clock = clock
        self._supervisor = supervisor
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
        """Add unfinished episodes of another process for :meth:`run`."""
        self._left |= {summary.episode_id: summary for summary in summaries}
        self._found += len(summaries)

    @property
    def over(self) -> bool:
        """Whether all are done."""
        return self._listed and not self._left

    def awaits_recovery(self, episode_id: str) -> bool:
        """Return whether an episode is still to be recovered."""
        return episode_id in self._left

    def progress(self) -> Recovering:
        """Return the progress, as the error for requests that cannot wait."""
        return Recovering(self._found - len(self._left), self._found)

    async def settled(self, episode_id: str) -> None:
        """Wait until an episode is recovered; returns at once if it needs no recovery."""
        if episode_id in self._left:
            await self._looked_at.setdefault(episode_id, asyncio.Event()).wait()

    async def run(self) -> Recovered:
        """Recover each episode that :meth:`find` found, until :meth:`leave`."""
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
                what = "has no end, and its record is damaged or unreadable"
                logger.exception("episode %s %s", summary.episode_id, what)
            del self._left[summary.episode_id]
            if (waiting := self._looked_at.pop(summary.episode_id, None)) is not None:
                waiting.set()
        return self.recovered

    def leave(self) -> None:
        """Stop; an episode that is being rebuilt is left unchanged for another process."""
        self._leaving.set()
        if self._reading is not None:
            self._reading.cancel()

    async def _look_at_own(self, summary: EpisodeSummary) -> None:
        """Recover an episode unless another process has it."""
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
        logger.warning("episode %s had no end and was interrupted: %s", summary.episode_id, why)
        self.recovered.interrupted.append(summary.episode_id)

    async def end_stopped(self, summary: EpisodeSummary, detail: str) -> None:
        """End an episode as ``stopped`` that this process owns and that is not being played.

        Raises:
            EpisodeDamaged: Its record is damaged; nothing is appended.
            JournalError: The end cannot be recorded now.
        """
        with contextlib.suppress(_Leaving):
            await self._end_stopped(await UnfinishedRecord.read(self._journal, summary), detail)

    async def _end_stopped(self, left: UnfinishedRecord, detail: str) -> None:
        episode_id = left.first.episode_id
        await self._unless_leaving(left.check())
        await self._journal.append([_end(left.first, left.last, self._clock, "stopped", detail)])
        logger.warning("episode %s is stopped, as requested before the restart: %s", episode_id, detail)
        self.recovered.stopped.append(episode_id)

    async def _play_on(self, left: UnfinishedRecord) -> str | None:
        """Resume the episode; return why it cannot be, or ``None``."""
        supervisor = self._supervisor
        if supervisor is None or len(supervisor.running()) >= supervisor.slots:
            if self._shared is not None:
                raise _NoRoom
            await self._unless_leaving(left.check())  # never append to a damaged record
            return GONE if supervisor is None else f"{GONE}, and every slot is taken"
        try:
            load = supervisor.load_left(left.first.data)
            lost = await self._journal.lost_until(left.first.episode_id, left.last.seq)
            rebuilding = rebuild(left, limit_s=REBUILD_S, load=load, crashes=supervisor.crashes)
            episode = await supervisor.play_on(await self._unless_leaving(rebuilding), lost)
        except JournalError:
            raise
        except EpisodeError as error:
            return f"{GONE}, and it could not be resumed: {error}"
        logger.info("episode %s is resumed from turn %d", episode.episode_id, left.last.turn)
        self._played_on(episode)
        return None

    async def _unless_leaving(self, reading: Coroutine[Any, Any, _Read]) -> _Read:
        """Run a slow read that :meth:`leave` can cancel."""
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
    """No slot is free; another process may have one."""


class _Leaving(Exception):
    """The server is shutting down; the rest is left to another process."""


def _unreadable(episode_id: str, error: Exception) -> JournalError:
    return EpisodeDamaged(f"the record of {episode_id} cannot be read: {type(error).__name__}: {error}")


def interrupted(started: Event, last: Event, clock: Clock, why: str) -> RecordedEvent:
    """Make the event that ends an episode which cannot be resumed.

    Args:
        started: Its first event.
    """
    return _end(started, last, clock, "interrupted", why)


def _end(
    started: Event, last: Event, clock: Clock, reason: Literal["interrupted", "stopped"], why: str
) -> RecordedEvent:
    fact = core_fact(cut_short(reason, why, last.turn))
    draft = replace(
        last, seq=last.seq + 1, at=timestamp(clock.now()), type=fact.type, data=fact.data, patch={}
    )
    # The patch of the end does not depend on the state before it.
    return record(draft if is_derived(started) else with_patch({}, draft, unchanged))


class SuspendedEpisodes:
    """Resumes suspended episodes, each for one caller at a time."""

    def __init__(self, journal: Journal, supervisor: Supervisor) -> None:
        self._journal = journal
        self._supervisor = supervisor
        self._resuming: set[str] = set()

    async def play_on(
        self, episode_id: str, may_play: Callable[[EpisodePlan], Awaitable[None]]
    ) -> EpisodeHandle:
        """Resume a suspended episode; returns once that is recorded.

        Args:
            may_play: Raises if the plan is not allowed.

        Raises:
            EpisodeNotFound: There is no such episode.
            EpisodeOver: It has ended, or is not suspended.
            InvalidRequest: It cannot be resumed, or is being resumed already.
            EpisodeBusy: Every slot is taken.
            JournalError: Its record cannot be read or written.
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
        lost = await self._journal.lost_until(episode_id, left.last.seq)
        try:
            rebuilt = await rebuild(
                left,
                limit_s=REBUILD_S,
                load=supervisor.load_left(left.first.data),
                attempts=math.inf,
                open_stepper=supervisor.open_stepper,
            )
        except RestoreFailed as error:
            raise _wrong(f"cannot be resumed: {error}") from error
        try:
            await may_play(rebuilt.plan)
        except BaseException:
            await rebuilt.stepper.aclose()
            raise
        return await supervisor.play_on(rebuilt, lost)


def _wrong(rule: str) -> InvalidRequest:
    return InvalidRequest([FieldError("episode_id", rule)])
