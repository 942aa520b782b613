"""An endpoint for measurements, in a process of its own, that costs as little as Python allows.

On uvloop a whole answer takes it 10 to 20 us of its own processor time, beside the kernel's.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import uvloop

TOKENS = 64
"""Tokens of every answer."""


class Endpoint(asyncio.Protocol):
    """An endpoint that costs as little as Python allows; its answers are made once."""

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
        """Answer every request that is complete."""
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
"""A legal action of the world "counting", whatever its state."""

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


async def serve(pause_s: float, latency_s: float) -> None:
    """Run the endpoint; prints its port."""
    listener = await asyncio.get_running_loop().create_server(
        lambda: Endpoint(pause_s, latency_s), "127.0.0.1", 0, backlog=1024
    )
    print(listener.sockets[0].getsockname()[1], flush=True)
    await listener.serve_forever()


@contextmanager
def endpoint(pause_s: float = 0.0, latency_s: float = 0.0) -> Iterator[int]:
    """An endpoint in a process of its own; yields its port.

    Args:
        pause_s: Seconds between two pieces of a stream.
        latency_s: Seconds before a whole answer.
    """
    command = [sys.executable, "-m", "benchmarks.endpoint", str(pause_s), str(latency_s)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(float(sys.argv[1]), float(sys.argv[2])))
