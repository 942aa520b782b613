"""An episode as another server shows it: followed over its WebSocket, and handed on in the same bytes."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from spectator.clock import Clock
from spectator.episodes.record.recorder import Trouble
from spectator.episodes.record.view import replay_state
from spectator.errors import JournalUnavailable, ProtocolError
from spectator.events import RecordedEvent, decode
from spectator.following.remote_view import RemoteView

from ..close_codes import Close
from ..viewers.feed import MAX_MISSING
from ..viewers.wire import Frame

logger = logging.getLogger(__name__)

EVENT: Final = '{"frame":"event",'
"""What the frame of an event begins with; the rest is the event's one encoding."""

OPEN_S: Final = 10.0
"""Seconds that a connection may take, and the first frames."""

FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 5.0
"""Between two attempts to connect, drawn up to this; each limit is twice the one before."""


class Shows(Protocol):
    """Shows an episode to viewers of this server."""

    async def send_lossy(self, episode_id: str, frame: Frame) -> None:
        """Send a frame that is no event to whoever watches."""
        ...

    async def show_again(self, episode_id: str) -> None:
        """Send a snapshot to whoever watches."""
        ...

    def recount(self, episode_id: str) -> None:
        """Tell who watches how many do."""
        ...


class RelayedView(RemoteView):
    """An episode of another server; an :class:`~spectator.episodes.host.episode_view.EpisodeView`.

    Whatever happens to the connection it comes back to the same place: with the number of its last event.

    Args:
        episode_id: Which.
        url: The WebSocket of that episode at the other server.
        shows: Is told what is no event.
        clock: Time.
        rng: Draws waits.
    """

    def __init__(self, episode_id: str, url: str, shows: Shows, clock: Clock, rng: random.Random) -> None:
        super().__init__(episode_id, "", clock.now(), clock)
        self.others = 0
        """How many watch it there, this server included."""
        self.over: Close | None = None
        """Why nothing more comes; ``None`` while something may."""
        self._url = url
        self._shows = shows
        self._clock = clock
        self._rng = rng
        self._kept: deque[RecordedEvent] = deque(maxlen=MAX_MISSING)
        self._fresh: list[RecordedEvent] = []
        self._settled = asyncio.Event()
        self._moved = asyncio.Event()
        self._fetching = asyncio.Lock()

    async def run(self) -> None:
        """Follow it to its end, until cancelled."""
        wait_s = FIRST_WAIT_S
        while self.over is None:
            before = self.head_seq
            await self._follow()
            self._settled.set()  # where it could not be reached, whoever waits is told so
            if self.over is None:
                wait_s = FIRST_WAIT_S if self.head_seq > before else min(2 * wait_s, LONGEST_WAIT_S)
                await self._clock.sleep(self._rng.uniform(0.0, wait_s))
        self.close()

    async def open(self) -> None:
        """Wait until it is known where the episode stands; at once where that is known.

        Raises:
            JournalUnavailable: The other server cannot be reached now.
        """
        await self._settled.wait()
        if not self.head_seq and self.over is None:
            raise JournalUnavailable("the server that is followed cannot be reached now")

    async def reach(self, seq: int, within_s: float) -> None:
        """Wait until an event has come that was shown elsewhere already, or for so long."""
        try:
            async with asyncio.timeout(within_s):
                while 0 < self.head_seq < seq <= self.head_seq + MAX_MISSING and self.over is None:
                    await self._moved.wait()
        except TimeoutError:
            return

    async def read(self, after_seq: int, limit: int | None = None) -> Sequence[RecordedEvent]:
        """Events with ``seq > after_seq``, in order; those from before this server came are asked for once.

        Raises:
            JournalUnavailable: The other server cannot be reached now, or has them no more.
        """
        if after_seq < self._first - 1:
            async with self._fetching:
                if after_seq < self._first - 1:
                    await self._fetch(after_seq)
        first = self._first
        return list(self._kept)[max(0, after_seq + 1 - first) :][:limit]

    @property
    def _first(self) -> int:
        """The number of the first event that is kept, or would be."""
        return self._kept[0].seq if self._kept else self.head_seq + 1

    async def _fetch(self, after_seq: int) -> None:
        """Ask for the events between a viewer's position and those that are kept."""
        earlier: list[RecordedEvent] = []
        last = self._first - 1
        async for text in _frames(f"{self._url}?epoch={self.epoch}&seq={after_seq}"):
            if text.startswith(EVENT):
                earlier.append(_recorded(text))
                if earlier[-1].seq >= last:
                    break
            elif json.loads(text)["frame"] not in ("hello", "trouble", "thought", "viewers"):
                break
        if [one.seq for one in earlier] != list(range(after_seq + 1, last + 1)):
            raise JournalUnavailable(f"events {after_seq + 1} to {last} cannot be had now")
        known = {one.seq for one in self._kept}
        self._kept.extendleft(one for one in reversed(earlier) if one.seq not in known)

    async def _follow(self) -> None:
        """Take frames until the connection ends, for whatever reason."""
        position = f"?epoch={self.epoch}&seq={self.head_seq}" if self.head_seq else ""
        try:
            async for text in _frames(self._url + position):
                if text.startswith(EVENT):
                    self._take_event(_recorded(text))
                else:
                    await self._take(json.loads(text), text)
        except (JournalUnavailable, ProtocolError) as error:
            logger.info("episode %s is followed again: %s", self.episode_id, error)
        self._flush()

    def _take_event(self, recorded: RecordedEvent) -> None:
        last = self._fresh[-1].seq if self._fresh else self.head_seq
        if recorded.event.epoch != self.epoch or recorded.seq > last + 1:
            raise ProtocolError(f"event {recorded.seq} came after {last}", close_code=Close.BAD_MESSAGE.code)
        if recorded.seq == last + 1:
            if not self._fresh:  # what came in one piece is handed on in one
                asyncio.get_running_loop().call_soon(self._flush)
            self._fresh.append(recorded)

    def _flush(self) -> None:
        """Hand on what came."""
        fresh, self._fresh = self._fresh, []
        if not fresh:
            return
        self.state = replay_state(fresh, self.state)
        self.head_seq, self.turn = fresh[-1].seq, fresh[-1].event.turn
        self.ended = any(one.type == "episode.ended" for one in fresh)
        self._kept.extend(fresh)
        self._bus.publish(fresh)
        self._tell_moved()

    async def _take(self, frame: Mapping[str, Any], text: str) -> None:
        self._flush()
        match frame.get("frame"):
            case "hello" if self.head_seq and frame["epoch"] != self.epoch:
                self.over = Close.RESTARTING  # numbered anew: whoever watches begins anew, too
            case "snapshot" if frame["seq"] >= self.head_seq:
                await self._take_snapshot(frame)
            case "viewers":
                self.others = int(frame["count"])
                self._shows.recount(self.episode_id)
            case "thought":
                await self._shows.send_lossy(self.episode_id, Frame(text))
            case "trouble":
                since = frame["since"] and datetime.fromisoformat(frame["since"])
                self.show_trouble(Trouble(frame["message"], since) if since else None)
            case "bye" if not frame["reconnect"]:
                self.over = _close_of(frame)

    async def _take_snapshot(self, frame: Mapping[str, Any]) -> None:
        """Begin, or go on from here: the other server shows other names now, or too much was missed."""
        again = self.head_seq > 0
        self.epoch, self.head_seq, self.state = frame["epoch"], frame["seq"], frame["state"]
        self._kept.clear()
        self._settled.set()
        self._tell_moved()
        if again:
            await self._shows.show_again(self.episode_id)

    def _tell_moved(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()


async def _frames(url: str) -> AsyncIterator[str]:
    """The frames of a WebSocket, until it ends.

    Raises:
        JournalUnavailable: It cannot be reached, or was lost.
    """
    try:
        async with connect(url, compression=None, max_size=None, open_timeout=OPEN_S, proxy=None) as socket:
            async for text in socket:
                yield text if isinstance(text, str) else text.decode()
    except (OSError, WebSocketException) as error:  # a TimeoutError is an OSError
        raise JournalUnavailable(f"{type(error).__name__}: {error}") from error


def _recorded(text: str) -> RecordedEvent:
    return decode("{" + text[len(EVENT) :])


def _close_of(frame: Mapping[str, Any]) -> Close:
    found = (one for one in Close if (one.code, one.reason) == (frame["code"], frame["reason"]))
    return next(found, Close.FAILED)
