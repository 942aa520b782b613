"""Restore an episode left by another process to the end of its record.

Requests to stop that could not be recorded are kept in a small file across restarts.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from pydantic import ValidationError

from spectator.catalog import LoadWorld, load_world
from spectator.core_events import Parent
from spectator.environments.contract import Stepper
from spectator.episodes.checkpoints import UnfitCheckpoint, episode_snapshot, unfit
from spectator.episodes.controls import Pace
from spectator.episodes.crash_log import CrashLog
from spectator.episodes.driver import Past
from spectator.episodes.plan import EpisodePlan
from spectator.episodes.recorded_calls import streamed_with_whole_replies
from spectator.episodes.replayer import Replay, ReplayDivergence, Shown
from spectator.episodes.stream import RecordPosition
from spectator.errors import (
    EnvironmentFault,
    EpisodeDamaged,
    EpisodeError,
    InvalidRequest,
    StepTimeout,
    typed_as,
)
from spectator.events import Event, RecordedEvent
from spectator.journal.contract import Checkpoint, EpisodeLog, EpisodeSummary, Journal
from spectator.journal.encoding import check_replaceable
from spectator.steppers.local import OpenStepper, on_a_thread

logger = logging.getLogger(__name__)

FILE: Final = "stops.json"
"""The default name of the file, beside the journal."""

SIZE: Final = 4096
"""Fixed size of the file in bytes: overwriting it in place usually works even on a full disk."""


class StopRequests:
    """Remembers which episodes to end as ``stopped`` while the journal cannot be written.

    A stop is normally recorded as the end of its episode. Only if that is impossible, as on a full disk, it
    is noted here, so that the next process ends the episode instead of resuming it.

    Args:
        path: The file; ``None`` keeps the notes in memory.

    >>> stops = StopRequests()
    >>> stops.note("ep-1", "stopped by operator"), stops.detail("ep-1"), stops.detail("ep-2")
    (False, 'stopped by operator', None)
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._noted: dict[str, str] = {}

    @classmethod
    def open(cls, path: Path) -> StopRequests:
        """Read the file, and reserve its space on the disk.

        An unreadable file is replaced, with a warning. Without space, stops are kept until a restart.

        Raises:
            ConfigurationError: The path is not a regular file.
        """
        check_replaceable(path)
        stops = cls(path)
        stops._noted = _read(path)
        stops._write()
        return stops

    def note(self, episode_id: str, detail: str) -> bool:
        """Remember to end an episode; return whether the note survives a restart."""
        self._noted[episode_id] = detail
        return self._write()

    def forget(self, episode_id: str) -> None:
        """Remove an episode whose end is recorded."""
        if self._noted.pop(episode_id, None) is not None:
            self._write()

    def detail(self, episode_id: str) -> str | None:
        """Return who requested the stop, in words; ``None`` if there is no request."""
        return self._noted.get(episode_id)

    def _write(self) -> bool:
        if self._path is None:
            return False
        text = json.dumps(self._noted).encode().ljust(SIZE)
        try:
            with open(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0) as file:
                file.write(text)
                file.truncate(len(text))
                os.fsync(file.fileno())
        except OSError as error:
            logger.error("cannot write %s, so stops are kept only until a restart: %s", self._path, error)
            return False
        return True


def _read(path: Path) -> dict[str, str]:
    try:
        noted = json.loads(path.read_bytes().strip() or b"{}") if path.exists() else {}
        if isinstance(noted, dict) and all(isinstance(detail, str) for detail in noted.values()):
            return noted
        logger.warning("%s is not a file of stops; starting with an empty one", path)
    except (OSError, ValueError) as error:
        logger.warning("cannot read %s; starting with an empty one: %s", path, error)
    return {}


TAIL: Final = 16
"""Events per batch when searching backwards for the last decision."""

ReadEvents = Callable[[int], AsyncGenerator[RecordedEvent, None]]
"""Reads the events after a sequence number, in order."""


