"""States of long records on disk: found by the next server, never wrong, bounded, gone with their episode."""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest

from server.journal import JoinedJournal
from spectator.episodes import past_states, reader
from spectator.episodes.past_states import FILE, PastStates, StateFile
from spectator.episodes.reader import ViewReader
from spectator.episodes.view import State, patch_in, replay_state
from spectator.events import RecordedEvent, decode_json
from spectator.journal.contract import EpisodeSummary
from tests.episodes.long_record import EPISODE, long_journal

LAST = 1_002
ROOT = Path(__file__).resolve().parents[2]


class Counting(ViewReader):
    """A reader that counts the events that are read to be folded."""

    read_events = 0

    async def texts(self, episode_id: str, *, after_seq: int = 0, limit: int | None = None) -> list[str]:
        texts = await super().texts(episode_id, after_seq=after_seq, limit=limit)
        self.read_events += len(texts)
        return texts

    async def kept_state(self, summary: EpisodeSummary, until: int) -> tuple[int, State]:
        return 0, {}


@asynccontextmanager
async def on_record(folder: Path) -> AsyncIterator[tuple[JoinedJournal, EpisodeSummary, list[RecordedEvent]]]:
    """A journal with one long episode in ``folder``."""
    if not (folder / "journal.db").exists():
        assert await long_journal(folder, 500) == LAST
    journal = await JoinedJournal.open(f"sqlite:///{folder / 'journal.db'}")
    try:
        summary = await journal.episode(EPISODE)
        assert summary is not None
        yield journal, summary, await journal.read(EPISODE)
    finally:
        await journal.aclose()


def states_in(folder: Path) -> StateFile:
    return StateFile(folder / FILE, 4_000_000)


async def events_read(
    journal: JoinedJournal, summary: EpisodeSummary, file: StateFile | None, *seqs: int
) -> int:
    """How many events a new server reads to tell the states after ``seqs``, which are right."""
    records, whole = Counting(journal), await journal.read(EPISODE)
    past = PastStates(records, spacing=50, file=file)
    for seq in seqs:
        assert await past.state(summary, seq) == replay_state(whole[:seq]), seq
    return records.read_events


async def test_the_next_server_finds_the_states_of_the_one_before(tmp_path: Path) -> None:
    async with on_record(tmp_path) as (journal, summary, _):
        assert await events_read(journal, summary, states_in(tmp_path), 980) >= 980
        assert await events_read(journal, summary, states_in(tmp_path), 333, 980, 40) <= 3 * 50
        assert await events_read(journal, summary, None, 333) >= 333
        (tmp_path / FILE).unlink()
        assert await events_read(journal, summary, states_in(tmp_path), 980) >= 980, "it may be deleted"


async def test_a_record_is_looked_through_in_the_background_once_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "LONG_EVENTS", 1_000)
    monkeypatch.setattr(past_states, "SPACING", 50)

    async with on_record(tmp_path) as (journal, summary, whole):
        records = ViewReader(journal, states=states_in(tmp_path))
        records._past = PastStates(records, spacing=50, file=states_in(tmp_path))
        assert await records.state(summary) == replay_state(whole)
        await asyncio.gather(*records._indexing.values())
        await records.aclose()
        assert await events_read(journal, summary, states_in(tmp_path), 120, 480, 777) <= 3 * 50


async def test_states_of_another_record_or_version_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_record(tmp_path) as (journal, summary, _):
        await events_read(journal, summary, states_in(tmp_path), 980)
        other = replace(summary, digest="0" * 64)
        assert await events_read(journal, other, states_in(tmp_path), 980) >= 980
        assert await events_read(journal, summary, states_in(tmp_path), 980) >= 980
        monkeypatch.setattr(past_states, "FORMAT", 2)
        assert await events_read(journal, summary, states_in(tmp_path), 980) >= 980


