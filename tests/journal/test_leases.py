"""An embedded journal that several processes of one machine write, or one alone."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from spectator.errors import ConfigurationError, LeaseLost
from spectator.journal.sql_journal import SqlJournal
from tests.journal.records import ended, said, started, url_of

DEAD = """
import asyncio, os, sys
from spectator.journal.sql_journal import SqlJournal
from tests.journal.records import said, started
async def main():
    journal = await SqlJournal.open(sys.argv[1], shared_as="dead")
    await journal.append([started("ep-1"), said("ep-1", 2)])
    os._exit(9)
asyncio.run(main())
"""


async def shared(folder: Path, name: str) -> SqlJournal:
    return await SqlJournal.open(url_of(folder), shared_as=name)


async def test_the_end_of_an_episode_is_the_end_of_its_lease(tmp_path: Path) -> None:
    one, other = await shared(tmp_path, "w-1"), await shared(tmp_path, "w-2")
    await one.append([started("ep-1")])
    assert [(lease.episode_id, lease.owner) for lease in await other.leases()] == [("ep-1", "w-1")]
    await one.append([ended("ep-1", 2)])
    assert await other.leases() == []
    await one.aclose()
    await other.aclose()


async def test_an_append_and_a_deposition_at_once_are_ordered_by_the_database(tmp_path: Path) -> None:
    """What was handed over before counts, what comes after does not; appends beside it are written."""

    one, other = await shared(tmp_path, "w-1"), await shared(tmp_path, "w-2")
    await one.append([started("ep-1")])
    await other.append([started("ep-2")])
    assert other.ownership is not None
    await other.ownership.depose("w-1")
    outcomes = await asyncio.gather(
        one.append([said("ep-1", 2)]), one.append([started("ep-3")]), other.append([said("ep-2", 2)]),
        return_exceptions=True,
    )  # fmt: skip
    assert [type(one) for one in outcomes] == [LeaseLost, type(None), type(None)]
    assert [event.seq for event in await other.read("ep-1")] == [1]
    await one.aclose()
    await other.aclose()


def test_leases_of_dead_processes_end_when_the_journal_is_opened_again(tmp_path: Path) -> None:
    """Their numbers are never given out again."""
    killed = subprocess.run([sys.executable, "-c", DEAD, url_of(tmp_path)], check=False)
    assert killed.returncode == 9

    async def run() -> None:
        reader = await SqlJournal.open(url_of(tmp_path), writable=False)
        (left,) = await reader.leases()
        await reader.aclose()
        journal = await shared(tmp_path, "w-1")
        assert await journal.leases() == []
        await journal.append([said("ep-1", 3)])
        (taken,) = await journal.leases()
        assert taken.fence > left.fence
        second = await shared(tmp_path, "w-2")
        assert await journal.leases() == [taken], "those of the living stay"
        await second.aclose()
        await journal.aclose()

    asyncio.run(run())


async def test_a_journal_is_shared_or_written_by_one_process_alone(tmp_path: Path) -> None:
    alone = await SqlJournal.open(url_of(tmp_path))
    assert await alone.leases() == []
    with pytest.raises(ConfigurationError, match="another process writes the journal"):
        await shared(tmp_path, "w-1")
    await alone.aclose()
    one = await shared(tmp_path, "w-1")
    with pytest.raises(ConfigurationError, match="another process writes the journal"):
        await SqlJournal.open(url_of(tmp_path))
    await one.aclose()
    again = await SqlJournal.open(url_of(tmp_path))
    await again.aclose()
