"""Viewers on simulated sockets: bytes wait until they are taken, and whoever is sent away comes back.

Everything from the connection on is the server's own: audience, relay, feed, backlog and frames.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from server.security.masking import NameMask
from server.transport.connection import ViewerConnection
from server.transport.keepalive import Keepalive, TransportPorts
from server.viewers.audience import Audience, AudienceLimits, EpisodeSignals
from server.viewers.broadcast import Broadcaster
from server.viewers.feed import EpisodeFeed, FeedSources, FinalSnapshots, NextEpisodeWaiters
from server.viewers.viewer import SendFrames, Viewer
from server.viewers.wire import Position
from spectator.clock import Clock
from spectator.episodes.embargo import PublicReader
from spectator.episodes.episode_view import EpisodeView
from spectator.episodes.reader import ViewReader
from spectator.episodes.supervisor import Supervisor
from spectator.journal.contract import Journal

ROOMS: Final = (600, 5_000, 1_000_000)
"""Bytes that a connection takes before it holds some back."""

BACKLOGS: Final = (3_000, 1_000_000)
"""What may wait for a viewer before it is sent away, characters."""

PORTIONS: Final = (200, 100_000)
"""Bytes that a viewer takes at once."""

NAPS_S: Final = (0.0, 0.0, 0.05, 0.4)
"""How long it takes for them."""

TEXT: Final = 0x1
"""Opcode of a text message (RFC 6455)."""


class SimulatedSocket(asyncio.Transport):
    """The server's end of a connection, whose other end takes bytes when it likes.

    Args:
        room: Bytes that it takes before it holds some back.
    """

    def __init__(self, room: int) -> None:
        super().__init__()
        self.protocol: ViewerConnection | None = None
        self.over = False
        """Nothing more comes."""
        self._room = room
        self._unread = bytearray()
        self._held = False
        self._moved = asyncio.Event()

    def write(self, data: Any) -> None:
        """Keep bytes for the other end."""
        if self.over:
            return
        self._unread += data
        self._moved.set()
        if not self._held and len(self._unread) > self._room and self.protocol is not None:
            self._held = True
            self.protocol.pause_writing()

    async def take(self, most: int) -> bytes:
        """What the other end reads next; empty at the end."""
        while not self._unread and not self.over:
            self._moved.clear()
            await self._moved.wait()
        taken = bytes(self._unread[:most])
        del self._unread[:most]
        if self._held and len(self._unread) <= self._room and self.protocol is not None and not self.over:
            self._held = False
            asyncio.get_running_loop().call_soon(self.protocol.resume_writing)
        return taken

    def send(self, text: str) -> None:
        """What the other end says, as one masked message."""
        payload = text.encode()
        assert len(payload) < 126 and self.protocol is not None
        if not self.over:
            self.protocol.data_received(bytes((0x80 | TEXT, 0x80 | len(payload), 0, 0, 0, 0)) + payload)

    def abort(self) -> None:
        """The connection is gone."""
        if not self.over:
            self.write_eof()
            assert self.protocol is not None
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    close = abort

    def write_eof(self) -> None:
        """Nothing more comes."""
        self.over = True
        self._moved.set()

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return self.over

    def get_write_buffer_size(self) -> int:
        return len(self._unread)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """It has a limit of its own."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


def messages(unread: bytearray) -> Iterator[tuple[int, bytes]]:
    """Whole messages of the server, taken out of ``unread``."""
    while len(unread) >= 2:
        size, at = unread[1], 2
        if size >= 126:
            at = 4 if size == 126 else 10
            size = int.from_bytes(unread[2:at], "big")
        if len(unread) < at + size:
            return
        opcode, payload = unread[0] & 0xF, bytes(unread[at : at + size])
        del unread[: at + size]
        yield opcode, payload


