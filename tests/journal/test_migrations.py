"""A journal of any earlier version is brought up to date, all of it or nothing, and is readable before."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from spectator.errors import ConfigurationError, JournalDamaged
from spectator.journal.base import EpisodeFilter
from spectator.journal.chain import GENESIS, extend
from spectator.journal.stores.schema import SCHEMA_VERSION
from spectator.journal.stores.sqlite import SqlJournal
from tests.journal.records import ended, run, said, seqs, started, url_of

VERSION_1 = """
    CREATE TABLE schema (version INTEGER NOT NULL, PRIMARY KEY (version));
    CREATE TABLE events (
        episode_id VARCHAR(64) NOT NULL, seq INTEGER NOT NULL, text TEXT NOT NULL,
        PRIMARY KEY (episode_id, seq)
    ) WITHOUT ROWID;
    CREATE TABLE episodes (
        episode_id VARCHAR(64) NOT NULL, epoch VARCHAR(32) NOT NULL, environment VARCHAR(64) NOT NULL,
        title TEXT NOT NULL, captain VARCHAR(64) NOT NULL, captain_label TEXT NOT NULL,
        opponent VARCHAR(64) NOT NULL, pack VARCHAR(64) NOT NULL, seed VARCHAR(20) NOT NULL,
        started_at VARCHAR(32) NOT NULL, ended_at VARCHAR(32), reason VARCHAR(32), score FLOAT, result TEXT,
        turns INTEGER, PRIMARY KEY (episode_id)
    );
    CREATE INDEX episodes_unended ON episodes (ended_at, episode_id);
    INSERT INTO schema VALUES (1);
"""
"""The tables exactly as version 1 made them."""

VERSION_3 = """
    CREATE TABLE schema (version INTEGER NOT NULL, PRIMARY KEY (version));
    CREATE TABLE events (
        episode_id VARCHAR(64) NOT NULL, seq INTEGER NOT NULL, text TEXT NOT NULL, digest BLOB,
        PRIMARY KEY (episode_id, seq)
    );
    CREATE TABLE episodes (
        episode_id VARCHAR(64) NOT NULL, epoch VARCHAR(32) NOT NULL, environment VARCHAR(64) NOT NULL,
        title TEXT NOT NULL, captain VARCHAR(64) NOT NULL, captain_label TEXT NOT NULL,
        opponent VARCHAR(64) NOT NULL, pack VARCHAR(64) NOT NULL, seed VARCHAR(20) NOT NULL,
        started_at VARCHAR(32) NOT NULL, ended_at VARCHAR(32), reason VARCHAR(32), score FLOAT, result TEXT,
        turns INTEGER, detail TEXT, end_seq INTEGER, end_digest BLOB, parent VARCHAR(64),
        PRIMARY KEY (episode_id)
    );
    CREATE INDEX episodes_parent ON episodes (parent, episode_id);
    CREATE INDEX episodes_environment ON episodes (environment, episode_id);
    CREATE INDEX episodes_captain ON episodes (captain, episode_id);
    CREATE INDEX episodes_unended ON episodes (ended_at, episode_id);
    CREATE INDEX episodes_seed ON episodes (seed, episode_id);
    CREATE TABLE removals (episode_id VARCHAR(64) NOT NULL, PRIMARY KEY (episode_id));
    INSERT INTO schema VALUES (3);
