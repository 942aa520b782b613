"""What was acknowledged is there, in order and readable, whatever happens to the process or the disk."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, update

from spectator.errors import ConfigurationError, JournalDamaged, JournalError, SequenceConflict
from spectator.events import Event, RecordedEvent
from spectator.journal import database, incarnation
from spectator.journal.contract import EpisodeFilter, Synchronous
from spectator.journal.database import open_database
from spectator.journal.queries import READ_CHARACTERS, READ_FIRST
from spectator.journal.schema import SCHEMA_VERSION, schema
from spectator.journal.sql_journal import SqlJournal
from spectator.journal.writer import MAX_GROUP
from tests.journal.records import depose_others, ended, execute, run, said, seqs, started, url_of

both = pytest.mark.usefixtures("each_store")


@both
async def test_what_is_appended_is_read_in_order_and_byte_for_byte(tmp_path: Path) -> None:
    journal = await SqlJournal.open(url_of(tmp_path / "new" / "folder"))
    events = [started("ep-1"), *(said("ep-1", seq, f"é\u2028🏏 {seq}") for seq in range(2, 1203))]
    await journal.append(events[:1])
    await journal.append([])
    for first in range(1, len(events), 100):
        await journal.append(events[first : first + 100])
    await journal.append([said("ep-2", 1)])
    assert await journal.read("ep-1") == events
    assert await journal.read("ep-1", after_seq=1200) == events[1200:]
    assert await journal.read("ep-1", after_seq=3, limit=2) == events[3:5]
    assert [one async for one in journal.stream("ep-1", after_seq=7)] == events[7:]
    assert await journal.read("nobody") == []
    await journal.check()
    await journal.aclose()
    await journal.aclose()


@pytest.mark.parametrize("name", ["what?", "50 %20", "a#b&c=d", "file:x?mode=ro", "ä ö", "x;y@z:1"])
def test_a_folder_of_any_name_holds_its_journal(tmp_path: Path, name: str) -> None:
    """What follows ``sqlite:///`` is the path, not a query or an encoding of one."""

    async def scenario() -> None:
        url = f"sqlite:///{tmp_path / name / 'journal.db'}"
        journal = await SqlJournal.open(url)
        await journal.append([started("ep-1"), said("ep-1", 2)])
        await journal.aclose()
        assert database.file_of(url) == tmp_path / name / "journal.db"
        journal = await SqlJournal.open(url, writable=False)
        assert len(await journal.read("ep-1")) == 2
        await journal.aclose()

    run(scenario())
    assert [one.name for one in tmp_path.iterdir()] == [name]


@both
@pytest.mark.parametrize(
    ("characters", "count", "most"), [(10, 119, 79), (70_000, 119, 28), (READ_CHARACTERS + 1, 12, 1)]
)
def test_a_stream_reads_no_more_at_once_than_a_batch_may_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, characters: int, count: int, most: int
) -> None:
    """500 events at once were 33 MB, several times over, where each has 65,536 characters."""
    batches: list[list[RecordedEvent]] = []
    reading = SqlJournal.read

    async def read(journal: SqlJournal, episode_id: str, **which: Any) -> list[RecordedEvent]:
        batches.append(await reading(journal, episode_id, **which))
        return batches[-1]

    async def scenario() -> None:
        journal = await SqlJournal.open(url_of(tmp_path))
        events = [said("ep-1", seq, "x" * characters) for seq in range(1, count + 1)]
        await journal.append(events)
        monkeypatch.setattr(SqlJournal, "read", read)
        assert [one async for one in journal.stream("ep-1")] == events
        await journal.aclose()

    run(scenario())
    assert len(batches[0]) == READ_FIRST
    assert max(map(len, batches[1:])) == most


