"""A program beside the server that answers lines, one at a time, started with the first of them."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import Any, Final

logger = logging.getLogger(__name__)

GONE: Final = "the server goes away"


class PipedProgram:
    """Asks a program of ours; one that died is started anew with the next line.

    It is called from one thread at a time, but for :meth:`kill` and :meth:`end`.

    Args:
        module: Which, as ``python -m`` takes it. It answers each line with a line of JSON, an object that may
            announce the ``length`` of a body that follows.
        first: A line that it is sent before all others: what is not for the list of processes.
    """

    def __init__(self, module: str, first: bytes = b"") -> None:
        self._module = module
        self._first = first
        self._process: subprocess.Popen[bytes] | None = None
        self.ended = False
        """Whether it was ended for good."""

    @property
    def process_id(self) -> int | None:
        """The process, if one was started."""
        return None if self._process is None else self._process.pid

    def ask(self, line: bytes) -> tuple[dict[str, Any], bytes]:
        """The answer to a line: its object and its body.

        Raises:
            OSError: The program could not be started, or ended.
        """
        if self.ended:
            raise OSError(GONE)
        process = self._process or self._started()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            head = json.loads(process.stdout.readline() or b"null")
            body = b"" if head is None else process.stdout.read(head.get("length", 0))
            if head is None or len(body) < head.get("length", 0):
                raise OSError(f"{self._module} ended")
        except (OSError, ValueError) as error:
            self.forget()
            raise OSError(str(error)) from error
        return head, body

    def kill(self) -> None:
        """End the process; whoever waits for its answer is told that it ended. From any thread."""
        if self._process is not None:
            self._process.kill()

    def end(self) -> None:
        """The same for good: it is not started again."""
        self.ended = True
        self.kill()

    def forget(self) -> None:
        """End the process and let go of it; the next line starts another."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError as error:
                    logger.debug("a pipe to %s: %s", self._module, error)

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", self._module]
        process = self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert process.stdin is not None
        process.stdin.write(self._first)
        if self.ended:  # meanwhile
            process.kill()
        return process
