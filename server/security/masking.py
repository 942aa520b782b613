"""Hidden names: what stands in their place in everything that leaves, and the middleware for HTTP's answers.

The record keeps every name. A name is masked where it is a word of its own, in whatever text it stands; names
of fields, and values that are the protocol's own, such as an event's type, stay as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Protocol

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spectator.events import decode_json, encode_json

HIDDEN: Final = "(name hidden)"
"""What stands where a hidden name stood."""

FIELD_NAME: Final = re.compile(r"[a-z][a-z0-9_.\-]*")

PROTOCOL_FIELDS: Final = frozenset(
    {
        "agent", "at", "captain", "captain_preset", "environment", "environment_version", "episode_id",
        "epoch", "frame", "id", "opponent", "opponent_choice", "pace", "pack", "policy", "reason", "source",
        "speaks", "status", "type",
    }
)  # fmt: skip
"""Fields whose value stays as it is where it looks like a field's name itself."""

FREE: Final = frozenset({"action", "glance", "observation", "world"})
"""Fields below which nothing is the protocol's own."""

PRIVATE_PATHS: Final = (
    "/operator", "/reset", "/step", "/state", "/mcp", "/schema", "/metadata", "/envs", "/pooled",
    "/openapi.json",
)  # fmt: skip
"""Answers to the operator, to a client about its own environment, and what only says how to ask."""

JSON: Final = frozenset({"application/json", "application/problem+json"})
NDJSON: Final = "application/x-ndjson"

DIGEST_HEADER: Final = "Spectator-Digest"
"""Header with the last digest of a record; a masked copy has another."""


class NameMask:
    """Masks hidden names.

    Args:
        names: Exactly as they are shown.

    >>> mask = NameMask({"Bo"})
    >>> mask.text("Bo beats Bob"), mask.json('{"label":"Bo","type":"Bo?","Bo":1}')
    ('(name hidden) beats Bob', '{"label":"(name hidden)","type":"(name hidden)?","(name hidden)":1}')
    """

    def __init__(self, names: Collection[str] = ()) -> None:
        longest_first = sorted(names, key=lambda name: (-len(name), name))
        self._names = tuple(longest_first)
        self._written = tuple(json.dumps(name, ensure_ascii=False)[1:-1] for name in longest_first)
        self._words = re.compile("|".join(map(_word, longest_first))) if longest_first else None

    def __bool__(self) -> bool:
        return self._words is not None

    def text(self, text: str) -> str:
        """``text`` without the names."""
        return text if self._words is None else self._words.sub(HIDDEN, text)

    def json(self, text: str) -> str:
        """JSON text without the names; the same object where there is none in it."""
        if not any(written in text for written in self._written):
            return text
        shown = decode_json(text)
        masked = self.value(shown)
        return text if masked == shown else encode_json(masked)

    def value(self, value: Any, *, free: bool = False) -> Any:
        """A JSON value without the names.

        Args:
            value: As JSON is read.
            free: Whether nothing in it is the protocol's own.
        """
        if self._words is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self._key(name): self._field(name, one, free) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(one, free=free) for one in value]
        return value

    def forming(self, text: str, *, cut: bool, over: bool) -> str:
        """Text that is still written: what may be a part of a name at one of its ends is left out.

        Args:
            text: What was written so far.
            cut: Whether its beginning was cut off.
            over: Whether nothing more follows.

        >>> NameMask({"Bo Peep"}).forming("Peep sees Bo P", cut=True, over=False)
        ' sees '
        """
        shown = self.text(text)
        for name in self._names:
            for size in range(len(name) - 1, 0, -1):
                if cut and shown.startswith(name[-size:]):
                    shown, cut = shown[size:], False
                if not over and shown.endswith(name[:size]):
                    shown, over = shown[:-size], True
        return shown

    def _key(self, name: str) -> str:
        return name if FIELD_NAME.fullmatch(name) else self.text(name)

    def _field(self, name: str, value: Any, free: bool) -> Any:
        if not free and name in PROTOCOL_FIELDS and isinstance(value, str) and FIELD_NAME.fullmatch(value):
            return value
        return self.value(value, free=free or name in FREE)


def _word(name: str) -> str:
    before = r"(?<!\w)" if re.match(r"\w", name) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", name) else ""
    return f"{before}{re.escape(name)}{after}"


class ShowsNames(Protocol):
    """As much of the operator's orders as whoever shows names needs."""

    @property
    def mask(self) -> NameMask:
        """Masks the names that are hidden now; another object after every change."""
        ...


class MaskedAnswers:
    """Masks hidden names in what is answered as JSON or as lines of it.

    Args:
        app: The application behind it.
        mask_for: The mask for whoever sent the request of this scope.
    """

    def __init__(self, app: ASGIApp, mask_for: Callable[[Scope], NameMask]) -> None:
        self._app = app
        self._mask_for = mask_for

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; names are masked in its answer."""
        if scope["type"] == "http" and not _is_private(scope):
            mask = self._mask_for(scope)
            if mask:
                send = _MaskedAnswer(mask, send)
        await self._app(scope, receive, send)


class _MaskedAnswer:
    """Sends one answer with names masked: JSON once it is whole, lines as each of them is."""

    def __init__(self, mask: NameMask, send: Send) -> None:
        self._mask = mask
        self._send = send
        self._start: Message | None = None
        self._is_lines = self._is_json = False
        self._rest = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._begin(message)
        elif message["type"] != "http.response.body" or not (self._is_json or self._is_lines):
            await self._send(message)
        elif self._is_lines:
            await self._pass_lines(message)
        else:
            await self._pass_whole(message)

    async def _begin(self, start: Message) -> None:
        media_type = Headers(raw=start["headers"]).get("content-type", "").partition(";")[0].strip()
        self._is_json, self._is_lines = media_type in JSON, media_type == NDJSON
        if self._is_lines:
            del MutableHeaders(scope=start)[DIGEST_HEADER]
        if self._is_json:
            self._start = start  # its length is not known yet
        else:
            await self._send(start)

    async def _pass_lines(self, message: Message) -> None:
        whole, end, rest = (self._rest + message.get("body", b"")).rpartition(b"\n")
        self._rest = rest
        body = whole + end
        if not message.get("more_body", False):
            body, self._rest = body + rest, b""
        lines = [self._mask.json(line) if line else line for line in body.decode().split("\n")]
        await self._send({**message, "body": "\n".join(lines).encode()})

    async def _pass_whole(self, message: Message) -> None:
        self._rest += message.get("body", b"")
        if message.get("more_body", False):
            return
        body = self._mask.json(self._rest.decode()).encode() if self._rest else b""
        if self._start is not None:
            headers = MutableHeaders(scope=self._start)
            if "content-length" in headers and body:
                headers["content-length"] = str(len(body))
            start, self._start = self._start, None
            await self._send(start)
        await self._send({**message, "body": body})


def _is_private(scope: Scope) -> bool:
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    return any(path == one or path.startswith(f"{one}/") for one in PRIVATE_PATHS)
