"""One viewer: what it was sent, what waits for it, and what it may ask for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from spectator.clock import Clock
from spectator.errors import ProtocolError

from ..security.faults import Close
from ..security.rate_limits import TokenBucket
from . import wire
from .wire import Batch, Frame, Ping, Position


class ViewerTransport(Protocol):
    """What carries a viewer's bytes."""

    @property
    def write(self) -> Callable[[bytes], None]:
        """Writes framed messages at once; called only while the viewer has caught up."""
        ...

    @property
    def descriptor(self) -> int | None:
        """Its socket, where bytes may go past :attr:`write` while the viewer has caught up."""
        ...

    def writable(self) -> bool:
        """Whether the connection takes bytes now; :meth:`Viewer.hold` tells when it does not any more."""
        ...

    def wake(self) -> None:
        """Drain the feed: something waits for the viewer, or its episode is over. Called again and again."""
        ...

    def evict(self, close: Close) -> None:
        """End the connection; called once."""
        ...


class SyncGroup(Protocol):
    """The viewers that one viewer is in sync with."""

    def demote(self, viewer: Viewer) -> None:
        """Count it out; this sets its position."""
        ...


class Viewer:
    """The way to one viewer: straight to its transport while it keeps up, else through a backlog.

    Args:
        transport: Carries its bytes.
        backlog_bytes: What may wait before it is closed as too slow.
    """

    __slots__ = (
        "_asked",
        "_backlog",
        "_backlog_bytes",
        "_evicted",
        "_transport",
        "backlog_size",
        "caught_up",
        "descriptor",
        "over",
        "position",
        "sync_group",
        "write",
    )

    def __init__(self, transport: ViewerTransport, backlog_bytes: int) -> None:
        self.position = 0
        """It was sent everything up to here; while it has a :attr:`sync_group`, that knows better."""
        self.caught_up = False
        """Nothing waits, and its connection takes bytes: write."""
        self.sync_group: SyncGroup | None = None
        """Those it is in sync with, if it is with any."""
        self.over = False
        """Nothing more comes after what waits."""
        self.backlog_size = 0
        """What waits, in characters of text."""
        self.write = transport.write
        self.descriptor = transport.descriptor
        self._transport = transport
        self._backlog_bytes = backlog_bytes
        self._backlog: list[Frame] | None = None
        self._asked: Position | None = None
        self._evicted = False

    def hold(self) -> None:
        """Let what comes wait: the connection holds bytes back, or is gone."""
        self.caught_up = False
        if self.sync_group is not None:
            self.sync_group.demote(self)

    def is_ready_for(self, batch: Batch) -> bool:
        """Whether it can be written to now, and has not what is in ``batch`` yet."""
        return self.caught_up and (batch.first is None or batch.first > self.position)

    def send(self, batch: Batch) -> None:
        """Write ``batch``, or add it to the backlog; a viewer too far behind is evicted instead."""
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
        """Send what is no event, unless a backlog waits; a viewer that far behind misses it."""
        if self._backlog is None:
            self.send(batch)

    def request_resume(self, position: Position) -> None:
        """Note where the viewer wants to resume; a later request replaces it."""
        self._asked = position
        self.wake()

    def finish(self) -> None:
        """Send nothing more after what waits."""
        self.over = True
        self.wake()

    def evict(self, close: Close) -> None:
        """End the connection and drop the backlog."""
        self.hold()
        self._backlog, self._asked, self.backlog_size = None, None, 0
        if not self._evicted:
            self._evicted = True
            self._transport.evict(close)

    def wake(self) -> None:
        """Have the feed drained: there may be something to show."""
        self.hold()
        self._transport.wake()

    def take(self) -> tuple[Position | None, Sequence[Frame]] | None:
        """Take the request to resume, if there is one, and the backlog.

        Returns:
            ``None`` when there is neither; from then on the viewer is written to at once, if its connection
            takes bytes and its episode is not over.
        """
        if self._backlog is None and self._asked is None:
            self.caught_up = not self.over and not self._evicted and self._transport.writable()
            return None
        taken = (self._asked, self._backlog or ())
        self._backlog, self._asked, self.backlog_size = None, None, 0
        return taken


SendFrames = Callable[[Sequence[Frame]], Awaitable[None]]
"""Sends frames to the viewer, waiting while it does not take them."""


class Feed(Protocol):
    """What one viewer is shown."""

    async def drain(self) -> Close | None:
        """Show all that there is to show now; to be called again whenever the viewer is woken.

        Returns:
            Why it is over, once it is.
        """
        ...

    def leave(self) -> None:
        """Show nothing more; safe to call twice."""
        ...


MakeFeed = Callable[[Viewer, SendFrames], Feed]
"""Makes a viewer's feed."""


MESSAGES_PER_S: Final = 20.0
"""Messages that a viewer may send in a second, over any length of time."""

MESSAGE_BURST: Final = 40.0
"""Messages that it may send at once."""

RESUME_COST: Final = 10.0
"""Messages that a request to resume counts for, since it makes the server read."""


class InboundMessages:
    """Handles the messages of one viewer.

    Args:
        clock: Measures how often it sends.
    """

    __slots__ = ("_bucket",)

    def __init__(self, clock: Clock) -> None:
        self._bucket = TokenBucket(MESSAGES_PER_S, MESSAGE_BURST, clock)

    def handle(self, text: str, viewer: Viewer) -> None:
        """Do what ``viewer`` asks for.

        Raises:
            ProtocolError: It may not ask for this, or not so often.
        """
        self._spend(1.0)
        message = wire.parse_message(text)
        if isinstance(message, Ping):
            for answer in wire.batches([wire.pong(message.t)]):
                viewer.send(answer)
        else:
            self._spend(RESUME_COST)
            viewer.request_resume(message)

    def _spend(self, messages: float) -> None:
        if not self._bucket.spend(messages):
            raise ProtocolError(
                f"more than {MESSAGES_PER_S:g} messages a second", close_code=Close.BAD_MESSAGE.code
            )
