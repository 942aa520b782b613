"""Read an endpoint's answer: server-sent events, or one body.

Events are parsed as defined in WHATWG HTML, section 9.2.
"""

from __future__ import annotations

import asyncio
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, takewhile
from typing import Any, Final

from spectator.clock import Clock
from spectator.errors import EndpointMalformed, EndpointUnavailable
from spectator.llm.answers import Assembly
from spectator.llm.transport import Reply
from spectator.llm.wire_forms import Translation, decode_json


class EventReader:
    """Parses server-sent events from pieces of any size, with any line ends.

    Event names, ids and comments are ignored: chat completions only use ``data``.

    >>> reader = EventReader()
    >>> reader.feed(b'data: {"id": 1}\\n\\ndata: {"id"'), reader.feed(b': 2}\\n\\n')
    ([b'{"id": 1}'], [b'{"id": 2}'])
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Sequence[bytes]:
        """Return the data of each event that ``piece`` completes, in order."""
        if piece.startswith(b"data: ") and piece.endswith(b"\n\n") and not self._rest and not self._data:
            # Fast path for the usual case: complete events of one line each.
            whole = piece[6:-2].split(b"\n\ndata: ")
            if piece.count(b"\n") == 2 * len(whole) and b"\r" not in piece:
                return whole
        buffer = self._rest + piece
        if b"\r" in buffer:
            # A carriage return at the very end may be half of a line end: keep it for the next piece.
            held = b"\r" if buffer.endswith(b"\r") else b""
            buffer = buffer[: len(buffer) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + held
        *lines, self._rest = buffer.split(b"\n")
        return list(self._events(lines))

    def _events(self, lines: Sequence[bytes]) -> Iterator[bytes]:
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif not line and self._data:
                yield self._complete()

    def end(self) -> Iterator[bytes]:
        """Yield the data of a last event without a closing blank line."""
        yield from self.feed(b"\n\n")
        if self._data:
            yield self._complete()

    def _complete(self) -> bytes:
        data, self._data = self._data, []
        return data[0] if len(data) == 1 else b"\n".join(data)


DONE: Final = b"[DONE]"
"""Data of the event that ends a stream."""

LINGER_S: Final = 0.05
"""How long to wait for the last bytes after an answer, so that the connection can be reused."""


class AnswerReader:
    """Reads one answer of at most ``limit`` bytes."""

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
        """Read a streamed answer, or one that arrives whole despite the request."""
        events, begun, blank = EventReader(), b"", True
        while piece := await reply.read():
            self._count(piece)
            if blank:
                begun = (begun + piece).lstrip().removeprefix(BOM_UTF8).lstrip()
                if blank := not begun or BOM_UTF8.startswith(begun):
                    continue
                if begun.startswith(b"{"):
                    return await self.whole(reply, begun)
                piece = begun
            completed = events.feed(piece)
            self._feed(completed)
            if DONE in completed:
                if self.assembly.finish_reason is None:
                    self.assembly.finish_reason = "length"  # nothing says that the answer is whole
                return await _linger(reply)
        self._feed(list(events.end()))
        if self.assembly.begun and self.assembly.finish_reason is None:
            raise EndpointUnavailable("the endpoint closed the connection before the end of its answer")

    def _feed(self, events: Sequence[bytes]) -> None:
        """Take events that arrived together, up to the end of the stream."""
        self.take(decode_json(data) for data in takewhile(DONE.__ne__, events))
        if self.first_at is None and self.assembly.begun:
            self.first_at = self._clock.monotonic()

    async def whole(self, reply: Reply, begun: bytes = b"") -> None:
        """Read an answer that is not streamed; ``begun`` is its already read beginning."""
        self.take([decode_json(await read_body(reply, self._limit, begun))])

    def take(self, pieces: Iterable[Any]) -> None:
        """Take decoded pieces of the answer, or the whole answer as one piece."""
        if self._translation is None:
            self.assembly.feed_all(pieces)
        else:
            self.assembly.feed_all(chain.from_iterable(map(self._translation.chunks, pieces)))

    def _count(self, piece: bytes) -> None:
        self._read += len(piece)
        if self._read > self._limit:
            raise _too_long(self._limit)


async def read_body(reply: Reply, limit: int, begun: bytes = b"") -> bytes:
    """Read the whole body of a response.

    Args:
        reply: The response.
        limit: Maximum size, bytes.
        begun: Its already read beginning.

    Raises:
        EndpointMalformed: The body is longer than ``limit``.
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
