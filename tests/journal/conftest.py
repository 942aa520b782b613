"""The stores that tests of the journal run on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from spectator.journal.sql_journal import SqlJournal
from tests.journal import records
from tests.postgres import Cluster


@pytest.fixture(scope="session")
def journal_template(postgres: Cluster) -> str:
    """A database with the tables of a journal, to be copied."""
    name = postgres.make()

    async def make_tables() -> None:
        await (await SqlJournal.open(postgres.url(name))).aclose()

    asyncio.run(make_tables())
    return name


@pytest.fixture
def database(postgres: Cluster, journal_template: str, tmp_path: Path) -> Iterator[str]:
    """An empty journal of the test's own."""
    yield postgres.database_of(tmp_path, journal_template)
    postgres.give_back()


@pytest.fixture
def server_url(postgres: Cluster, database: str) -> str:
    """The address of that journal."""
    return postgres.url(database)


@pytest.fixture(params=["sqlite", "postgresql"])
def each_store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Runs a test once on each store: :func:`.records.url_of` then names a journal of that store."""
    if request.param == "postgresql":
        cluster: Cluster = request.getfixturevalue("postgres")
        template: str = request.getfixturevalue("journal_template")

        def url_of(folder: Path) -> str:
            return cluster.url(cluster.database_of(folder, template))

        def execute(folder: Path, statement: str) -> list[tuple[object, ...]]:
            return cluster.execute(cluster.database_of(folder, template), records.as_postgresql(statement))

        monkeypatch.setattr(records, "STORE", records.Store(url_of, execute))
        yield "postgresql"
        cluster.give_back()
    else:
        yield "sqlite"
