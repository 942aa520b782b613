"""A journal in PostgreSQL: what it refuses and how it says so, and what it survives."""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from spectator.errors import (
    ConfigurationError,
    EpisodeDamaged,
    JournalDamaged,
    JournalError,
    JournalUnavailable,
    LeaseLost,
    SequenceConflict,
)
from spectator.events import RecordedEvent
from spectator.journal import postgres as connections
from spectator.journal.contract import Attachments, Checkpoint, EpisodeFilter
from spectator.journal.schema import SCHEMA_VERSION
from spectator.journal.sql_journal import SqlJournal
from tests.commands import spectator
from tests.conftest import require
from tests.journal.calls import call_of, decided, user
from tests.journal.records import ended, run, said, seqs, started
from tests.postgres import POOL_PORT, Cluster, running_pooler

SECRET = "s3cret-Pass"

POOLER_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"
"""Where PgBouncer is looked for: Debian keeps it where not everybody looks."""


async def opened(postgres: Cluster, database: str) -> SqlJournal:
    return await SqlJournal.open(postgres.url(database))


def fail_with(postgres: Cluster, database: str, code: str, says: str) -> None:
    """Let every insertion of an event fail as the server itself would."""
    postgres.execute(
        database,
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{says}' USING ERRCODE = '{code}'; END $$",
    )
    postgres.execute(
        database, "CREATE TRIGGER fail BEFORE INSERT ON events FOR EACH STATEMENT EXECUTE FUNCTION fail()"
    )


def heal(postgres: Cluster, database: str) -> None:
    postgres.execute(database, "DROP FUNCTION fail CASCADE")


# what can be opened


async def test_processes_that_open_an_empty_database_at_once_make_its_tables_once(
    postgres: Cluster, scratch: str
) -> None:
    journals = await asyncio.gather(*(opened(postgres, scratch) for _ in range(4)))
    await asyncio.gather(*(one.append([started(f"ep-{at}")]) for at, one in enumerate(journals)))
    assert len(await journals[0].episodes(EpisodeFilter())) == 4
    await asyncio.gather(*(one.aclose() for one in journals))
    assert postgres.execute(scratch, "SELECT version FROM schema") == [(SCHEMA_VERSION,)]
    assert postgres.execute(scratch, "SELECT * FROM owners") == [], "whoever leaves says so"


@pytest.mark.parametrize(
    ("url", "error", "says"),
    [
        (f"postgresql://me:{SECRET}@:::/x", ConfigurationError, "percent-encoded"),
        (f"postgresql://me:{SECRET}@host:port/x", ConfigurationError, "percent-encoded"),
        (f"postgresql://me:{SECRET}@host", ConfigurationError, "names no database"),
        (f"postgresql+asyncpg://me:{SECRET}@host/x", ConfigurationError, "URL"),
        (f"mysql://me:{SECRET}@host/x", ConfigurationError, "URL"),
        (f"postgresql://me:{SECRET}@127.0.0.1:1/x", JournalError, "127.0.0.1"),
        (f"postgresql://me:{SECRET}@nowhere.invalid/x", JournalError, "nowhere.invalid"),
        (f"postgresql://me@127.0.0.1:1/x?password={SECRET}", JournalError, "127.0.0.1"),
        (f"postgresql://me:{SECRET}@127.0.0.1:1/x?no_such_option=1", JournalError, "no_such_option"),
    ],
)
def test_a_url_that_leads_nowhere_is_refused_in_a_line_without_its_password(
    url: str, error: type[Exception], says: str
) -> None:
    for writable in (True, False):
        with pytest.raises(error) as refused:
            run(SqlJournal.open(url, writable=writable))
        assert says in str(refused.value)
        assert SECRET not in str(refused.value)
        assert "\n" not in str(refused.value)


def test_a_wrong_password_is_refused_without_being_told(postgres: Cluster, scratch: str) -> None:
    postgres.execute(scratch, f"CREATE ROLE guest LOGIN PASSWORD '{SECRET}'")
    rules = postgres.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"local all guest scram-sha-256\n{before}")
    postgres.execute(scratch, "SELECT pg_reload_conf()")
    try:
        url = f"postgresql://guest:{SECRET}-wrong@/{scratch}?host={postgres.folder}"
        with pytest.raises(JournalError, match="password authentication failed") as refused:
            run(SqlJournal.open(url))
        assert SECRET not in str(refused.value)
        with pytest.raises(JournalError, match="permission denied"):
            run(SqlJournal.open(url.replace("-wrong", "")))
    finally:
        rules.write_text(before)
        postgres.execute(scratch, "SELECT pg_reload_conf()")


