"""One viewer: its position, its backlog, and its messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from spectator.clock import Clock
from spectator.errors import ProtocolError

from ..security.faults import Close
from ..security.rate_limits import TokenBucket
from . import wire
from .wire import Batch, Frame, Ping, Position, VoteMessage


class ViewerTransport(Protocol):
    """The connection of a viewer."""

    @property
    def write(self) -> Callable[[bytes], None]:
        """Writes framed messages immediately; called only while the viewer has caught up."""
        ...

    @property
    def descriptor(self) -> int | None:
        """Its socket, if bytes may bypass :attr:`write` while the viewer has caught up."""
        ...

    def writable(self) -> bool:
        """Whether the connection takes bytes now.

        It calls :meth:`Viewer.hold` once it does not.
        """
        ...

    def wake(self) -> None:
        """Drain the feed; called repeatedly.

        Frames wait for the viewer, or its episode is over.
        """
        ...

    def evict(self, close: Close) -> None:
        """Close the connection; called once."""
        ...


class SyncGroup(Protocol):
    """A group of viewers at the same position."""

    def demote(self, viewer: Viewer) -> None:
        """Remove a viewer, and set its position."""
        ...


class Viewer:
    """One viewer: frames go to its transport, or to a backlog if it lags.

    Args:
        backlog_bytes: Size of the backlog beyond which it is closed as too slow.
    """

    __slots__ = (
        "_asked", "_backlog", "_backlog_bytes", "_evicted", "_transport", "backlog_size", "cast", "caught_up",
        "descriptor", "over", "position", "sync_group", "write",
    )  # fmt: skip

    def __init__(self, transport: ViewerTransport, backlog_bytes: int) -> None:
        self.position = 0
        """Last event that it was sent; while it has a :attr:`sync_group`, the group's position counts."""
        self.caught_up = False
        """Whether nothing waits and its connection takes bytes, so that frames are written directly."""
        self.sync_group: SyncGroup | None = None
        """The viewers at the same position, if it is in such a group."""
        self.over = False
        """Whether nothing follows after the backlog."""
        self.backlog_size = 0
        """Size of the backlog in characters."""
        self.cast: Callable[[VoteMessage], Frame] | None = None
        """Counts its vote and returns the answer, while it watches an episode."""
        self.write = transport.write
        self.descriptor = transport.descriptor
        self._transport = transport
        self._backlog_bytes = backlog_bytes
        self._backlog: list[Frame] | None = None
        self._asked: Position | None = None
        self._evicted = False

    def hold(self) -> None:
        """Queue further frames: the connection buffers bytes, or is gone."""
        self.caught_up = False
        if self.sync_group is not None:
            self.sync_group.demote(self)

    def is_ready_for(self, batch: Batch) -> bool:
        """Whether it can be written to now, and does not have ``batch`` yet."""
        return self.caught_up and (batch.first is None or batch.first > self.position)

    def send(self, batch: Batch) -> None:
        """Write ``batch``, or add it to the backlog; evict a viewer too far behind."""
        if self.is_ready_for(batch):
            self.position = batch.last or self.position
            self.write(batch.message)
            return
        if self._evicted:
            return
        self.backlog_size += batch.size
        if self.backlog_size > self._backlog_bytes:
            self.evict(Close.TOO_SLOW)
            return
        if self._backlog is None:
            self._backlog = []
        self._backlog.extend(batch.frames)
        self.wake()

    def send_lossy(self, batch: Batch) -> None:
        """Send frames that are not events; dropped if there is a backlog."""
        if self._backlog is None:
            self.send(batch)

    def request_resume(self, position: Position) -> None:
        """Store a request to resume; a later one replaces it."""
        self._asked = position
        self.wake()

    def finish(self) -> None:
        """End the feed after the backlog."""
        self.over = True
        self.wake()

    def evict(self, close: Close) -> None:
        """Close the connection and drop the backlog."""
        self.hold()
        self._backlog, self._asked, self.backlog_size = None, None, 0
        if not self._evicted:
            self._evicted = True
            self._transport.evict(close)

    def wake(self) -> None:
        """Drain the feed, since there may be something to show."""
        self.hold()
        self._transport.wake()

    def take(self) -> tuple[Position | None, Sequence[Frame]] | None:
        """Take the request to resume, if any, and the backlog.

        Returns:
            ``None`` if there is neither; from then on the viewer is written to directly, if its connection
            takes bytes and its episode is not over.
        """
        if self._backlog is None and self._asked is None:
            self.caught_up = not self.over and not self._evicted and self._transport.writable()
            return None
        taken = (self._asked, self._backlog or ())
        self._backlog, self._asked, self.backlog_size = None, None, 0
        return taken


SendFrames = Callable[[Sequence[Frame]], Awaitable[None]]
"""Sends frames to the viewer; waits while its connection is full."""


class Feed(Protocol):
    """Shows something to one viewer."""

    async def drain(self) -> Close | None:
        """Send everything available now; called again whenever the viewer is woken.

        Returns:
            Why the feed is over, once it is.
        """
        ...

    def leave(self) -> None:
        """Stop the feed; safe to call twice."""
        ...


MakeFeed = Callable[[Viewer, SendFrames], Feed]
"""Makes the feed of a viewer."""

MESSAGES_PER_S: Final = 20.0
"""Messages that a viewer may send per second, over any length of time."""

MESSAGE_BURST: Final = 40.0
"""Messages that a viewer may send at once."""

RESUME_COST: Final = 10.0
"""Messages that a request to resume counts as, since it makes the server read."""


class InboundMessages:
    """Handles the messages of one viewer."""

    __slots__ = ("_bucket",)

    def __init__(self, clock: Clock) -> None:
        self._bucket = TokenBucket(MESSAGES_PER_S, MESSAGE_BURST, clock)

    def handle(self, text: str, viewer: Viewer) -> None:
        """Handle a message of ``viewer``."""
        self._spend(1.0)
        message = wire.parse_message(text)
        if isinstance(message, Position):
            self._spend(RESUME_COST)
            viewer.request_resume(message)
            return
        if isinstance(message, Ping):
            answer = wire.pong(message.t)
        elif viewer.cast is not None:
            answer = viewer.cast(message)
        else:
            return
        for batch in wire.batches([answer]):
            viewer.send(batch)

    def _spend(self, messages: float) -> None:
        if not self._bucket.spend(messages):
            raise ProtocolError(
                f"more than {MESSAGES_PER_S:g} messages a second", close_code=Close.BAD_MESSAGE.code
            )
