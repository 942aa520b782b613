"""Leases: a number that grows, and appends that the database itself holds against it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from spectator.errors import JournalError, LeaseLost
from spectator.journal.stores.leases import Leases
from spectator.journal.stores.sqlite import SqlJournal
from tests.journal.records import ended, said, started, url_of

pytestmark = pytest.mark.usefixtures("each_store")


async def opened(folder: Path) -> SqlJournal:
    return await SqlJournal.open(url_of(folder))


def test_a_deposed_owner_records_nothing_and_the_next_one_goes_on(tmp_path: Path) -> None:
    async def run() -> None:
        journal = await opened(tmp_path)
        leases = await Leases.begin(journal)
        (old,) = await leases.take("w-1", ["ep-1"], expires_ms=1)
        await journal.append_held(old.fence, [said("ep-1", 1)])
        await leases.depose("w-1")
        (new,) = await leases.take("w-2", ["ep-1"], expires_ms=2)
        assert new.fence > old.fence
        with pytest.raises(LeaseLost, match="played elsewhere"):
            await journal.append_held(old.fence, [said("ep-1", 2)])
        await journal.append_held(new.fence, [said("ep-1", 2)])
        with pytest.raises(LeaseLost):
            await journal.append_held(new.fence, [said("ep-2", 1)])
        assert [one.seq for one in await journal.read("ep-1")] == [1, 2]
        assert await journal.read("ep-2") == []
        await journal.aclose()

    asyncio.run(run())


def test_an_append_and_a_deposition_at_once_are_ordered_by_the_database(tmp_path: Path) -> None:
    """What was handed over before counts, what comes after does not; and appends beside it are written."""

    async def run() -> None:
        journal = await opened(tmp_path)
        leases = await Leases.begin(journal)
        (old,) = await leases.take("w-1", ["ep-1"], expires_ms=1)
        (beside,) = await leases.take("w-2", ["ep-2"], expires_ms=1)
        outcomes = await asyncio.gather(
            journal.append_held(old.fence, [said("ep-1", 1)]),
            leases.depose("w-1"),
            journal.append_held(old.fence, [said("ep-1", 2)]),
            journal.append_held(beside.fence, [said("ep-2", 1)]),
            return_exceptions=True,
        )
        assert [type(one) for one in outcomes] == [type(None), type(None), LeaseLost, type(None)]
        assert [one.seq for one in await journal.read("ep-1")] == [1]
        assert [one.owner for one in await journal.leases()] == ["w-2"]
        await journal.aclose()

    asyncio.run(run())


def test_two_owners_never_hold_one_episode(tmp_path: Path) -> None:
    async def run() -> None:
        journal = await opened(tmp_path)
        leases = await Leases.begin(journal)
        await leases.take("w-1", ["ep-1"], expires_ms=1)
        with pytest.raises(JournalError):
            await leases.take("w-2", ["ep-0", "ep-1"], expires_ms=1)
        assert [(one.episode_id, one.owner) for one in await journal.leases()] == [("ep-1", "w-1")]
        await journal.aclose()

    asyncio.run(run())


def test_the_end_of_an_episode_is_the_end_of_its_lease(tmp_path: Path) -> None:
    async def run() -> None:
        journal = await opened(tmp_path)
        leases = await Leases.begin(journal)
        (one, other) = await leases.take("w-1", ["ep-1", "ep-2"], expires_ms=1)
        first = started("ep-1")
        await journal.append_held(one.fence, [first])
        await journal.append_held(one.fence, [ended("ep-1", 2)])
        await leases.release(other.fence)
        assert await journal.leases() == []
        with pytest.raises(LeaseLost):
            await journal.append_held(one.fence, [said("ep-1", 3)])
        await journal.aclose()

    asyncio.run(run())


def test_numbers_grow_over_processes_and_what_another_gave_out_is_over(tmp_path: Path) -> None:
    async def run() -> None:
        fences: list[int] = []
        for _ in range(3):
            journal = await opened(tmp_path)
            assert [one.fence for one in await journal.leases()] == fences[-1:]
            leases = await Leases.begin(journal)
            if fences:
                with pytest.raises(LeaseLost):
                    await journal.append_held(fences[-1], [said("ep-1", 1)])
            (one,) = await leases.take("w-1", ["ep-1"], expires_ms=1)
            fences.append(one.fence)
            await journal.aclose()  # as a death would leave it: the row stays
        assert fences == sorted(set(fences))

    asyncio.run(run())


def test_a_journal_without_leases_has_none(tmp_path: Path) -> None:
    async def run() -> None:
        journal = await opened(tmp_path)
        assert await journal.leases() == []
        await journal.aclose()

    asyncio.run(run())