@pytest.mark.parametrize(
    "spoil",
    [
        "UPDATE states SET body = x'7b7d'",
        "UPDATE states SET body = 'text', size = 'text'",
        "UPDATE states SET seq = seq + 7",
        "DELETE FROM states",
        "DROP TABLE states",
        "UPDATE records SET version = 7",
    ],
)
async def test_what_somebody_wrote_into_the_file_is_not_believed(tmp_path: Path, spoil: str) -> None:
    async with on_record(tmp_path) as (journal, summary, _):
        await events_read(journal, summary, states_in(tmp_path), 980)
        with closing(sqlite3.connect(tmp_path / FILE)) as file, file:
            file.execute(spoil)
        await events_read(journal, summary, states_in(tmp_path), 980, 333)
        assert await events_read(journal, summary, states_in(tmp_path), 333, 980) <= 4 * 50, "mended"


@pytest.mark.parametrize("seed", range(6))
async def test_a_damaged_file_is_made_again(tmp_path: Path, seed: int) -> None:
    async with on_record(tmp_path) as (journal, summary, _):
        await events_read(journal, summary, states_in(tmp_path), 980)
        rng, damaged = random.Random(seed), bytearray((tmp_path / FILE).read_bytes())
        if seed == 0:
            damaged[:100] = b"no database" * 9 + b"x"
        elif seed == 1:
            del damaged[5_000:]
        for _ in range(40 * (seed > 1)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        (tmp_path / FILE).write_bytes(damaged)
        await events_read(journal, summary, states_in(tmp_path), 980, 333)
        await events_read(journal, summary, states_in(tmp_path), 333, 980)


async def test_a_file_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    async with on_record(tmp_path) as (journal, summary, _):
        for path in (tmp_path / "no folder" / FILE, tmp_path):
            file = StateFile(path, 4_000_000)
            assert await events_read(journal, summary, file, 980, 333, 700) <= 980 + 3 * 50


FULL = """
import resource, sys
from pathlib import Path
from spectator.episodes.past_states import StateFile
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
states = StateFile(Path(sys.argv[1]), 4_000_000)
for place in range(1, 40):
    states.keep("ep-1", "one", {place: bytes([place]) * 5_000})
kept = states.sizes("ep-1", "one")
assert 0 < len(kept) < 39, kept
assert all(states.read("ep-1", "one", place) == bytes([place]) * 5_000 for place in kept)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a file is limited as Linux does")
def test_on_a_full_disk_what_was_kept_stays(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FULL, str(tmp_path / FILE)], check=True, cwd=ROOT, timeout=60)


WRITING = """
import sys
from pathlib import Path
from spectator.episodes.past_states import StateFile
states = StateFile(Path(sys.argv[1]), 4_000_000)
print("begun", flush=True)
for round in range(1_000_000):
    states.keep(f"ep-{round % 40}", "one", {place: bytes([place]) * 9_000 for place in range(1, 30)})
"""


@pytest.mark.parametrize("commits", [1, 5, 20])
def test_a_death_while_it_is_written_leaves_nothing_wrong(tmp_path: Path, commits: int) -> None:
    path = tmp_path / FILE
    command = [sys.executable, "-c", WRITING, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        seen: set[bytes] = set()
        while len(seen) < commits:
            if path.exists():
                with path.open("rb") as file:
                    seen.add(file.read(28)[24:])  # SQLite's counter of changes
        process.send_signal(signal.SIGKILL)
    states = StateFile(path, 4_000_000)
    for episode_id in states.episodes():
        sizes = states.sizes(episode_id, "one")
        assert sorted(sizes) in ([], list(range(1, 30)))
        assert all(states.read(episode_id, "one", place) == bytes([place]) * 9_000 for place in sizes)
    states.keep("ep-new", "one", {1: b"{}"})
    assert states.read("ep-new", "one", 1) == b"{}"


def test_the_file_stays_within_its_bytes_and_what_nobody_asks_for_goes_first(tmp_path: Path) -> None:
    states, rng = StateFile(tmp_path / FILE, 1_000_000), random.Random(1)
    for number in range(60):
        bodies = {place: rng.randbytes(rng.randrange(1, 9_000)) for place in range(1, 12)}
        states.keep(f"ep-{number:02}", "one", bodies)
        assert states.sizes("ep-00", "one"), "somebody asks for this one again and again"
        assert (tmp_path / FILE).stat().st_size <= 1_000_000
    kept = states.episodes()
    assert kept == ["ep-00", *(f"ep-{number:02}" for number in range(61 - len(kept), 60))]
    assert len(kept) > 8
    states.keep("ep-large", "one", {1: bytes(2_000_000)})
    assert states.episodes() == kept, "what is larger than the file may be is not kept"
    smaller = StateFile(tmp_path / FILE, 200_000)
    smaller.keep("ep-60", "one", {1: b"{}"})
    assert smaller.episodes() == ["ep-60"] and (tmp_path / FILE).stat().st_size <= 200_000


async def test_many_states_of_one_record_are_thinned_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_states, "MOST_STATES", 8)
    monkeypatch.setattr(past_states, "WRITTEN_TOGETHER", 3)

    async with on_record(tmp_path) as (journal, summary, _):
        assert await events_read(journal, summary, states_in(tmp_path), 980) >= 980
        with closing(sqlite3.connect(tmp_path / FILE)) as file:
            assert 3 <= file.execute("SELECT count(*) FROM states").fetchone()[0] <= 8
        assert await events_read(journal, summary, states_in(tmp_path), 600) <= 400


async def test_nothing_is_on_disk_before_the_end(tmp_path: Path) -> None:
    async with on_record(tmp_path) as (journal, summary, whole):
        file, records = states_in(tmp_path), Counting(journal)
        past = PastStates(records, spacing=50, file=file)
        live = replace(summary, ended_at=None, digest=None, head_seq=700)
        assert await past.state(live, 690) == replay_state(whole[:690])
        assert not (tmp_path / FILE).exists(), "an embargo may withhold some of it"
        read = records.read_events
        assert await past.state(summary, 700) == replay_state(whole[:700])
        assert records.read_events - read <= 50
        assert max(file.sizes(EPISODE, next(iter(past._marks.values())).version or "")) <= 700


async def test_the_states_of_an_episode_go_with_it(tmp_path: Path) -> None:
    async with on_record(tmp_path) as (journal, summary, _):
        journal.states = states_in(tmp_path)
        await events_read(journal, summary, journal.states, 980)
        journal.states.keep("ep-removed-by-another-server", "one", {1: b"{}"})
        await journal.tidy()
        assert journal.states.episodes() == [EPISODE]
        await journal.remove(EPISODE)
        assert journal.states.episodes() == []
        assert b"headline" not in (tmp_path / FILE).read_bytes()


@pytest.mark.parametrize(
    "text",
    [
        '{"v":1,"data":{"said":"x,\\"patch\\":{}}"},"patch":{"a":1}}',
        '{"v":1,"data":{"n":1,"patch":{"b":2}},"patch":{"a":{"c":3,"patch":{}}}}',
        '{"patch":{"a":1},"v":1,"data":{"n":1,"patch":{"b":2}}}',
        '{"v":1,"patch":{"a":1},"data":{"n":1,"patch":{}}}',
        '{"v":1,"data":{"n":",\\"patch\\":"},"patch":{}}',
        '{"v":1, "patch" : {"a": 1}}',
        '{"v":1,"patch":{"a":1},"patch":{"a":2}}',
    ],
)
def test_the_patch_of_an_event_is_found_without_decoding_the_rest(text: str) -> None:
    assert patch_in(text) == decode_json(text)["patch"]


@pytest.mark.parametrize(
    "text", ['{"v":1,"data":{"n":1,"patch":{}}}', '{"v":1}', "[]", '{"v":1,"patch":', ""]
)
def test_an_event_without_a_patch_is_refused(text: str) -> None:
    with pytest.raises((ValueError, LookupError, TypeError)):
        patch_in(text)
