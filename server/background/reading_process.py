"""The process beside the server that reads and packs long records, so that what is played is not held up."""

from __future__ import annotations

import asyncio
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Final

from spectator.errors import EpisodeDamaged, JournalError, JournalUnavailable
from spectator.journal.base import Journal
from spectator.journal.stores.pieces import Piece, WantedPiece, piece_of

from .piped_program import GONE, PipedProgram

logger = logging.getLogger(__name__)


PROGRAM: Final = "spectator.journal.stores.pieces"


class ReadingProcess:
    """Reads pieces of records, one at a time, in a process that is started with the first of them.

    Where that process cannot be started, or dies, a piece is read here, and the next one starts another.

    Args:
        url: Where the journal is.
        journal: The same, for what is read here.
    """

    def __init__(self, url: str, journal: Journal) -> None:
        self._program = PipedProgram(PROGRAM, json.dumps(url).encode() + b"\n")
        self._journal = journal
        self._one = ThreadPoolExecutor(1, thread_name_prefix="reading-process")

    @property
    def process_id(self) -> int | None:
        """The process that reads, if one was started."""
        return self._program.process_id

    async def read(self, wanted: WantedPiece) -> Piece:
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

    def _ask(self, wanted: WantedPiece) -> Piece:
        """Have a piece read; an :class:`OSError` says that the process is no use."""
        head, body = self._program.ask(json.dumps(asdict(wanted)).encode())
        if "error" in head:
            raise (EpisodeDamaged if head["damaged"] else JournalError)(head["error"])
        return Piece(body, head["events"], head["size"], head["crc"])
