"""What a form of requests and answers must do, and the form of chat completions, which is everybody's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from spectator.llm.address import Address
from spectator.llm.chat import ChatRequest
from spectator.llm.secret import ApiKey
from spectator.llm.wire import encode_request

Chunk = Mapping[str, Any]
"""A chunk of a chat completion, or a whole one."""


class Translation(Protocol):
    """Turns the pieces of one answer into chunks of a chat completion."""

    def chunks(self, piece: Any) -> Iterable[Chunk]:
        """The chunks that a decoded piece says: an event of the stream, or the whole answer.

        Raises:
            EndpointError: It reports an error instead, or is nothing of this form.
        """
        ...


class WireForm(Protocol):
    """How one kind of endpoint is asked."""

    def url(self, address: Address, session: str | None, request: ChatRequest) -> str:
        """Where the request goes; raises as :meth:`Address.url` does."""
        ...

    def key_header(self, key: ApiKey) -> tuple[str, str]:
        """The header that carries the key."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """What else the head of each request says."""
        ...

    def encode(self, request: ChatRequest) -> bytes:
        """The body of the request.

        Raises:
            TypeError: Something in it is not JSON.
        """
        ...

    def translation(self) -> Translation | None:
        """For one answer; ``None`` where it needs none."""
        ...


class OpenAIForm:
    """Chat completions, as OpenAI began them and most others take them."""

    headers: Mapping[str, str] = {}

    def url(self, address: Address, session: str | None, request: ChatRequest) -> str:
        """See :meth:`WireForm.url`."""
        return address.url(session)

    def key_header(self, key: ApiKey) -> tuple[str, str]:
        """See :meth:`WireForm.key_header`."""
        return "Authorization", key.header()

    encode = staticmethod(encode_request)

    def translation(self) -> Translation | None:
        """Nothing is to be translated."""
        return None


def delta(finish: str | None = None, **message: Any) -> dict[str, Any]:
    """A chunk whose message grew by ``message``."""
    return {"choices": [{"delta": message, "finish_reason": finish}]}


def called(index: int, **call: Any) -> dict[str, Any]:
    """A chunk in which the call at ``index`` grew; ``name`` and ``arguments`` are its function's."""
    function = {name: call.pop(name) for name in ("name", "arguments") if name in call}
    return delta(tool_calls=[{"index": index, "type": "function", **call, "function": function}])


def joined(turns: Iterable[tuple[str, list[dict[str, Any]]]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """``(role, parts)`` with neighbours of one role made one, as roles must alternate; none is empty."""
    held: tuple[str, list[dict[str, Any]]] | None = None
    for role, parts in turns:
        if not parts:
            continue
        if held is not None and held[0] == role:
            held[1].extend(parts)
            continue
        if held is not None:
            yield held
        held = role, list(parts)
    if held is not None:
        yield held


def count(value: Any) -> int:
    """A number of tokens; 0 where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
