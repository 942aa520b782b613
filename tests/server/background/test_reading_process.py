"""Long records are read by a process beside the server, which may die, and are sent byte for byte."""

from __future__ import annotations

import gzip
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from server.background.child_processes import ReadingProcess
from spectator.errors import EpisodeDamaged, JournalUnavailable
from spectator.journal.pieces import GZIP_BEGIN, PieceRequest, gzip_end
from spectator.journal.sql_journal import SqlJournal
from tests.journal.records import said, started, url_of
from tests.serving import Serving, serve, test_settings

EPISODE = "ep-1"
EVENTS = 40


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    with serve(test_settings(tmp_path), reads_aside=True) as running:
        yield running


async def opened(folder: Path) -> tuple[SqlJournal, ReadingProcess]:
    journal = await SqlJournal.open(url_of(folder))
    await journal.append([started(EPISODE), *(said(EPISODE, seq) for seq in range(2, EVENTS + 1))])
    return journal, ReadingProcess(url_of(folder), journal)


def whole(texts: list[str]) -> bytes:
    return "\n".join((*texts, "")).encode()


async def test_pieces_are_the_recorded_bytes_packed_or_not(tmp_path: Path) -> None:
    journal, reading = await opened(tmp_path)
    expected = whole(await journal.texts(EPISODE))
    for packed in (False, True):
        body, after, size, crc = b"", 0, 0, 0 if packed else None
        while (piece := await reading.read(PieceRequest(EPISODE, after, 7, crc))).events:
            body, after, size = body + piece.body, after + piece.events, size + piece.size
            crc = piece.crc if packed else None
        assert (after, size) == (EVENTS, len(expected))
        assert expected == (gzip.decompress(GZIP_BEGIN + body + gzip_end(crc or 0, size)) if packed else body)
    assert reading.process_id not in (None, os.getpid())
    await reading.aclose()
    await journal.aclose()


async def test_what_is_damaged_is_refused_and_the_process_goes_on(tmp_path: Path) -> None:
    journal, reading = await opened(tmp_path)
    with closing(sqlite3.connect(tmp_path / "journal.db")) as file, file:
        file.execute("UPDATE events SET text = '{}' WHERE seq = 20")
    with pytest.raises(EpisodeDamaged, match="event 20 was changed after it was recorded"):
        await reading.read(PieceRequest(EPISODE, 15, 10))
    process = reading.process_id
    assert (await reading.read(PieceRequest(EPISODE, 0, 10))).events == 10
    assert reading.process_id == process
    await reading.aclose()
    await journal.aclose()


async def test_where_the_process_dies_the_server_reads_and_the_next_piece_starts_another(
    tmp_path: Path,
) -> None:
    journal, reading = await opened(tmp_path)
    texts = await journal.texts(EPISODE)
    await reading.read(PieceRequest(EPISODE, 0, 1))
    killed = reading.process_id
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    assert (await reading.read(PieceRequest(EPISODE, 3, 2))).body == whole(texts[3:5])
    assert reading.process_id is None, "it was read here"
    assert (await reading.read(PieceRequest(EPISODE, 5, 2))).body == whole(texts[5:7])
    assert reading.process_id not in (None, killed)
    await reading.aclose()
    with pytest.raises(JournalUnavailable, match="is shutting down"):
        await reading.read(PieceRequest(EPISODE, 0, 1))
    assert reading.process_id is None
    await journal.aclose()


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_a_long_ended_record_is_read_beside_the_server(
    serving: Serving, tmp_path: Path, encoding: str
) -> None:
    reading: ReadingProcess = serving.server.config.app.state.services.reading_process  # type: ignore[union-attr]
    long = serving.start(options={"turns": 60, "payload_bytes": 9000})
    entry = serving.finish(long)
    short = serving.start(options={"turns": 1})
    serving.finish(short)
    assert serving.client.get(f"/api/episodes/{short}/export").text.endswith("\n")
    assert reading.process_id is None, "a short one is read by the server itself"
    answer = serving.client.get(f"/api/episodes/{long}/export", headers={"Accept-Encoding": encoding})
    assert answer.headers.get("content-encoding", "identity") == encoding
    assert answer.headers["spectator-digest"] == entry["digest"]
    again = serving.client.get(
        f"/api/episodes/{long}/events?after_seq=30", headers={"Accept-Encoding": encoding}
    )
    lines = answer.text.splitlines()
    assert len(lines) == entry["head_seq"] and again.text.splitlines() == lines[30:]
    with closing(sqlite3.connect(tmp_path / "journal.db")) as file:
        found = file.execute("SELECT text FROM events WHERE episode_id = ? ORDER BY seq", [long]).fetchall()
    assert lines == [text for (text,) in found]
    assert reading.process_id is not None
