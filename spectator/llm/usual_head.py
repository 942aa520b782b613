"""The head of a response of the usual shape, at a glance: most say nothing that matters but a length."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

LIMITS_TOLD: Final = (
    "x-ratelimit-limit-requests",
    "x-ratelimit-limit-tokens",
    "anthropic-ratelimit-requests-limit",
    "anthropic-ratelimit-tokens-limit",
)
"""Headers in which endpoints tell their limits of a minute."""

HEADERS_THAT_MATTER: Final = frozenset(
    {b"content-length", b"transfer-encoding", b"content-encoding", b"retry-after", b"retry-after-ms"}
    | {name.encode() for name in LIMITS_TOLD}
)
"""Headers of a response that are looked at."""

USUAL_HEAD: Final = 1024
"""Bytes of a response's head beyond which no glance is taken."""

_LINES: Final = re.compile(rb"HTTP/1\.1 200 [ -~]*(?:\r\n[A-Za-z0-9_-]+: [ -~]*)*")
_ABOUT_THE_BODY: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade"} | HEADERS_THAT_MATTER
)


@lru_cache(maxsize=1024)
def length_of_body(head: bytes) -> int:
    """The length that the head of a response states, where it says nothing else that matters; else -1.

    >>> length_of_body(b"HTTP/1.1 200 OK\\r\\nServer: vllm\\r\\nContent-Length: 12")
    12
    >>> length_of_body(b"HTTP/1.1 200 OK\\r\\nContent-Length: 12\\r\\nRetry-After: 1")
    -1
    """
    if _LINES.fullmatch(head) is None:
        return -1
    length = -1
    for line in head.lower().split(b"\r\n")[1:]:
        name, _, value = line.partition(b": ")
        if name == b"content-length" and length < 0 and value.isdigit() and len(value) < 10:
            length = int(value)
        elif name in _ABOUT_THE_BODY:
            return -1
    return length
