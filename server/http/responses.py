"""Responses: compressed, precompressed, masked, or streamed as bounded downloads."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property
from typing import Final, Protocol

import brotli
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware, IdentityResponder
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spectator.episodes.past_states import Turn
from spectator.journal.pieces import GZIP_BEGIN, PieceRequest, gzip_end, piece_of

from ..security.budget import Held
from ..security.faults import Refused
from ..security.masking import DIGEST_HEADER, NDJSON, NameMask
from ..services import Services, services_of
from ..transport import abort_of

IMMUTABLE: Final = "public, max-age=31536000, immutable"
"""The address holds a digest of the content, so what was fetched once stays right."""

NOTHING: Final = "default-src 'none'"
"""The policy of a script or a sheet that somebody opens by itself; the page's own holds where it is used."""

PICTURE: Final = f"{NOTHING}; style-src 'unsafe-inline'"
"""The same of a picture, which may hold its own style."""


class PrecompressedContent:
    """What never changes, plain and compressed.

    Args:
        content: It.
        media_type: Its kind.
    """

    def __init__(self, content: bytes, media_type: str) -> None:
        self._content = content
        self._media_type = media_type

    def answer(self, headers: Headers) -> Response:
        """The smallest form that whoever sent ``headers`` takes, never to be asked for again."""
        taken = encodings_taken(headers.get("accept-encoding", ""))
        kept = {"Cache-Control": IMMUTABLE, "Vary": "Accept-Encoding"}
        kept["Content-Security-Policy"] = PICTURE if self._media_type == "image/svg+xml" else NOTHING
        for encoding in ("br", "gzip"):
            if encoding in taken:
                packed = self._brotli if encoding == "br" else self._gzip
                return Response(
                    packed, media_type=self._media_type, headers={**kept, "Content-Encoding": encoding}
                )
        return Response(self._content, media_type=self._media_type, headers=kept)

    @cached_property
    def _brotli(self) -> bytes:
        packed: bytes = brotli.compress(self._content, mode=brotli.MODE_TEXT)
        return packed

    @cached_property
    def _gzip(self) -> bytes:
        return gzip.compress(self._content, mtime=0)


def encodings_taken(accepted: str) -> set[str]:
    """Names of the encodings that the header ``Accept-Encoding`` allows.

    >>> sorted(encodings_taken("gzip, deflate;q=0.5, br;q=0"))
    ['deflate', 'gzip']
    """
    taken: set[str] = set()
    for part in accepted.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if name and not any(value.partition("=")[2].strip(" 0.") == "" for value in parameters):
            taken.add(name)
    return taken


PACK_FROM: Final = 1400
"""Bytes from which an answer is compressed: a smaller one goes in one packet anyway."""

PACK_LEVEL: Final = 6
"""Of gzip. A replay of five overs, 498 kB: 6 makes 40 kB in 6 ms of CPU, 9 makes 39 in 12."""

BROTLI_LEVEL: Final = 5
"""A 20-over replay of 1,680 kB: 98 kB in 21 ms of CPU, where gzip at 6 makes 146 kB in the same time."""

BROTLI_WINDOW: Final = 20
"""Bits of the window, a megabyte: a stream that is compressed takes no more than a few."""

PACK_ASIDE_FROM: Final = 64 * 1024
"""Bytes that gzip takes about a millisecond for, so that a thread does; a piece of a replay has fewer."""

BROTLI_ASIDE_FROM: Final = 16 * 1024
"""The same of Brotli, which packs the pieces of a replay here and not beside: 0.2 ms."""


