"""Serve a viewer over our own connection, any other WebSocket, or server-sent events.

Our own connection is found in the ASGI scope and taken over; over other WebSockets a task writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from spectator.clock import Clock
from spectator.errors import SpectatorError

from ..security import faults
from ..security.faults import Close, close_of, problem
from ..security.requests import address_of
from ..viewers import wire
from ..viewers.viewer import Feed, InboundMessages, MakeFeed, Viewer
from ..viewers.wire import Frame
from .keepalive import LAST_MESSAGE_S, TransportPorts

EXTENSION: Final = "spectator.connection"
"""Key of the connection in the scope's extensions."""

CUT: Final = "spectator.cut"
"""Key of the function that aborts a request's connection, in the scope's extensions."""


class TakeoverProtocol(Protocol):
    """A WebSocket connection that can be taken over."""

    def takeover(self, make: Callable[[asyncio.Transport, set[Any]], asyncio.Protocol]) -> None:
        """Hand the connection to the protocol that ``make`` returns for its transport."""
        ...

    def send_now(self, text: str) -> bool:
        """Write a message immediately, unless the peer does not read.

        Returns whether it was written.
        """
        ...

    def close_with_message(self, text: str, code: int, reason: str) -> None:
        """Write a last message and close, even if the peer does not read."""
        ...


def protocol_of(connection: HTTPConnection) -> TakeoverProtocol | None:
    """Return our connection behind a WebSocket; ``None`` if it is not ours."""
    found = connection.scope.get("extensions", {}).get(EXTENSION)
    return cast(TakeoverProtocol | None, found)


def abort_of(scope: Scope) -> Callable[[], None] | None:
    """Return the function that aborts our connection; ``None`` if not ours."""
    return cast(Callable[[], None] | None, scope.get("extensions", {}).get(CUT))


