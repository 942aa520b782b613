"""Notices over a real PostgreSQL: they come, a lost connection is made anew, a pooler is found out."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from spectator.backoff import Backoff
from spectator.clock import SystemClock
from spectator.errors import JournalError
from spectator.journal import postgres as connections
from spectator.journal.postgres import LARGEST, NoticeListener, NoticeSender
from tests.conftest import require
from tests.journal.records import run
from tests.journal.test_postgres import POOLER_PATH
from tests.postgres import POOL_PORT, Cluster, running_pooler

CHANNEL = "spectator_test"
PATIENCE_S = 20.0


@pytest.fixture(scope="module")
def database(postgres: Cluster) -> str:
    return postgres.make()


@pytest.fixture
def pooler(postgres: Cluster) -> Iterator[None]:
    """PgBouncer in transaction mode before the server."""
    with running_pooler(require("pgbouncer", shutil.which("pgbouncer", path=POOLER_PATH)), postgres):
        yield


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LISTEN_PAUSES", Backoff(0.02, 0.05))


@dataclass
class Heard:
    """What one listener took, and what it said of itself."""

    sender: NoticeSender
    notices: list[str] = field(default_factory=list)
    changes: list[bool] = field(default_factory=list)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():  # noqa: ASYNC110 - what it waits for sets no event
                await asyncio.sleep(0.01)


@asynccontextmanager
async def listening(url: str, direct: str | None = None) -> AsyncIterator[Heard]:
    sender = NoticeSender(url)
    heard = Heard(sender)
    instead = "the journal is asked instead"
    listener = NoticeListener(
        direct or url, CHANNEL, heard.notices.append, sender, SystemClock(), instead, heard.changes.append
    )
    task = asyncio.create_task(listener.run())
    try:
        yield heard
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await sender.aclose()


async def test_notices_come_in_order_and_those_to_oneself_are_not_taken(
    postgres: Cluster, database: str
) -> None:
    sent = ["first", "x" * LARGEST, "signs \" \\ ' é"]

    async with listening(postgres.url(database)) as heard:
        await heard.until(lambda: heard.changes == [True])
        await heard.sender.send(CHANNEL, sent[:2])
        await heard.sender.send(CHANNEL, sent[2:])
        await heard.until(lambda: len(heard.notices) == 3)
        assert heard.notices == sent


def test_a_listening_connection_that_ends_is_made_anew(
    postgres: Cluster, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def cut_off(heard: Heard, notice: str) -> None:
        await heard.sender.send(CHANNEL, [notice])
        await heard.until(lambda: heard.notices[-1:] == [notice])
        ended = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            f"WHERE datname = '{database}' AND query LIKE 'LISTEN%'"
        )
        assert await asyncio.to_thread(postgres.execute, database, ended) == [(True,)]

    async def scenario() -> None:
        async with listening(postgres.url(database)) as heard:
            await heard.until(lambda: heard.changes == [True])
            await cut_off(heard, "before")
            await heard.until(lambda: heard.changes == [True, False, True])
            await cut_off(heard, "between")
            await heard.until(lambda: heard.changes == [True, False, True, False, True])

    with caplog.at_level(logging.INFO):
        run(scenario())
    said = [one.message for one in caplog.records if "notices" in one.message]
    assert len(said) == 4 and "the journal is asked instead" in said[0] and "arrive again" in said[1]


async def test_behind_a_pooler_it_says_so_once_and_a_direct_address_helps(
    postgres: Cluster,
    database: str,
    pooler: None,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "PROOF_S", 0.3)
    pooled, direct = postgres.url(database, port=str(POOL_PORT)), postgres.url(database)

    async with listening(pooled) as heard:
        await asyncio.sleep(1.5)  # several attempts, each of which must fail
        assert heard.changes == []
    async with listening(pooled, direct) as heard:
        await heard.until(lambda: heard.changes == [True])
        await heard.sender.send(CHANNEL, ["through the pooler"])
        await heard.until(lambda: heard.notices == ["through the pooler"])
    (said,) = [one.message for one in caplog.records if "no notices" in one.message]
    assert "pooler in transaction mode" in said and "the journal is asked instead" in said


async def test_a_database_that_is_away_is_told_without_the_password(caplog: pytest.LogCaptureFixture) -> None:
    url = "postgresql://me:s3cret-Pass@127.0.0.1:1/journal"

    async with listening(url) as heard:
        await heard.until(lambda: any("no notices" in one.message for one in caplog.records))
        with pytest.raises(JournalError, match="notices cannot be sent") as refused:
            await heard.sender.send(CHANNEL, ["lost"])
        assert "s3cret" not in str(refused.value)
        assert heard.changes == []
    assert "s3cret" not in caplog.text


async def test_a_sender_connects_again_after_a_failure(postgres: Cluster, database: str) -> None:
    async with listening(postgres.url(database)) as heard:
        await heard.until(lambda: heard.changes == [True])
        with pytest.raises(JournalError, match="too long"):
            await heard.sender.send(CHANNEL, ["x" * 8_001])
        await heard.sender.send(CHANNEL, ["again"])
        await heard.until(lambda: heard.notices == ["again"])
