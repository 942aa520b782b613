"""Episodes of other servers, followed live in the shared journal.

Their list is kept in memory for the lobby, the wall and ``/live``. Decisions in progress at another
server are rebuilt from its notices, some of which may be lost.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from spectator.clock import Clock, first_of
from spectator.episodes.decisions import PartialDecision, Thinking
from spectator.episodes.embargo import PublicReader
from spectator.episodes.episode_view import EpisodeView
from spectator.episodes.reader import ViewReader
from spectator.errors import EpisodeError, JournalError
from spectator.journal.contract import EpisodeSummary
from spectator.journal.sql_journal import SqlJournal
from spectator.runs.run_records import FollowedView

from ..security.masking import NameMask
from .broadcast import ThoughtFrames
from .wire import Position

LARGEST: Final = 7_000
"""Largest size of a part, in bytes of JSON."""


class NoMask:
    """Hides no names: the receiving server masks them by its own operator's orders."""

    def __init__(self) -> None:
        self.mask = NameMask()


class ThoughtSender:
    """Makes parts of the thoughts in one episode, each with what is new.

    Args:
        withheld: Whether only the actor and the elapsed time are sent, not the thoughts.
    """

    def __init__(self, thinking: Thinking, *, withheld: bool) -> None:
        self._frames = ThoughtFrames(thinking, NoMask(), withheld=withheld)

    def next(self) -> dict[str, Any] | None:
        """Return the fields of the next ``thought`` frame; ``None`` if nothing is new."""
        if (frame := self._frames.next()) is None:
            return None
        fields: dict[str, Any] = json.loads(frame.text)
        del fields["frame"]
        return shortened(fields)


