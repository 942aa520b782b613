"""Reads one answer from its response, streamed or whole."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import chain, takewhile
from typing import Any, Final

from spectator.clock import Clock
from spectator.errors import EndpointMalformed, EndpointUnavailable
from spectator.llm.assembly import Assembly
from spectator.llm.forms.base import Translation
from spectator.llm.sse import EventReader
from spectator.llm.transport import Reply
from spectator.llm.wire import decode_json

DONE: Final = b"[DONE]"
"""Data of the event that ends a stream."""

LINGER_S: Final = 0.05
"""How long the last bytes after a whole answer are waited for, so that the connection can be used again."""


class AnswerReader:
    """Reads one answer, at most ``limit`` bytes of it."""

    def __init__(
        self, assembly: Assembly, limit: int, clock: Clock, translation: Translation | None = None
    ) -> None:
        self.assembly = assembly
        self._translation = translation
        self.first_at: float | None = None
        self._limit = limit
        self._clock = clock
        self._read = 0

    async def stream(self, reply: Reply) -> None:
        """Read an answer that forms; also one that comes whole although a stream was asked for."""
        events = EventReader()
        while piece := await reply.read():
            is_first = not self._read
            self._count(piece)
            if is_first and piece.lstrip().startswith(b"{"):
                return await self.whole(reply, piece)
            came = events.feed(piece)
            self._feed(came)
            if DONE in came:
                return await _linger(reply)
        self._feed(list(events.end()))
        if self.assembly.begun and self.assembly.finish_reason is None:
            raise EndpointUnavailable("the endpoint broke off in the middle of its answer")

    def _feed(self, events: Sequence[bytes]) -> None:
        """Take what came together, up to the end of the stream."""
        self.take(decode_json(data) for data in takewhile(DONE.__ne__, events))
        if self.first_at is None and self.assembly.begun:
            self.first_at = self._clock.monotonic()

    async def whole(self, reply: Reply, begun: bytes = b"") -> None:
        """Read an answer that does not form; ``begun`` was read of it before."""
        self.take([decode_json(await read_body(reply, self._limit, begun))])

    def take(self, pieces: Iterable[Any]) -> None:
        """Take pieces of the answer, decoded, or all of it in one."""
        if self._translation is None:
            self.assembly.feed_all(pieces)
        else:
            self.assembly.feed_all(chain.from_iterable(map(self._translation.chunks, pieces)))

    def _count(self, piece: bytes) -> None:
        self._read += len(piece)
        if self._read > self._limit:
            raise _too_long(self._limit)


async def read_body(reply: Reply, limit: int, begun: bytes = b"") -> bytes:
    """The whole body of a response.

    Args:
        reply: The response.
        limit: The most bytes that are read.
        begun: What was read of it before.

    Raises:
        EndpointMalformed: It is longer.
    """
    pieces, size = [begun] if begun else [], len(begun)
    while not reply.at_end and (piece := await reply.read()):
        size += len(piece)
        if size > limit:
            raise _too_long(limit)
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _too_long(limit: int) -> EndpointMalformed:
    return EndpointMalformed(f"the endpoint's answer is longer than {limit} bytes")


async def _linger(reply: Reply) -> None:
    if reply.at_end:
        return
    try:
        async with asyncio.timeout(LINGER_S):
            while await reply.read():
                pass
    except TimeoutError:
        return
