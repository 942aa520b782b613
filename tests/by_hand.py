"""WebSocket messages that are framed by hand, for peers that no client library would play."""

from __future__ import annotations


def masked(text: bytes) -> bytes:
    """A short text message as a client frames it, masked with zeros."""
    assert len(text) < 126
    return b"\x81" + bytes([0x80 | len(text)]) + bytes(4) + text
