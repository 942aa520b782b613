"""Owns the server-sent events that show an episode where no WebSocket gets through."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from spectator.errors import EpisodeNotFound, FieldError, InvalidRequest, ProtocolError, SpectatorError

from ..http.archive import EPISODE_ID
from ..security import faults
from ..security.faults import close_of, documented, problem
from ..security.guard import address_of
from ..transport.task_transport import WaitingCarrier
from ..wiring import Services, services_of
from . import wire
from .feed import Show
from .viewer import Viewer
from .wire import Close, Frame, Position

HEARTBEAT_S: Final = 15.0
"""How often a sign of life is sent, so that proxies and dead peers show themselves."""

BEAT: Final = "event: beat\ndata: 0\n\n"
"""The sign: of a type of its own, which a page can hear and whoever listens for messages does not."""

RETRY_MS: Final = 2000
"""When a browser comes back after a lost connection."""

LAST_S: Final = 1.0
"""How long the last bytes may take."""

router = APIRouter(tags=["live"])


class _Over(Exception):
    """The response ends."""


@router.get(
    "/live/{episode_id}/events",
    response_class=Response,
    responses={
        200: {"description": "The live frames, one an event", "content": {"text/event-stream": {}}},
        204: {"description": "There is nothing further to come; do not come back"},
        **documented(faults.NO_EPISODE, faults.INVALID, faults.FULL),
    },
)
async def watch_by_events(request: Request, episode_id: str) -> Response:
    """Show one episode by server-sent events; ``Last-Event-ID`` or ``?epoch=&seq=`` resumes."""
    services = services_of(request)
    asked = _asked(request)
    known = EPISODE_ID.fullmatch(episode_id)
    if known and services.supervisor.live(episode_id) is None:
        summary = await services.journal.episode(episode_id)
        known = None if summary is None else known
        if summary is not None and asked == Position(summary.epoch, summary.head_seq):
            return Response(status_code=204)
    if not known:
        raise EpisodeNotFound(episode_id[:64])
    return EventStream(episode_id, asked, services)


class EventStream(Response):
    """The response that shows an episode.

    Args:
        episode_id: Which.
        asked: Where the viewer stood, if it says so.
        services: Where episodes come from.
    """

    def __init__(self, episode_id: str, asked: Position | None, services: Services) -> None:
        super().__init__(media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self.headers["X-Accel-Buffering"] = "no"
        self._episode_id = episode_id
        self._asked = asked
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the episode, the viewer or the audience ends it."""
        audience = self._services.audience
        carrier = WaitingCarrier()
        viewer = audience.enter(address_of(HTTPConnection(scope)), carrier)
        if viewer is None:
            full = problem(
                faults.FULL, "Come back later.", instance=scope["path"], headers={"Retry-After": "30"}
            )
            await full(scope, receive, send)
            return
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await _write(send, f"retry: {RETRY_MS}\n\n")
            close = await self._converse(viewer, carrier, receive, send)
            if close is not None:
                audience.closed[close] += 1
                await self._finish(send, close)
        finally:
            audience.leave(viewer)

    async def _converse(
        self, viewer: Viewer, carrier: WaitingCarrier, receive: Receive, send: Send
    ) -> Close | None:
        """Why the viewer must go, or ``None`` when it has gone by itself."""
        ends: list[Close | None] = []

        async def show() -> None:
            try:
                ends.append(
                    await carrier.show(
                        Show(
                            self._services,
                            viewer,
                            lambda frames: _tell(send, frames),
                            self._episode_id,
                            self._asked,
                        )
                    )
                )
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
                await self._services.clock.sleep(HEARTBEAT_S)
                await _write(send, BEAT)

        try:
            async with asyncio.TaskGroup() as tasks:
                for work in (show, listen, beat):
                    tasks.create_task(work())
        except* _Over:
            pass
        return ends[0]

    async def _finish(self, send: Send, close: Close) -> None:
        try:
            async with asyncio.timeout(LAST_S):
                await _tell(send, [wire.bye(close)])
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            return


def _asked(request: Request) -> Position | None:
    fields: dict[str, str] = dict(request.query_params)
    last = request.headers.get("last-event-id")
    if last:
        fields["epoch"], _, fields["seq"] = last.partition(":")
    try:
        return wire.asked_position(fields)
    except ProtocolError as error:
        where = "Last-Event-ID" if last else "seq"
        raise InvalidRequest([FieldError(where, str(error))]) from error


async def _tell(send: Send, frames: Sequence[Frame]) -> None:
    for batch in wire.batches(frames):
        await _write(send, "".join(map(_event_of, batch.frames)))


def _event_of(frame: Frame) -> str:
    mark = "" if frame.seq is None else f"id: {frame.epoch}:{frame.seq}\n"
    return f"{mark}data: {frame.text}\n\n"


async def _write(send: Any, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
