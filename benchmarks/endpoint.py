"""Chat-completions endpoints for measurements, each in its own process.

:class:`Endpoint` has fixed answers and costs as little as Python allows: on uvloop 10 to 20 us of processor
time per answer, without the kernel's. :class:`ScriptedModel` plays legal actions and answers the same
question the same.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, cast

import orjson
import uvloop

TOKENS = 64
"""Tokens of every answer."""


class Endpoint(asyncio.Protocol):
    """An endpoint with fixed answers, as cheap as Python allows."""

    def __init__(self, pause_s: float, latency_s: float) -> None:
        self._pause_s = pause_s
        self._latency_s = latency_s
        self._loop = asyncio.get_running_loop()
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's derives from nothing of asyncio's

    def data_received(self, data: bytes) -> None:
        """Answer every complete request."""
        self._buffer = self._buffer + data if self._buffer else data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            if len(self._buffer) < end + 4 + length:
                return
            body, self._buffer = self._buffer[end + 4 : end + 4 + length], self._buffer[end + 4 + length :]
            self._answer(body)

    def _answer(self, body: bytes) -> None:
        assert self._transport is not None
        if b'"stream":true' in body:
            self._loop.create_task(self._stream(self._transport, body))
            return
        plain, train = (CALL, CALL_TRAIN) if b'"name":"say"' in body else (PLAIN, TRAIN)
        answer = train if b'"logprobs"' in body else plain
        if self._latency_s:
            self._loop.call_later(self._latency_s, self._transport.write, answer)
        else:
            self._transport.write(answer)

    async def _stream(self, transport: asyncio.Transport, body: bytes) -> None:
        transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for chunk in STREAM_CALL if b'"tools":' in body else STREAM_TEXT:
            transport.write(chunk)
            await asyncio.sleep(self._pause_s)
        usage = b'"usage":{"prompt_tokens":%d,"completion_tokens":%d}' % (len(body) // 3, TOKENS)
        transport.write(_chunk(b'{"choices":[{"delta":{},"finish_reason":"stop"}],%b}' % usage))
        transport.write(_chunk(b"[DONE]"))
        transport.write(b"0\r\n\r\n")


def _response(value: Any) -> bytes:
    body = json.dumps(value).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


def _completion(**choice: Any) -> dict[str, Any]:
    message = {"content": "word " * TOKENS}
    return {
        "id": "c-1",
        "model": "bench",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", **choice}],
        "usage": {"prompt_tokens": 1_000, "completion_tokens": TOKENS},
    }


def _chunk(value: bytes) -> bytes:
    event = b"data: " + value + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(event), event)


def _stream(deltas: list[dict[str, Any]]) -> list[bytes]:
    return [_chunk(json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode()) for delta in deltas]


_SAID: dict[str, Any] = {
    "message": {
        "content": "word " * (TOKENS - 16),
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "say", "arguments": '{"reason": "It is due.", "text": "ACTION: 1"}'},
            }
        ],
    },
    "finish_reason": "tool_calls",
}
"""A legal action of the world "counting", in any state."""

_TOKENS: dict[str, Any] = {
    "token_ids": list(range(TOKENS)),
    "logprobs": {
        "content": [{"token": "word", "logprob": -0.12345678, "bytes": [119]} for _ in range(TOKENS)]
    },
}

PLAIN = _response(_completion())
TRAIN = _response(_completion(**_TOKENS))
CALL = _response(_completion(**_SAID))
CALL_TRAIN = _response(_completion(**_SAID, **_TOKENS))
STREAM_TEXT = _stream([{"content": "word "}] * TOKENS)
STREAM_CALL = _stream(
    [
        *[{"reasoning_content": "thinking "}] * TOKENS,
        {"tool_calls": [{"id": "c", "function": {"name": "play_delivery", "arguments": '{"reason": "go"}'}}]},
    ]
)


NEXT = re.compile(r'"next": ?(\d+)')
SAY = re.compile(r"Say (\d+)\Z")


class ScriptedModel(Endpoint):
    """An endpoint that plays legal actions, drawn from the conversation's digest and the request's seed.

    It takes a legal tool and arguments that its schema allows. If a world of numbers names the next one, it
    nearly always says that.
    """

    def _answer(self, body: bytes) -> None:
        assert self._transport is not None
        said = orjson.dumps(completion(orjson.loads(body)))
        answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
            len(said),
            said,
        )
        self._loop.call_later(self._latency_s, self._write, answer)

    def _write(self, answer: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():  # clients may be killed
            self._transport.write(answer)


def completion(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a chat-completions request."""
    asked = orjson.dumps([body["messages"], body.get("seed")], option=orjson.OPT_SORT_KEYS)
    draw = int.from_bytes(sha256(asked).digest())
    message: dict[str, Any] = {"role": "assistant", "content": None}
    tools = [tool["function"] for tool in body.get("tools") or ()]
    if tools:
        tool = tools[draw % len(tools)]
        arguments = _value(tool["parameters"], draw // 7, _named(NEXT, body))
        call = {"name": tool["name"], "arguments": json.dumps(arguments)}
        message["tool_calls"] = [{"id": "call", "type": "function", "function": call}]
    else:
        message["content"] = str(_named(SAY, body) + (draw % 7 == 0))
    return {
        "id": "c",
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if tools else "stop"}],
        "usage": {"prompt_tokens": len(asked) // 4, "completion_tokens": 16},
    }


