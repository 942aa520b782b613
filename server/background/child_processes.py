"""Child processes: one reads long records, one evaluates alternatives.

Each starts with its first request and answers one line at a time, so that neither delays a step.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import asdict
from typing import Any, Final

from spectator.child_program import GONE, ChildProgram
from spectator.clock import Clock
from spectator.episodes.alternatives import AnalysisDiverged, AnalysisRequest
from spectator.errors import JournalError, JournalUnavailable, StepTimeout
from spectator.journal.contract import Journal
from spectator.journal.pieces import Piece, PieceRequest, piece_of

from ..lru_cache import LruCache

logger = logging.getLogger(__name__)

READING_PROGRAM: Final = "spectator.journal.pieces"


class ReadingProcess:
    """Reads pieces of records, one at a time, in a child process.

    If that process cannot start, or dies, the piece is read here, and the next one starts it again.
    """

    def __init__(self, url: str, journal: Journal) -> None:
        self._program = ChildProgram((sys.executable, "-m", READING_PROGRAM), first=url)
        self._journal = journal

    @property
    def process_id(self) -> int | None:
        """The process id, if it runs."""
        return self._program.process_id

    async def read(self, wanted: PieceRequest) -> Piece:
        """Read a piece."""
        try:
            head, body = await self._program.ask(asdict(wanted))
        except OSError as error:
            if self._program.ended:
                raise JournalUnavailable(GONE) from error
            logger.warning("reading a record in the server's process: %s", error)
            return await self._read_here(wanted)
        if "error" not in head:
            return Piece(body, head["events"], head["size"], head["crc"])
        if head["damaged"]:
            return await self._read_here(wanted)  # raises, and the journal notes it for the operator
        raise JournalError(head["error"])

    async def _read_here(self, wanted: PieceRequest) -> Piece:
        texts = await self._journal.texts(wanted.episode_id, after_seq=wanted.after_seq, limit=wanted.limit)
        return await asyncio.to_thread(piece_of, texts, wanted.crc)

    async def aclose(self) -> None:
        """End the process."""
        await self._program.aclose()


ALTERNATIVES_PROGRAM: Final = "spectator.episodes.alternatives"

PATIENCE_S: Final = 30.0
"""Seconds that one decision may take; usually one second."""

IDLE_S: Final = 300.0
"""Seconds without a request after which the process ends; it holds about 100 MB."""

KEPT: Final = 1024
"""Cached answers, about 1 kB each."""

Key = tuple[str, str, int]
"""Episode id, epoch, and number of the decision's event."""


class AlternativesProcess:
    """Evaluates alternatives to decisions, one at a time, in a child process.

    Results are cached; concurrent requests for one decision share its result.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._program = ChildProgram((sys.executable, "-m", ALTERNATIVES_PROGRAM), answer_s=PATIENCE_S)
        self._kept: LruCache[Key, dict[str, Any]] = LruCache(KEPT)
        self._turn = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None
        self._resting: asyncio.Task[None] | None = None

    @property
    def process_id(self) -> int | None:
        """The process id, if it runs."""
        return self._program.process_id

    def known(self, key: Key) -> dict[str, Any] | None:
        """Return the cached alternatives to a decision, if any."""
        return self._kept.get(key)

    async def weigh(self, wanted: AnalysisRequest, key: Key) -> tuple[dict[str, Any], float]:
        """Return the alternatives to a decision as JSON, and the seconds that it took.

        Raises:
            AnalysisDiverged: See :meth:`spectator.episodes.alternatives.Analyses.alternatives`.
            StepTimeout: It took too long, or the process died twice.
        """
        async with self._turn:
            if (kept := self._kept.get(key)) is not None:
                return kept, 0.0
            began = self._clock.monotonic()
            answer = await self._ask(asdict(wanted))
            if "error" in answer:
                raise AnalysisDiverged(answer["error"])
            self._kept.keep(key, answer["alternatives"])
            return answer["alternatives"], self._clock.monotonic() - began

    async def aclose(self) -> None:
        """End the process."""
        if self._idle is not None:
            self._idle.cancel()
        await self._program.aclose()

    async def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        if self._idle is not None:
            self._idle.cancel()
        try:
            try:
                return (await self._program.ask(question))[0]
            except TimeoutError:
                raise
            except OSError as error:
                logger.warning("restarting the process that evaluates alternatives: %s", error)
                return (await self._program.ask(question))[0]
        except TimeoutError:
            raise StepTimeout(f"evaluating alternatives took longer than {PATIENCE_S:g} s") from None
        except OSError as error:
            raise StepTimeout(f"cannot evaluate alternatives now: {error}") from error
        finally:
            self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._rest)

    def _rest(self) -> None:
        self._resting = asyncio.create_task(self._program.stop())
