"""Limits of connections: how long a peer may be silent, and how much it may send or leave unread."""

from __future__ import annotations

from typing import Final

UNREAD_BYTES: Final = 64 * 1024
"""What may wait for a peer that goes on sending pings."""

PINGS_PER_S: Final = 10.0
"""Pings that a peer may send in a second, over any length of time."""

PING_BURST: Final = 100.0
"""Pings that it may send at once."""

LINGER_S: Final = 5.0
"""How long a closed connection may take to read what was written, before it is cut."""

GOING_S: Final = 1.0
"""The same once the server goes."""

REQUEST_S: Final = 15.0
"""How long a connection may take to send the head of its first request; twice as long for a later one."""

HEAD_BYTES: Final = 64 * 1024
"""Longest head of a request, and longest of whatever else in one belongs to no body."""

MAX_FRAGMENTS: Final = 64
"""Most fragments of one message."""

LAST_MESSAGE_S: Final = 1.0
"""How long a peer may take to read its last message, where a task waits for that."""