@both
async def test_the_index_is_derived_from_the_events_themselves(tmp_path: Path) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    await journal.append([started("ep-1"), said("ep-1", 2)])
    summary = await journal.episode("ep-1")
    assert summary is not None
    assert (summary.head_seq, summary.ended_at, summary.reason, summary.turns) == (2, None, None, None)
    assert (summary.captain, summary.captain_label, summary.opponent) == ("heuristic", "Heuristic", "random")
    assert (summary.seed, summary.epoch, summary.pack) == (2**53 - 1, "e1", "default")
    await journal.append([ended("ep-1", 3)])
    summary = await journal.episode("ep-1")
    assert summary is not None
    assert (summary.head_seq, summary.reason, summary.score) == (3, "finished", 0.5)
    assert (summary.result, summary.turns, summary.ended_at) == ("home won", 1, "2026-11-21T06:00:00.000Z")
    assert await journal.episode("nobody") is None
    await journal.aclose()


@both
async def test_episodes_are_listed_newest_first_a_page_at_a_time(tmp_path: Path) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    for number in range(7):
        world, captain = ("counting", "cricket")[number % 2], ("a", "b")[number % 3 == 0]
        await journal.append([started(f"ep-{number}", environment=world, captain=captain)])
    await journal.append([ended("ep-5", 2)])

    async def listed(**wanted: Any) -> list[str]:
        return [one.episode_id for one in await journal.episodes(EpisodeFilter(**wanted))]

    assert await listed() == [f"ep-{number}" for number in range(6, -1, -1)]
    assert await listed(limit=2) == ["ep-6", "ep-5"]
    assert await listed(limit=2, before="ep-5") == ["ep-4", "ep-3"]
    assert await listed(environment="cricket") == ["ep-5", "ep-3", "ep-1"]
    assert await listed(captain="b", environment="counting") == ["ep-6", "ep-0"]
    assert await listed(ended=True) == ["ep-5"]
    assert len(await listed(ended=False)) == 6
    await journal.aclose()


