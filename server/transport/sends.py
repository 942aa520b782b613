"""The compiled loop that sends the same bytes to many sockets, where it was built."""

from __future__ import annotations

import logging

from ..viewers.broadcaster import SendToEach

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
