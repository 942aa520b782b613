"""A journal copied into PostgreSQL: every row and digest arrives, each episode whole or not at all."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from spectator.errors import JournalError
from spectator.events import Event, record
from spectator.journal import transfer
from spectator.journal.contract import Attachments, Checkpoint, truth_digest
from spectator.journal.schema import metadata
from spectator.journal.sql_journal import SqlJournal
from tests.commands import spectator
from tests.journal.calls import call_of, decided, user
from tests.journal.records import _execute, ended, said, started
from tests.postgres import Cluster

TABLES = ("events", "messages", "calls", "truths", "checkpoints", "episodes")
TRUTH = '{"higgs":125}'


@pytest.fixture
def database(postgres: Cluster) -> str:
    return postgres.make()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A journal of three episodes: one with calls and a truth, one that plays on, a long one."""

    async def fill() -> None:
        journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}")
        calls = [call_of([user("hi")], tokens=[1, 2], logprobs=[-0.25, -1e-9], prompt=[7])]
        await journal.append([started("ep-1")])
        await journal.append([decided("ep-1", 2, calls)], attachments=Attachments(calls=[calls]))
        data = {**ended("ep-1", 3).event.data, "truth": truth_digest(TRUTH), "result": "home\x00 won"}
        end = record(Event("ep-1", "e1", 3, "2026-11-21T06:00:00.000Z", 3, "episode.ended", data))
        await journal.append([end], attachments=Attachments(truth=TRUTH))
        await journal.append([started("ep-2"), said("ep-2", 2, "ö\x00")])
        await journal.keep_checkpoint(Checkpoint("ep-2", 2, b"here"))
        long = [said("ep-3", seq) for seq in range(2, 1300)]
        await journal.append([started("ep-3"), *long, ended("ep-3", 1300)])
        await journal.aclose()

    asyncio.run(fill())
    return tmp_path


def copy(folder: Path, url: str) -> Result:
    return spectator("copy-journal", "--data-dir", folder, env={"SPECTATOR_JOURNAL_URL": url})


def rows(execute: Any, table: str) -> list[tuple[Any, ...]]:
    names = ", ".join(column.name for column in metadata.tables[table].columns)
    return sorted(execute(f"SELECT {names} FROM {table}"), key=repr)


async def test_every_row_arrives_and_the_journal_stays(
    folder: Path, database: str, postgres: Cluster
) -> None:
    before = {table: rows(lambda text: _execute(folder, text), table) for table in TABLES}
    assert all(before.values()), "there is something of each kind"
    result = copy(folder, postgres.url(database))
    assert result.exit_code == 0, result.output
    assert "3 episodes, 1305 events copied, every digest verified; 0 were already there" in result.output
    for table in TABLES:
        assert rows(lambda text: _execute(folder, text), table) == before[table]
        there = rows(lambda text: postgres.execute(database, text), table)
        plain = [tuple(_plain(value) for value in row) for row in before[table]]
        assert there == sorted(plain if table == "episodes" else before[table], key=repr)
    assert postgres.execute(database, "SELECT count(*) FROM owners") == [(0,)], "nobody waits for the command"

    journal = await SqlJournal.open(postgres.url(database))
    await journal.append([said("ep-2", 3)])
    found = await journal.truth("ep-1"), len([call async for call in journal.calls("ep-1")])
    await journal.aclose()
    assert found == (TRUTH, 1)
    again = copy(folder, postgres.url(database))
    assert again.exit_code == 0, "what was played on since is no obstacle"
    assert "0 episodes, 0 events copied, every digest verified; 3 were already there" in again.output


def _plain(value: object) -> object:
    return value.replace("\x00", "\ufffd") if isinstance(value, str) else value


