"""The server whose episodes a relay shows: each is followed once, while somebody watches it here."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Final

from spectator.clock import Clock
from spectator.errors import EpisodeNotFound
from spectator.events import RecordedEvent

from ..close_codes import Close
from ..viewers.audience import Audience
from ..viewers.wire import Frame
from .relayed_view import RelayedView

KEPT_S: Final = 15.0
"""How long an episode that nobody watches any more is followed still, and one that has ended is kept."""

LOOK_S: Final = 5.0
"""Seconds between two looks at which are watched."""

REACH_S: Final = 2.0
"""How long a viewer waits who comes from a server that is further."""


class Upstream:
    """The episodes of another server that are watched here.

    Args:
        base_url: Where it is, ``http://host:port``.
        audience: Who watches here.
        clock: Time.
        rng: Draws waits.
        tasks: The group that they are followed in.
    """

    def __init__(
        self, base_url: str, audience: Audience, clock: Clock, rng: random.Random, tasks: asyncio.TaskGroup
    ) -> None:
        self._live_url = base_url.rstrip("/").replace("http", "ws", 1) + "/live"
        self._audience = audience
        self._clock = clock
        self._rng = rng
        self._tasks = tasks
        self._views: dict[str, RelayedView] = {}
        self._following: dict[str, asyncio.Task[None]] = {}

    @property
    def followed(self) -> int:
        """How many episodes are followed now."""
        return len(self._following)

    async def view(self, episode_id: str, seen_seq: int = 0) -> RelayedView:
        """An episode as the other server shows it, followed from now on.

        Args:
            episode_id: Which.
            seen_seq: The last event that whoever asks has seen, maybe at a server that was further.

        Raises:
            JournalUnavailable: The other server cannot be reached now.
        """
        view = self._views.get(episode_id)
        if view is None or (view.over is not None and view.over.reconnect):
            url = f"{self._live_url}/{episode_id}"
            view = self._views[episode_id] = RelayedView(episode_id, url, self, self._clock, self._rng)
            self._following[episode_id] = self._tasks.create_task(view.run(), name=f"following {episode_id}")
        view.wanted_s = self._clock.monotonic()
        await view.open()
        if view.over is Close.NOT_FOUND and self._views.get(episode_id) is view:
            del self._views[episode_id], self._following[episode_id]
        if seen_seq:
            await view.reach(seen_seq, REACH_S)
        return view

    async def read(
        self, episode_id: str, *, after_seq: int = 0, limit: int | None = None
    ) -> Sequence[RecordedEvent]:
        """Events of an episode that is followed, with ``seq > after_seq``, in order.

        Raises:
            EpisodeNotFound: It is followed no more.
            JournalUnavailable: They cannot be had now.
        """
        view = self._views.get(episode_id)
        if view is None:
            raise EpisodeNotFound(episode_id)
        return await view.read(after_seq, limit)

    def others(self, episode_id: str) -> int:
        """How many watch an episode there, but for this server."""
        view = self._views.get(episode_id)
        return 0 if view is None else max(0, view.others - 1)

    async def run(self) -> None:
        """Let go of what nobody watches, until cancelled."""
        while True:
            await self._clock.sleep(LOOK_S)
            now = self._clock.monotonic()
            for episode_id, view in tuple(self._views.items()):
                if view.watched:
                    view.wanted_s = now
                elif now - view.wanted_s > KEPT_S:
                    del self._views[episode_id]
                    self._following.pop(episode_id).cancel()
                    view.close()

    def stop(self) -> None:
        """Follow nothing any more."""
        for task in self._following.values():
            task.cancel()

    async def send_lossy(self, episode_id: str, frame: Frame) -> None:
        """Send a frame that is no event to whoever watches here."""
        if (relay := self._audience.relay(episode_id)) is not None:
            await relay.send_lossy(frame)

    async def show_again(self, episode_id: str) -> None:
        """Send a snapshot to whoever watches here."""
        if (relay := self._audience.relay(episode_id)) is not None:
            await relay.show_again()

    def recount(self, episode_id: str) -> None:
        """Tell who watches here how many do."""
        self._audience.recount(episode_id)