"""
"""The tables exactly as version 3 made them."""

VERSION_2 = (
    VERSION_3.replace(", parent VARCHAR(64)", "")
    .replace("INSERT INTO schema VALUES (3)", "INSERT INTO schema VALUES (2)")
    .replace("CREATE INDEX episodes_parent ON episodes (parent, episode_id);", "")
    .replace("CREATE INDEX episodes_environment ON episodes (environment, episode_id);", "")
    .replace("CREATE INDEX episodes_captain ON episodes (captain, episode_id);", "")
    .replace("CREATE INDEX episodes_seed ON episodes (seed, episode_id);", "")
)
"""The tables as version 2 made them: without what a history is searched by."""

OVER = [started("ep-1"), *(said("ep-1", seq) for seq in range(2, 2500)), ended("ep-1", 2500, "interrupted")]
OVER_SHORT = [started("ep-0"), said("ep-0", 2), ended("ep-0", 3)]
UNENDED = [started("ep-2"), said("ep-2", 2, "🏏")]


def make_version(folder: Path, tables: str, *, empty: bool = False) -> Path:
    """A journal of version 2 or 3 with an ended and an unended episode, as that version wrote them."""
    path = folder / "journal.db"
    with sqlite3.connect(path) as connection:
        connection.executescript("PRAGMA journal_mode=WAL;" + tables)
        for episode in () if empty else (OVER_SHORT, UNENDED):
            digest = GENESIS
            for recorded in episode:
                event, digest = recorded.event, extend(digest, recorded.text)
                row = (event.episode_id, event.seq, recorded.text, digest)
                connection.execute("INSERT INTO events VALUES (?, ?, ?, ?)", row)
            connection.execute(
                "INSERT INTO episodes (episode_id, epoch, environment, title, captain, captain_label, "
                "opponent, pack, seed, started_at) VALUES (?, 'e1', 'counting', 'Counting', 'a', 'A', '', "
                "'default', '7', 'now')",
                (episode[0].event.episode_id,),
            )
            if episode[-1].event.type == "episode.ended":
                connection.execute(
                    "UPDATE episodes SET ended_at = 'then', reason = 'finished', end_seq = ?, end_digest = ? "
                    "WHERE episode_id = ?",
                    (episode[-1].event.seq, digest, episode[0].event.episode_id),
                )
    connection.close()
    return path


def make_version_1(folder: Path) -> Path:
    path = folder / "journal.db"
    with sqlite3.connect(path) as connection:
        connection.executescript("PRAGMA journal_mode=WAL;" + VERSION_1)
        for recorded in (*OVER, *UNENDED):
            event = recorded.event
            connection.execute(
                "INSERT INTO events VALUES (?, ?, ?)", (event.episode_id, event.seq, recorded.text)
            )
        for first in (OVER[0], UNENDED[0]):
            connection.execute(
                "INSERT INTO episodes VALUES (?, 'e1', 'counting', 'Counting', 'a', 'A', '', 'default', '7', "
                "'now', NULL, NULL, NULL, NULL, NULL)",
                (first.event.episode_id,),
            )
        connection.execute(
            "UPDATE episodes SET ended_at = '2026-11-21T06:00:00.000Z', reason = 'interrupted' "
            "WHERE episode_id = 'ep-1'"
        )
    connection.close()
    return path


def rows(path: Path, statement: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def chained(texts: list[str]) -> bytes:
    digest = GENESIS
    for text in texts:
        digest = extend(digest, text)
    return digest


def test_version_1_is_brought_up_to_date_and_goes_on(tmp_path: Path) -> None:
    path = make_version_1(tmp_path)

    async def scenario() -> None:
        journal = await SqlJournal.open(url_of(tmp_path))
        assert await journal.read("ep-1") == OVER
        assert await journal.read("ep-2") == UNENDED
        over, unended = await journal.episode("ep-1"), await journal.episode("ep-2")
        assert over is not None
        assert unended is not None
        assert over.digest == chained([one.text for one in OVER]).hex()
        assert (over.head_seq, over.reason, over.detail) == (2500, "interrupted", None)
        assert await journal.end("ep-1") == (2500, bytes.fromhex(over.digest))
        assert await journal.end("ep-2") is None
        assert unended.digest == chained([one.text for one in UNENDED]).hex()
        await journal.append([said("ep-2", 3), ended("ep-2", 4)])
        finished = await journal.episode("ep-2")
        assert finished is not None
        assert finished.digest == chained([one.text for one in await journal.read("ep-2")]).hex()
        await journal.aclose()

    run(scenario())
    assert rows(path, "SELECT version FROM schema") == [(SCHEMA_VERSION,)]


@pytest.mark.parametrize("tables", [None, VERSION_2, VERSION_3], ids=["1", "2", "3"])
def test_a_migrated_journal_has_the_tables_of_a_new_one(tmp_path: Path, tables: str | None) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
    if tables is None:
        make_version_1(old)
    else:
        make_version(old, tables)

    async def opened(folder: Path) -> dict[str, list[tuple[object, ...]]]:
        await (await SqlJournal.open(url_of(folder))).aclose()
        names = ("schema", "events", "episodes", "removals", "messages", "calls", "truths")
        return {name: rows(folder / "journal.db", f"PRAGMA table_info({name})") for name in names}

    migrated, made = run(opened(old)), run(opened(new))
    for name, columns in made.items():
        assert [column[1:4] for column in migrated[name]] == [column[1:4] for column in columns], name


def test_an_old_journal_that_is_only_read_is_not_touched(tmp_path: Path) -> None:
    path = make_version_1(tmp_path)

    async def scenario() -> None:
        reader = await SqlJournal.open(url_of(tmp_path), writable=False)
        assert await reader.read("ep-2") == UNENDED
        summary = await reader.episode("ep-1")
        assert summary is not None
        assert (summary.head_seq, summary.digest, summary.detail) == (2500, None, None)
        assert [one.episode_id for one in await reader.episodes(EpisodeFilter())] == ["ep-2", "ep-1"]
        assert await reader.end("ep-1") is None
        links = [link async for batch in reader.links("ep-2") for link in batch]
        assert [(link.seq, link.digest) for link in links] == [(1, None), (2, None)]
        await reader.check()
        await reader.aclose()

    run(scenario())
    assert rows(path, "SELECT version FROM schema") == [(1,)]
    assert "digest" not in str(rows(path, "SELECT sql FROM sqlite_master"))


KILLED = """
    import asyncio, os, signal, sys
    from spectator.journal.stores import migrations
    from spectator.journal.stores.sqlite import SqlJournal
    chain = migrations._chain
    def die(connection, episode_id):
        if episode_id == "ep-2":
            os.kill(os.getpid(), signal.SIGKILL)
        chain(connection, episode_id)
    migrations._chain = die
    asyncio.run(SqlJournal.open(sys.argv[1]))
