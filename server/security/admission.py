"""Middleware that lets requests in: each address at its rate, and in turns while something is played."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from ..close_codes import Close
from .budget import Budget
from .client_address import address_of
from .faults import Refused, problem
from .guard import Guard

HOLD_S: Final = 1.0
"""How long a refusal is kept back, so that whoever asks again and again on a connection has one a second."""

MOST_HELD: Final = 256
"""Refusals that are kept back at once; further ones go out at once."""

ALWAYS: Final = frozenset({"/health", "/readyz"})
"""Paths that are answered at once and to everybody."""


class Admission:
    """Refuses who asks too often before anything is done, and lets others begin one at a time.

    The operator is let in at once, as is whoever asks whether the server is alive.

    Args:
        app: The application behind it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] in ("http", "websocket") and scope["path"] not in ALWAYS:
            services: Any = scope["app"].state.services
            budget: Budget = services.budget
            guard: Guard = services.guard
            connection = HTTPConnection(scope)
            if not guard.holds_token(connection):
                address = address_of(connection)
                if (refusal := budget.refuse_request(address)) is not None:
                    await self._refuse(refusal, scope, receive, send)
                    return
                await budget.turns.take(address)
        await self._app(scope, receive, send)

    async def _refuse(self, refusal: Refused, scope: Scope, receive: Receive, send: Send) -> None:
        if self._held < MOST_HELD:
            self._held += 1
            try:
                await asyncio.sleep(HOLD_S)
            finally:
                self._held -= 1
        if scope["type"] == "http" or "websocket.http.response" in scope.get("extensions", {}):
            answer: Callable[[Scope, Receive, Send], Awaitable[None]] = problem(
                refusal.kind, refusal.detail, instance=scope["path"], headers=refusal.headers
            )
            await answer(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": Close.FULL.code, "reason": ""})
