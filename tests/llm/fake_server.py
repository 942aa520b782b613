"""An endpoint for chat completions on a real socket, with a scripted brain and every way to fail.

By hand: ``python -m tests.llm.fake_server --brain obedient --port 8001``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tests.llm.brains import BRAINS, Brain, Said


class Mode(StrEnum):
    """What becomes of a request."""

    OK = "ok"
    SLOW = "slow"
    UNAUTHORIZED = "401"
    UNPAID = "402"
    UNKNOWN = "404"
    BUSY = "429"
    BUSY_FOR = "429 with Retry-After"
    NO_QUOTA = "429 that means no money"
    BROKEN = "500"
    CUT = "cut mid-stream"
    GARBAGE = "garbage"
    NOT_HTTP = "not HTTP"
    NEVER_ENDING = "never-ending"
    SILENT = "silent"
    EMPTY = "empty"
    REFUSAL = "refusal"
    WRONG_TOOL = "wrong tool"
    HUGE = "200 kB answer"
    ECHO = "repeats the key"
    REDIRECT = "redirect"
    ERROR_IN_STREAM = "error inside a 200"
    ABORTED = "finish_reason error"


@dataclass(slots=True)
class Received:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float
    left_at: float | None = None
    """When the client closed the connection before the answer was complete."""
    raw: bytes = b""


@dataclass(slots=True)
class FakeModelServer:
    """See :func:`serving`.

    Args:
        brain: Answers, where the mode lets it.
        mode: The mode of each request by its number, 0 the first.
        retry_after: Value of the header in :attr:`Mode.BUSY_FOR`.
        pause_s: Before each piece in :attr:`Mode.SLOW` and :attr:`Mode.NEVER_ENDING`.
        chunk: Characters of a streamed piece.
        reports_version: Whether its answers state the version of its weights; if not, each streamed piece has
            its tokens.
        engine: Answers the requests that it knows with a status and JSON, in place of the brain.
        at_half: Called in the middle of each streamed answer with the number of the request.
    """

    brain: Brain
    mode: Callable[[int], Mode] = lambda number: Mode.OK
    retry_after: str = "0"
    pause_s: float = 0.02
    chunk: int = 8
    reports_version: bool = True
    at_half: Callable[[int], None] | None = None
    engine: Callable[[Received], tuple[int, dict[str, Any]] | None] | None = None
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0
    base_url: str = ""

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The bodies of all requests."""
        return [request.body for request in self.received]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        self.open_connections += 1
        try:
            while (request := await _read_request(reader)) is not None:
                request.at = asyncio.get_running_loop().time()
                self.received.append(request)
                mode = self.mode(len(self.received) - 1)
                answering = asyncio.create_task(self._answer(mode, request, writer))
                gone = asyncio.create_task(_closed(reader))
                await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not answering.done() or isinstance(answering.exception(), ConnectionError):
                    request.left_at = asyncio.get_running_loop().time()
                    answering.cancel()
                gone.cancel()
                await asyncio.gather(answering, gone, return_exceptions=True)
                if writer.is_closing() or request.left_at is not None:
                    return
        except ConnectionError:
            pass
        finally:
            self.open_connections -= 1
            writer.close()

    async def _answer(self, mode: Mode, request: Received, writer: asyncio.StreamWriter) -> None:
        if mode is Mode.OK and self.engine is not None and (known := self.engine(request)) is not None:
            await _send(writer, known[0], "application/json", json.dumps(known[1]).encode())
            return
        match mode:
            case Mode.OK | Mode.SLOW | Mode.CUT | Mode.NEVER_ENDING:
                await self._say(self.brain(request.body), mode, request, writer)
            case Mode.ABORTED:
                await self._say(replace(self.brain(request.body), finish="error"), mode, request, writer)
            case Mode.EMPTY:
                await self._say(Said(), mode, request, writer)
            case Mode.REFUSAL:
                await self._say(Said(refusal="I cannot help with that."), mode, request, writer)
            case Mode.WRONG_TOOL:
                await self._say(Said(calls=[("fly_to_the_moon", {"speed": 9})]), mode, request, writer)
            case Mode.HUGE:
                await self._say(Said(text="and so on " * 20_000), mode, request, writer)
            case Mode.ECHO:
                await self._say(Said(text=f"You sent {request.headers}"), mode, request, writer)
            case Mode.SILENT:
                await asyncio.Event().wait()
            case Mode.GARBAGE:
                await _send(writer, 200, "text/html", b'<html><body>It works! {"choices": </body></html>')
            case Mode.NOT_HTTP:
                writer.write(
                    b"SSH-2.0-OpenSSH_9.2 " + request.headers.get("authorization", "").encode() + b"\r\n"
                )
                await writer.drain()
                writer.close()
            case Mode.REDIRECT:
                head = (
                    b"HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:9/v1\r\nContent-Length: 0\r\n\r\n"
                )
                writer.write(head)
                await writer.drain()
            case Mode.ERROR_IN_STREAM:
                await _send(
                    writer, 200, "text/event-stream", b'data: {"error": {"message": "out of memory"}}\n\n'
                )
            case _:
                await self._fail(mode, request, writer)

    async def _fail(self, mode: Mode, request: Received, writer: asyncio.StreamWriter) -> None:
        status = int(mode.value[:3])
        message = f"status {status} for {request.headers.get('authorization')}"
        code = "insufficient_quota" if mode is Mode.NO_QUOTA else "error"
        body = json.dumps({"error": {"message": message, "code": code}}).encode()
        extra = f"Retry-After: {self.retry_after}\r\n" if mode is Mode.BUSY_FOR else ""
        await _send(writer, status, "application/json", body, extra)

    async def _say(self, said: Said, mode: Mode, request: Received, writer: asyncio.StreamWriter) -> None:
        if request.body.get("stream"):
            await self._stream(said, mode, request, writer)
            return
        answer = whole_answer(said, request.body)
        if not self.reports_version:
            del answer["metadata"]
        body = json.dumps(answer).encode()
        if mode is Mode.SLOW:
            await asyncio.sleep(self.pause_s)
        if mode in (Mode.CUT, Mode.NEVER_ENDING):
            writer.write(_head(200, "application/json", len(body)) + body[: len(body) // 2])
            await writer.drain()
            if mode is Mode.NEVER_ENDING:
                await asyncio.Event().wait()
            writer.close()
            return
        await _send(writer, 200, "application/json", body)

    async def _stream(self, said: Said, mode: Mode, request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        events = list(streamed_answer(said, request.body, self.chunk))
        if not self.reports_version:
            events = list(_token_by_chunk(events))
        cut = len(events) // 2
        for number, event in enumerate(events):
            if mode in (Mode.SLOW, Mode.NEVER_ENDING):
                await asyncio.sleep(self.pause_s)
            if number == cut and mode is Mode.CUT:
                writer.close()
                return
            if number == cut and self.at_half is not None:
                await asyncio.sleep(0.02)  # so that the client has read the first half
                self.at_half(self.received.index(request))
            while number == cut and mode is Mode.NEVER_ENDING:
                _write_chunk(writer, b'data: {"choices":[{"delta":{"content":" and"}}]}\n\n')
                await writer.drain()
                await asyncio.sleep(self.pause_s)
            _write_chunk(writer, b"data: " + event + b"\n\n")
            await writer.drain()
        _write_chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def whole_answer(said: Said, body: dict[str, Any]) -> dict[str, Any]:
    """A completion."""
    message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
    if said.thought:
        message["reasoning_content"] = said.thought
    if said.refusal:
        message["refusal"] = said.refusal
    if said.calls:
        message["tool_calls"] = _native(said.calls)
    choice = {"index": 0, "message": message, "finish_reason": said.finish, **_tokens(said, body)}
    return {
        **_about(body),
        **said.served,
        "object": "chat.completion",
        "choices": [choice],
        "usage": usage_of(said, body),
    }


def streamed_answer(said: Said, body: dict[str, Any], chunk: int) -> Iterator[bytes]:
    """The events of a completion that forms."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": part} for part in _pieces(said.thought, chunk)]
    deltas += [{"content": part} for part in _pieces(said.text, chunk)]
    if said.refusal:
        deltas.append({"refusal": said.refusal})
    for index, call in enumerate(_native(said.calls)):
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        head = {"index": index, "id": call["id"], "function": {"name": name, "arguments": ""}}
        deltas.append({"tool_calls": [head]})
        for part in _pieces(arguments, chunk):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    for delta in deltas:
        yield _event(body, [{"index": 0, "delta": delta, "finish_reason": None}], **said.served)
    yield _event(
        body, [{"index": 0, "delta": {}, "finish_reason": said.finish, **_tokens(said, body)}], **said.served
    )
    if body.get("stream_options", {}).get("include_usage"):
        yield _event(body, [], usage=usage_of(said, body))


def _token_by_chunk(events: Sequence[bytes]) -> Iterator[bytes]:
    """The same events without versions, where each piece of text has one of the tokens, as with vLLM."""
    pieces = [json.loads(event) for event in events]
    tokens = [one for piece in pieces for choice in piece["choices"] for one in choice.pop("token_ids", ())]
    for piece in pieces:
        del piece["metadata"]
        for choice in piece["choices"]:
            choice.pop("logprobs", None)
            if tokens and choice["delta"].get("content"):
                choice["token_ids"] = [tokens.pop(0)]
            elif choice["finish_reason"]:
                choice["token_ids"] = tokens
        yield json.dumps(piece).encode()


def usage_of(said: Said, body: dict[str, Any]) -> dict[str, Any]:
    """Tokens, at four characters each."""
    written = len(said.text) + len(said.thought) + sum(len(json.dumps(call)) for call in said.calls)
    return {
        "prompt_tokens": len(json.dumps(body["messages"])) // 4,
        "completion_tokens": max(1, written // 4),
        "completion_tokens_details": {"reasoning_tokens": len(said.thought) // 4},
    }


def _native(calls: Sequence[tuple[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{name}_{number}",
            "type": "function",
            "function": {
                "name": name,
                "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
            },
        }
        for number, (name, arguments) in enumerate(calls)
    ]


def _about(body: dict[str, Any]) -> dict[str, Any]:
    about = {"id": "c-1", "model": body.get("model", ""), "metadata": {"weight_version": "w7"}}
    return {**about, "prompt_token_ids": [1, 2, 3]} if body.get("return_token_ids") else about


def _tokens(said: Said, body: dict[str, Any]) -> dict[str, Any]:
    count = max(1, len(said.text) // 4)
    tokens: dict[str, Any] = {}
    if body.get("logprobs"):
        tokens["logprobs"] = {"content": [{"token": "x", "logprob": -0.5 * n} for n in range(count)]}
    if body.get("return_token_ids"):
        tokens["token_ids"] = list(range(100, 100 + count))
    return tokens


def _event(body: dict[str, Any], choices: list[Any], **more: Any) -> bytes:
    return json.dumps(
        {**_about(body), "object": "chat.completion.chunk", "choices": choices, **more}
    ).encode()


def _pieces(text: str, size: int) -> Iterable[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def _head(status: int, content_type: str, length: int, extra: str = "") -> bytes:
    return (
        f"HTTP/1.1 {status} Status\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{extra}\r\n"
    ).encode()


async def _send(
    writer: asyncio.StreamWriter, status: int, content_type: str, body: bytes, extra: str = ""
) -> None:
    writer.write(_head(status, content_type, len(body), extra) + body)
    await writer.drain()


def _write_chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


async def _read_request(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(first.split(" ")[1], headers, json.loads(body or b"{}"), 0.0, raw=body)


async def _closed(reader: asyncio.StreamReader) -> None:
    """Return once the client has closed its side; clients here never send the next request early."""
    while not reader.at_eof():  # noqa: ASYNC110 - the stream has no event for it
        await asyncio.sleep(0.001)


@asynccontextmanager
async def serving(
    brain: Brain, modes: Iterable[Mode] | None = None, *, tls: ssl.SSLContext | None = None, **more: Any
) -> AsyncIterator[FakeModelServer]:
    """Run an endpoint on a free port of the loopback interface.

    Args:
        brain: Answers.
        modes: Modes of the first requests; the last one holds for all further ones. All are OK when left out.
        tls: The certificate of an endpoint over HTTPS.
        more: See :class:`FakeModelServer`.
    """
    script = list(modes or [Mode.OK])
    fake = FakeModelServer(brain, lambda number: script[min(number, len(script) - 1)], **more)
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        try:
            await fake.handle(reader, writer)
        except asyncio.CancelledError:
            return  # asyncio would log it as an error of this server

    listener = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    fake.base_url = (
        f"{'http' if tls is None else 'https'}://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
    )
    try:
        yield fake
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await listener.wait_closed()


async def _serve(brain: Brain, port: int, mode: Mode, pause_s: float) -> None:
    fake = FakeModelServer(brain, lambda number: mode, pause_s=pause_s)
    listener = await asyncio.start_server(fake.handle, "127.0.0.1", port)
    print(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1", flush=True)
    await listener.serve_forever()


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brain", choices=sorted(BRAINS), default="obedient")
    parser.add_argument("--mode", type=Mode, default=Mode.OK, help=", ".join(Mode))
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument(
        "--pause", type=float, default=0.02, help="seconds before each piece in the mode slow"
    )
    chosen = parser.parse_args()
    try:
        asyncio.run(_serve(BRAINS[chosen.brain], chosen.port, chosen.mode, chosen.pause))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()


def billed(fake: FakeModelServer) -> tuple[int, int]:
    """Tokens that an endpoint answered with, and the most of one answer."""
    each = []
    for body in fake.bodies:
        used = usage_of(fake.brain(body), body)
        each.append(used["prompt_tokens"] + used["completion_tokens"])
    return sum(each), max(each, default=0)