"""


def test_a_process_killed_in_the_middle_of_a_migration_changes_nothing(tmp_path: Path) -> None:
    path = make_version_1(tmp_path)
    before = rows(path, "SELECT * FROM events"), rows(path, "SELECT sql FROM sqlite_master")
    died = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), url_of(tmp_path)], timeout=60, check=False
    )
    assert died.returncode == -signal.SIGKILL
    assert (rows(path, "SELECT * FROM events"), rows(path, "SELECT sql FROM sqlite_master")) == before
    assert rows(path, "SELECT version FROM schema") == [(1,)]

    async def again() -> None:
        journal = await SqlJournal.open(url_of(tmp_path))
        assert seqs(await journal.read("ep-1")) == list(range(1, 2501))
        await journal.aclose()

    run(again())
    assert rows(path, "SELECT count(*) FROM events WHERE digest IS NULL") == [(0,)]


@pytest.mark.parametrize(
    ("version", "error"),
    [(SCHEMA_VERSION + 1, ConfigurationError), (0, JournalDamaged), (-3, JournalDamaged)],
)
def test_a_version_from_nowhere_is_refused_and_left_alone(
    tmp_path: Path, version: int, error: type[Exception]
) -> None:
    path = make_version_1(tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE schema SET version = ?", (version,))
    connection.close()
    size = os.stat(path).st_size
    for writable in (True, False):
        with pytest.raises(error, match=f"schema version {version}"):
            run(SqlJournal.open(url_of(tmp_path), writable=writable))
    assert rows(path, "SELECT version FROM schema") == [(version,)]
    assert os.stat(path).st_size == size


def test_forks_of_version_2_are_found_by_their_parents_in_version_3(tmp_path: Path) -> None:
    path = make_version_1(tmp_path)

    async def forked() -> list[str]:
        journal = await SqlJournal.open(url_of(tmp_path))
        found = await journal.episodes(EpisodeFilter(parent="ep-0"))
        await journal.aclose()
        return [summary.episode_id for summary in found]

    with sqlite3.connect(path) as connection:
        connection.execute(
            """UPDATE events SET text = replace(text, '"data":{', '"data":{"parent":{"episode_id":"ep-0"},')
            WHERE episode_id = 'ep-2' AND seq = 1"""
        )
    connection.close()
    assert run(forked()) == ["ep-2"]


@pytest.mark.parametrize("tables", [VERSION_2, VERSION_3], ids=["2", "3"])
def test_later_old_journals_are_read_as_they_are_and_go_on_once_brought_up_to_date(
    tmp_path: Path, tables: str
) -> None:
    path = make_version(tmp_path, tables)
    version = rows(path, "SELECT version FROM schema")

    async def found(journal: SqlJournal) -> list[object]:
        over = await journal.episode("ep-0")
        assert over is not None and over.digest == chained([one.text for one in OVER_SHORT]).hex()
        assert (over.run_id, over.group_id, over.attempt, over.parent) == (None, None, None, None)
        assert await journal.episodes(EpisodeFilter(run_id="r")) == []
        assert [one async for one in journal.calls("ep-0")] == []
        assert await journal.truth("ep-0") is None
        return [await journal.read("ep-0"), await journal.read("ep-2"), await journal.end("ep-0")]

    async def scenario() -> None:
        reader = await SqlJournal.open(url_of(tmp_path), writable=False)
        before = await found(reader)
        await reader.aclose()
        assert rows(path, "SELECT version FROM schema") == version
        journal = await SqlJournal.open(url_of(tmp_path))
        assert await found(journal) == before
        await journal.append([said("ep-2", 3), ended("ep-2", 4)])
        await journal.aclose()

    run(scenario())
    assert rows(path, "SELECT version FROM schema") == [(SCHEMA_VERSION,)]
