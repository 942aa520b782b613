"""Raw responses of an endpoint, recorded to a folder and played back as a stand-in for it.

A folder holds ``responses.json``: a list of responses in the order of their requests. A body is a list of
pieces as they arrived: texts, or bytes in base64 where a piece is not UTF-8. Request headers are not
recorded, so a key can only occur where the endpoint repeats it, and there it is masked. A stream that repeats
the key in pieces is recorded without its body.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from spectator.errors import ConfigurationError, EndpointError, EndpointTimeout
from spectator.llm.answer_reader import EventReader
from spectator.llm.endpoints import ApiKey, mask
from spectator.llm.exchanges import NotRecorded

if TYPE_CHECKING:
    from spectator.llm.transport import Reply, Transport

FILE: Final = "responses.json"

LIMIT_HEADERS: Final = (
    "x-ratelimit-limit-requests",
    "x-ratelimit-limit-tokens",
    "anthropic-ratelimit-requests-limit",
    "anthropic-ratelimit-tokens-limit",
)
"""Headers in which endpoints state their limits per minute."""

_KEPT_HEADERS: Final = ("content-type", "retry-after", "retry-after-ms", *LIMIT_HEADERS)

Ending = Literal["complete", "hangs_up", "cut", "silent", "endless"]
"""How a response ends.

``complete``: normally; ``hangs_up``: normally, then the connection is closed without notice; ``cut``: the
connection is closed within the response; ``silent``: nothing more arrives; ``endless``: its last piece is
repeated until the client leaves.
"""


class Base64Piece(BaseModel):
    """A piece of a body that is not UTF-8."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base64: str


class RepeatedPiece(BaseModel):
    """A text that is sent several times, for bodies too large to store."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    times: int = Field(ge=1)


class RecordedResponse(BaseModel):
    """A response as the client received it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str = Field(default="", description="Path of the request; empty for any")
    request: dict[str, Any] | None = Field(
        default=None, description="Body of the request; responses without one answer any request, in order"
    )
    status: int | None = Field(default=200, description="HTTP status; null if there was no response")
    headers: dict[str, str] = Field(default_factory=dict, description="Headers that a client may use")
    body: list[str | Base64Piece | RepeatedPiece] = Field(
        default_factory=list, description="Pieces of the body"
    )
    ending: Ending = Field(default="complete", description="How the response ended")

    def pieces(self) -> Iterator[bytes]:
        """Return the pieces of the body, as bytes."""
        return chain.from_iterable(map(_decode, self.body))


_RESPONSES: Final = TypeAdapter(list[RecordedResponse])


def _decode(piece: str | Base64Piece | RepeatedPiece) -> Iterator[bytes]:
    if isinstance(piece, RepeatedPiece):
        return repeat(piece.text.encode(), piece.times)
    return iter([piece.encode() if isinstance(piece, str) else base64.b64decode(piece.base64)])


def _encode(piece: bytes) -> str | Base64Piece:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return Base64Piece(base64=base64.b64encode(piece).decode())


def read_responses(folder: Path) -> list[RecordedResponse]:
    """Read a folder that :class:`RecordingTransport` filled.

    Raises:
        ConfigurationError: The folder has no recording, or an invalid one.
    """
    path = folder / FILE
    try:
        return _RESPONSES.validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}; record it first") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigurationError(f"{path} is not a recording: {where}: {first['msg']}") from None


