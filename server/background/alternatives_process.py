"""The process beside the server that weighs what else could have been decided, so that no play waits."""

from __future__ import annotations

import asyncio
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Final

from spectator.clock import Clock
from spectator.episodes.replay.alternatives import CannotFollow, Wanted
from spectator.errors import StepTimeout

from ..recently_used import RecentlyUsed
from .piped_program import GONE, PipedProgram

logger = logging.getLogger(__name__)

PROGRAM: Final = "spectator.episodes.replay.alternatives"

PATIENCE_S: Final = 30.0
"""How long one decision may take; it takes one second as a rule."""

IDLE_S: Final = 300.0
"""How long the process stays without being asked: it holds about 100 MB."""

KEPT: Final = 1024
"""Answers that are kept, of about 1 kB each."""

Key = tuple[str, str, int]
"""An episode, the identity of its numbering, and the number of a decision's event."""


@dataclass(frozen=True, slots=True)
class Weighing:
    """What came of a decision's weighing.

    Args:
        told: See :class:`spectator.environments.alternatives.Alternatives`, as plain JSON.
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
        self._program = PipedProgram(PROGRAM)
        self._one = ThreadPoolExecutor(1, thread_name_prefix="alternatives-process")
        self._kept: RecentlyUsed[Key, dict[str, Any]] = RecentlyUsed(KEPT)
        self._turn = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None

    @property
    def process_id(self) -> int | None:
        """The process, if one was started and is not idle for long."""
        return self._program.process_id

    def known(self, key: Key) -> dict[str, Any] | None:
        """The alternatives of a decision, where they are kept."""
        return self._kept.get(key)

    async def weigh(self, wanted: Wanted, key: Key) -> Weighing:
        """Weigh a decision.

        Args:
            wanted: The decision.
            key: What it is known by afterwards.

        Raises:
            CannotFollow: See :meth:`spectator.episodes.replay.alternatives.Analyses.alternatives`.
            StepTimeout: It took too long, or the process died twice.
        """
        async with self._turn:
            if (kept := self._kept.get(key)) is not None:
                return Weighing(kept, 0.0)
            began = self._clock.monotonic()
            told = await self._asked(json.dumps(asdict(wanted)).encode())
            if "error" in told:
                raise CannotFollow(told["error"])
            self._kept.keep(key, told["alternatives"])
            return Weighing(told["alternatives"], self._clock.monotonic() - began)

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
