"""Server-sent events that show an episode where no WebSocket gets through."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from spectator.errors import SpectatorError

from ..close_codes import Close
from ..security import faults
from ..security.client_address import address_of
from ..security.faults import close_of, problem
from ..viewers import wire
from ..viewers.ports import MakeFeed
from ..viewers.viewer import Viewer
from ..viewers.wire import Frame
from .limits import LAST_MESSAGE_S
from .ports import TransportPorts
from .task_transport import TaskTransport

HEARTBEAT_S: Final = 15.0
"""How often a sign of life is sent, so that proxies and dead peers show themselves."""

BEAT: Final = "event: beat\ndata: 0\n\n"
"""The sign: of a type of its own, which a page can hear and whoever listens for messages does not."""

RETRY_MS: Final = 2000
"""When a browser comes back after a lost connection."""


class _Over(Exception):
    """The response ends."""


class EventStream(Response):
    """The response that sends a feed as server-sent events.

    Args:
        make: Makes the feed.
        ports: Who admits the viewer.
    """

    def __init__(self, make: MakeFeed, ports: TransportPorts) -> None:
        super().__init__(media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self.headers["X-Accel-Buffering"] = "no"
        self._make = make
        self._ports = ports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the episode, the viewer or the audience ends it."""
        audience = self._ports.audience
        transport = TaskTransport()
        viewer = audience.admit(address_of(HTTPConnection(scope)), transport)
        if viewer is None:
            full = problem(
                faults.FULL, "Come back later.", instance=scope["path"], headers={"Retry-After": "30"}
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
        """Why the viewer must go, or ``None`` when it has gone by itself."""
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
        await _write(send, "".join(map(_event_of, batch.frames)))


def _event_of(frame: Frame) -> str:
    mark = "" if frame.seq is None else f"id: {frame.epoch}:{frame.seq}\n"
    return f"{mark}data: {frame.text}\n\n"


async def _write(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