@dataclass
class Watched:
    """What one viewer was shown of an episode, over all its connections.

    Args:
        position: Where it stands; ``None`` before its first snapshot.
        events: The text of each event, by number.
        states: The state of each snapshot, by number.
        ended: Why there is no more, as it was told.
        again_after: The event after which it asked, on this connection, to be sent all again.
    """

    position: Position | None = None
    events: dict[int, str] = field(default_factory=dict)
    states: dict[int, Any] = field(default_factory=dict)
    ended: str | None = None
    again_after: int | None = None

    def show(self, text: str) -> dict[str, Any] | None:
        """Take in a frame; that of the last one before the close, once it comes.

        Raises:
            AssertionError: Events are missing, come twice with different words, or before anything else.
        """
        frame: dict[str, Any] = json.loads(text)
        match frame["frame"]:
            case "snapshot":
                seq = frame["seq"]
                assert self.position is None or seq >= self.position.seq, "a snapshot leads back"
                self.position, self.states[seq] = Position(frame["epoch"], seq), frame["state"]
            case "event":
                seq, told = frame["seq"], "{" + text.removeprefix('{"frame":"event",')
                assert self.position is not None, "an event before the snapshot"
                assert seq <= self.position.seq + 1, f"{seq} follows {self.position.seq}"
                assert self.events.setdefault(seq, told) == told, f"{seq} comes twice, not alike"
                if seq <= self.position.seq:
                    again = self.again_after is not None and seq > self.again_after
                    assert again, f"{seq} comes twice, and nobody asked"
                else:
                    self.position = Position(frame["epoch"], seq)
            case "bye":
                return frame
        return None


class _Names:
    """Nobody's name is hidden."""

    mask = NameMask()


@dataclass(frozen=True, slots=True)
class _Episodes:
    """Live episodes; what becomes of those of the process before is known once all were looked at."""

    supervisor: Supervisor
    looked: asyncio.Event

    def live(self, episode_id: str) -> EpisodeView | None:
        return self.supervisor.live(episode_id)

    def showing(self) -> Sequence[EpisodeView]:
        return self.supervisor.showing()

    async def settled(self, episode_id: str, seen_seq: int = 0) -> None:
        await self.looked.wait()


class ViewersSide:
    """What a server's process shows to viewers.

    Args:
        journal: The record.
        supervisor: Whose episodes.
        signals: Its bus.
        tasks: The group that relays run in.
        clock: Time.
        looked: Set once it is known what becomes of all episodes.
        tape: Draws how much may wait for a viewer.
    """

    def __init__(
        self,
        journal: Journal,
        supervisor: Supervisor,
        signals: EpisodeSignals,
        tasks: asyncio.TaskGroup,
        clock: Clock,
        looked: asyncio.Event,
        tape: Random,
    ) -> None:
        views = ViewReader(journal)
        broadcaster = Broadcaster(None)
        limits = AudienceLimits(backlog_bytes=tape.choice(BACKLOGS))
        self.audience = Audience(
            tasks=tasks, clock=clock, limits=limits, broadcaster=broadcaster, names=_Names()
        )
        waiters = NextEpisodeWaiters(signals.next_start, tasks)
        episodes: Any = _Episodes(supervisor, looked)
        self._feeds = FeedSources(
            episodes, PublicReader(views), FinalSnapshots(views), self.audience, waiters, _Names()
        )
        self._ports = TransportPorts(self.audience, Keepalive(clock), clock)
        self._open: set[asyncio.Protocol] = set()

    async def watch(self, episode_id: str, watched: Watched, tape: Random) -> None:
        """Watch an episode to its end, coming back as often as it takes."""
        while watched.ended is None:
            if not await self._connected(episode_id, watched, tape):
                await asyncio.sleep(tape.choice((0.01, 1.0)))

    async def _connected(self, episode_id: str, watched: Watched, tape: Random) -> bool:
        """One connection; whether there is nothing more to come back for."""
        socket, asked = SimulatedSocket(tape.choice(ROOMS)), watched.position

        def make(viewer: Viewer, send: SendFrames) -> EpisodeFeed:
            return EpisodeFeed(self._feeds, viewer, send, episode_id, asked)

        connection = socket.protocol = ViewerConnection(self._ports, socket, self._open)
        connection.start("192.0.2.1", make)
        watched.again_after = None
        unread, portion, leaves = bytearray(), tape.choice(PORTIONS), tape.choice((0, 0, 0, 7))
        taken = 0
        while data := await socket.take(portion):
            unread += data
            taken += 1
            for opcode, payload in messages(unread):
                if opcode != TEXT:
                    continue
                bye = watched.show(payload.decode())
                if bye is not None:
                    socket.abort()
                    watched.ended = None if bye["reconnect"] else bye["reason"]
                    return watched.ended is not None
            if taken == leaves:
                socket.abort()  # it goes away in the middle
            elif watched.position is not None and watched.again_after is None and tape.random() < 0.05:
                epoch, seq = watched.position.epoch, max(0, watched.position.seq - tape.choice((0, 2)))
                watched.again_after = seq
                socket.send(json.dumps({"frame": "resume", "epoch": epoch, "seq": seq}))
            await asyncio.sleep(tape.choice(NAPS_S))
        socket.abort()
        return False
