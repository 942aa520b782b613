"""Downloads of records: in pieces of bounded size, a place held all the while, slow clients let go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, Protocol

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from spectator.journal.stores.pieces import GZIP_BEGIN, WantedPiece, gzip_end, piece_of

from ..security.budget import Held
from ..security.masking import NDJSON
from ..security.turns import ReadTurns
from ..services import Services
from ..transport import cut_of
from .packing import encodings_taken

FIRST_EVENTS: Final = 8
"""Events of the first piece; how large they are says how many may follow."""

MOST_EVENTS: Final = 512
"""Events of a piece at most."""

PIECE_CHARACTERS: Final = 128 * 1024
"""About how much is read and sent at once; an event that is larger goes alone."""

PIECE_S: Final = 30.0
"""How long a client may take for one piece before it loses its place."""


class TextReader(Protocol):
    """Reads events undecoded."""

    async def texts(self, episode_id: str, *, after_seq: int = 0, limit: int | None = None) -> Sequence[str]:
        """Events of an episode with ``seq > after_seq``, in order."""
        ...


class Download(StreamingResponse):
    """A streamed answer that lets go of what it holds once it is sent, given up, or too slow.

    Args:
        pieces: What is sent.
        held: Closed at the end.
        media_type: Of the whole.
        headers: Further headers.
    """

    def __init__(
        self,
        pieces: AsyncIterator[bytes],
        held: AsyncExitStack,
        *,
        media_type: str = NDJSON,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(pieces, media_type=media_type, headers=headers)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""

        cut = cut_of(scope)

        async def send_in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(PIECE_S):
                    await send(message)
            except TimeoutError:
                if cut is None:
                    raise
                cut()
                await send(message)  # which is over at once, as is all that follows

        async with self._held:
            await super().__call__(scope, receive, send_in_time)


@asynccontextmanager
async def reading(services: Services, request: Request) -> AsyncIterator[AsyncExitStack]:
    """Hold a place for whoever reads, to be asked for before anything is looked up.

    It is given back with the ``with``, or at the end of the :func:`download` that takes it over.

    Raises:
        Refused: There was no place in time.
    """
    async with AsyncExitStack() as held:
        await held.enter_async_context(services.budget.hold(Held.READS, request))
        yield held


async def download(
    held: AsyncExitStack, pieces: AsyncIterator[bytes], headers: Mapping[str, str]
) -> Download:
    """An answer of ``pieces`` that holds what ``held`` does until its end.

    Where the first of them fails, so does this; what fails further on breaks the answer off, and a client
    sees that it is short.
    """
    first = await anext(pieces, b"")

    async def whole() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    return Download(whole(), held.pop_all(), headers=headers)


async def download_aside(
    held: AsyncExitStack,
    services: Services,
    request: Request,
    episode_id: str,
    after_seq: int,
    headers: Mapping[str, str],
) -> Download:
    """An answer of an ended record as it is, read and packed by the process beside, but for a short one.

    Nothing may be derived, withheld or masked in it.

    Raises:
        JournalError: The record cannot be read.
    """
    turns = services.budget.reading
    async with turns.take():
        first = await services.journal.texts(episode_id, after_seq=after_seq, limit=FIRST_EVENTS)
    if len(first) < FIRST_EVENTS:
        return await download(held, _whole(piece_of(first).body), headers)
    taken = encodings_taken(request.headers.get("accept-encoding", ""))
    packed = "gzip" in taken and "br" not in taken  # Brotli packs all pieces as one, on the way out
    if packed:
        headers = {**headers, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return await download(held, _aside(services, episode_id, after_seq, first, packed=packed), headers)


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _aside(
    services: Services, episode_id: str, after_seq: int, first: Sequence[str], *, packed: bool
) -> AsyncIterator[bytes]:
    piece = await asyncio.to_thread(piece_of, first, 0 if packed else None)
    size = 0
    if packed:
        yield GZIP_BEGIN
    while piece.events:
        yield piece.body
        after_seq, size = after_seq + piece.events, size + piece.size
        limit = max(1, min(MOST_EVENTS, PIECE_CHARACTERS * piece.events // piece.size))
        async with services.budget.reading.take():
            wanted = WantedPiece(episode_id, after_seq, limit, piece.crc if packed else None)
            piece = await services.reading.read(wanted)
    if packed:
        yield gzip_end(piece.crc, size)


async def part_of(
    records: TextReader, episode_id: str, after_seq: int, limit: int, turns: ReadTurns
) -> AsyncIterator[bytes]:
    """At most ``limit`` events after ``after_seq`` as lines; see :func:`lines_of`."""
    while limit > 0:
        async with turns.take():
            batch = await records.texts(episode_id, after_seq=after_seq, limit=min(limit, MOST_EVENTS))
        if not batch:
            return
        after_seq, limit = after_seq + len(batch), limit - len(batch)
        yield "\n".join((*batch, "")).encode()


async def lines_of(
    records: TextReader, episode_id: str, after_seq: int, turns: ReadTurns
) -> AsyncIterator[bytes]:
    """The events after ``after_seq`` as lines, undecoded.

    Args:
        records: Where they are.
        episode_id: Whose.
        after_seq: Where to begin.
        turns: In which they are read.
    """
    events = FIRST_EVENTS
    while True:
        async with turns.take():
            batch = await records.texts(episode_id, after_seq=after_seq, limit=events)
        if not batch:
            return
        piece = "\n".join((*batch, "")).encode()
        after_seq += len(batch)
        events = max(1, min(MOST_EVENTS, PIECE_CHARACTERS * len(batch) // len(piece)))
        yield piece
