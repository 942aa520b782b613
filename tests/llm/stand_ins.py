"""Stand-ins for providers of models: each enforces its provider's documented rules, on a real socket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from aiohttp import web

KEY = "sk-stand-in-4711"


class Refused(Exception):
    """A request breaks a rule of the provider."""

    def __init__(
        self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        self.status = status
        self.body = body
        self.headers = headers or {}
        super().__init__(str(body))


@dataclass(slots=True)
class Asked:
    """A request as a stand-in got it."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: dict[str, Any]


class StandIn(Protocol):
    """One provider."""

    def answer(self, asked: Asked) -> tuple[Any, Iterator[tuple[str, Any]] | None]:
        """The whole answer, or the events of a stream with their names; raises :class:`Refused`."""
        ...


@dataclass(slots=True)
class Served:
    """A stand-in that runs.

    Args:
        url: Scheme, host and port.
        asked: All requests so far.
        refused: Why requests were refused.
    """

    url: str
    asked: list[Asked] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


@asynccontextmanager
async def standing_in(
    provider: StandIn, script: Mapping[int, Refused] | None = None
) -> AsyncIterator[Served]:
    """Serve ``provider`` on a free port.

    Args:
        provider: Who is stood in for.
        script: What becomes of requests by their number, 0 the first, before the provider sees them.
    """
    served = Served("")

    async def handle(request: web.Request) -> web.StreamResponse:
        asked = Asked(request.path, dict(request.query), request.headers, await request.json())
        served.asked.append(asked)
        try:
            if script and (refused := script.get(len(served.asked) - 1)):
                raise refused
            whole, events = provider.answer(asked)
        except Refused as refused:
            served.refused.append(refused)
            return web.json_response(refused.body, status=refused.status, headers=refused.headers)
        if events is None:
            return web.json_response(whole)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for name, event in events:
            named = f"event: {name}\n" if name else ""
            text = event if isinstance(event, str) else json.dumps(event)
            await response.write(f"{named}data: {text}\n\n".encode())
        await response.write_eof()
        return response

    app = web.Application()
    app.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        served.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield served
    finally:
        await runner.cleanup()


def pieces(text: str, size: int = 7) -> list[str]:
    """``text`` as it comes in a stream."""
    return [text[start : start + size] for start in range(0, len(text), size)]
