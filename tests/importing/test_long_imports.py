"""Long files: torn in the middle, interrupted, read again; their pages open without folding them whole."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from spectator.episodes import reader
from spectator.importing.file_formats import format_named
from spectator.importing.file_rows import Source
from spectator.importing.importer import ImportReport, import_file
from spectator.journal.sql_journal import SqlJournal
from tests.episodes.long_record import EPISODE, long_journal
from tests.importing.imported import episodes_in, run_import

TURNS = 700
LAST = 2 * TURNS + 2


def exported(folder: Path) -> list[str]:
    """The events of a long episode, a line each."""

    async def read() -> list[str]:
        await long_journal(folder, TURNS)
        journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}", writable=False)
        try:
            return await journal.texts(EPISODE)
        finally:
            await journal.aclose()

    return asyncio.run(read())


def test_an_episode_that_is_torn_in_the_middle_is_shown_up_to_there_and_told_once(tmp_path: Path) -> None:
    whole = exported(tmp_path)
    rows = [[text.replace(EPISODE, name) for text in whole] for name in ("ep-a", "ep-b", "ep-c", "ep-d")]
    rows[1][650] = rows[1][650][:90]
    path = tmp_path / "events.ndjson"
    path.write_text("\n".join([*rows[0], *rows[1], *rows[2], *rows[3][1:]]) + "\n")
    done = run_import(path, into=tmp_path / "run")
    assert done.exit_code == 1 and "; 3 entries skipped" in done.output
    assert f"line {LAST + 651}: invalid JSON" in done.output
    said = "ep-b is shown up to event 650: event 651 is missing, so later events cannot be recorded"
    assert f"line {LAST + 652}: {said}" in done.output
    assert f"line {3 * LAST + 1}: ep-d is not shown: event 1 is missing" in done.output
    shown = {one.summary.episode_id: one.summary for one in episodes_in(tmp_path / "run")}
    assert {name: one.head_seq for name, one in shown.items()} == {"ep-a": LAST, "ep-b": 650, "ep-c": LAST}
    assert shown["ep-b"].ended_at is None and shown["ep-c"].ended_at is not None
    rows[1] = [text.replace(EPISODE, "ep-b") for text in whole]
    path.write_text("\n".join(rows[1]) + "\n")
    assert run_import(path, into=tmp_path / "run").exit_code == 0, "the whole file completes it"
    assert all(one.summary.head_seq == LAST for one in episodes_in(tmp_path / "run"))


def test_a_long_record_is_folded_when_it_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (reader, reader):
        monkeypatch.setattr(module, "WORTH_KEEPING", 1_000)
    path, run = tmp_path / "events.ndjson", tmp_path / "run"
    path.write_text("\n".join(exported(tmp_path)) + "\n")
    assert run_import(path, into=run).exit_code == 0

    async def kept() -> list[int]:
        journal = await SqlJournal.open(f"sqlite:///{run / 'journal.db'}", writable=False)
        try:
            return [one.seq for one in await journal.checkpoints(EPISODE)]
        finally:
            await journal.aclose()

    assert asyncio.run(kept()) == [LAST - reader.BEFORE_END]


def rows(path: Path, count: int) -> Path:
    """A file of so many rows of TRL."""
    with path.open("w") as file:
        for number in range(count):
            row = {
                "step": number // 8,
                "prompt": "2 + 2?",
                "completion": f"{number} " + "word " * 900,
                "reward": 1.0,
            }
            file.write(json.dumps(row) + "\n")
    return path


def _note(seen: set[int], source: Source, report: ImportReport) -> None:
    seen.add(source.done)


def test_a_file_that_is_read_again_moves_the_bar_too(tmp_path: Path) -> None:
    path = rows(tmp_path / "completions.jsonl", 40)

    async def twice() -> set[int]:
        journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}")
        try:
            for _ in range(2):
                source, seen = Source(path), set[int]()
                report, moved = ImportReport(), partial(_note, seen)
                await import_file(source, format_named("trl"), journal, "run", report, moved)
            assert report.known == 40
            return seen
        finally:
            await journal.aclose()

    seen = asyncio.run(twice())
    assert len(seen) >= 40 and max(seen) == path.stat().st_size


@pytest.mark.skipif(sys.platform == "win32", reason="an interrupt is sent as POSIX has it")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_an_import_that_is_interrupted_is_taken_up_by_the_same_command(
    tmp_path: Path, sent: signal.Signals
) -> None:
    path, run = rows(tmp_path / "completions.jsonl", 1_000), tmp_path / "run"
    command = [sys.executable, "-m", "spectator.cli", "import", str(path), "--into", str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if re.match(r"\d\d+ episodes", line):
                break
        process.send_signal(sent)
        said = process.stderr.read()
    if sent == signal.SIGINT:
        assert process.returncode == 130
        assert "interrupted; finished episodes are kept. Repeat the command to import the rest." in said
    there = episodes_in(run)
    assert 0 < len(there) < 1_000
    assert all(
        one.summary.reason == "finished" and one.events[-1].seq == one.summary.head_seq for one in there
    )
    again = run_import(path, into=run)
    assert again.exit_code == 0
    found = re.search(r"(\d+) episodes imported, (\d+) already there", again.output)
    assert found is not None and int(found[1]) + int(found[2]) == 1_000 and int(found[2]) >= len(there)