class Compression(GZipMiddleware):
    """Compresses answers for whoever takes that, each piece of a long one as it comes.

    Args:
        app: The application behind it.
    """

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app, PACK_FROM, PACK_LEVEL, PACK_ASIDE_FROM)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; its answer is compressed on the way back."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif "br" in encodings_taken(Headers(scope=scope).get("accept-encoding", "")):
            await BrotliResponder(self.app, self.minimum_size)(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


class BrotliResponder(IdentityResponder):
    """One answer that is compressed with Brotli."""

    content_encoding = "br"
    _compressor: brotli.Compressor | None = None

    async def apply_compression(self, body: bytes, *, more_body: bool) -> bytes:
        """The next piece compressed; whoever reads it has all of it at once."""
        if len(body) >= BROTLI_ASIDE_FROM:
            return await run_in_threadpool(self._compress, body, more_body)
        return self._compress(body, more_body)

    def _compress(self, body: bytes, more_body: bool) -> bytes:
        if self._compressor is None:
            self._compressor = brotli.Compressor(
                mode=brotli.MODE_TEXT, quality=BROTLI_LEVEL, lgwin=BROTLI_WINDOW
            )
        begun: bytes = self._compressor.process(body)
        rest: bytes = self._compressor.flush() if more_body else self._compressor.finish()
        return begun + rest


JSON = JSONResponse.media_type


class MaskedRoute(APIRoute):
    """A route that answers with JSON or with lines of it, whole or streamed."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """What answers a request."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            response = await handle(request)
            mask = services_of(request).operator_orders.mask
            if mask.names and not _by_operator(request):
                _mask(response, mask)
            return response

        return answer


def _by_operator(request: Request) -> bool:
    """Whether it carries the operator's token; from whoever sends that, nothing is hidden."""
    with contextlib.suppress(Refused):
        return services_of(request).guard.is_operator(request)
    return False


def _mask(response: Response, mask: NameMask) -> None:
    kind = response.headers.get("content-type", "").partition(";")[0]
    if isinstance(response, StreamingResponse) and kind == NDJSON:
        del response.headers[DIGEST_HEADER]  # it is the record's, and a masked copy has another
        response.body_iterator = _lines(response.body_iterator, mask)
    elif kind == JSON:
        response.body = mask.json(bytes(response.body).decode()).encode()
        response.headers["content-length"] = str(len(response.body))


async def _lines(pieces: AsyncIterable[str | bytes | memoryview], mask: NameMask) -> AsyncIterator[bytes]:
    """The same pieces with each of their lines masked; a piece ends where a line does."""
    async for piece in pieces:
        text = piece if isinstance(piece, str) else bytes(piece).decode()
        yield "\n".join([mask.json(line) for line in text.split("\n")]).encode()


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

        cut = abort_of(scope)

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
    turn = services.budget.reading_turn
    async with turn():
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
        async with services.budget.reading_turn():
            wanted = PieceRequest(episode_id, after_seq, limit, piece.crc if packed else None)
            piece = await services.reading_process.read(wanted)
    if packed:
        yield gzip_end(piece.crc, size)


async def part_of(
    records: TextReader, episode_id: str, after_seq: int, limit: int, turn: Turn
) -> AsyncIterator[bytes]:
    """At most ``limit`` events after ``after_seq`` as lines; see :func:`lines_of`."""
    while limit > 0:
        async with turn():
            batch = await records.texts(episode_id, after_seq=after_seq, limit=min(limit, MOST_EVENTS))
        if not batch:
            return
        after_seq, limit = after_seq + len(batch), limit - len(batch)
        yield "\n".join((*batch, "")).encode()


async def lines_of(records: TextReader, episode_id: str, after_seq: int, turn: Turn) -> AsyncIterator[bytes]:
    """The events after ``after_seq`` as lines, undecoded.

    Args:
        records: Where they are.
        episode_id: Whose.
        after_seq: Where to begin.
        turn: Each piece is read within it.
    """
    events = FIRST_EVENTS
    while True:
        async with turn():
            batch = await records.texts(episode_id, after_seq=after_seq, limit=events)
        if not batch:
            return
        piece = "\n".join((*batch, "")).encode()
        after_seq += len(batch)
        events = max(1, min(MOST_EVENTS, PIECE_CHARACTERS * len(batch) // len(piece)))
        yield piece
