"""Owns the WebSocket that shows an episode to a viewer: ``/live/{episode_id}`` and ``/live``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from spectator.clock import Clock
from spectator.errors import ProtocolError, SpectatorError

from . import wire
from .archive import EPISODE_ID
from .audience import Viewer
from .faults import close_of
from .guard import address_of
from .protocol import protocol_of
from .show import Show
from .wire import Close, Frame, Ping
from .wiring import Services, services_of

MESSAGES_PER_S: Final = 20.0
"""Messages that a viewer may send in a second, over any length of time."""

MESSAGE_BURST: Final = 40.0
"""Messages that it may send at once."""

RESUME_COST: Final = 10.0
"""Messages that a request to resume counts for, since it makes the server read."""

FAREWELL_S: Final = 1.0
"""How long a viewer may take to take its farewell, where the server cannot leave it behind."""

router = APIRouter()


class Farewell(Exception):
    """The connection must end, for a reason that the viewer is told.

    Args:
        close: Why.
        detail: The reason in more words.
    """

    def __init__(self, close: Close, detail: str | None = None) -> None:
        self.close = close
        self.detail = detail
        super().__init__(close.reason)


class Gone(Exception):
    """The viewer has gone."""


async def watch_whatever_is_on(websocket: WebSocket) -> None:
    """Show the newest episode that runs, then the next, and so on."""
    await _serve(websocket, None)


async def watch_episode(websocket: WebSocket) -> None:
    """Show one episode, live or recorded, to its end."""
    await _serve(websocket, websocket.path_params["episode_id"])


# Starlette's own routes: FastAPI's keep their machinery for as long as a viewer stays.
router.routes.append(WebSocketRoute("/live", watch_whatever_is_on))
router.routes.append(WebSocketRoute("/live/{episode_id}", watch_episode))


async def _serve(websocket: WebSocket, episode_id: str | None) -> None:
    services = services_of(websocket)
    audience = services.audience
    await websocket.accept()
    viewer = audience.enter(address_of(websocket))
    websocket.scope["headers"].clear()  # a viewer stays for hours; what its browser said at first need not
    if viewer is None:
        await _say_farewell(websocket, Farewell(audience.refusal()))
        return
    try:
        await _converse(websocket, episode_id, viewer, services)
    except* Farewell as farewells:
        farewell = next(error for error in farewells.exceptions if isinstance(error, Farewell))
        audience.closed[farewell.close] += 1
        await _say_farewell(websocket, farewell)
    except* (Gone, WebSocketDisconnect):
        pass
    finally:
        audience.leave(viewer)


async def _converse(websocket: WebSocket, episode_id: str | None, viewer: Viewer, services: Services) -> None:
    """Show and listen until one of them, or the audience, ends it by raising."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_show(websocket, episode_id, viewer, services))
        tasks.create_task(_listen(websocket, viewer, services.clock))
        raise Farewell(await viewer.expelled())


async def _show(websocket: WebSocket, episode_id: str | None, viewer: Viewer, services: Services) -> None:
    protocol = protocol_of(websocket)
    if protocol is not None:
        protocol.on_held_back = viewer.hold
        viewer.go_straight(protocol.transport.write, protocol.free)

    async def tell(frames: Sequence[Frame]) -> None:
        if protocol is not None:
            for batch in wire.batches(frames):
                await protocol.send_messages(batch.message)
            return
        for frame in frames:
            await websocket.send_text(frame.text)

    show = Show(services, viewer, tell)
    try:
        asked = wire.asked_position(websocket.query_params)
        if episode_id is None:
            close = await show.whatever_is_on(asked)
        elif EPISODE_ID.fullmatch(episode_id):
            close = await show.episode(episode_id, asked)
        else:
            close = Close.NOT_FOUND
    except SpectatorError as error:
        raise Farewell(*close_of(error)) from error
    except OSError as error:
        raise Gone from error
    raise Farewell(close)


async def _listen(websocket: WebSocket, viewer: Viewer, clock: Clock) -> None:
    allowance = _Allowance(clock)
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise Gone
        allowance.spend(1.0)
        text = message.get("text")
        if text is None:
            raise Farewell(Close.BAD_MESSAGE, "bad message: send text")
        if len(text) > wire.MAX_MESSAGE_BYTES:
            raise Farewell(Close.TOO_BIG)
        try:
            said = wire.parse_message(text)
        except ProtocolError as error:
            raise Farewell(*close_of(error)) from error
        if isinstance(said, Ping):
            for answer in wire.batches([wire.pong(said.t)]):
                viewer.offer(answer)
        else:
            allowance.spend(RESUME_COST)
            viewer.ask(said)


async def _say_farewell(websocket: WebSocket, farewell: Farewell) -> None:
    """Tell the viewer why, then close; one who does not read is left behind."""
    close, text = farewell.close, wire.bye(farewell.close, farewell.detail).text
    protocol = protocol_of(websocket)
    if protocol is not None:
        protocol.farewell(text, close.code, close.reason)
        return
    try:
        async with asyncio.timeout(FAREWELL_S):
            await websocket.send_text(text)
            await websocket.close(close.code, close.reason)
    except (TimeoutError, WebSocketDisconnect):
        return


class _Allowance:
    """A bucket of messages that fills at :data:`MESSAGES_PER_S`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left = MESSAGE_BURST
        self._at = clock.monotonic()

    def spend(self, messages: float) -> None:
        now = self._clock.monotonic()
        self._left = min(MESSAGE_BURST, self._left + (now - self._at) * MESSAGES_PER_S) - messages
        self._at = now
        if self._left < 0:
            raise Farewell(Close.BAD_MESSAGE, f"more than {MESSAGES_PER_S:g} messages a second")