def _named(pattern: re.Pattern[str], body: Mapping[str, Any]) -> int:
    """Return the number in the newest message that matches ``pattern``."""
    for message in reversed(body["messages"]):
        if found := pattern.findall(str(message.get("content"))):
            return int(found[-1])
    return 0


def _value(schema: Mapping[str, Any], draw: int, following: int) -> Any:
    """Return a value that ``schema`` allows."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][draw % len(schema["enum"])]
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return _value(schema[several][draw % len(schema[several])], draw // 3, following)
    match schema.get("type"):
        case "object":
            names = schema.get("required", ())
            fields = schema.get("properties", {})
            return {name: _value(fields[name], draw >> n, following) for n, name in enumerate(names)}
        case "integer" | "number":
            least = int(schema.get("minimum", 0))
            return least + draw % (int(schema.get("maximum", least + 10)) - least + 1)
        case "boolean":
            return bool(draw % 2)
        case "array":
            item = schema.get("items", {})
            return [_value(item, draw >> n, following) for n in range(int(schema.get("minItems", 0)))]
        case "null":
            return None
    return f"ACTION: {following + (draw % 5 == 0)}"


async def _serve(make: Callable[[], Endpoint]) -> None:
    """Serve on a free port and print it."""
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(make, "127.0.0.1", 0, backlog=1024)
    print(listener.sockets[0].getsockname()[1], flush=True)
    await listener.serve_forever()


@contextmanager
def _process(*arguments: str) -> Iterator[int]:
    """Run this module in a process of its own; yields its port."""
    command = [sys.executable, "-m", "benchmarks.endpoint", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@contextmanager
def endpoint(pause_s: float = 0.0, latency_s: float = 0.0) -> Iterator[int]:
    """Run an endpoint with fixed answers in a process of its own; yields its port.

    Args:
        pause_s: Seconds between two pieces of a stream.
        latency_s: Seconds before a whole answer.
    """
    with _process("fixed", str(latency_s), str(pause_s)) as port:
        yield port


@contextmanager
def scripted_model(latency_s: float = 0.0) -> Iterator[str]:
    """Run a :class:`ScriptedModel` in a process of its own; yields its base URL.

    Args:
        latency_s: Seconds before an answer.
    """
    with _process("scripted", str(latency_s)) as port:
        yield f"http://127.0.0.1:{port}/v1"


def main() -> None:
    """Serve: ``fixed LATENCY_S PAUSE_S`` or ``scripted LATENCY_S``."""
    kind, latency_s, *pause_s = sys.argv[1:]
    if kind == "scripted":
        uvloop.run(_serve(lambda: ScriptedModel(0.0, float(latency_s))))
    else:
        uvloop.run(_serve(lambda: Endpoint(float(pause_s[0]), float(latency_s))))


if __name__ == "__main__":
    main()
