"""One viewer's feed: hello, a snapshot or missed events, then every event.

Also finds episodes for feeds: those that run here, those followed from other servers and watched runs,
and snapshots of recorded ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, Generic, TypeVar

from spectator.episodes.embargo import PublicReader
from spectator.episodes.episode_view import EpisodeView
from spectator.episodes.reader import ViewReader
from spectator.episodes.recovery import Recovery
from spectator.episodes.supervisor import Supervisor
from spectator.errors import JournalUnavailable
from spectator.journal.contract import EpisodeSummary

from ..journal import JoinedJournal
from ..lru_cache import LruCache
from ..security.faults import Close
from ..security.masking import NameMaskSource
from . import wire
from .audience import Audience
from .broadcast import Relay, in_turns
from .other_servers import FollowedEpisodes
from .run_boards import RunBoards
from .viewer import SendFrames, Viewer
from .wire import EPISODE_ID, Frame, Position, VoteMessage

_Key = TypeVar("_Key")
_Result = TypeVar("_Result")

KEPT_SNAPSHOTS: Final = 32
"""Cached snapshots."""

FOLDED_AT_ONCE: Final = 2
"""Snapshots computed at once; concurrent requests for one episode share its snapshot."""


class SharedWork(Generic[_Key, _Result]):
    """Shares work between concurrent callers with the same key; results are not cached."""

    def __init__(self, work: Callable[[_Key], Coroutine[Any, Any, _Result]]) -> None:
        self._work = work
        self._under_way: dict[_Key, asyncio.Task[_Result]] = {}

    async def of(self, key: _Key) -> _Result:
        """Return the result of the key's work, or raise what it raises.

        Cancelling one caller does not affect the others.
        """
        if (task := self._under_way.get(key)) is None:
            task = self._under_way[key] = asyncio.create_task(self._work(key))
            task.add_done_callback(partial(self._over, key))
        return await asyncio.shield(task)

    def _over(self, key: _Key, task: asyncio.Task[_Result]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            task.exception()  # raised in the callers, which may all be gone


class FinalSnapshots:
    """Final snapshots of recorded episodes, cached."""

    def __init__(self, records: ViewReader) -> None:
        self._records = records
        self._kept: LruCache[EpisodeSummary, Frame] = LruCache(KEPT_SNAPSHOTS)
        self._folding = SharedWork(self._fold)
        self._turns = asyncio.Semaphore(FOLDED_AT_ONCE)

    async def of(self, summary: EpisodeSummary) -> Frame:
        """Return the snapshot after the last recorded event of an episode."""
        return self._kept.get(summary) or await self._folding.of(summary)

    async def _fold(self, summary: EpisodeSummary) -> Frame:
        async with self._turns:
            state = await self._records.state(summary)
            frame = await asyncio.to_thread(wire.snapshot, summary.epoch, summary.head_seq, state)
        self._kept.keep(summary, frame)
        return frame


class NextEpisodeWaiters:
    """Viewers that wait for the next episode; wakes them a few at a time.

    Args:
        next_start: Returns the event that is set when another episode starts.
    """

    def __init__(self, next_start: Callable[[], asyncio.Event], tasks: asyncio.TaskGroup) -> None:
        self._next_start = next_start
        self._tasks = tasks
        self._viewers: dict[Viewer, None] = {}
        self._waking: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._viewers)

    def add(self, viewer: Viewer) -> None:
        """Wake ``viewer`` at the next start, once, unless it is discarded before."""
        self._viewers[viewer] = None
        if self._waking is None:
            self._waking = self._tasks.create_task(self._wake_all(self._next_start()), name="waiters")

    def discard(self, viewer: Viewer) -> None:
        """Remove a viewer, if it waits here."""
        self._viewers.pop(viewer, None)
        if not self._viewers and self._waking is not None:
            self._waking.cancel()
            self._waking = None

    async def _wake_all(self, start: asyncio.Event) -> None:
        await start.wait()
        self._waking = None
        woken, self._viewers = self._viewers, {}
        await in_turns(woken, Viewer.wake)


MAX_MISSING: Final = 2000
"""Most events resent to a viewer that resumes; one further behind gets a snapshot."""

READ_EVENTS: Final = 64
"""Events read at once for a viewer, since each may be large."""


@dataclass(frozen=True, slots=True)
class FeedSources:
    """Where feeds find episodes.

    Args:
        cast: Counts a vote on an episode from an address, and returns the answer; omitted where none count.
    """

    episodes: WatchableEpisodes
    records: PublicReader
    finals: FinalSnapshots
    audience: Audience
    waiters: NextEpisodeWaiters
    names: NameMaskSource
    elsewhere: Callable[[], Sequence[EpisodeSummary]] = tuple
    cast: Callable[[str, str, VoteMessage], Frame] | None = None


class EpisodeFeed:
    """Shows one episode, or one live episode after the other, to one viewer.

    Args:
        episode_id: The episode; ``None`` for the newest live one, then the next, without end.
    """

    __slots__ = (
        "_asked", "_audience", "_episode_id", "_goes_on", "_names", "_records", "_relay", "_send",
        "_sent_waiting", "_shown", "_sources", "_viewer", "_waiters",
    )  # fmt: skip

    def __init__(
        self,
        sources: FeedSources,
        viewer: Viewer,
        send: SendFrames,
        episode_id: str | None,
        asked: Position | None,
    ) -> None:
        self._records, self._audience, self._names = sources.records, sources.audience, sources.names
        self._viewer, self._send, self._asked, self._goes_on = viewer, send, asked, episode_id is None
        self._relay: Relay | None = None
        self._waiters: NextEpisodeWaiters | None = None
        self._sources = sources
        self._episode_id = episode_id
        self._shown: str | None = None
        self._sent_waiting = False

    async def drain(self) -> Close | None:
        """Send everything available now; see :class:`server.viewers.viewer.Feed`."""
        while True:
            if self._relay is None:
                close = await self._open()
                if close is not None or self._relay is None:
                    return close
            taken = self._viewer.take()
            if taken is not None:
                await self._answer(self._relay, *taken)
            elif not self._viewer.over:
                return None
            else:
                live = self._relay.live
                self.leave()
                if not self._goes_on:
                    return Close.ENDED if live.end_recorded else await self._unended(live)

    def leave(self) -> None:
        """Stop showing episodes; safe to call twice."""
        if self._waiters is not None:
            self._waiters.discard(self._viewer)
        if self._relay is not None:
            self._audience.unwatch(self._viewer, self._relay)
            self._relay = self._viewer.cast = None

    async def _join(self, live: EpisodeView) -> None:
        viewer, asked, self._asked = self._viewer, self._asked, None
        self._relay = relay = self._audience.watch(viewer, live)
        if (cast := self._sources.cast) is not None:
            viewer.cast = partial(cast, live.episode_id, self._audience.address_of(viewer))
        head = live.head_seq  # no await between these lines
        resumable = _provable(asked, live.epoch, head)
        first = None if resumable else relay.snapshot()
        await self._send([wire.hello(live.episode_id, live.epoch, head, relay.total)])
        if live.trouble is not None:
            await self._send([wire.trouble(live.trouble)])
        if first is not None:
            await self._send([first])
        elif asked is not None:
            await self._send_missing(live.episode_id, asked.seq, head)
        await self._send(relay.thoughts.so_far())
        viewer.position = head

    async def _answer(self, relay: Relay, again: Position | None, frames: Sequence[Frame]) -> None:
        """Send what waited, after what the viewer missed."""
        viewer = self._viewer
        if again is not None:
            viewer.position = await self._resume(relay, again, viewer.position)
        fresh = [frame for frame in frames if frame.seq is None or frame.seq > viewer.position]
        mask = self._names.mask
        await self._send([wire.masked(frame, mask) for frame in fresh] if mask.names else fresh)
        viewer.position = max([viewer.position, *(frame.seq for frame in fresh if frame.seq)])

    async def _resume(self, relay: Relay, asked: Position, position: int) -> int:
        """Answer a request to resume while watching; return the viewer's new position."""
        if _provable(asked, relay.live.epoch, position):
            await self._send_missing(relay.live.episode_id, asked.seq, position)
            return position
        frame = relay.snapshot()
        await self._send([frame])
        return frame.seq or 0

    async def _send_missing(self, episode_id: str, after_seq: int, head: int) -> None:
        while after_seq < head:
            recorded = await self._records.read(
                episode_id, after_seq=after_seq, limit=min(READ_EVENTS, head - after_seq)
            )
            if not recorded:  # the database has lost them; the server that plays records them again
                lost = f"events {after_seq + 1} to {head} of {episode_id} cannot be read now"
                raise JournalUnavailable(lost)
            frames = [wire.event_frame(one) for one in recorded]
            mask = self._names.mask
            await self._send([wire.masked(one, mask) for one in frames] if mask.names else frames)
            after_seq = recorded[-1].event.seq

    async def _unended(self, live: EpisodeView) -> Close:
        """Return why an unfinished episode is over: suspended, or its end not recorded."""
        suspended = await self._sources.records.suspended(live.episode_id)
        return Close.UNENDED if suspended else Close.UNRECORDED

    async def _open(self) -> Close | None:
        """Start with an episode, if available; return why the feed is over, if it is."""
        if self._episode_id is None:
            await self._open_newest()
            return None
        if not EPISODE_ID.fullmatch(self._episode_id):
            return Close.NOT_FOUND
        await self._sources.episodes.settled(self._episode_id, self._asked)
        live = await self._opened(self._sources.episodes.live(self._episode_id))
        if live is not None:
            await self._join(live)
            return None
        summary = await self._sources.records.episode(self._episode_id)
        if summary is None:
            return Close.NOT_FOUND
        await self._show_recorded(summary, self._asked)
        return Close.UNENDED if summary.reason is None else Close.ENDED

    async def _open_newest(self) -> None:
        """Start with the newest live episode, or wait for the next."""
        if not self._newest() and not self._sent_waiting:
            self._sent_waiting = True
            await self._send([wire.waiting()])
        for episode_id in self._newest():
            if self._sources.episodes.live(episode_id) is None:  # it runs at another server
                await self._sources.episodes.settled(episode_id)
            live = await self._opened(self._sources.episodes.live(episode_id))
            if live is not None:
                self._shown, self._sent_waiting = live.episode_id, False
                await self._join(live)
                return
        self._waiters = self._sources.waiters
        self._waiters.add(self._viewer)

    async def _opened(self, live: EpisodeView | None) -> EpisodeView | None:
        """Return the episode with an up-to-date view; ``None`` if it ended meanwhile."""
        if live is None:
            return None
        await live.open()
        return self._sources.episodes.live(live.episode_id)

    def _newest(self) -> list[str]:
        """Return the ids of live episodes, newest first, without the last one shown."""
        here = [live for live in self._sources.episodes.showing() if live.head_seq and not live.ended]
        running = [live.episode_id for live in here]
        if others := self._sources.elsewhere():
            begun = [(live.started_at, live.episode_id) for live in here]
            begun += [(datetime.fromisoformat(one.started_at), one.episode_id) for one in others]
            running = [name for _, name in sorted(begun)]
        return [name for name in reversed(running) if name != self._shown]

    async def _show_recorded(self, summary: EpisodeSummary, asked: Position | None) -> None:
        epoch, head = summary.epoch, summary.head_seq
        await self._send([wire.hello(summary.episode_id, epoch, head, 0)])
        if asked is not None and _provable(asked, epoch, head):
            await self._send_missing(summary.episode_id, asked.seq, head)
        else:
            whole = await self._sources.finals.of(summary)
            await self._send([wire.masked(whole, self._names.mask)])


