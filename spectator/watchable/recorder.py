"""The process that records watched loops: it alone writes the folder, and outlives a loop that is killed.

Loops connect to its socket and send lines of JSON. Where a connection ends, so do its episodes; when the last
has ended, so does the process.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

from ulid import ULID

from spectator.clock import Clock, SystemClock
from spectator.errors import ConfigurationError, JournalError
from spectator.following.run_folder import DESCRIPTION, JOURNAL
from spectator.importing.names import plain_name
from spectator.journal.base import Journal
from spectator.journal.stores.sqlite import SqlJournal
from spectator.runs.leftovers import WENT_AWAY, end_what_was_left
from spectator.watchable.live_record import LiveRecord

READ: Final = 1 << 20
"""Bytes that are read at once."""

FIRST_S: Final = 30.0
"""How long the process waits for its first connection."""

NICER: Final = 5
"""By how much it gives way to the loop, where both want the same processor."""


class LoopRecorder:
    """Records the episodes of loops in a journal.

    Args:
        journal: Where.
        run: Name of the run.
        clock: Stamps events.
    """

    def __init__(self, journal: Journal, run: str, clock: Clock) -> None:
        self._journal = journal
        self._run = plain_name(run) or run
        self._clock = clock
        self.connected = 0
        """Loops that are connected now."""
        self.begun = asyncio.Event()
        """Whether one ever was."""
        self.idle = asyncio.Event()
        """Whether none is any more."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Record what comes over one connection until it ends."""
        self.connected += 1
        self.begun.set()
        self.idle.clear()
        episodes: dict[int, LiveRecord] = {}
        closed = False
        try:
            async for lines in _lines(reader):
                closed = lines[-1] == b'{"close":true}' or closed
                await self._take(lines, episodes, writer)
        finally:
            await self._leave(episodes, "the run was closed before its end" if closed else WENT_AWAY, writer)
            self.connected -= 1
            _send(writer, {"closed": True, "others": self.connected})
            writer.close()
            if not self.connected:
                self.idle.set()

    async def _take(
        self, lines: list[bytes], episodes: dict[int, LiveRecord], writer: asyncio.StreamWriter
    ) -> None:
        touched: dict[int, LiveRecord] = {}
        for line in lines:
            told = json.loads(line)
            number = told.get("episode")
            if "begin" in told:
                episode_id = f"ep-{ULID()}"
                episodes[number] = LiveRecord(episode_id, told["begin"], self._run, self._clock)
            episode = episodes.get(number)
            if episode is None:
                continue
            touched[number] = episode
            _apply(episode, told)
        await self._record(touched, episodes, writer)

    async def _record(
        self,
        touched: Mapping[int, LiveRecord],
        episodes: dict[int, LiveRecord],
        writer: asyncio.StreamWriter,
    ) -> None:
        """Record what is new of episodes; one of which something is missing is recorded no further."""
        recording = [self._append(one) for one in touched.values()]
        for number, error in zip(touched, await asyncio.gather(*recording), strict=True):
            if error is not None:
                words = f"an episode is recorded no further, and the loop goes on: {error}"
                _send(writer, {"kind": "journal", "warning": words})
            if error is not None or touched[number].ended:
                del episodes[number]

    async def _append(self, episode: LiveRecord) -> JournalError | None:
        events, attached = episode.take()
        try:
            await self._journal.append(events, attachments=attached)
        except JournalError as error:
            return error
        return None

    async def _leave(
        self, episodes: dict[int, LiveRecord], detail: str, writer: asyncio.StreamWriter
    ) -> None:
        for one in episodes.values():
            one.break_off(detail)
        await self._record(dict(episodes), episodes, writer)


def _apply(episode: LiveRecord, told: Mapping[str, Any]) -> None:
    if "step" in told:
        episode.step(told["step"])
    elif "end" in told:
        episode.end(told["end"])


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[list[bytes]]:
    """Whole lines as they come; the rest of one that a killed loop did not finish is left out."""
    rest: list[bytes] = []
    while data := await reader.read(READ):
        head, newline, tail = data.rpartition(b"\n")
        if not newline:
            rest.append(data)
            continue
        yield b"".join([*rest, head]).split(b"\n")
        rest = [tail]


def _send(writer: asyncio.StreamWriter, told: Mapping[str, Any]) -> None:
    if not writer.is_closing():
        writer.write(json.dumps(told).encode() + b"\n")


async def record_loops(folder: Path, address: Path, about: Mapping[str, Any]) -> None:
    """Record in ``folder`` what loops send to the socket at ``address``; says on its output when they may.

    Args:
        folder: The run's.
        address: Path of a socket that is made, and removed at the end with the folder that it is in.
        about: What the run says of itself, see :data:`~spectator.following.run_folder.DESCRIPTION`.

    Raises:
        ConfigurationError: Another process records there.
        JournalError: It cannot be written.
        OSError: The folder or the socket cannot be made.
    """
    clock = SystemClock()
    journal = await SqlJournal.open(f"sqlite:///{folder / JOURNAL}")
    try:
        await end_what_was_left(journal, clock)
        (folder / DESCRIPTION).write_text(json.dumps(about), encoding="utf-8")
        recorder = LoopRecorder(journal, folder.name, clock)
        async with await asyncio.start_unix_server(recorder.serve, address):
            _say({"ready": True})
            async with asyncio.timeout(FIRST_S):
                await recorder.begun.wait()
            await recorder.idle.wait()
    finally:
        await journal.aclose()
        shutil.rmtree(address.parent, ignore_errors=True)


def main(told: str) -> None:
    """Record loops, as ``told`` says in JSON: ``folder``, ``address``, ``about``."""
    os.nice(NICER)
    asked = json.loads(told)
    try:
        Path(asked["folder"]).mkdir(parents=True, exist_ok=True)
        asyncio.run(record_loops(Path(asked["folder"]), Path(asked["address"]), asked["about"]))
    except (ConfigurationError, JournalError, OSError) as error:
        _say({"problem": str(error), "kind": type(error).__name__})


def _say(told: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
