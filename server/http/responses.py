"""Responses: compressed, precompressed, masked, or streamed as bounded downloads."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property
from typing import Final

import brotli
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware, IdentityResponder
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spectator.episodes.embargo import PublicReader
from spectator.episodes.past_states import Turn
from spectator.journal.pieces import GZIP_BEGIN, PieceRequest, gzip_end, piece_of

from ..security.budget import Held
from ..security.faults import Refused
from ..security.masking import DIGEST_HEADER, NDJSON, NameMask
from ..services import Services, services_of
from ..transport import abort_of

IMMUTABLE: Final = "public, max-age=31536000, immutable"
"""Cache-Control of addresses with a digest of their content."""

NOTHING: Final = "default-src 'none'"
"""CSP of a script or style sheet that is opened directly; within a page, the page's CSP applies."""

PICTURE: Final = f"{NOTHING}; style-src 'unsafe-inline'"
"""CSP of a picture, which may contain its own style."""


class PrecompressedContent:
    """Content that never changes, plain and compressed."""

    def __init__(self, content: bytes, media_type: str) -> None:
        self._content = content
        self._media_type = media_type

    def answer(self, headers: Headers) -> Response:
        """Return the smallest accepted form, cached forever by the client."""
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
    """Return the encodings that the header ``Accept-Encoding`` allows.

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
"""Bytes from which an answer is compressed; smaller ones fit in one packet."""

PACK_LEVEL: Final = 6
"""Level of gzip. A replay of five overs, 498 kB: 6 makes 40 kB in 6 ms of CPU, 9 makes 39 kB in 12 ms."""

BROTLI_LEVEL: Final = 5
"""Level of Brotli. A 20-over replay of 1,680 kB: 98 kB in 21 ms of CPU; gzip at 6 makes 146 kB in that
time."""

BROTLI_WINDOW: Final = 20
"""Bits of the window, 1 MB, so that a compressed stream takes only a few MB."""

PACK_ASIDE_FROM: Final = 64 * 1024
"""Bytes from which gzip, taking about 1 ms, runs on a thread; a piece of a replay has fewer."""

BROTLI_ASIDE_FROM: Final = 16 * 1024
"""The same for Brotli: 0.2 ms; it compresses the pieces of a replay in this process."""


class Compression(GZipMiddleware):
    """Compresses answers if the client accepts that, long ones piece by piece."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app, PACK_FROM, PACK_LEVEL, PACK_ASIDE_FROM)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request, and compress its answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif "br" in encodings_taken(Headers(scope=scope).get("accept-encoding", "")):
            await BrotliResponder(self.app, self.minimum_size)(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


class BrotliResponder(IdentityResponder):
    """One answer, compressed with Brotli."""

    content_encoding = "br"
    _compressor: brotli.Compressor | None = None

    async def apply_compression(self, body: bytes, *, more_body: bool) -> bytes:
        """Compress the next piece and flush it, so that clients can read all of it."""
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
    """A route whose JSON answers are masked by the operator's hidden names."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """Return the handler that masks answers."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            response = await handle(request)
            mask = services_of(request).operator_orders.mask
            if mask.names and not _by_operator(request):
                _mask(response, mask)
            return response

        return answer


def _by_operator(request: Request) -> bool:
    """Whether the request carries the operator's token, so that nothing is masked."""
    with contextlib.suppress(Refused):
        return services_of(request).guard.is_operator(request)
    return False


def _mask(response: Response, mask: NameMask) -> None:
    kind = response.headers.get("content-type", "").partition(";")[0]
    if isinstance(response, StreamingResponse) and kind == NDJSON:
        del response.headers[DIGEST_HEADER]  # the record's digest does not match a masked copy
        response.body_iterator = _lines(response.body_iterator, mask)
    elif kind == JSON:
        response.body = mask.json(bytes(response.body).decode()).encode()
        response.headers["content-length"] = str(len(response.body))


async def _lines(pieces: AsyncIterable[str | bytes | memoryview], mask: NameMask) -> AsyncIterator[bytes]:
    """Mask each line of pieces that end with whole lines."""
    async for piece in pieces:
        text = piece if isinstance(piece, str) else bytes(piece).decode()
        yield "\n".join([mask.json(line) for line in text.split("\n")]).encode()


FIRST_EVENTS: Final = 8
"""Events of the first piece; their size determines the next piece."""

MOST_EVENTS: Final = 512
"""Most events of a piece."""

PIECE_CHARACTERS: Final = 128 * 1024
"""Approximate size of a piece; a larger event is sent alone."""

PIECE_S: Final = 30.0
"""Seconds that a client may take for one piece before its download is aborted."""


class Download(StreamingResponse):
    """A streamed answer that releases its resources at the end.

    It ends once it is sent, cancelled, or too slow.

    Args:
        held: Resources, closed at the end.
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
        """Send the answer."""

        abort = abort_of(scope)

        async def send_in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(PIECE_S):
                    await send(message)
            except TimeoutError:
                if abort is None:
                    raise
                abort()
                await send(message)  # returns immediately after the abort, as all that follow

        async with self._held:
            await super().__call__(scope, receive, send_in_time)


@asynccontextmanager
async def reading(services: Services, request: Request) -> AsyncIterator[AsyncExitStack]:
    """Hold a place for reading, before anything is looked up.

    It is released at the end of the ``with`` block, or of the :func:`download` that takes it over.
    """
    async with AsyncExitStack() as held:
        await held.enter_async_context(services.budget.hold(Held.READS, request))
        yield held


async def download(
    held: AsyncExitStack, pieces: AsyncIterator[bytes], headers: Mapping[str, str]
) -> Download:
    """Stream ``pieces``, holding ``held`` until the end.

    Raises if the first piece fails; a later failure cuts the answer off, which clients can detect.
    """
    first = await anext(pieces, b"")

    async def whole() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    return Download(whole(), held.pop_all(), headers=headers)


async def download_in_process(
    held: AsyncExitStack,
    services: Services,
    request: Request,
    episode_id: str,
    after_seq: int,
    headers: Mapping[str, str],
) -> Download:
    """Stream an ended record unchanged, read by the reading process if long.

    Nothing in it may be derived, withheld or masked.
    """
    turn = services.budget.reading_turn
    async with turn():
        first = await services.journal.texts(episode_id, after_seq=after_seq, limit=FIRST_EVENTS)
    if len(first) < FIRST_EVENTS:
        return await download(held, _whole(piece_of(first).body), headers)
    taken = encodings_taken(request.headers.get("accept-encoding", ""))
    packed = "gzip" in taken and "br" not in taken  # Brotli compresses all pieces together later
    if packed:
        headers = {**headers, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return await download(
        held, _pieces_from_process(services, episode_id, after_seq, first, packed=packed), headers
    )


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _pieces_from_process(
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
    records: PublicReader, episode_id: str, after_seq: int, limit: int, turn: Turn
) -> AsyncIterator[bytes]:
    """Yield at most ``limit`` events as lines; see :func:`lines_of`."""
    while limit > 0:
        async with turn():
            batch = await records.texts(episode_id, after_seq=after_seq, limit=min(limit, MOST_EVENTS))
        if not batch:
            return
        after_seq, limit = after_seq + len(batch), limit - len(batch)
        yield "\n".join((*batch, "")).encode()


async def lines_of(
    records: PublicReader, episode_id: str, after_seq: int, turn: Turn
) -> AsyncIterator[bytes]:
    """Yield the events after ``after_seq`` as lines, without decoding them.

    Args:
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