def _provable(asked: Position | None, epoch: str, head: int) -> bool:
    """Whether a viewer can resume from a position.

    It must be of the same epoch, not ahead, and not too far behind.
    """
    return asked is not None and asked.epoch == epoch and 0 <= asked.seq <= head <= asked.seq + MAX_MISSING


class WatchableEpisodes:
    """The episodes that are shown live here."""

    def __init__(
        self,
        played: Supervisor,
        left: Recovery,
        journal: JoinedJournal,
        boards: RunBoards,
        others: FollowedEpisodes | None = None,
    ) -> None:
        self._played = played
        self._left = left
        self._journal = journal
        self._boards = boards
        self._others = others
        self._beginnings = SharedWork(self._begin)

    def live(self, episode_id: str) -> EpisodeView | None:
        """Return the episode of this id, if it is live."""
        played = self._played.live(episode_id) or self._boards.live(episode_id)
        return played or (None if self._others is None else self._others.live(episode_id))

    def showing(self) -> Sequence[EpisodeView]:
        """Return the episodes of this process, oldest first."""
        return self._played.showing()

    async def settled(self, episode_id: str, seen: Position | None = None) -> None:
        """Wait until an episode is recovered, and follow it if it runs elsewhere.

        Args:
            seen: What the viewer has seen, possibly at another server.
        """
        await self._left.settled(episode_id)
        if self._others is not None and seen is not None:  # or another server has taken it over
            await self._others.caught_up(lambda: self._played.live(episode_id), seen)
        if self._played.live(episode_id) is not None:
            return
        if self._others is None or self._others.live(episode_id) is None:
            await self._beginnings.of(episode_id)
        if self._others is not None and seen is not None:
            await self._others.reach(episode_id, seen)
            if self.live(episode_id) is None:  # it continues in another epoch, or has ended
                await self._beginnings.of(episode_id)

    async def _begin(self, episode_id: str) -> None:
        """Find where an episode runs, and follow it from now on."""
        run = await self._journal.run_of(episode_id)
        if run is not None and (self._others is None or await self._boards.in_folder(run)):
            await self._boards.follow(episode_id)
        elif self._others is not None:
            await self._others.follow(episode_id)