def test_what_interrupts_it_leaves_whole_episodes_and_it_goes_on(
    folder: Path, database: str, postgres: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, tables = transfer._copy, []

    def fail(source: Any, target: Any, table: Any, episode_id: str) -> None:
        tables.append(table.name)
        if episode_id == "ep-2" and table.name == "episodes":
            raise JournalError("the power is gone")
        whole(source, target, table, episode_id)

    with monkeypatch.context() as patch:
        patch.setattr(transfer, "_copy", fail)
        broken = copy(folder, postgres.url(database))
    assert broken.exit_code == 1
    assert "the power is gone" in broken.output
    assert postgres.execute(database, "SELECT DISTINCT episode_id FROM events") == [("ep-1",)]
    assert tables.count("episodes") == 2
    result = copy(folder, postgres.url(database))
    assert "2 episodes, 1302 events copied" in result.output
    assert "1 were already there" in result.output


def test_a_damaged_episode_is_left_out_and_named_and_the_others_go(
    folder: Path, database: str, postgres: Cluster
) -> None:
    _execute(
        folder,
        "UPDATE events SET text = replace(text, '\"x\"', '\"y\"') WHERE episode_id = 'ep-3' AND seq = 9",
    )
    result = copy(folder, postgres.url(database))
    assert result.exit_code == 1
    assert "ep-3: event 9 does not match its digest" in result.output
    assert "1 episodes are damaged and were not copied" in result.output
    assert postgres.execute(database, "SELECT episode_id FROM episodes ORDER BY 1") == [("ep-1",), ("ep-2",)]
    assert postgres.execute(database, "SELECT count(*) FROM events WHERE episode_id = 'ep-3'") == [(0,)]


def test_what_arrives_otherwise_is_noticed_and_undone(folder: Path, database: str, postgres: Cluster) -> None:
    copy(folder, postgres.url(database))
    for table in TABLES:
        postgres.execute(database, f"DELETE FROM {table}")
    postgres.execute(
        database,
        "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN NEW.beside := '{}'; RETURN NEW; END $$; "
        "CREATE TRIGGER spoil BEFORE INSERT ON calls FOR EACH ROW EXECUTE FUNCTION spoil()",
    )
    result = copy(folder, postgres.url(database))
    assert result.exit_code == 1
    assert "ep-1: the copied rows of calls differ from the source" in result.output
    assert postgres.execute(database, "SELECT count(*) FROM events WHERE episode_id = 'ep-1'") == [(0,)]


def test_a_database_with_other_episodes_is_refused(
    folder: Path, database: str, postgres: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def record_one(url: str, episode_id: str) -> None:
        journal = await SqlJournal.open(url)
        await journal.append([started(episode_id, environment="cricket")])
        await journal.aclose()

    asyncio.run(record_one(postgres.url(database), "ep-9"))
    refused = copy(folder, postgres.url(database))
    assert refused.exit_code == 1
    assert "the database contains ep-9, which the source journal does not" in refused.output
    other = postgres.make()
    asyncio.run(record_one(postgres.url(other), "ep-2"))
    refused = copy(folder, postgres.url(other))
    assert refused.exit_code == 1
    assert "the database already contains another episode ep-2" in refused.output
    assert postgres.execute(other, "SELECT count(*) FROM events WHERE episode_id = 'ep-2'") == [(1,)]


def test_a_server_that_runs_and_urls_that_name_nothing_are_refused(
    folder: Path, database: str, postgres: Cluster
) -> None:
    async def copy_meanwhile() -> Result:
        journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}")
        try:
            return await asyncio.to_thread(copy, folder, postgres.url(database))
        finally:
            await journal.aclose()

    locked = asyncio.run(copy_meanwhile())
    assert locked.exit_code == 1
    assert "another process writes the journal" in locked.output
    for url in ("", "sqlite:///other.db"):
        result = copy(folder, url)
        assert result.exit_code == 2
        assert "--to or SPECTATOR_JOURNAL_URL" in result.output
    away = copy(folder, "postgresql://me:s3cret@127.0.0.1:1/x")
    assert away.exit_code == 1
    assert "127.0.0.1" in away.output and "s3cret" not in away.output
    empty = folder / "empty"
    empty.mkdir()
    assert "there is no journal at" in copy(empty, postgres.url(database)).output