def shortened(fields: dict[str, Any]) -> dict[str, Any]:
    """Cut thought and answer to the newest text that fits, marked as whole."""
    kept = max(len(fields["thought"]), len(fields["answer"]))
    while len(json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")) > LARGEST and kept > 1:
        kept //= 2
        fields = {
            **fields,
            "whole": True,
            "thought": fields["thought"][-kept:],
            "answer": fields["answer"][-kept:],
        }
    return fields


class ThoughtReceiver:
    """Rebuilds the thoughts of another server's episode from its notices."""

    def __init__(self, thinking: Thinking, clock: Clock) -> None:
        self.thinking = thinking
        self._clock = clock
        self._part = -1

    def take(self, fields: Any) -> None:
        """Add the fields of a ``thought`` frame; a part after a lost one is ignored."""
        actor, turn, part = str(fields["actor"]), int(fields["turn"]), int(fields["part"])
        elapsed_s, thought, answer = float(fields["elapsed_s"]), str(fields["thought"]), str(fields["answer"])
        whole, done = bool(fields["whole"]), bool(fields["done"])
        forming = self.thinking.forming
        same = forming is not None and (forming.actor, forming.turn) == (actor, turn) and part > self._part
        if forming is None or not same or forming.over:
            if not whole:
                return
            began = self._clock.monotonic() - elapsed_s
            forming = self.thinking.forming = PartialDecision(actor, turn, began)
        elif whole:
            thought, answer = _added(forming, thought, answer)
        elif part != self._part + 1:
            return
        self._part = part
        for is_answer, text in ((False, thought), (True, answer)):
            if text:
                forming.add(is_answer, text)
        forming.over = done
        self.thinking.notify()

    def over(self, turn: int) -> None:
        """Finish the thoughts on turns up to ``turn``, which are decided."""
        forming = self.thinking.forming
        if forming is not None and not forming.over and forming.turn <= turn:
            forming.over = True
            self.thinking.notify()


def _added(forming: PartialDecision, thought: str, answer: str) -> tuple[str, str]:
    """Return what is new in a whole part; restart if it does not continue."""
    known_thought, known_answer = forming.newest(forming.heard)
    if thought.startswith(known_thought) and answer.startswith(known_answer):
        return thought[len(known_thought) :], answer[len(known_answer) :]
    if not (known_thought.endswith(thought) and known_answer.endswith(answer)):
        forming.restart()
        return thought, answer
    return "", ""


logger = logging.getLogger(__name__)

INTERVAL_S: Final = 0.25
"""Seconds between two polls of the watched episodes' progress; one query covers all."""

SLOW_INTERVAL_S: Final = 2.0
"""The same while notices of commits arrive, some of which may be lost."""

MOST_TRIES: Final = 3
"""Polls in a row in which an episode behind the same event is read: the event may be withheld or not
cached."""

LOST_S: Final = 30.0
"""Seconds that a viewer waits for an event that it has seen and the record lacks; a takeover takes 12 s."""

KEPT_S: Final = 15.0
"""Seconds that an episode is followed after its last viewer left."""


class FollowedEpisodes:
    """Follows the episodes of other servers that have viewers here, in one task."""

    def __init__(
        self,
        journal: SqlJournal,
        views: ViewReader,
        records: PublicReader,
        clock: Clock,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._journal = journal
        self._views = views
        self._records = records
        self._clock = clock
        self._tasks = tasks
        self._followed: dict[str, FollowedView] = {}
        self._polls: dict[str, tuple[int, int]] = {}
        self._thoughts: dict[str, ThoughtReceiver] = {}
        self._epochs: dict[str, str] = {}  # of the records, when following them began
        self._woken: set[str] = set()
        self._wake = asyncio.Event()
        self._interval_s = INTERVAL_S
        self._looked_s = -math.inf
        self._looking: asyncio.Task[None] | None = None
        self._over = False
        self._on_end: list[Callable[[str], None]] = []

    def on_end(self, call: Callable[[str], None]) -> None:
        """Call ``call`` with the id of every episode whose end was shown."""
        self._on_end.append(call)

    def live(self, episode_id: str) -> FollowedView | None:
        """Return an episode that is followed now."""
        return self._followed.get(episode_id)

    async def follow(self, episode_id: str) -> None:
        """Follow an episode from now on, unless it has ended or is suspended.

        If it is followed already, this only extends that by :data:`KEPT_S`.
        """
        if (followed := self._followed.get(episode_id)) is not None:
            followed.wanted_s = self._clock.monotonic()
            return
        recorded = await self._journal.episode(episode_id)  # first, so that a later epoch is noticed
        summary = await self._records.episode(episode_id)
        if recorded is None or summary is None or summary.ended_at is not None:
            return
        if await self._records.suspended(episode_id):
            return
        withholds = await self._records.last_seen(episode_id) is not None
        view = FollowedView(summary, self._views, self._records, self._clock, withholds=withholds)
        if self._followed.setdefault(episode_id, view) is view:
            self._epochs[episode_id] = recorded.epoch
        if self._looking is None and not self._over:
            self._looking = self._tasks.create_task(self._poll(), name="followed episodes")

    def stop(self) -> None:
        """Stop polling the journal."""
        self._over = True
        if self._looking is not None:
            self._looking.cancel()

    async def reach(self, episode_id: str, seen: Position) -> None:
        """Advance a followed episode to an event that a viewer saw at another server.

        Returns immediately if it has reached that event, or is not followed. If the database has lost the
        event, waits until the episode continues in another epoch, but at most :data:`LOST_S`.
        """
        if (view := self._followed.get(episode_id)) is None:
            return
        await view.open()
        if view.epoch == seen.epoch and view.head_seq < seen.seq:
            await self._advance(episode_id, view, seen.seq)

        def still() -> FollowedView | None:
            view.wanted_s = self._clock.monotonic()
            return view if self._followed.get(episode_id) is view else None

        await self.caught_up(still, seen)

    async def caught_up(self, live: Callable[[], EpisodeView | None], seen: Position) -> None:
        """Wait while an episode is behind what a viewer has seen of its epoch, but at most :data:`LOST_S`.

        Args:
            live: Returns its view; ``None`` once it is not live here.
        """
        until_s = self._clock.monotonic() + LOST_S
        while (view := live()) is not None and view.epoch == seen.epoch and not view.ended:
            if view.head_seq >= seen.seq or self._clock.monotonic() >= until_s:
                break
            await self._clock.sleep(INTERVAL_S)

    def thoughts_of(self, view: FollowedView) -> ThoughtReceiver:
        """Return the receiver of its captains' thoughts."""
        known = self._thoughts.get(view.episode_id)
        if known is None or known.thinking is not view.thinking:
            known = self._thoughts[view.episode_id] = ThoughtReceiver(view.thinking, self._clock)
        return known

    def wake(self, episode_ids: Collection[str]) -> None:
        """Note new events of these episodes; returns immediately.

        Episodes that are not followed are ignored.
        """
        if woken := self._followed.keys() & episode_ids:
            self._woken |= woken
            self._wake.set()

    def expect_notices(self, come: bool) -> None:
        """Set whether notices call :meth:`wake` from now on; polls once for missed events."""
        self._interval_s = SLOW_INTERVAL_S if come else INTERVAL_S
        self._looked_s = -math.inf
        self._wake.set()

    async def _poll(self) -> None:
        self._looked_s = self._clock.monotonic()
        try:
            while self._followed:
                left_s = self._looked_s + self._interval_s - self._clock.monotonic()
                if left_s > 0:
                    await first_of(self._clock.sleep(left_s), self._wake.wait())
                self._wake.clear()
                woken, self._woken = self._woken, set()
                due = self._clock.monotonic() >= self._looked_s + self._interval_s
                try:
                    await (self.look() if due else self._advance_woken(woken))
                except JournalError as error:
                    logger.warning("cannot advance episodes of other servers for their viewers: %s", error)
        finally:
            self._looking = None

    async def look(self) -> None:
        """Show what was recorded since the last poll."""
        self._looked_s = self._clock.monotonic()
        asked = tuple(self._followed.items())  # others may be added while the journal answers
        found = await self._journal.heads([episode_id for episode_id, _ in asked])
        heads = {episode_id: seq for episode_id, (seq, _) in found.items()}
        behind = {one: heads[one] for one, view in asked if view.head_seq < heads.get(one, 0)}
        polls = {one: self._tries(one, head) for one, head in behind.items()}
        await self._advance_all({one: head for one, head in behind.items() if polls[one] < MOST_TRIES})
        for episode_id, view in asked:
            idle = not view.watched and self._clock.monotonic() - view.wanted_s > KEPT_S
            _, epoch = found.get(episode_id, (0, None))
            if view.ended or idle or epoch != self._epochs.get(episode_id):
                view.close()
                if self._followed.get(episode_id) is view:
                    del self._followed[episode_id]
        self._thoughts = {one: thoughts for one, thoughts in self._thoughts.items() if one in self._followed}
        self._epochs = {one: epoch for one, epoch in self._epochs.items() if one in self._followed}
        self._polls = {one: (head, polls[one] + 1) for one, head in behind.items() if one in self._followed}

    def _tries(self, episode_id: str, head: int) -> int:
        """Return how many polls in a row found an episode behind this event."""
        before, tries = self._polls.get(episode_id, (0, 0))
        return tries if before == head else 0

    async def _advance_woken(self, woken: Collection[str]) -> None:
        await self._advance_all(dict.fromkeys(woken))
        for episode_id in woken:
            if (view := self._followed.get(episode_id)) is not None and view.ended:
                self._followed.pop(episode_id, None)

    async def _advance_all(self, heads: Mapping[str, int | None]) -> None:
        """Advance some followed episodes concurrently.

        Args:
            heads: Episode ids, each with the number of its last recorded event, if known.
        """
        advancing = (
            self._advance(episode_id, self._followed[episode_id], head)
            for episode_id, head in heads.items()
            if episode_id in self._followed
        )
        for failure in await asyncio.gather(*advancing, return_exceptions=True):
            if failure is not None:
                raise failure

    async def _advance(self, episode_id: str, view: FollowedView, enough: int | None = None) -> None:
        try:
            await view.advance(enough)
            self.thoughts_of(view).over(view.turn)
            if view.ended:
                for call in self._on_end:
                    call(episode_id)
        except JournalError:
            raise
        except EpisodeError:
            logger.exception("stopping to show episode %s of another server", episode_id)
            view.close()
            self._followed.pop(episode_id, None)


LIST_INTERVAL_S: Final = 2.0
"""Seconds between two queries for the episodes of other servers."""

LEAST_LIST_INTERVAL_S: Final = 0.25
"""The same at least, if notices name unknown episodes."""


class RemoteEpisodes:
    """The episodes of other servers, as of the last query of the journal.

    Reads are answered from memory. All of them are followed only while a viewer wants to see all.

    Args:
        started: Called when a new one appears.
    """

    def __init__(
        self,
        journal: SqlJournal,
        followed: FollowedEpisodes,
        plays: Callable[[str], bool],
        started: Callable[[], None],
        clock: Clock,
    ) -> None:
        self.followed = followed
        """Those with viewers here."""
        self._journal = journal
        self._plays = plays
        self._started = started
        self._clock = clock
        self._listed: dict[str, EpisodeSummary] = {}
        self._attempted: set[str] = set()
        self._wake = asyncio.Event()
        followed.on_end(self._forget)

    def listed(self) -> Sequence[EpisodeSummary]:
        """Return all of them, oldest first."""
        return [one for name, one in self._listed.items() if not self._plays(name)]

    def view(self, episode_id: str) -> EpisodeView | None:
        """Return one that is followed here and up to date."""
        view = self.followed.live(episode_id)
        return view if view is not None and view.head_seq and not view.ended else None

    def views(self) -> Iterator[EpisodeView]:
        """Return all that are followed and up to date; see :meth:`follow_all`."""
        return (view for one in self.listed() if (view := self.view(one.episode_id)) is not None)

    def wake(self, episode_ids: Collection[str]) -> None:
        """Note new events of these episodes; returns immediately.

        Followed ones are read, and unknown ones are looked up.
        """
        self.followed.wake(episode_ids)
        if any(name not in self._listed and not self._plays(name) for name in episode_ids):
            self._wake.set()

    async def run(self) -> None:
        """Query the journal until cancelled."""
        works = True
        while True:
            try:
                await self.look()
                works = True
            except JournalError as error:
                if works:
                    logger.warning("cannot list the episodes of other servers: %s", error)
                works = False
            await self._clock.sleep(LEAST_LIST_INTERVAL_S)
            await first_of(self._clock.sleep(LIST_INTERVAL_S - LEAST_LIST_INTERVAL_S), self._wake.wait())
            self._wake.clear()

    async def look(self) -> None:
        """Query the journal once."""
        before = self._listed
        self._listed = {one.episode_id: one for one in await self._journal.held_elsewhere()}
        self._attempted.clear()
        if any(name not in before for name in self._listed):
            self._started()

    async def follow_all(self) -> None:
        """Follow all of them for the next seconds.

        Those already followed need no query.
        """
        for one in self.listed():
            known = self.followed.live(one.episode_id)
            if known is None and one.episode_id in self._attempted:
                continue
            self._attempted.add(one.episode_id)
            try:
                await self.followed.follow(one.episode_id)
                if (view := self.followed.live(one.episode_id)) is not None:
                    await view.open()
            except EpisodeError as error:
                logger.warning("cannot show episode %s of another server: %s", one.episode_id, error)

    def _forget(self, episode_id: str) -> None:
        self._listed.pop(episode_id, None)
