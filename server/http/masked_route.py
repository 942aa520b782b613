"""Routes whose answers show names: a stranger is answered without those that the operator hides."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from ..security.faults import Refused
from ..security.masking import DIGEST_HEADER, NDJSON, NameMask
from ..services import services_of

JSON = JSONResponse.media_type


class MaskedRoute(APIRoute):
    """A route that answers with JSON or with lines of it, whole or streamed."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """What answers a request."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            response = await handle(request)
            mask = services_of(request).orders.mask
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