class TaskTransport:
    """Serves one viewer from the task that calls :meth:`run`; see ``ViewerTransport``."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._evicted: asyncio.Future[Close] = asyncio.get_running_loop().create_future()

    @property
    def write(self) -> Callable[[bytes], None]:
        """Never called, since :meth:`writable` is always false."""
        return _nowhere

    @property
    def descriptor(self) -> None:
        """Always ``None``, for the same reason."""

    def writable(self) -> bool:
        """Always false, so that all frames wait for the task."""
        return False

    def wake(self) -> None:
        """Make the task drain the feed."""
        self._woken.set()

    def evict(self, close: Close) -> None:
        """Make :meth:`run` return ``close``."""
        if not self._evicted.done():
            self._evicted.set_result(close)

    async def run(self, feed: Feed) -> Close:
        """Drain ``feed`` whenever woken, until the end; return the reason."""
        draining = asyncio.get_running_loop().create_task(self._keep_draining(feed))
        try:
            await asyncio.wait([draining, self._evicted], return_when=asyncio.FIRST_COMPLETED)
            return self._evicted.result() if self._evicted.done() else draining.result()
        finally:
            draining.cancel()
            feed.leave()

    async def _keep_draining(self, feed: Feed) -> Close:
        while (close := await feed.drain()) is None:
            await self._woken.wait()
            self._woken.clear()
        return close


def _nowhere(data: bytes) -> None:
    raise NotImplementedError


class ViewerClosed(Exception):
    """The connection must close."""

    def __init__(self, close: Close, detail: str | None = None) -> None:
        self.close = close
        self.detail = detail
        super().__init__(close.reason)


async def serve_viewer(websocket: WebSocket, make: MakeFeed, ports: TransportPorts) -> None:
    """Serve a viewer's feed, on our own connection if possible, else from a task.

    Args:
        make: Makes its feed; may raise a :class:`ProtocolError` about its request.
    """
    await websocket.accept()
    protocol = protocol_of(websocket)
    if protocol is None:
        await _serve_from_task(websocket, make, ports)
        return

    from .connection import ViewerConnection  # imports what `private_api` needs

    def successor(transport: asyncio.Transport, others: set[asyncio.Protocol]) -> ViewerConnection:
        connection = ViewerConnection(ports, transport, others)
        connection.start(address_of(websocket), make)
        return connection

    protocol.takeover(successor)


async def _serve_from_task(websocket: WebSocket, make: MakeFeed, ports: TransportPorts) -> None:
    audience, transport = ports.audience, TaskTransport()
    viewer = audience.admit(address_of(websocket), transport)
    if viewer is None:
        await _close(websocket, ViewerClosed(audience.refusal()))
        return
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_show(websocket, make, viewer, transport))
            tasks.create_task(_listen(websocket, viewer, ports.clock))
    except* ViewerClosed as errors:
        closed = next(error for error in errors.exceptions if isinstance(error, ViewerClosed))
        audience.closed[closed.close] += 1
        await _close(websocket, closed)
    except* (OSError, WebSocketDisconnect):
        pass
    finally:
        audience.leave(viewer)


async def _show(websocket: WebSocket, make: MakeFeed, viewer: Viewer, transport: TaskTransport) -> None:
    async def send(frames: Sequence[Frame]) -> None:
        for frame in frames:
            await websocket.send_text(frame.text)

    try:
        close = await transport.run(make(viewer, send))
    except SpectatorError as error:
        raise ViewerClosed(*close_of(error)) from error
    raise ViewerClosed(close)


async def _listen(websocket: WebSocket, viewer: Viewer, clock: Clock) -> None:
    messages = InboundMessages(clock)
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect
        text = message.get("text")
        if text is None:
            raise ViewerClosed(Close.BAD_MESSAGE, wire.SEND_TEXT)
        if len(text) > wire.MAX_MESSAGE_BYTES:
            raise ViewerClosed(Close.TOO_BIG)
        try:
            messages.handle(text, viewer)
        except SpectatorError as error:
            raise ViewerClosed(*close_of(error)) from error


async def _close(websocket: WebSocket, closed: ViewerClosed) -> None:
    close, text = closed.close, wire.bye(closed.close, closed.detail).text
    try:
        async with asyncio.timeout(LAST_MESSAGE_S):
            await websocket.send_text(text)
            await websocket.close(close.code, close.reason)
    except (TimeoutError, WebSocketDisconnect):
        return


HEARTBEAT_S: Final = 15.0
"""Seconds between two heartbeats, which keep proxies open and reveal dead peers."""

BEAT: Final = "event: beat\ndata: 0\n\n"
"""The heartbeat, an event type that pages can listen for and message handlers ignore."""

RETRY_MS: Final = 2000
"""Milliseconds after which a browser reconnects."""


class _Over(Exception):
    """The response ends."""


class EventStream(Response):
    """A response that sends a feed as server-sent events."""

    def __init__(self, make: MakeFeed, ports: TransportPorts) -> None:
        super().__init__(media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self.headers["X-Accel-Buffering"] = "no"
        self._make = make
        self._ports = ports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the episode ends, or the viewer or the server leaves."""
        audience = self._ports.audience
        transport = TaskTransport()
        viewer = audience.admit(address_of(HTTPConnection(scope)), transport)
        if viewer is None:
            full = problem(
                faults.FULL, "Try again later.", instance=scope["path"], headers={"Retry-After": "30"}
            )
            await full(scope, receive, send)
            return
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await _write(send, f"retry: {RETRY_MS}\n\n")
            close = await self._converse(viewer, transport, receive, send)
            if close is not None:
                audience.closed[close] += 1
                await _finish(send, close)
        finally:
            audience.leave(viewer)

    async def _converse(
        self, viewer: Viewer, transport: TaskTransport, receive: Receive, send: Send
    ) -> Close | None:
        """Return why the response must end, or ``None`` if the viewer left."""
        ends: list[Close | None] = []

        async def show() -> None:
            try:
                feed = self._make(viewer, lambda frames: _send_frames(send, frames))
                ends.append(await transport.run(feed))
            except SpectatorError as error:
                ends.append(close_of(error)[0])
            raise _Over

        async def listen() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            ends.append(None)
            raise _Over

        async def beat() -> None:
            while True:
                await self._ports.clock.sleep(HEARTBEAT_S)
                await _write(send, BEAT)

        try:
            async with asyncio.TaskGroup() as tasks:
                for work in (show, listen, beat):
                    tasks.create_task(work())
        except* _Over:
            pass
        return ends[0]


async def _finish(send: Send, close: Close) -> None:
    try:
        async with asyncio.timeout(LAST_MESSAGE_S):
            await _send_frames(send, [wire.bye(close)])
            await send({"type": "http.response.body", "body": b"", "more_body": False})
    except TimeoutError:
        return


async def _send_frames(send: Send, frames: Sequence[Frame]) -> None:
    for batch in wire.batches(frames):
        marks = ("" if one.seq is None else f"id: {one.epoch}:{one.seq}\n" for one in batch.frames)
        shown = zip(marks, batch.frames, strict=True)
        await _write(send, "".join(f"{mark}data: {one.text}\n\n" for mark, one in shown))


async def _write(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