@dataclass(frozen=True, slots=True)
class UnfinishedRecord:
    """The first and the last event of a record, and a way to read the rest.

    It holds only these two events in memory, however long the record is.

    Args:
        first: The first event, ``episode.started``.
        paused: Whether play was paused.
        events: Reads the events after a sequence number, each with whole model replies.
        checkpoints: Its checkpoints, newest first.
    """

    first: Event
    last: Event
    recoveries: int
    paused: bool
    events: ReadEvents
    checkpoints: Sequence[Checkpoint] = ()

    @classmethod
    def of(cls, recorded: Sequence[RecordedEvent], journal: EpisodeLog) -> Self:
        """Make one from events in memory.

        Args:
            recorded: All events of the episode, in order.

        Raises:
            EpisodeDamaged: They do not begin with ``episode.started``.
        """

        async def after(seq: int) -> AsyncGenerator[RecordedEvent, None]:
            for one in recorded:
                if one.seq > seq:
                    yield one

        def events(seq: int) -> AsyncGenerator[RecordedEvent, None]:
            return streamed_with_whole_replies(journal, recorded[0].episode_id, after(seq))

        since = _Since()
        since.take(reversed(recorded))
        first = recorded[0].event if recorded else None
        return cls(_started(first), recorded[-1].event, since.recoveries, since.paused, events)

    @classmethod
    async def read(cls, journal: Journal, summary: EpisodeSummary) -> Self:
        """Make one from the journal; the record must not grow meanwhile.

        Raises:
            EpisodeDamaged: It does not begin with ``episode.started``, or an event at either end was changed.
            JournalError: It cannot be read.
        """
        episode_id, head = summary.episode_id, summary.head_seq or 0
        head_events = await journal.read(episode_id, limit=1)
        first = _started(head_events[0].event if head_events else None)
        since, last = _Since(), first
        for until in range(head, 0, -TAIL):
            after = max(until - TAIL, 0)
            batch = await journal.read(episode_id, after_seq=after, limit=until - after)
            last = batch[-1].event if until == head and batch else last
            if since.take(reversed(batch)):
                break

        def events(seq: int) -> AsyncGenerator[RecordedEvent, None]:
            return streamed_with_whole_replies(journal, episode_id, journal.stream(episode_id, after_seq=seq))

        checkpoints = await journal.checkpoints(episode_id)
        return cls(first, last, since.recoveries, since.paused, events, checkpoints)

    async def check(self) -> None:
        """Read the whole record to check it.

        Raises:
            EpisodeDamaged: An event is missing or was changed.
            JournalError: It cannot be read.
        """
        async with aclosing(self.events(0)) as events:
            async for _ in events:
                continue


@dataclass(slots=True)
class _Since:
    """Recoveries and pauses since the last decision."""

    recoveries: int = 0
    paused: bool = False
    resumed: bool = False

    def take(self, newest_first: Iterable[RecordedEvent]) -> bool:
        """Take events from newest to oldest; return whether the decision was reached."""
        for one in newest_first:
            match one.type:
                case "decision.made" | "episode.suspended":
                    return True
                case "episode.recovered":
                    self.recoveries += 1
                case "episode.paused":
                    self.paused |= not self.resumed
                case "episode.resumed":
                    self.resumed = True
        return False


def _started(first: Event | None) -> Event:
    if first is None or first.type != "episode.started":
        whose = "it" if first is None else first.episode_id
        raise EpisodeDamaged(f"the record of {whose} does not begin with its start")
    return first


_Replayed = TypeVar("_Replayed")

MAX_ATTEMPTS: Final = 3
"""Deaths of the server at one turn after which an episode is abandoned: it seems to cause them."""

MAX_UNEXPLAINED: Final = 30
"""The same for all deaths, even if its environment was not computing and the machine is the likely cause."""


class RestoreFailed(EpisodeError):
    """The episode cannot be restored from its record."""


@dataclass(frozen=True, slots=True)
class RestoredEpisode:
    """An episode restored to where another process left it.

    Args:
        stepper: Its environment, restored to the end of the record.
        attempt: Recoveries since the last decision, including this one.
    """

    episode_id: str
    epoch: str
    left: RecordPosition
    plan: EpisodePlan
    past: Past
    stepper: Stepper
    attempt: int


async def rebuild(
    record: UnfinishedRecord,
    *,
    limit_s: float,
    load: LoadWorld | None = None,
    attempts: float = MAX_ATTEMPTS,
    open_stepper: OpenStepper = on_a_thread,
    crashes: CrashLog | None = None,
) -> RestoredEpisode:
    """Replay the record in a new environment, comparing every event as it is read.

    If the record has a usable checkpoint, only the events after it are replayed.

    Args:
        record: The record of an unfinished episode, read in batches.
        limit_s: Time limit in seconds.
        load: Finds the world; the catalogue if omitted.
        attempts: Maximum recoveries without a new decision; infinite if a person starts each of them.
        crashes: Tells which deaths of the server the episode may have caused; all if omitted.

    Raises:
        RestoreFailed: The replay diverges, or recovery failed too often.
        JournalError: The record cannot be read.
        StepTimeout: It took longer than ``limit_s``.
    """
    first, last = record.first, record.last
    attempt = 1 if record.paused else record.recoveries + 1
    if crashes is not None:
        if crashes.deaths(first.episode_id, last.turn) >= attempts:
            raise RestoreFailed(f"the server died {attempts:g} times while it played turn {last.turn + 1}")
        attempts = max(attempts, MAX_UNEXPLAINED)
        open_stepper = crashes.watched(open_stepper, last.turn)
    if attempt > attempts:
        raise RestoreFailed(f"the server died {attempts:g} times at turn {last.turn}")
    plan = await asyncio.to_thread(_plan_again, first.data, load or load_world)
    stepper, past, view = await within(limit_s, _replayed(plan, record, open_stepper))
    left = RecordPosition(last.seq, view.seq, view.state)
    return RestoredEpisode(first.episode_id, last.epoch, left, plan, past, stepper, attempt)


