"""The process beside the server that reads and packs long records, so that what is played is not held up."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Final

from spectator.errors import EpisodeDamaged, JournalError, JournalUnavailable
from spectator.journal.base import Journal
from spectator.journal.stores.pieces import Piece, WantedPiece, piece_of

logger = logging.getLogger(__name__)

GONE: Final = "the server goes away"

PROGRAM: Final = "spectator.journal.stores.pieces"


class ReadingProcess:
    """Reads pieces of records, one at a time, in a process that is started with the first of them.

    Where that process cannot be started, or dies, a piece is read here, and the next one starts another.

    Args:
        url: Where the journal is.
        journal: The same, for what is read here.
    """

    def __init__(self, url: str, journal: Journal) -> None:
        self._url = url
        self._journal = journal
        self._process: subprocess.Popen[bytes] | None = None
        self._one = ThreadPoolExecutor(1, thread_name_prefix="reading-process")
        self._closed = False

    @property
    def process_id(self) -> int | None:
        """The process that reads, if one was started."""
        return None if self._process is None else self._process.pid

    async def read(self, wanted: WantedPiece) -> Piece:
        """Read a piece.

        Raises:
            JournalError: The record cannot be read.
        """
        if self._closed:
            raise JournalUnavailable(GONE)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._one, self._ask, wanted)
        except OSError as error:
            if self._closed:
                raise JournalUnavailable(GONE) from error
            logger.warning("a record is read by the server itself: %s", error)
        texts = await self._journal.texts(wanted.episode_id, after_seq=wanted.after_seq, limit=wanted.limit)
        return await asyncio.to_thread(piece_of, texts, wanted.crc)

    async def aclose(self) -> None:
        """End the process."""
        self._closed = True
        if self._process is not None:
            self._process.kill()
        await asyncio.to_thread(self._one.shutdown)
        if self._process is not None:
            self._forget(self._process)

    def _ask(self, wanted: WantedPiece) -> Piece:
        """Have a piece read; an :class:`OSError` says that the process is no use."""
        process = self._process or self._started()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(asdict(wanted)).encode() + b"\n")
            process.stdin.flush()
            head = json.loads(process.stdout.readline() or b"null")
            body = b"" if head is None or "error" in head else process.stdout.read(head["length"])
            if head is None or len(body) < head.get("length", 0):
                raise OSError("the process that reads records ended")
        except (OSError, ValueError) as error:
            self._forget(process)
            raise OSError(str(error)) from error
        if "error" in head:
            raise (EpisodeDamaged if head["damaged"] else JournalError)(head["error"])
        return Piece(body, head["events"], head["size"], head["crc"])

    def _started(self) -> subprocess.Popen[bytes]:
        if self._closed:
            raise OSError(GONE)
        command = [sys.executable, "-m", PROGRAM]
        process = self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert process.stdin is not None
        process.stdin.write(
            json.dumps(self._url).encode() + b"\n"
        )  # its password is not for the list of processes
        return process

    def _forget(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError as error:
                    logger.debug("a pipe to the process that reads records: %s", error)
        self._process = None
