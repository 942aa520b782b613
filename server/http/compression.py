"""Compression of answers as they are made: Brotli for whoever takes it, else gzip."""

from __future__ import annotations

from typing import Final

import brotli
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware, IdentityResponder
from starlette.types import ASGIApp, Receive, Scope, Send

from .packing import encodings_taken

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
