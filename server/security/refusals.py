"""Answers that refuse a request: each tells an id of the request, by which the log is searched."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from .client_address import address_of, masked

logger = logging.getLogger(__name__)

HEADER: Final = "X-Request-Id"

LOGGED_DETAIL: Final = 300
"""Characters of a detail in the log."""


class ProblemAnswer(JSONResponse):
    """A problem document with the id of the request that it answers; the log has a line of it.

    Args:
        document: What went wrong.
        status: The HTTP status.
        headers: Further headers.
    """

    media_type = "application/problem+json"

    def __init__(self, document: Mapping[str, Any], status: int, headers: Mapping[str, str]) -> None:
        super().__init__(document, status, headers)
        self._document = document

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        request_id, told = request_id_of(scope), self._document
        self.body = self.render({**told, "request_id": request_id})
        self.headers["content-length"] = str(len(self.body))
        self.headers[HEADER] = request_id
        logger.info(
            "request %s from %s: %s %s is answered %d %s: %s",
            request_id,
            masked(address_of(HTTPConnection(scope))),
            scope.get("method", "WebSocket"),
            told.get("instance"),
            self.status_code,
            str(told.get("type")).rpartition("/")[2],
            str(told.get("detail"))[:LOGGED_DETAIL],
        )
        await super().__call__(scope, receive, send)


def request_id_of(scope: Scope) -> str:
    """The id of a request, drawn when it is first asked for."""
    drawn: str = scope.setdefault("spectator.request_id", secrets.token_hex(8))
    return drawn