def write_responses(folder: Path, responses: Sequence[RecordedResponse]) -> None:
    """Write a recording into ``folder``, which is created if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = [one.model_dump(mode="json", exclude_defaults=True) for one in responses]
    (folder / FILE).write_text(json.dumps(shown, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


class RecordingTransport:
    """A transport that records every response and the limits in its headers.

    Args:
        key: Masked where the endpoint repeats it.
    """

    def __init__(self, transport: Transport, key: ApiKey | None = None) -> None:
        self._transport = transport
        self._key = key
        self.limits: dict[str, str] = {}
        """The limits, by header name."""
        self.responses: list[RecordedResponse] = []
        """The responses, in the order of their ends."""

    @asynccontextmanager
    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> AsyncIterator[Reply]:
        """See :meth:`spectator.llm.transport.Transport.post`."""
        seen: _SeenReply | None = None
        failure: EndpointError | None = None
        try:
            async with self._transport.post(url, body, headers) as reply:
                kept = {name: value for name in _KEPT_HEADERS if (value := reply.header(name)) is not None}
                self.limits |= {name: value for name, value in kept.items() if name in LIMIT_HEADERS}
                seen = _SeenReply(reply, kept)
                yield seen
        except EndpointError as error:
            failure = error
            raise
        finally:
            self.responses.append(self._recorded(url, body, seen, failure))

    def _recorded(
        self, url: str, body: bytes, seen: _SeenReply | None, failure: EndpointError | None
    ) -> RecordedResponse:
        pieces = [] if seen is None else seen.pieces
        whole = b"".join(pieces).decode("utf-8", "surrogateescape")
        masked = mask(whole, self._key)
        if masked != whole:
            pieces = [masked.encode("utf-8", "surrogateescape")]
        repeats_key = self._key is not None and any(
            self._key.mask(one) != one for one in _streamed_texts(pieces)
        )
        if repeats_key:
            pieces = []
        address = urlsplit(url)
        return RecordedResponse(
            path=mask(f"{address.path}?{address.query}" if address.query else address.path, self._key),
            request=json.loads(mask(body.decode(), self._key)),
            status=None if seen is None else seen.status,
            headers={}
            if seen is None
            else {name: mask(value, self._key) for name, value in seen.kept.items()},
            body=[_encode(piece) for piece in pieces],
            ending="cut" if repeats_key else _ending(seen, failure),
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()


def _streamed_texts(pieces: Sequence[bytes]) -> Iterable[str]:
    """Return the texts that a stream's events spell, each joined over the events by its place in them."""
    texts: dict[str, str] = defaultdict(str)

    def collect(place: str, value: Any) -> None:
        if isinstance(value, str):
            texts[place] += value
        elif isinstance(value, dict | list):
            members = value.items() if isinstance(value, dict) else enumerate(value)
            for name, member in members:
                collect(f"{place}.{name}", member)

    reader = EventReader()
    for data in [*chain.from_iterable(map(reader.feed, pieces)), *reader.end()]:
        with suppress(ValueError):
            collect("", json.loads(data))
    return texts.values()


def _ending(seen: _SeenReply | None, failure: EndpointError | None) -> Ending:
    if isinstance(failure, EndpointTimeout):
        return "silent"
    if seen is None:
        return "silent" if failure is None else "cut"
    if isinstance(seen.broke_off, EndpointError):
        return "cut"
    waited_for_more = seen.broke_off is not None and not b"".join(seen.pieces[-2:]).rstrip().endswith(
        b"[DONE]"
    )
    return "silent" if waited_for_more else "complete"


class _SeenReply:
    """A reply whose pieces are kept as they are read."""

    def __init__(self, reply: Reply, kept: Mapping[str, str]) -> None:
        self._reply = reply
        self.kept = kept
        self.pieces: list[bytes] = []
        self.broke_off: BaseException | None = None
        """What ended the last read, if not a piece."""

    @property
    def status(self) -> int:
        return self._reply.status

    @property
    def at_end(self) -> bool:
        return self._reply.at_end

    def header(self, name: str) -> str | None:
        return self._reply.header(name)

    async def read(self) -> bytes:
        try:
            piece = await self._reply.read()
        except BaseException as error:
            self.broke_off = error
            raise
        if piece:
            self.pieces.append(piece)
        return piece


class ResponsePlayback:
    """Finds the recorded response to a request.

    If equal requests got different responses, they are served in turn, and then from the start again.

    Args:
        responses: The responses, in order.
    """

    def __init__(self, responses: Sequence[RecordedResponse]) -> None:
        self._by_request: dict[str, list[RecordedResponse]] = defaultdict(list)
        self._served: dict[str, int] = defaultdict(int)
        self._responses = responses
        self.asked = 0
        """Number of requests so far."""
        for one in responses:
            self._by_request[_digest(one.path, one.request)].append(one)

    def answer(self, path: str, request: Mapping[str, Any]) -> RecordedResponse:
        """Return the next recorded response to this request.

        Raises:
            NotRecorded: There is none.
        """
        self.asked += 1
        exact = _digest(path, request)
        digest = exact if exact in self._by_request else _digest("", None)
        recorded = self._by_request.get(digest)
        if recorded is None:
            raise NotRecorded(self._difference(path, request), "body")
        response = recorded[self._served[digest] % len(recorded)]
        self._served[digest] += 1
        return response

    def _difference(self, path: str, request: Mapping[str, Any]) -> str:
        paths = sorted({one.path for one in self._responses})
        if path not in paths:
            return (
                f"this request is not recorded: its path is {path}, recorded are {', '.join(paths) or 'none'}"
            )
        recorded = [one.request or {} for one in self._responses]
        fewest = min(
            (
                [name for name in sorted({*one, *request}) if one.get(name) != request.get(name)]
                for one in recorded
            ),
            key=len,
        )
        return f"this request is not recorded; the most similar one differs in {', '.join(fewest)}"


def _digest(path: str, request: Mapping[str, Any] | None) -> str:
    canonical = json.dumps([path, request], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