def test_a_server_that_is_too_old_is_refused(
    postgres: Cluster, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "OLDEST", 99)
    with pytest.raises(ConfigurationError, match=r"is PostgreSQL \d+; a journal needs 99 or newer"):
        run(opened(postgres, database))


def test_a_database_of_another_encoding_is_refused(postgres: Cluster) -> None:
    name = postgres.make("template0", "ENCODING 'LATIN1' LOCALE 'C'")
    with pytest.raises(ConfigurationError, match="has the encoding LATIN1"):
        run(opened(postgres, name))


def test_a_database_of_somebody_else_is_left_alone(postgres: Cluster, scratch: str) -> None:
    postgres.execute(scratch, "CREATE TABLE events (mine text)")
    with pytest.raises(ConfigurationError, match="a table 'events' that is not a journal's"):
        run(opened(postgres, scratch))
    postgres.execute(scratch, "CREATE TABLE schema (mine text)")
    for writable in (True, False):
        with pytest.raises(JournalError, match="version"):
            run(SqlJournal.open(postgres.url(scratch), writable=writable))
    names = postgres.execute(
        scratch, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    )
    assert sorted(names) == [("events",), ("schema",)]


def test_a_reader_makes_no_journal(postgres: Cluster, scratch: str) -> None:
    with pytest.raises(JournalError, match="there is no journal at"):
        run(SqlJournal.open(postgres.url(scratch), writable=False))


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, 0])
def test_tables_of_another_version_are_left_alone(postgres: Cluster, scratch: str, version: int) -> None:
    async def make() -> None:
        await (await opened(postgres, scratch)).aclose()

    run(make())
    postgres.execute(scratch, f"UPDATE schema SET version = {version}")
    for writable in (True, False):
        with pytest.raises(ConfigurationError, match=f"schema version {version}"):
            run(SqlJournal.open(postgres.url(scratch), writable=writable))


def test_without_psycopg_its_installation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'openenv-spectator\[postgres\]'"):
        run(SqlJournal.open("postgresql://me@127.0.0.1:1/x"))


async def test_a_database_that_is_only_read_is_refused_when_it_is_to_be_written(
    postgres: Cluster, scratch: str
) -> None:
    journal = await opened(postgres, scratch)
    await journal.append([started("ep-1")])
    postgres.execute("postgres", f"ALTER DATABASE {scratch} SET default_transaction_read_only = on")
    reader = await SqlJournal.open(postgres.url(scratch), writable=False)
    assert seqs(await reader.read("ep-1")) == [1]
    await reader.check()
    await reader.aclose()
    with pytest.raises(JournalError, match="read-only transaction"):
        await opened(postgres, scratch)
    drop_connections(postgres, scratch)
    with pytest.raises(JournalUnavailable):
        await journal.append([said("ep-1", 2)])
    with pytest.raises(JournalUnavailable, match="read-only transaction"):
        await journal.append([said("ep-1", 2)])
    postgres.execute("postgres", f"ALTER DATABASE {scratch} SET default_transaction_read_only = off")
    drop_connections(postgres, scratch)
    await until_written(journal, [said("ep-1", 2)])
    assert seqs(await journal.read("ep-1")) == [1, 2]
    await journal.aclose()


def drop_connections(postgres: Cluster, database: str) -> None:
    """Cut every connection to a database off, as a server that goes away does."""
    postgres.execute(
        "postgres", f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'"
    )


async def until_written(journal: SqlJournal, events: list[RecordedEvent]) -> int:
    """Append as whoever plays does: again as long as it may pass; how often it did not work."""
    failed = 0
    while True:
        try:
            await journal.append(events)
        except JournalUnavailable:
            failed += 1
            assert failed < 1000
            await asyncio.sleep(0)
        else:
            return failed


# what it survives