@pytest.mark.parametrize("limit", [0, -1, 1001])
def test_a_page_has_a_sane_size(limit: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 1000"):
        EpisodeFilter(limit=limit)


@both
async def test_a_second_author_of_an_episode_is_fenced_off(tmp_path: Path) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    await journal.append([started("ep-1"), said("ep-1", 2)])
    with pytest.raises(SequenceConflict, match="event 2 of ep-1"):
        await journal.append([said("ep-1", 2, "other")])
    with pytest.raises(SequenceConflict):
        await journal.append([said("ep-1", 3, "other"), said("ep-1", 2, "other")])
    assert seqs(await journal.read("ep-1")) == [1, 2], "nothing of a refused append stays"
    with pytest.raises(SequenceConflict):
        await journal.append([started("ep-1")])
    await journal.append([said("ep-1", 3)])
    await journal.aclose()


@both
async def test_many_authors_share_commits_and_only_the_wrong_ones_fail(tmp_path: Path) -> None:
    """Two hundred append at once; every seventh tries a number that is taken, every ninth nonsense."""
    authors = 200

    journal = await SqlJournal.open(url_of(tmp_path))

    async def author(number: int) -> None:
        name = f"ep-{number:03d}"
        await journal.append([started(name)])
        for seq in range(2, 7):
            await journal.append([said(name, seq)])
            if number % 7 == 0:
                with pytest.raises(SequenceConflict):
                    await journal.append([said(name, seq)])
            if number % 9 == 0:
                broken = RecordedEvent(Event(name, "e1", 99, "now", 0, "episode.started", {}), "{}")
                with pytest.raises(JournalError, match="cannot be written"):
                    await journal.append([said(name, 98), broken])

    await asyncio.gather(*(author(number) for number in range(authors)))
    for number in range(authors):
        assert seqs(await journal.read(f"ep-{number:03d}")) == [1, 2, 3, 4, 5, 6]
    await journal.aclose()


@both
async def test_appends_that_wait_are_committed_together(tmp_path: Path) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    assert journal._writer is not None
    groups: list[int] = []
    commit = journal._writer._commit

    def counting(connection: Any, group: Any) -> None:
        groups.append(len(group))
        commit(connection, group)

    journal._writer._commit = counting  # type: ignore[method-assign]
    await asyncio.gather(*(journal.append([said(f"ep-{number}", 1)]) for number in range(1000)))
    assert sum(groups) == 1000
    assert len(groups) < 100
    assert max(groups) <= MAX_GROUP
    await journal.aclose()


@both
@pytest.mark.parametrize(
    "text", ["\ud800", 3, b"bytes", None], ids=["half a surrogate pair", "a number", "bytes", "nothing"]
)
async def test_an_event_that_cannot_be_stored_fails_alone_and_the_writer_lives(
    tmp_path: Path, text: Any
) -> None:
    """Whoever gets round ``record`` hurts only himself."""
    broken = RecordedEvent(Event("ep-1", "e1", 1, "now", 0, "warning", {}), text)
    huge = RecordedEvent(Event("ep-1", "e1", 2**70, "now", 0, "warning", {}), "{}")

    journal = await SqlJournal.open(url_of(tmp_path))
    answers = await asyncio.wait_for(
        asyncio.gather(
            journal.append([broken]),
            journal.append([huge]),
            *(journal.append([said(f"ep-{number}", 1)]) for number in range(2, 20)),
            return_exceptions=True,
        ),
        20,
    )
    # SQLite stores numbers and bytes in a text column; what it cannot store is refused
    assert isinstance(answers[0], JournalError) or text in (3, b"bytes")
    assert isinstance(answers[1], JournalError)
    assert answers[2:] == [None] * 18
    await journal.check()
    await journal.aclose()


@both
async def test_reading_while_writing_sees_whole_appends_and_never_a_gap(tmp_path: Path) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    done = asyncio.Event()

    async def write() -> None:
        for first in range(1, 1500, 3):
            await journal.append([said("ep-1", seq) for seq in range(first, first + 3)])
        done.set()

    async def read() -> int:
        reads, head = 0, 0
        while not done.is_set():
            found = seqs(await journal.read("ep-1", after_seq=head))
            assert found == list(range(head + 1, head + 1 + len(found)))
            assert len(found) % 3 == 0, "half of an append was seen"
            head, reads = head + len(found), reads + 1
            await journal.check()
        return reads

    _, one, two = await asyncio.gather(write(), read(), read())
    assert min(one, two) > 3
    await journal.aclose()


@both
async def test_a_caller_that_goes_away_does_not_stop_the_others(tmp_path: Path) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    tasks = [
        asyncio.get_running_loop().create_task(journal.append([said(f"ep-{number}", 1)]))
        for number in range(40)
    ]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert answers[1::2] == [None] * 20
    await journal.aclose()


@both
async def test_closing_writes_what_waits_and_then_refuses(tmp_path: Path) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    waiting = [
        asyncio.get_running_loop().create_task(journal.append([said(f"ep-{number}", 1)]))
        for number in range(300)
    ]
    await asyncio.sleep(0)
    await journal.aclose()
    assert await asyncio.gather(*waiting) == [None] * 300
    for refused in (journal.append([said("ep-1", 2)]), journal.read("ep-1"), journal.check()):
        with pytest.raises(JournalError, match="is closed"):
            await refused
    again = await SqlJournal.open(url_of(tmp_path))
    assert seqs(await again.read("ep-299")) == [1]
    await again.aclose()
    assert not [thread.name for thread in threading.enumerate() if "journal" in thread.name]


@both
async def test_a_journal_whose_writer_has_died_says_so_instead_of_hanging(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    journal = await SqlJournal.open(url_of(tmp_path))
    assert journal._writer is not None

    def die(connection: Any, group: Any) -> None:
        raise MemoryError

    journal._writer._commit = die  # type: ignore[method-assign]
    for _ in range(2):
        with pytest.raises(JournalError, match="closed"):
            await asyncio.wait_for(journal.append([said("ep-1", 1)]), 10)
    with pytest.raises(JournalError, match="closed"):
        await journal.check()
    await journal.aclose()


@both
@pytest.mark.parametrize(
    ("batch", "why"),
    [
        ([said("ep-1", 4)], "event 4 does not follow event 2"),
        ([said("ep-1", 3), said("ep-1", 5)], "event 5 does not follow event 3"),
        ([said("ep-1", 3), said("ep-2", 4)], "contains event 4 of ep-2"),
        ([said("ep-2", 2)], "event 2 does not follow event 0"),
    ],
)
async def test_a_record_has_no_gaps(tmp_path: Path, batch: list[RecordedEvent], why: str) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    await journal.append([started("ep-1"), said("ep-1", 2)])
    with pytest.raises(JournalError, match=why):
        await journal.append(batch)
    assert seqs(await journal.read("ep-1")) == [1, 2]
    assert await journal.read("ep-2") == []
    await journal.append([said("ep-1", 3)])
    await journal.aclose()


# what can be opened


async def test_a_second_writer_is_refused_while_the_first_lives_and_readers_are_not(tmp_path: Path) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    await journal.append([started("ep-1")])
    with pytest.raises(ConfigurationError, match="another process writes the journal"):
        await SqlJournal.open(url_of(tmp_path))
    reader = await SqlJournal.open(url_of(tmp_path), writable=False)
    assert seqs(await reader.read("ep-1")) == [1]
    await reader.check()
    with pytest.raises(JournalError, match="read-only"):
        await reader.append([said("ep-1", 2)])
    await journal.append([said("ep-1", 2)])
    assert seqs(await reader.read("ep-1")) == [1, 2]
    await reader.aclose()
    await journal.aclose()
    again = await SqlJournal.open(url_of(tmp_path))
    await again.aclose()


def test_a_second_process_is_refused_and_a_dead_one_leaves_no_lock(tmp_path: Path) -> None:
    script = """
        import asyncio, sys
        from spectator.journal.sql_journal import SqlJournal
        async def main():
            journal = await SqlJournal.open(sys.argv[1])
            print("open", flush=True)
            await asyncio.sleep(60)
        asyncio.run(main())
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), url_of(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "open\n"
            with pytest.raises(ConfigurationError, match="another process"):
                run(SqlJournal.open(url_of(tmp_path)))
        finally:
            holder.kill()

    async def scenario() -> None:
        await (await SqlJournal.open(url_of(tmp_path))).aclose()

    run(scenario())


def test_a_reader_makes_no_journal(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="there is no journal at"):
        run(SqlJournal.open(url_of(tmp_path), writable=False))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("not a url", "URL"),
        ("nodatabase://x/y", "URL"),
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
    ],
)
def test_a_url_that_is_none_of_a_durable_database(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        run(SqlJournal.open(url))


def test_another_schema_version_is_not_touched_and_lets_the_lock_go(tmp_path: Path) -> None:
    run(_make(tmp_path))
    engine = create_engine(url_of(tmp_path))
    for version, expected in (
        (999, ConfigurationError), (0, JournalDamaged), (-3, JournalDamaged), (SCHEMA_VERSION, None)
    ):  # fmt: skip
        with engine.begin() as connection:
            connection.execute(update(schema).values(version=version))
        if expected is not None:
            with pytest.raises(expected, match=f"schema version {version}"):
                run(SqlJournal.open(url_of(tmp_path)))
            with pytest.raises(expected, match=f"schema version {version}"):
                run(SqlJournal.open(url_of(tmp_path), writable=False))
        else:
            run(_make(tmp_path))
    engine.dispose()


async def _make(folder: Path) -> None:
    journal = await SqlJournal.open(url_of(folder))
    await journal.aclose()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"this is not a database, whatever its name is" * 100)
    for writable in (True, False):
        with pytest.raises(JournalError, match="not a database"):
            run(SqlJournal.open(url_of(tmp_path), writable=writable))
    (tmp_path / "journal.db").unlink()
    run(_make(tmp_path))


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(JournalError, match="cannot be written here"):
        run(SqlJournal.open(url_of(tmp_path / "file")))


AS_NOBODY = """
    import asyncio, os, sys
    from spectator.errors import SpectatorError
    from spectator.journal.sql_journal import SqlJournal
    from spectator.events import Event, record
    async def main():
        try:
            await SqlJournal.open(sys.argv[1])
        except SpectatorError as error:
            print(type(error).__name__, error)
        else:
            print("opened")
    if os.getuid() == 0:
        os.setuid(65534)
    asyncio.run(main())
"""


@pytest.mark.parametrize("protected", ["folder", "file"])
def test_a_journal_that_may_not_be_written_says_so_when_it_is_opened(tmp_path: Path, protected: str) -> None:
    """Run as somebody without rights, since root may write anything."""
    run(_make(tmp_path))
    for path in (tmp_path, *tmp_path.parents[:3]):
        if path.owner() == Path(__file__).owner() or os.getuid() == 0:
            path.chmod(path.stat().st_mode | 0o055)
    for path in tmp_path.iterdir():
        path.chmod(0o666)
    if protected == "folder":
        for path in tmp_path.iterdir():
            path.unlink()
        tmp_path.chmod(0o555)
    else:
        tmp_path.chmod(0o777)
        (tmp_path / "journal.db").chmod(0o444)
    try:
        found = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(AS_NOBODY), url_of(tmp_path)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        tmp_path.chmod(0o755)
    assert found.stdout.startswith("JournalError"), found
    assert "cannot be written here" in found.stdout or "readonly" in found.stdout


def test_a_damaged_page_is_an_error_with_its_reason(tmp_path: Path) -> None:
    async def write() -> None:
        journal = await SqlJournal.open(url_of(tmp_path))
        for first in range(1, 400, 20):
            await journal.append([said("ep-1", seq, "x" * 2000) for seq in range(first, first + 20)])
        await journal.aclose()

    async def read() -> None:
        journal = await SqlJournal.open(url_of(tmp_path))
        with pytest.raises(JournalError, match="the record of ep-1 is damaged"):
            await journal.read("ep-1")
        await journal.aclose()

    run(write())
    path = tmp_path / "journal.db"
    content = bytearray(path.read_bytes())
    for page in range(10, len(content) // 4096):
        content[page * 4096 : page * 4096 + 200] = b"\xff" * 200
    path.write_bytes(content)
    run(read())


@both
async def test_a_damaged_event_is_an_error_with_its_reason(tmp_path: Path) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    await journal.append([said("ep-1", 1)])
    await journal.append([said("ep-2", 1)])
    execute(tmp_path, "UPDATE events SET text = substr(text, 1, 40) WHERE episode_id = 'ep-1'")
    with pytest.raises(JournalError, match="an event of ep-1 cannot be read"):
        await journal.read("ep-1")
    assert seqs(await journal.read("ep-2")) == [1]
    await journal.aclose()


@pytest.mark.parametrize(("synchronous", "level"), [("normal", 1), ("full", 2)])
def test_a_commit_waits_for_the_disk_where_that_is_asked_for(
    tmp_path: Path, synchronous: Synchronous, level: int
) -> None:
    database = open_database(url_of(tmp_path), writable=True, synchronous=synchronous)
    assert database.lock is not None
    try:
        for _ in range(2):
            with database.engine.connect() as connection:
                assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == level
            database.engine.dispose()
    finally:
        database.lock.release()


async def test_a_full_disk_is_an_error_with_its_reason_and_room_heals_it(tmp_path: Path) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    assert journal._writer is not None
    limits = sqlite3.connect(tmp_path / "journal.db")
    pages = limits.execute("PRAGMA page_count").fetchone()[0]
    limits.close()
    _limit_pages(journal, pages + 20)
    seq = 0
    with pytest.raises(JournalError, match="full"):
        while seq < 1000:
            await journal.append([said("ep-1", seq + 1, "x" * 3000)])
            seq += 1
    assert seqs(await journal.read("ep-1")) == list(range(1, seq + 1))
    _limit_pages(journal, pages + 10_000)
    await journal.append([said("ep-1", seq + 1, "x" * 3000)])
    assert seqs(await journal.read("ep-1")) == list(range(1, seq + 2))
    await journal.aclose()


@both
@pytest.mark.parametrize("within", [True, False])
async def test_work_that_fails_unforeseen_fails_alone_and_the_thread_writes_on(
    tmp_path: Path, within: bool
) -> None:
    def broken(connection: Any) -> None:
        connection.connection.dbapi_connection.no_such_method()

    journal = await SqlJournal.open(url_of(tmp_path))
    assert journal._writer is not None
    with pytest.raises(JournalError, match="no_such_method"):
        await journal._writer.run(broken, within=within)
    await journal.append([started("ep-1")])
    await journal.compact()
    assert seqs(await journal.read("ep-1")) == [1]
    await journal.aclose()


def _limit_pages(journal: SqlJournal, pages: int) -> None:
    """Let the writer's own connection grow to so many pages, as a full disk would."""
    writer = journal._writer
    assert writer is not None
    write = type(writer)._write.__get__(writer)

    def limited(connection: Any, group: Any, heads: Any) -> None:
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}").close()
        write(connection, group, heads)

    writer._write = limited  # type: ignore[method-assign]


WRITER = """
    import asyncio, sys
    from spectator.events import Event, record
    from spectator.journal.sql_journal import SqlJournal
    async def author(journal, name):
        seq = 0
        while True:
            facts = [Event(name, "e", seq + n, "now", 0, "x.y", {"text": "x" * 200}) for n in (1, 2, 3)]
            batch = [record(fact) for fact in facts]
            await journal.append(batch)
            seq += 3
            print(name, seq, flush=True)
    async def main():
        journal = await SqlJournal.open(sys.argv[1])
        await asyncio.gather(*(author(journal, f"ep-{number}") for number in range(4)))
    asyncio.run(main())
"""


@both
@pytest.mark.parametrize("lines", [1, 7, 40, 160, 400])
def test_a_process_killed_while_it_writes_loses_nothing_that_it_was_told_is_kept(
    tmp_path: Path, lines: int
) -> None:
    acknowledged: dict[str, int] = {}
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), url_of(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        for _ in range(lines + random.Random(lines).randrange(10)):
            name, seq = writer.stdout.readline().split()
            acknowledged[name] = int(seq)
        writer.send_signal(signal.SIGKILL)
        for line in writer.stdout:
            if line.endswith("\n"):
                name, seq = line.split()
                acknowledged[name] = int(seq)

    async def check() -> None:
        journal = await SqlJournal.open(url_of(tmp_path))
        await depose_others(journal)
        for number in range(4):
            found = seqs(await journal.read(f"ep-{number}"))
            assert found == list(range(1, len(found) + 1))
            assert len(found) % 3 == 0, "half of an append was kept"
            assert len(found) >= acknowledged.get(f"ep-{number}", 0)
        await journal.append([said("ep-0", len(await journal.read("ep-0")) + 1)])
        await journal.aclose()

    run(check())


async def test_a_thread_that_looked_before_another_does_not_take_the_file_for_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file grew between its look and what it was compared with."""

    journal = await SqlJournal.open(f"sqlite:///{tmp_path}/journal.db")
    for number in range(40):
        await journal.append([started(f"ep-{number}"), said(f"ep-{number}", 2)])
    anchor, look = journal._database.anchor, incarnation._look
    assert anchor is not None

    def overtaken(path: str) -> tuple[tuple[int, int] | None, int]:
        identity, size = look(path)
        anchor._size = size + 4096
        return identity, size

    monkeypatch.setattr(incarnation, "_look", overtaken)
    await journal.check()
    await journal.aclose()