async def within(limit_s: float, replayed: Awaitable[_Replayed]) -> _Replayed:
    """Await a replay with a time limit.

    Raises:
        StepTimeout: It took longer than ``limit_s`` seconds.
    """
    try:
        async with asyncio.timeout(limit_s) as scope:
            return await replayed
    except TimeoutError as error:
        if not scope.expired():
            raise
        raise StepTimeout(f"the record could not be replayed within {limit_s:g} s") from error


async def _replayed(
    plan: EpisodePlan, record: UnfinishedRecord, open_stepper: OpenStepper
) -> tuple[Stepper, Past, Shown]:
    """Restore the episode from its newest usable checkpoint, or from its start."""
    episode_id = record.first.episode_id
    for checkpoint in (*record.checkpoints, None):
        stepper = open_stepper(plan.world, episode_id)
        try:
            past, view = await _replay(stepper, plan, record, checkpoint)
        except (UnfitCheckpoint, RestoreFailed, EnvironmentFault) as error:
            await stepper.aclose()
            if checkpoint is None:
                raise
            where = f"the checkpoint after event {checkpoint.seq}"
            logger.warning("episode %s: %s cannot be used and is ignored: %s", episode_id, where, error)
            continue
        except BaseException:
            await stepper.aclose()
            raise
        return stepper, past, view
    raise AssertionError("the whole record comes last")


async def _replay(
    stepper: Stepper, plan: EpisodePlan, record: UnfinishedRecord, checkpoint: Checkpoint | None
) -> tuple[Past, Shown]:
    seats = {actor: plan.policy(actor) for actor in plan.world.actors}
    replay = Replay(plan.world, stepper, seats, parent=plan.parent, derived=plan.view == "derived")
    after = 0
    if checkpoint is not None:
        after = checkpoint.seq
        with typed_as(unfit, passing=(EpisodeError,)):
            await replay.resume_from(episode_snapshot(checkpoint.body, plan.world), after)
    async with aclosing(record.events(after)) as events:
        async for one in events:
            with typed_as(partial(_cannot_replay, one.seq), passing=(EpisodeError,)):
                for difference in await replay.compare(one.event):
                    raise RestoreFailed(f"event {one.seq}: {difference}")
    turn, due = record.last.turn, list(replay.due)
    if due and turn:
        raise RestoreFailed(f"turn {turn} is recorded only in part: {due[0].type} is missing")
    stepped = replay.stepped
    assert stepped is not None
    past = Past(seats, replay.refusals, turn, replay.total, replace(stepped, facts=due))
    return past, replay.shown


def _cannot_replay(seq: int, error: Exception) -> RestoreFailed:
    why = str(error) if isinstance(error, ReplayDivergence) else f"{type(error).__name__}: {error}"
    return RestoreFailed(f"event {seq}: {why}")


def _plan_again(started: Mapping[str, Any], load: LoadWorld) -> EpisodePlan:
    """Rebuild the plan of an episode from its first event."""
    try:
        world = load(started["environment"])
        agent, seats = started["agent"], started["seats"]
        if agent != world.actors[0] or set(seats) != set(world.actors):
            raise RestoreFailed(f"the actors of {world.name} have changed")
        captain = world.captains[seats[agent]["policy"]]
        others = {seat["policy"] for actor, seat in seats.items() if actor != agent}
        opponent = {**world.captains, **world.opponents}[others.pop()] if others else None
        missing = [preset.missing for preset in (captain, opponent) if preset is not None and preset.missing]
        if missing:
            raise RestoreFailed(f"a policy is no longer available: {missing[0]}")
        options = world.options_type.model_validate(started["options"]).model_dump(mode="json")
        pack, pace = world.packs[started["pack"]], Pace(started["pace"])
        parent = None if started.get("parent") is None else Parent.model_validate(started["parent"])
        return EpisodePlan(
            world, captain, opponent, pack, started["seed"], pace, started["narration"], options, parent,
            on_failure=started.get("on_failure", "fallback"), run_id=started.get("run_id"),
            group_id=started.get("group_id"), attempt=started.get("attempt"),
            view=started.get("view", "live"),
            failed_decisions=started.get("failed_decisions", "fallback"),
            waits_for_rest=started.get("waits_for_rest", False),
        )  # fmt: skip
    except (InvalidRequest, KeyError, ValidationError, ValueError) as error:
        raise RestoreFailed(f"its plan is no longer valid: {error}") from error
