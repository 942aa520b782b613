"""Middleware of every request: rate, host, origin, body size, security headers, HEAD."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..settings import Settings
from .budget import Budget
from .faults import FOREIGN_HOST, FOREIGN_ORIGIN, NO_ROOM, TOO_LARGE, Close, Kind, problem
from .permissions import Guard, Hosts, Origins
from .requests import address_of

CONTROL_BODY_BYTES: Final = 64 * 1024
"""Longest body of a control request or a vote, in bytes."""

BODY_BYTES: Final = 1024 * 1024
"""Longest body of any other request, as of an OpenEnv action."""

BODY_S: Final = 20.0
"""Seconds that a client may take between two chunks of a body."""

WHOLE_BODY_S: Final = 60.0
"""Seconds that a client may take for a whole body."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

ALWAYS: Final = frozenset({"/health", "/readyz"})
"""Paths that are always answered immediately, at any host name."""


class RequestShield:
    """Rejects foreign host names, changes requested by pages of other sites, and bodies that are too long."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._hosts = Hosts(settings)
        self._origins = Origins(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request with its body counted, or reject it.

        Sockets count as changes.
        """
        kind = scope["type"]
        if kind in ("http", "websocket") and scope["path"] not in ALWAYS:
            headers = Headers(scope=scope)
            if not self._hosts.allows(headers) and ("host" in headers or scope.get("http_version") != "1.0"):
                await _reject(FOREIGN_HOST, UNKNOWN_HOST, scope, receive, send)
                return
            guarded = kind == "websocket" or scope["method"] not in SAFE_METHODS
            if guarded and not self._origins.allows(headers):
                await _reject(FOREIGN_ORIGIN, UNKNOWN_ORIGIN, scope, receive, send)
                return
        if kind == "http":
            path = scope["path"]
            is_small = path.startswith("/custom/") or path.endswith("/votes")
            limit = CONTROL_BODY_BYTES if is_small else BODY_BYTES
            declared = Headers(scope=scope).get("content-length", "")
            if declared.isdigit() and int(declared) > limit:
                await problem(TOO_LARGE, _too_large(limit), instance=scope["path"])(scope, receive, send)
                return
            receive = _BodyReader(receive, limit)
        await self._app(scope, receive, send)


UNKNOWN_HOST: Final = (
    "Send one Host header, with an address or a name of this server; names are listed in "
    "SPECTATOR_ALLOWED_HOSTS."
)
UNKNOWN_ORIGIN: Final = (
    "Open this from the server's own pages, or list the origin in SPECTATOR_ALLOWED_ORIGINS."
)


async def _reject(
    kind: Kind,
    detail: str,
    scope: Scope,
    receive: Receive,
    send: Send,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Answer with a problem, or close a WebSocket whose server cannot send one."""
    if scope["type"] == "http" or "websocket.http.response" in scope.get("extensions", {}):
        await problem(kind, detail, instance=scope["path"], headers=headers)(scope, receive, send)
    else:
        close = Close.FULL if kind.status in (429, 503) else Close.FOREIGN_ORIGIN
        await send({"type": "websocket.close", "code": close.code, "reason": ""})


class HeadRequests:
    """Answers HEAD as GET is answered, without the body (RFC 9110, 9.3.2)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request; a HEAD request ends with the headers, also where GET would stream."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_start(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                answering.cancel()

        async with asyncio.TaskGroup() as group:
            answering = group.create_task(self._run({**scope, "method": "GET"}, receive, send_start))
        await send({"type": "http.response.body", "body": b""})

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


PARTS: Final = ("text/css", "text/javascript")
"""Media types that are not documents; browsers ignore :data:`PERMISSIONS` on them."""

PERMISSIONS: Final = "Permissions-Policy"


class SecurityHeaders:
    """Adds the security headers to every response."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._headers = {
            "Content-Security-Policy": content_security_policy(settings),
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "same-origin",
            PERMISSIONS: "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request, and add the headers to its response."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                headers = MutableHeaders(scope=message)
                is_part = headers.get("content-type", "").startswith(PARTS)
                for name, value in self._headers.items():
                    if not (is_part and name == PERMISSIONS):
                        headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)


def content_security_policy(settings: Settings) -> str:
    """Return the policy: only our own files, no inline script, no strings as markup."""
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "img-src 'self' data:",
            "media-src 'self' blob:",
            "font-src 'self'",
            "manifest-src 'self'",
            "base-uri 'none'",
            "form-action 'self'",
            f"frame-ancestors {' '.join(settings.frame_ancestors)}",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


@dataclass(slots=True)
class _BodyReader:
    """Reads a body of at most ``limit`` bytes within the time limits."""

    receive: Receive
    limit: int
    seen: int = 0
    complete: bool = False
    until: float | None = None

    async def __call__(self) -> Message:
        now = asyncio.get_running_loop().time()
        self.until = until = now + WHOLE_BODY_S if self.until is None else self.until
        try:
            async with asyncio.timeout_at(None if self.complete else min(now + BODY_S, until)):
                message = await self.receive()
        except TimeoutError:
            late = f"No more of the body arrived for {BODY_S:g} s."
            if now + BODY_S > until:
                late = f"The body was not complete after {WHOLE_BODY_S:g} s."
            raise HTTPException(408, late) from None
        self.complete = not message.get("more_body", False)
        self.seen += len(message.get("body", b""))
        if self.seen > self.limit:
            raise HTTPException(TOO_LARGE.status, _too_large(self.limit))
        return message


def _too_large(limit: int) -> str:
    return f"The body may hold at most {limit} bytes."


HOLD_S: Final = 1.0
"""Seconds that a rejection is delayed, so that a client that retries on one connection gets one per
second."""

MOST_HELD: Final = 256
"""Rejections delayed at once; further ones are sent immediately."""

CROWDED: Final = "spectator.crowded"
"""Key in the scope's extensions of requests on the last connections, which are kept for the operator."""

NO_ROOM_NOW: Final = "All connections are in use; try again in a few seconds."


class Admission:
    """Rejects clients with too many requests, and starts others one at a time.

    Requests of the operator and health checks start immediately, also on the last connections.

    Args:
        limited: Whether requests per address are limited.
    """

    def __init__(self, app: ASGIApp, limited: bool) -> None:
        self._app = app
        self._limited = limited
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request, or reject it."""
        crowded = CROWDED in scope.get("extensions", {})
        checked = scope["type"] in ("http", "websocket") and scope["path"] not in ALWAYS
        if checked and (crowded or self._limited):
            services: Any = scope["app"].state.services
            budget: Budget = services.budget
            guard: Guard = services.guard
            connection = HTTPConnection(scope)
            if not guard.holds_token(connection):
                if crowded:
                    headers = {"Retry-After": "5", "Connection": "close"}
                    await _reject(NO_ROOM, NO_ROOM_NOW, scope, receive, send, headers)
                    return
                address = address_of(connection)
                if (refusal := budget.refuse_request(address)) is not None:
                    await self._hold()
                    await _reject(refusal.kind, refusal.detail, scope, receive, send, refusal.headers)
                    return
                await budget.turns.take(address)
        await self._app(scope, receive, send)

    async def _hold(self) -> None:
        if self._held < MOST_HELD:
            self._held += 1
            try:
                await asyncio.sleep(HOLD_S)
            finally:
                self._held -= 1
