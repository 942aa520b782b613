"""Processes beside the server: one reads long records, one weighs alternatives.

Each answers one line at a time and is started with the first, so that neither delays a step.
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


READING_PROGRAM: Final = "spectator.journal.pieces"


class ReadingProcess:
    """Reads pieces of records, one at a time, in a process that is started with the first of them.

    Where that process cannot be started, or dies, a piece is read here, and the next one starts another.

    Args:
        url: Where the journal is.
        journal: The same, for what is read here.
    """

    def __init__(self, url: str, journal: Journal) -> None:
        self._program = PipedProgram(READING_PROGRAM, json.dumps(url).encode() + b"\n")
        self._journal = journal
        self._one = ThreadPoolExecutor(1, thread_name_prefix="reading-process")

    @property
    def process_id(self) -> int | None:
        """The process that reads, if one was started."""
        return self._program.process_id

    async def read(self, wanted: PieceRequest) -> Piece:
        """Read a piece.

        Raises:
            JournalError: The record cannot be read.
        """
        if self._program.ended:
            raise JournalUnavailable(GONE)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._one, self._ask, wanted)
        except OSError as error:
            if self._program.ended:
                raise JournalUnavailable(GONE) from error
            logger.warning("a record is read by the server itself: %s", error)
        texts = await self._journal.texts(wanted.episode_id, after_seq=wanted.after_seq, limit=wanted.limit)
        return await asyncio.to_thread(piece_of, texts, wanted.crc)

    async def aclose(self) -> None:
        """End the process."""
        self._program.end()
        await asyncio.to_thread(self._one.shutdown)
        self._program.forget()

    def _ask(self, wanted: PieceRequest) -> Piece:
        """Have a piece read; an :class:`OSError` says that the process is no use."""
        head, body = self._program.ask(json.dumps(asdict(wanted)).encode())
        if "error" in head:
            raise (EpisodeDamaged if head["damaged"] else JournalError)(head["error"])
        return Piece(body, head["events"], head["size"], head["crc"])


ALTERNATIVES_PROGRAM: Final = "spectator.episodes.alternatives"

PATIENCE_S: Final = 30.0
"""How long one decision may take; it takes one second as a rule."""

IDLE_S: Final = 300.0
"""How long the process stays without being asked: it holds about 100 MB."""

KEPT: Final = 1024
"""Answers that are kept, of about 1 kB each."""

Key = tuple[str, str, int]
"""An episode, the identity of its numbering, and the number of a decision's event."""


@dataclass(frozen=True, slots=True)
class WeighedAlternatives:
    """What came of a decision's weighing.

    Args:
        told: See :class:`spectator.environments.contract.Alternatives`, as plain JSON.
        seconds: How long it took; 0 where it was known.
    """

    told: dict[str, Any]
    seconds: float


class AlternativesProcess:
    """Weighs decisions, one at a time, in a process that is started with the first of them.

    What was weighed is kept; whoever asks while it is weighed waits for the same answer.

    Args:
        clock: Measures, and says when the process has been idle for long.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._program = PipedProgram(ALTERNATIVES_PROGRAM)
        self._one = ThreadPoolExecutor(1, thread_name_prefix="alternatives-process")
        self._kept: LruCache[Key, dict[str, Any]] = LruCache(KEPT)
        self._turn = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None

    @property
    def process_id(self) -> int | None:
        """The process, if one was started and is not idle for long."""
        return self._program.process_id

    def known(self, key: Key) -> dict[str, Any] | None:
        """The alternatives of a decision, where they are kept."""
        return self._kept.get(key)

    async def weigh(self, wanted: AnalysisRequest, key: Key) -> WeighedAlternatives:
        """Weigh a decision.

        Args:
            wanted: The decision.
            key: What it is known by afterwards.

        Raises:
            AnalysisDiverged: See :meth:`spectator.episodes.alternatives.Analyses.alternatives`.
            StepTimeout: It took too long, or the process died twice.
        """
        async with self._turn:
            if (kept := self._kept.get(key)) is not None:
                return WeighedAlternatives(kept, 0.0)
            began = self._clock.monotonic()
            told = await self._asked(json.dumps(asdict(wanted)).encode())
            if "error" in told:
                raise AnalysisDiverged(told["error"])
            self._kept.keep(key, told["alternatives"])
            return WeighedAlternatives(told["alternatives"], self._clock.monotonic() - began)

    async def aclose(self) -> None:
        """End the process."""
        if self._idle is not None:
            self._idle.cancel()
        self._program.end()
        await asyncio.to_thread(self._one.shutdown)
        self._program.forget()

    async def _asked(self, line: bytes) -> dict[str, Any]:
        if self._idle is not None:
            self._idle.cancel()
        try:
            async with asyncio.timeout(PATIENCE_S):
                try:
                    return await self._answer(line)
                except OSError as error:
                    logger.warning("decisions are weighed by another process: %s", error)
                    return await self._answer(line)
        except TimeoutError:
            self._program.kill()
            raise StepTimeout(f"a decision took longer than {PATIENCE_S:g} s to weigh") from None
        except OSError as error:
            raise StepTimeout(f"decisions cannot be weighed now: {error}") from error
        finally:
            self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._rest)

    async def _answer(self, line: bytes) -> dict[str, Any]:
        if self._program.ended:
            raise OSError(GONE)
        told, _ = await asyncio.get_running_loop().run_in_executor(self._one, self._program.ask, line)
        return told

    def _rest(self) -> None:
        self._one.submit(self._program.forget)
