"""Child processes: one reads long records, one evaluates alternatives.

Each starts with its first request and answers one line at a time, so that neither delays a step.
"""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Final

from spectator.clock import Clock
from spectator.episodes.alternatives import AnalysisDiverged, AnalysisRequest
from spectator.errors import EpisodeDamaged, JournalError, JournalUnavailable, StepTimeout
from spectator.journal.contract import Journal
from spectator.journal.pieces import Piece, PieceRequest, piece_of

from ..lru_cache import LruCache

logger = logging.getLogger(__name__)

GONE: Final = "the server is shutting down"


class PipedProgram:
    """A Python program that answers lines; if it dies, the next line starts it again.

    Call it from one thread at a time, except :meth:`kill` and :meth:`end`.

    Args:
        module: The program, as for ``python -m``. It answers each line with a line of JSON, an object that
            may announce the ``length`` of a body that follows.
        first: A line sent before all others, for what must not appear in the list of processes.
    """

    def __init__(self, module: str, first: bytes = b"") -> None:
        self._module = module
        self._first = first
        self._process: subprocess.Popen[bytes] | None = None
        self.ended = False
        """Whether it was ended permanently."""

    @property
    def process_id(self) -> int | None:
        """The process id, if it runs."""
        return None if self._process is None else self._process.pid

    def ask(self, line: bytes) -> tuple[dict[str, Any], bytes]:
        """Return the answer to a line: its object and its body.

        Raises:
            OSError: The program could not be started, or died.
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
        """Kill the process, from any thread; pending calls raise an error."""
        if self._process is not None:
            self._process.kill()

    def end(self) -> None:
        """Kill the process permanently, from any thread."""
        self.ended = True
        self.kill()

    def forget(self) -> None:
        """Kill the process and release it; the next line starts another."""
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
        if self.ended:  # ended while it started
            process.kill()
        return process


READING_PROGRAM: Final = "spectator.journal.pieces"


class ReadingProcess:
    """Reads pieces of records, one at a time, in a child process.

    If that process cannot start, or dies, the piece is read here, and the next one starts it again.
    """

    def __init__(self, url: str, journal: Journal) -> None:
        self._program = PipedProgram(READING_PROGRAM, json.dumps(url).encode() + b"\n")
        self._journal = journal
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reading-process")

    @property
    def process_id(self) -> int | None:
        """The process id, if it runs."""
        return self._program.process_id

    async def read(self, wanted: PieceRequest) -> Piece:
        """Read a piece.

        Raises:
            JournalError: The record cannot be read.
        """
        if self._program.ended:
            raise JournalUnavailable(GONE)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, wanted)
        except OSError as error:
            if self._program.ended:
                raise JournalUnavailable(GONE) from error
            logger.warning("reading a record in the server's process: %s", error)
        texts = await self._journal.texts(wanted.episode_id, after_seq=wanted.after_seq, limit=wanted.limit)
        return await asyncio.to_thread(piece_of, texts, wanted.crc)

    async def aclose(self) -> None:
        """End the process."""
        self._program.end()
        await asyncio.to_thread(self._thread.shutdown)
        self._program.forget()

    def _ask(self, wanted: PieceRequest) -> Piece:
        """Read a piece; raises :class:`OSError` if the process fails."""
        head, body = self._program.ask(json.dumps(asdict(wanted)).encode())
        if "error" in head:
            raise (EpisodeDamaged if head["damaged"] else JournalError)(head["error"])
        return Piece(body, head["events"], head["size"], head["crc"])


ALTERNATIVES_PROGRAM: Final = "spectator.episodes.alternatives"

PATIENCE_S: Final = 30.0
"""Seconds that one decision may take; usually one second."""

IDLE_S: Final = 300.0
"""Seconds without a request after which the process ends; it holds about 100 MB."""

KEPT: Final = 1024
"""Cached answers, about 1 kB each."""

Key = tuple[str, str, int]
"""Episode id, epoch, and number of the decision's event."""


@dataclass(frozen=True, slots=True)
class EvaluatedAlternatives:
    """Evaluated alternatives to a decision.

    Args:
        seconds: Time that it took; 0 if it was cached.
    """

    found: dict[str, Any]
    seconds: float


class AlternativesProcess:
    """Evaluates alternatives to decisions, one at a time, in a child process.

    Results are cached; concurrent requests for one decision share its result.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._program = PipedProgram(ALTERNATIVES_PROGRAM)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="alternatives-process")
        self._kept: LruCache[Key, dict[str, Any]] = LruCache(KEPT)
        self._turn = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None

    @property
    def process_id(self) -> int | None:
        """The process id, if it runs."""
        return self._program.process_id

    def known(self, key: Key) -> dict[str, Any] | None:
        """Return the cached alternatives to a decision, if any."""
        return self._kept.get(key)

    async def weigh(self, wanted: AnalysisRequest, key: Key) -> EvaluatedAlternatives:
        """Evaluate the alternatives to a decision.

        Raises:
            AnalysisDiverged: See :meth:`spectator.episodes.alternatives.Analyses.alternatives`.
            StepTimeout: It took too long, or the process died twice.
        """
        async with self._turn:
            if (kept := self._kept.get(key)) is not None:
                return EvaluatedAlternatives(kept, 0.0)
            began = self._clock.monotonic()
            answer = await self._ask(json.dumps(asdict(wanted)).encode())
            if "error" in answer:
                raise AnalysisDiverged(answer["error"])
            self._kept.keep(key, answer["alternatives"])
            return EvaluatedAlternatives(answer["alternatives"], self._clock.monotonic() - began)

    async def aclose(self) -> None:
        """End the process."""
        if self._idle is not None:
            self._idle.cancel()
        self._program.end()
        await asyncio.to_thread(self._thread.shutdown)
        self._program.forget()

    async def _ask(self, line: bytes) -> dict[str, Any]:
        if self._idle is not None:
            self._idle.cancel()
        try:
            async with asyncio.timeout(PATIENCE_S):
                try:
                    return await self._answer(line)
                except OSError as error:
                    logger.warning("restarting the process that evaluates alternatives: %s", error)
                    return await self._answer(line)
        except TimeoutError:
            self._program.kill()
            raise StepTimeout(f"evaluating alternatives took longer than {PATIENCE_S:g} s") from None
        except OSError as error:
            raise StepTimeout(f"cannot evaluate alternatives now: {error}") from error
        finally:
            self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._rest)

    async def _answer(self, line: bytes) -> dict[str, Any]:
        if self._program.ended:
            raise OSError(GONE)
        answer, _ = await asyncio.get_running_loop().run_in_executor(self._thread, self._program.ask, line)
        return answer

    def _rest(self) -> None:
        self._thread.submit(self._program.forget)