async def test_a_server_that_goes_away_and_comes_back_loses_nothing(postgres: Cluster, database: str) -> None:
    journal = await opened(postgres, database)
    await journal.append([started("ep-1")])
    await asyncio.to_thread(postgres.stop)
    try:
        for _ in range(2):
            with pytest.raises(JournalUnavailable) as told:
                await journal.append([said("ep-1", 2)])
            assert "\n" not in str(told.value)
        with pytest.raises(JournalError):
            await journal.read("ep-1")
        with pytest.raises(JournalError):
            await journal.check()
        with pytest.raises(JournalError, match="cannot be opened"):
            await opened(postgres, database)
    finally:
        await asyncio.to_thread(postgres.start)
    await until_written(journal, [said("ep-1", 2)])
    await journal.check()
    assert seqs(await journal.read("ep-1")) == [1, 2]
    await journal.append([ended("ep-1", 3)])
    await journal.aclose()
    again = await opened(postgres, database)
    summary = await again.episode("ep-1")
    assert summary is not None and summary.reason == "finished"
    await again.aclose()


async def test_a_commit_whose_answer_is_lost_counts_once(postgres: Cluster, database: str) -> None:
    """Of appends at once too; what was not committed, or holds other events, is not taken for recorded."""

    journal = await opened(postgres, database)
    dialect, lost = journal._database.engine.dialect, [0]
    lost_connection: Any = importlib.import_module("psycopg").OperationalError
    commit = dialect.do_commit

    def commit_and_lose(connection: Any) -> None:
        commit(connection)
        if lost[0]:
            lost[0] -= 1
            raise lost_connection("server closed the connection unexpectedly")

    dialect.do_commit = commit_and_lose  # type: ignore[assignment, method-assign]
    for batch in ([started("ep-1")], [said("ep-1", 2), said("ep-1", 3)], [ended("ep-1", 4)]):
        lost[0] = 1
        with pytest.raises(JournalUnavailable, match="server closed"):
            await journal.append(batch)
        await journal.append(batch)
    lost[0] = 1
    await asyncio.gather(*(journal.append([started(f"ep-{at}")]) for at in range(2, 9)))
    lost[0] = 1
    with pytest.raises(JournalUnavailable):
        await journal.append([said("ep-2", 2)])
    with pytest.raises(SequenceConflict):
        await journal.append([said("ep-2", 2, "another")])
    await journal.append([said("ep-2", 3)])
    assert seqs(await journal.read("ep-1")) == [1, 2, 3, 4]
    assert seqs(await journal.read("ep-2")) == [1, 2, 3]
    assert len(await journal.episodes(EpisodeFilter())) == 8
    await journal.aclose()


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("53100", "could not extend file: No space left on device"),
        ("57014", "canceling statement due to statement timeout"),
        ("40P01", "deadlock detected"),
        ("42501", "permission denied for table events"),
    ],
)
async def test_trouble_of_the_server_is_told_and_passes(
    postgres: Cluster, database: str, code: str, says: str
) -> None:
    journal = await opened(postgres, database)
    await journal.append([started("ep-1")])
    fail_with(postgres, database, code, says)
    try:
        with pytest.raises(JournalUnavailable, match=says):
            await journal.append([said("ep-1", 2)])
        assert seqs(await journal.read("ep-1")) == [1]
    finally:
        heal(postgres, database)
    await journal.append([said("ep-1", 2)])
    assert seqs(await journal.read("ep-1")) == [1, 2]
    await journal.aclose()


async def test_a_damaged_page_is_named(postgres: Cluster, scratch: str) -> None:
    says = "invalid page in block 3 of relation base/16384/16385"

    journal = await opened(postgres, scratch)
    await journal.append([started("ep-1")])
    fail_with(postgres, scratch, "XX001", says)
    with pytest.raises(JournalUnavailable, match=rf"{says}; .* repair the database"):
        await journal.append([said("ep-1", 2)])
    heal(postgres, scratch)
    postgres.execute(
        scratch,
        "ALTER TABLE events RENAME TO kept; CREATE FUNCTION page() RETURNS boolean LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{says}' USING ERRCODE = 'XX001'; END $$; "
        "CREATE VIEW events AS SELECT * FROM kept WHERE page()",
    )
    with pytest.raises(EpisodeDamaged, match=f"the record of ep-1 is damaged: {says}"):
        await journal.read("ep-1")
    with pytest.raises(JournalDamaged, match=says):
        await journal.episodes(EpisodeFilter())
    await journal.aclose()


