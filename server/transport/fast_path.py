"""Choose at the start: our connections or uvicorn's, compiled sends or plain ones."""

from __future__ import annotations

import asyncio
import importlib
import logging
from dataclasses import dataclass
from types import ModuleType
from typing import Final

import uvicorn

from ..viewers.broadcast import SendToEach

logger = logging.getLogger(__name__)


def compiled() -> SendToEach | None:
    """The compiled loop, or ``None`` where it was not built."""
    try:
        from ._sends import send_to_each
    except ImportError:
        return None
    return send_to_each


def choose_sends() -> SendToEach | None:
    """Find the compiled loop, if it was built, and log which way is used."""
    send_to_each = compiled()
    way = "one compiled loop" if send_to_each is not None else "their transports, one by one"
    logger.info("viewers are written to by %s", way)
    return send_to_each


PRIVATE_API: Final = f"{__package__}.private_api"


@dataclass(frozen=True, slots=True)
class Protocols:
    """What uvicorn is told to serve connections with.

    Args:
        http: Its ``http`` option.
        ws: Its ``ws`` option.
    """

    http: type[asyncio.Protocol] | str
    ws: type[asyncio.Protocol] | str


ORDINARY: Final = Protocols("auto", "auto")
"""Uvicorn's own connections: correct, but each viewer costs tasks and buffers of its own."""


def choose_protocols() -> Protocols:
    """Our connections where uvicorn and websockets have what they need; logs why they have not."""
    api = _private_api()
    return ORDINARY if api is None else Protocols(api.HttpProtocol, api.WebSocketProtocol)


def stop_listening(server: uvicorn.Server) -> None:
    """Accept no further connection, where that can be done before the server shuts down."""
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
            "uvicorn %s does not have what our connections need (%s): its ordinary ones serve, which hold "
            "fewer viewers; docs/performance.md",
            uvicorn.__version__,
            ", ".join(missing),
        )
        return None
    return api
