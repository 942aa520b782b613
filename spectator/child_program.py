"""A child process that answers lines, such as a reader of records or a voice."""

from __future__ import annotations

import asyncio
import contextlib
import json
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from typing import Any, Final

GONE: Final = "the server is shutting down"

HEAD_BYTES: Final = 1024 * 1024
"""Longest first line of an answer."""


class ChildProgram:
    """Asks a program one question at a time, and restarts it after a failure.

    Questions and answers are lines of JSON. An answer is an object, which may announce the ``length`` of
    bytes that follow. The program starts with the first question. If it dies, or answers late or wrongly, it
    is killed, and the next question starts another. Cancelling a caller does not interrupt the program.

    Args:
        first: Sent before all questions, for what must not appear in the list of processes.
        greets: Whether it sends an object with ``ready``, or ``error``, before the first question.
        start_s: Seconds that it may take to greet.
        answer_s: Seconds that it may take for an answer.
        largest: Most bytes that may follow an answer.
        quiet: Whether to discard its standard error.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        first: str | None = None,
        greets: bool = False,
        start_s: float | None = None,
        answer_s: float | None = None,
        largest: int = 2**31,
        quiet: bool = False,
    ) -> None:
        self.ended = False
        """Whether it was ended permanently."""
        self._command = command
        self._first = first
        self._greets = greets
        self._start_s = start_s
        self._answer_s = answer_s
        self._largest = largest
        self._stderr = DEVNULL if quiet else None
        self._turn = asyncio.Lock()
        self._process: Process | None = None
        self._requests: set[asyncio.Task[tuple[dict[str, Any], bytes]]] = set()

    @property
    def process_id(self) -> int | None:
        """The process id, if it runs."""
        return None if self._process is None else self._process.pid

    async def ask(self, question: Any) -> tuple[dict[str, Any], bytes]:
        """Return the answer to a question: its object and the bytes that follow.

        Raises:
            TimeoutError: It took too long.
            OSError: It could not be started, died, or sent an invalid answer.
        """
        request = asyncio.create_task(self._in_turn(json.dumps(question).encode()))
        self._requests.add(request)
        request.add_done_callback(self._over)
        return await asyncio.shield(request)

    async def stop(self) -> None:
        """Kill the process after the current question; the next one starts another."""
        async with self._turn:
            await self._kill()

    async def aclose(self) -> None:
        """Kill the process permanently; pending questions fail."""
        self.ended = True
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        await asyncio.gather(*self._requests, return_exceptions=True)
        await self._kill()

    def _over(self, request: asyncio.Task[tuple[dict[str, Any], bytes]]) -> None:
        self._requests.discard(request)
        if not request.cancelled():
            request.exception()  # raised in the caller, which may be gone

    async def _in_turn(self, line: bytes) -> tuple[dict[str, Any], bytes]:
        async with self._turn:
            try:
                return await self._exchange(line)
            except (OSError, EOFError, ValueError) as error:
                await self._kill()
                if self.ended:
                    raise OSError(GONE) from error
                if isinstance(error, OSError):
                    raise
                raise OSError(
                    "the process died"
                    if isinstance(error, EOFError)
                    else "the process sent an invalid answer"
                ) from error

    async def _exchange(self, line: bytes) -> tuple[dict[str, Any], bytes]:
        if self.ended:
            raise OSError(GONE)
        if self._process is None:
            async with asyncio.timeout(self._start_s):
                await self._start()
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        async with asyncio.timeout(self._answer_s):
            if process.stdin.is_closing():
                raise EOFError
            process.stdin.write(line + b"\n")
            await process.stdin.drain()
            head = await _head(process)
            length = head.get("length", 0)
            if not isinstance(length, int) or not 0 <= length <= self._largest:
                raise ValueError(f"invalid length {length!r}")
            return head, await process.stdout.readexactly(length)

    async def _start(self) -> None:
        process = self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=PIPE, stdout=PIPE, stderr=self._stderr, start_new_session=True, limit=HEAD_BYTES,
        )  # fmt: skip
        if self.ended:
            raise OSError(GONE)
        if self._first is not None:
            assert process.stdin is not None
            process.stdin.write(json.dumps(self._first).encode() + b"\n")
        if self._greets and "ready" not in (head := await _head(process)):
            raise OSError(str(head.get("error", "the process sent an invalid answer")))

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _head(process: Process) -> dict[str, Any]:
    assert process.stdout is not None
    if not (line := await process.stdout.readline()):
        raise EOFError
    head = json.loads(line)
    if not isinstance(head, dict):
        raise ValueError("not an object")
    return head
