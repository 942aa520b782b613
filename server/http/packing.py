"""Answers whose compressed forms are made once and kept."""

from __future__ import annotations

import gzip
from functools import cached_property
from typing import Final

import brotli
from starlette.datastructures import Headers
from starlette.responses import Response

IMMUTABLE: Final = "public, max-age=31536000, immutable"
"""The address holds a digest of the content, so what was fetched once stays right."""

NOTHING: Final = "default-src 'none'"
"""The policy of a script or a sheet that somebody opens by itself; the page's own holds where it is used."""

PICTURE: Final = f"{NOTHING}; style-src 'unsafe-inline'"
"""The same of a picture, which may hold its own style."""


class Packed:
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
