"""Client addresses of requests, and responses that reject requests.

Addresses come from the trusted proxy hop. Each rejection carries a request id to search the log for.
``server.process`` limits the lines per minute of this module's logger, so it must log nothing else.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from ipaddress import IPv6Address, IPv6Network
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

SCHEMES: Final = frozenset({"http", "https"})


class ForwardedAddress:
    """Replaces the connection's address and scheme with the client's own.

    Each proxy appends the address of its client to ``X-Forwarded-For``. Behind ``hops`` trusted proxies the
    client is the entry that many from the right; entries left of it come from the client and may be forged. A
    header with fewer entries did not pass all proxies and is ignored.

    Args:
        hops: Proxies between the server and the internet, 1 or more.
    """

    def __init__(self, app: ASGIApp, hops: int) -> None:
        self._app = app
        self._hops = hops

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request with its client's address."""
        if scope["type"] in ("http", "websocket"):
            headers = Headers(scope=scope)
            if client := forwarded_for(headers.getlist("x-forwarded-for"), self._hops):
                scope["client"] = (client, 0)
                proto = headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower()
                if proto in SCHEMES:
                    scope["scheme"] = proto if scope["type"] == "http" else proto.replace("http", "ws")
        await self._app(scope, receive, send)


def forwarded_for(values: list[str], hops: int) -> str | None:
    """Return the entry of the outermost of ``hops`` trusted proxies, without port.

    >>> forwarded_for(["6.6.6.6, 203.0.113.9"], 1)
    '203.0.113.9'
    >>> forwarded_for(["6.6.6.6", "203.0.113.9, 10.0.0.2"], 2)
    '203.0.113.9'
    >>> forwarded_for(["203.0.113.9"], 2) is None
    True
    """
    entries = [entry.strip() for entry in ",".join(values).split(",")]
    return _without_port(entries[-hops]) or None if len(entries) >= hops else None


def address_of(connection: HTTPConnection) -> str:
    """Return the client's address for counting; IPv6 is cut to its /64, one household."""
    host = connection.client.host if connection.client else "unknown"
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host)
    except ValueError:
        return host
    return str(address.ipv4_mapped or IPv6Network((int(address), 64), strict=False))


def masked(address: str) -> str:
    """Return an address without its machine part, for display.

    >>> masked("203.0.113.9"), masked("2001:db8:1:2::/64"), masked("unknown")
    ('203.0.113.x', '2001:db8:x', 'unknown')
    """
    if address.count(".") == 3:
        return f"{address.rpartition('.')[0]}.x"
    return f"{':'.join(address.split(':')[:2])}:x" if ":" in address else address


def _without_port(entry: str) -> str:
    if entry.startswith("["):
        return entry[1:].partition("]")[0]
    return entry.partition(":")[0] if entry.count(":") == 1 else entry


logger = logging.getLogger(__name__)

REQUEST_ID_HEADER: Final = "X-Request-Id"

LOGGED_DETAIL: Final = 300
"""Characters of a detail that are logged."""


class ProblemAnswer(JSONResponse):
    """A logged response with a problem document and the request's id."""

    media_type = "application/problem+json"

    def __init__(self, document: Mapping[str, Any], status: int, headers: Mapping[str, str]) -> None:
        super().__init__(document, status, headers)
        self._document = document

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response and log it."""
        request_id, document = request_id_of(scope), self._document
        self.body = self.render({**document, "request_id": request_id})
        self.headers["content-length"] = str(len(self.body))
        self.headers[REQUEST_ID_HEADER] = request_id
        logger.info(
            "request %s from %s: %s %s answered with %d %s: %s",
            request_id,
            masked(address_of(HTTPConnection(scope))),
            scope.get("method", "WebSocket"),
            document.get("instance"),
            self.status_code,
            str(document.get("type")).rpartition("/")[2],
            str(document.get("detail"))[:LOGGED_DETAIL],
        )
        await super().__call__(scope, receive, send)


def request_id_of(scope: Scope) -> str:
    """Return the id of a request, generated on first use."""
    request_id: str = scope.setdefault("spectator.request_id", secrets.token_hex(8))
    return request_id
