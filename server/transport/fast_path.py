"""Choose our connections or uvicorn's, and compiled sends or plain ones, at startup."""

from __future__ import annotations

import asyncio
import importlib
import logging
from types import ModuleType
from typing import Final

import uvicorn

from ..viewers.broadcast import SendToEach
from .capacity import Capacity, HttpConnections

logger = logging.getLogger(__name__)


def compiled() -> SendToEach | None:
    """Return the compiled loop, or ``None`` if it was not built."""
    try:
        from ._sends import send_to_each
    except ImportError:
        return None
    return send_to_each


def choose_sends() -> SendToEach | None:
    """Return the compiled loop, if it was built, and log which way is used."""
    send_to_each = compiled()
    way = "one compiled loop" if send_to_each is not None else "their transports, one by one"
    logger.info("writing to viewers through %s", way)
    return send_to_each


PRIVATE_API: Final = f"{__package__}.private_api"


Protocols = tuple[type[asyncio.Protocol] | str, type[asyncio.Protocol] | str]
"""uvicorn's options ``http`` and ``ws``: the protocols that it serves connections with."""

ORDINARY: Final[Protocols] = ("auto", "auto")
"""Uvicorn's own connections: correct, but each viewer needs tasks and buffers."""


def choose_protocols(capacity: Capacity) -> Protocols:
    """Return our connections if uvicorn and websockets support them; log why if not."""
    api = _private_api()
    if api is None:
        return ORDINARY
    http = type("BoundedHttp", (api.HttpProtocol,), {"others": HttpConnections(capacity)})
    return http, api.WebSocketProtocol


def stop_listening(server: uvicorn.Server) -> None:
    """Accept no further connections, if that is possible before the shutdown."""
    api = _private_api()
    if api is not None:
        api.stop_listening(server)


def _private_api() -> ModuleType | None:
    try:
        api = importlib.import_module(PRIVATE_API)
        missing = api.missing()
    except (ImportError, AttributeError) as error:
        missing, api = [str(error)], None
    if missing:
        logger.warning(
            "uvicorn %s lacks what our connections need (%s): using its ordinary connections, which serve "
            "fewer viewers; see docs/performance.md",
            uvicorn.__version__,
            ", ".join(missing),
        )
        return None
    return api
