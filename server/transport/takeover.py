"""Finds the connection behind a WebSocket or a request, where it is one of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

from starlette.requests import HTTPConnection
from starlette.types import Scope

EXTENSION: Final = "spectator.connection"
"""Key of the connection itself in the scope's extensions."""


CUT: Final = "spectator.cut"
"""Key of what cuts the connection of a request, in the scope's extensions."""


class TakeoverProtocol(Protocol):
    """A WebSocket's connection that can be taken over."""

    def takeover(self, make: Callable[[asyncio.Transport, set[Any]], asyncio.Protocol]) -> None:
        """Give the connection to what ``make`` makes of its transport and the set of open connections."""
        ...

    def send_now(self, text: str) -> bool:
        """Write a message at once; false, and nothing written, where the peer does not read or is gone."""
        ...

    def close_with_message(self, text: str, code: int, reason: str) -> None:
        """Write a last message and the close, even to a peer that does not read."""
        ...


def protocol_of(connection: HTTPConnection) -> TakeoverProtocol | None:
    """The connection behind a WebSocket; ``None`` where it is not one of ours."""
    found = connection.scope.get("extensions", {}).get(EXTENSION)
    return cast(TakeoverProtocol | None, found)


def cut_of(scope: Scope) -> Callable[[], None] | None:
    """What cuts the connection of a request at once; ``None`` where it is not one of ours."""
    return cast(Callable[[], None] | None, scope.get("extensions", {}).get(CUT))


def last_message_of(connection: HTTPConnection) -> Callable[[str, int, str], None] | None:
    """The ``close_with_message`` of a connection; ``None`` where it is not one of ours."""
    protocol = protocol_of(connection)
    return None if protocol is None else protocol.close_with_message


def send_now_of(connection: HTTPConnection) -> Callable[[str], bool] | None:
    """The ``send_now`` of a connection; ``None`` where it is not one of ours."""
    protocol = protocol_of(connection)
    return None if protocol is None else protocol.send_now