async def test_a_server_that_is_too_slow_is_not_waited_for(
    postgres: Cluster, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WRITE_S", 1)

    journal = await opened(postgres, database)
    await journal.append([started("ep-1")])
    postgres.execute(
        database,
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$",
    )
    postgres.execute(
        database, "CREATE TRIGGER slow BEFORE INSERT ON events FOR EACH STATEMENT EXECUTE FUNCTION fail()"
    )
    try:
        with pytest.raises(JournalUnavailable, match="statement timeout"):
            await journal.append([said("ep-1", 2)])
    finally:
        heal(postgres, database)
    await journal.append([said("ep-1", 2)])
    await journal.aclose()


async def test_text_that_a_server_cannot_hold_is_kept_in_the_event(postgres: Cluster, database: str) -> None:
    """Its index cannot hold a zero character, which JSON escapes."""
    import dataclasses

    from spectator.events import record

    end = ended("ep-1", 2).event
    end = dataclasses.replace(end, data={**end.data, "result": "won\x00by one"})

    journal = await opened(postgres, database)
    await journal.append([started("ep-1"), record(end)])
    summary = await journal.episode("ep-1")
    assert summary is not None and summary.result == "won\ufffdby one"
    assert (await journal.read("ep-1"))[1].event.data["result"] == "won\x00by one"
    await journal.aclose()


async def test_nothing_of_a_session_is_used(postgres: Cluster, database: str) -> None:
    """So a pooler may give each transaction another connection."""
    statements: list[str] = []

    journal = await opened(postgres, database)
    engine = journal._database.engine
    event.listen(engine, "before_cursor_execute", lambda *told: statements.append(told[2]))
    await journal.append([started("ep-1"), said("ep-1", 2)])
    for _ in range(12):  # psycopg would prepare what it runs for the sixth time
        await journal.episode("ep-1")
    await journal.tidy()
    await journal.news(None)
    await journal.check()
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT name FROM pg_prepared_statements").all() == []
        settings = "SELECT name FROM pg_settings WHERE source = 'session' AND name !~ '^(client|Date)'"
        changed = {name for (name,) in connection.exec_driver_sql(settings)}
    assert changed <= {"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"}
    await journal.aclose()
    words = " ".join(statements)
    assert "SET LOCAL" in words
    of_a_row = re.compile(r"SET LOCAL|(DO UPDATE|UPDATE \w+) SET")
    assert "SET " not in of_a_row.sub("", words)
    for of_a_session in ("PREPARE", "LISTEN", "pg_advisory_lock(", "TEMP", "DECLARE"):
        assert of_a_session not in words


@pytest.fixture
def pooler(postgres: Cluster) -> Iterator[None]:
    """A pooler before the server."""
    with running_pooler(require("pgbouncer", shutil.which("pgbouncer", path=POOLER_PATH)), postgres):
        yield


async def test_a_journal_behind_a_pooler_is_as_any_other(
    postgres: Cluster, scratch: str, pooler: None
) -> None:
    """With more work at once than it has connections, each transaction comes by whichever is free."""
    url = postgres.url(scratch, port=str(POOL_PORT))

    async def play(journal: SqlJournal, episode_id: str) -> None:
        await journal.append([started(episode_id)])
        for seq in range(2, 12):
            call = call_of([user("rules"), user(f"{episode_id} {seq}")])
            made = Attachments(calls=[[call]])
            await journal.append([decided(episode_id, seq, [call])], attachments=made)
            assert (await journal.episode(episode_id)) is not None
            await journal.keep_checkpoint(Checkpoint(episode_id, seq, b"here"))
        await journal.append([ended(episode_id, 12)])

    journals = [await SqlJournal.open(url) for _ in range(4)]
    playing = [play(one, f"ep-{at}-{n}") for at, one in enumerate(journals) for n in range(3)]
    await asyncio.gather(*playing)
    first, second, *_ = journals
    assert first.ownership is not None and second.ownership is not None
    assert len((await first.news(None)).episodes) == 12
    for one in await first.episodes(EpisodeFilter()):
        assert seqs(await second.read(one.episode_id)) == list(range(1, 13))
        assert len([call async for call in second.calls(one.episode_id)]) == 10
    await first.append([started("ep-last")])
    assert await second.ownership.depose(first.ownership.name) == ["ep-last"]
    with pytest.raises(LeaseLost):
        await first.append([said("ep-last", 2)])
    await first.remove("ep-0-0")
    await first.tidy()
    await first.compact()
    await first.check()
    await asyncio.gather(*(journal.aclose() for journal in journals))


# news, in the order of commits


async def test_news_pass_nothing_over_that_was_committed_out_of_turn(
    postgres: Cluster, database: str
) -> None:
    journal, other = await opened(postgres, database), await opened(postgres, database)
    await journal.append([started("ep-1")])
    first = await journal.news(None)
    assert first.whole and [one.row["episode_id"] for one in first.episodes] == ["ep-1"]
    with postgres.connect(database) as slow:  # begins before the next one and is committed after it
        slow.execute("INSERT INTO events VALUES ('ep-0', 1, '{}', '')")
        await other.append([started("ep-2")])
        held_back = await journal.news(first.mark)
        assert held_back.episodes == []
        slow.execute("UPDATE events SET text = %s WHERE episode_id = 'ep-0'", [started("ep-0").text])
        slow.commit()
    after = await journal.news(held_back.mark)
    assert [one.row["episode_id"] for one in after.episodes] == ["ep-2"]
    assert (await journal.news(after.mark)).episodes == []
    await journal.append([said("ep-1", 2), ended("ep-1", 3)])
    (one,) = (await journal.news(after.mark)).episodes
    assert (one.row["episode_id"], one.head_seq, one.row["reason"]) == ("ep-1", 3, "finished")
    await journal.aclose()
    await other.aclose()


async def test_news_are_read_a_part_at_a_time(
    postgres: Cluster, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spectator.journal import queries

    monkeypatch.setattr(queries, "LOOKED_THROUGH", 5)

    journal = await opened(postgres, database)
    mark = (await journal.news(None)).mark
    for name in ("ep-1", "ep-2", "ep-3"):
        await journal.append([started(name), *(said(name, seq) for seq in range(2, 9))])
    found: list[str] = []
    more = True
    while more:
        told = await journal.news(mark)
        found += [one.row["episode_id"] for one in told.episodes]
        mark, more = told.mark, told.more
    assert found == ["ep-1", "ep-2", "ep-3"]
    await journal.aclose()


# commands


def test_commands_read_the_journal_that_the_environment_names(
    postgres: Cluster, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> str:
        journal = await opened(postgres, database)
        await journal.append([started("ep-1", environment="elsewhere"), said("ep-1", 2), ended("ep-1", 3)])
        summary = await journal.episode("ep-1")
        await journal.aclose()
        assert summary is not None and summary.digest is not None
        return summary.digest

    digest = run(play())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPECTATOR_JOURNAL_URL", postgres.url(database))
    checked = spectator("verify", "ep-1", "--chain-only")
    assert (checked.exit_code, checked.stdout) == (0, f"ep-1: 3 events, digest {digest}\n")
    exported = spectator("export", "ep-1", "--out", "one.ndjson")
    assert exported.exit_code == 0, exported.output
    assert len((tmp_path / "one.ndjson").read_text().splitlines()) == 3
    table = spectator("export", "--all", "--format", "parquet", "--out", "all.parquet")
    assert table.exit_code == 0, table.output
    pruned = spectator("prune", "--keep-days", "0.001", "--compact")
    assert pruned.exit_code == 0, pruned.output
    assert "1 episodes" in pruned.stderr
    elsewhere = spectator("verify", "ep-1", "--data-dir", tmp_path)
    assert "there is no journal at" in elsewhere.output, "a folder that is named comes first"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET text = replace(text, '\"now\"', '\"then\"') WHERE seq = 2",
        "DELETE FROM events WHERE seq = 2",
        "UPDATE events SET digest = '\\x00' WHERE seq = 2",
    ],
)
async def test_a_record_that_was_changed_in_the_database_is_refused(
    postgres: Cluster, database: str, statement: str
) -> None:
    journal = await opened(postgres, database)
    await journal.append([started("ep-1"), said("ep-1", 2), said("ep-1", 3)])
    await journal.append([started("ep-2")])
    postgres.execute(database, statement)
    with pytest.raises(EpisodeDamaged, match="event 2"):
        await journal.read("ep-1")
    assert seqs(await journal.read("ep-2")) == [1]
    await journal.aclose()
