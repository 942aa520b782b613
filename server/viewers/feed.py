"""What one viewer is shown of episodes: hello, where it stood, and every event from there on, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from spectator.episodes.host.episode_view import EpisodeView
from spectator.episodes.record.reader import EpisodeReader
from spectator.journal.base import EpisodeSummary

from ..close_codes import Close
from ..identifiers import EPISODE_ID
from ..security.masking import ShowsNames
from . import wire
from .audience import Audience
from .finals import FinalStates
from .next_episode import Waiters
from .ports import SendFrames
from .relay import Relay
from .viewer import Viewer
from .wire import Frame, Position

MAX_MISSING: Final = 2000
"""Most events that are sent again to a viewer who resumes; one further behind gets a snapshot."""

READ_EVENTS: Final = 64
"""Events that are read at once for a viewer, since each may be large."""


class LiveEpisodes(Protocol):
    """The episodes that are live here."""

    def live(self, episode_id: str) -> EpisodeView | None:
        """The episode of this id, if it is live."""
        ...

    def showing(self) -> Sequence[EpisodeView]:
        """All of them, oldest first."""
        ...


class Records(EpisodeReader, Protocol):
    """The episodes that are recorded, as far as viewers may see them."""

    async def suspended(self, episode_id: str) -> bool:
        """Whether an episode was left without an end because nobody decided."""
        ...


class LeftEpisodes(Protocol):
    """The episodes that an earlier process left."""

    async def settled(self, episode_id: str, seen_seq: int = 0) -> None:
        """Wait until it is known what becomes of one, and until what is shown here is no older than what a
        viewer has seen, by its last event; at once for every other."""
        ...


@dataclass(frozen=True, slots=True)
class FeedSources:
    """Where feeds find episodes.

    Args:
        episodes: Those that are live.
        records: Those that are recorded.
        finals: Snapshots of recorded episodes.
        audience: Relays live episodes to their viewers.
        waiters: Viewers who wait for the next episode.
        left: Episodes that are being recovered, whose viewers wait for that.
        names: Says which names are hidden.
        elsewhere: Tells which episodes other servers play.
    """

    episodes: LiveEpisodes
    records: Records
    finals: FinalStates
    audience: Audience
    waiters: Waiters
    left: LeftEpisodes
    names: ShowsNames
    elsewhere: Callable[[], Sequence[EpisodeSummary]] = tuple


class EpisodeFeed:
    """Shows one episode, live or recorded, or whatever is on, to one viewer.

    Args:
        sources: Where episodes come from.
        viewer: What waits for it.
        send: Sends to it.
        episode_id: Which; ``None`` for the newest that runs, then the next, for ever.
        asked: Where the viewer stood, if it says so.
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
        self._waiters: Waiters | None = None
        self._sources = sources
        self._episode_id = episode_id
        self._shown: str | None = None
        self._sent_waiting = False

    async def drain(self) -> Close | None:
        """Show all that there is to show now; see :class:`server.viewers.ports.Feed`."""
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
        """Show nothing more; safe to call twice."""
        if self._waiters is not None:
            self._waiters.discard(self._viewer)
        if self._relay is not None:
            self._audience.unwatch(self._viewer, self._relay)
            self._relay = None

    async def _join(self, live: EpisodeView) -> None:
        viewer, asked, self._asked = self._viewer, self._asked, None
        self._relay = relay = self._audience.watch(viewer, live)
        head = live.head_seq  # no await in between
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
        """Send what waited, after what the viewer says it misses."""
        viewer = self._viewer
        if again is not None:
            viewer.position = await self._resume(relay, again, viewer.position)
        fresh = [frame for frame in frames if frame.seq is None or frame.seq > viewer.position]
        mask = self._names.mask
        await self._send([wire.masked(frame, mask) for frame in fresh] if mask.names else fresh)
        viewer.position = max([viewer.position, *(frame.seq for frame in fresh if frame.seq)])

    async def _resume(self, relay: Relay, asked: Position, position: int) -> int:
        """Answer a viewer that asks to resume while it watches; returns where it stands then."""
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
            if not recorded:
                return
            frames = [wire.event_frame(one) for one in recorded]
            mask = self._names.mask
            await self._send([wire.masked(one, mask) for one in frames] if mask.names else frames)
            after_seq = recorded[-1].event.seq

    async def _unended(self, live: EpisodeView) -> Close:
        """Why an episode is over that has no end: it was suspended, or its end could not be recorded."""
        suspended = await self._sources.records.suspended(live.episode_id)
        return Close.UNENDED if suspended else Close.UNRECORDED

    async def _open(self) -> Close | None:
        """Begin with an episode, if there is one to begin with; why it is over, if it is."""
        if self._episode_id is None:
            await self._open_newest()
            return None
        if not EPISODE_ID.fullmatch(self._episode_id):
            return Close.NOT_FOUND
        await self._sources.left.settled(self._episode_id, 0 if self._asked is None else self._asked.seq)
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
        """Begin with the newest episode that runs, or wait for the next."""
        if not self._newest() and not self._sent_waiting:
            self._sent_waiting = True
            await self._send([wire.waiting()])
        for episode_id in self._newest():
            if self._sources.episodes.live(episode_id) is None:  # another server plays it
                await self._sources.left.settled(episode_id)
            live = await self._opened(self._sources.episodes.live(episode_id))
            if live is not None:
                self._shown, self._sent_waiting = live.episode_id, False
                await self._join(live)
                return
        self._waiters = self._sources.waiters
        self._waiters.add(self._viewer)

    async def _opened(self, live: EpisodeView | None) -> EpisodeView | None:
        """The episode with its view up to date; ``None`` when it is no longer on by then."""
        if live is None:
            return None
        await live.open()
        return self._sources.episodes.live(live.episode_id)

    def _newest(self) -> list[str]:
        """What runs, the newest first, without what was shown last."""
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
    """Whether a viewer can be sent just what it misses: of this epoch, not of the future, not too much."""
    return asked is not None and asked.epoch == epoch and 0 <= asked.seq <= head <= asked.seq + MAX_MISSING
