"""An endpoint that plays by what it is shown, and answers the same question the same.

It takes a legal tool and arguments that its schema allows, drawn from the digest of the conversation and the
seed of the request; where a world of numbers names the next one, it says that nearly always.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import orjson
import uvloop

from benchmarks.endpoint import Endpoint

NEXT = re.compile(r'"next": ?(\d+)')
SAY = re.compile(r"Say (\d+)\Z")


class ScriptedModel(Endpoint):
    """Answers every question by what it holds."""

    def _answer(self, body: bytes) -> None:
        assert self._transport is not None
        said = orjson.dumps(completion(orjson.loads(body)))
        answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
            len(said),
            said,
        )
        self._loop.call_later(self._latency_s, self._write, answer)

    def _write(self, answer: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():  # whoever asked may be dead
            self._transport.write(answer)


def completion(body: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a chat-completions request."""
    told = orjson.dumps([body["messages"], body.get("seed")], option=orjson.OPT_SORT_KEYS)
    draw = int.from_bytes(sha256(told).digest())
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
        "usage": {"prompt_tokens": len(told) // 4, "completion_tokens": 16},
    }


def _named(pattern: re.Pattern[str], body: Mapping[str, Any]) -> int:
    """The number that the newest message with one names."""
    for message in reversed(body["messages"]):
        if found := pattern.findall(str(message.get("content"))):
            return int(found[-1])
    return 0


def _value(schema: Mapping[str, Any], draw: int, following: int) -> Any:
    """A value that ``schema`` allows."""
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


async def _serve(latency_s: float) -> None:
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: ScriptedModel(0.0, latency_s), "127.0.0.1", 0)
    print(listener.sockets[0].getsockname()[1], flush=True)
    await listener.serve_forever()


@contextmanager
def scripted_model(latency_s: float = 0.0) -> Iterator[str]:
    """The endpoint in a process of its own; yields its address."""
    command = [sys.executable, "-m", "benchmarks.scripted_model", str(latency_s)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    uvloop.run(_serve(float(sys.argv[1])))
