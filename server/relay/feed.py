"""What one viewer of a relay is shown: an episode as the other server shows it."""

from __future__ import annotations

from spectator.episodes.host.episode_view import EpisodeView

from ..close_codes import Close
from ..identifiers import EPISODE_ID
from ..security.masking import ShowsNames
from ..viewers import wire
from ..viewers.audience import Audience
from ..viewers.feed import LiveFeed, provable
from ..viewers.ports import SendFrames
from ..viewers.viewer import Viewer
from ..viewers.wire import Position
from .relayed_view import RelayedView
from .upstream import Upstream


class RelayFeed(LiveFeed):
    """Shows one episode of another server, to its end.

    Args:
        upstream: That server.
        audience: Relays it to viewers.
        names: Hides none: the other server does.
        viewer: What waits for it.
        send: Sends to it.
        episode_id: Which.
        asked: Where the viewer stood, if it says so.
    """

    __slots__ = ("_episode_id", "_upstream")

    def __init__(
        self,
        upstream: Upstream,
        audience: Audience,
        names: ShowsNames,
        viewer: Viewer,
        send: SendFrames,
        episode_id: str,
        asked: Position | None,
    ) -> None:
        self._records, self._audience, self._names = upstream, audience, names
        self._viewer, self._send, self._asked, self._goes_on = viewer, send, asked, False
        self._relay, self._waiters = None, None
        self._upstream = upstream
        self._episode_id = episode_id

    async def _open(self) -> Close | None:
        if not EPISODE_ID.fullmatch(self._episode_id):
            return Close.NOT_FOUND
        asked = self._asked
        view = await self._upstream.view(self._episode_id, 0 if asked is None else asked.seq)
        if view.over is None:
            if asked is not None and provable(asked, view.epoch, view.head_seq):
                await view.read(asked.seq)  # what is missing is here before anything is sent
            await self._join(view)
            return None
        if view.head_seq:
            await self._show_ended(view)
        return view.over

    async def _unended(self, live: EpisodeView) -> Close:
        over = live.over if isinstance(live, RelayedView) else None
        return over or Close.RESTARTING

    async def _show_ended(self, view: RelayedView) -> None:
        """What there is of an episode of which nothing more comes."""
        asked, head = self._asked, view.head_seq
        await self._send([wire.hello(view.episode_id, view.epoch, head, 0)])
        if asked is not None and provable(asked, view.epoch, head):
            await self._send_missing(view.episode_id, asked.seq, head)
        else:
            await self._send([wire.snapshot(view.epoch, head, view.state)])
