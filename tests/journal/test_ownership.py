"""Two processes and one journal: a deposed process records nothing more, however long it slept."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text
from ulid import ULID

from spectator.errors import JournalUnavailable, LeaseLost
from spectator.events import RecordedEvent, record
from spectator.journal.contract import Chain
from spectator.journal.coordination import FleetRow, FleetRuns
from spectator.journal.held_leases import FlightLimit
from spectator.journal.ownership import Ownership
from spectator.journal.retention import Keep
from spectator.journal.sql_journal import SqlJournal
from tests.journal.records import ended, run, said, seqs, started
from tests.rollouts.shared_runs import stop


@pytest.fixture(params=["postgresql", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/journal.db"
    found: str = request.getfixturevalue("server_url")
    return found


async def opened(url: str) -> tuple[SqlJournal, Ownership]:
    journal = await SqlJournal.open(url, shared_as=str(ULID()))
    assert journal.ownership is not None
    return journal, journal.ownership


async def check_chain(journal: SqlJournal, episode_id: str, last: int) -> None:
    chain = Chain()
    async for links in journal.links(episode_id):
        assert list(chain.check(links)) == []
    assert chain.seq == last


async def test_an_episode_is_recorded_by_one_process_at_a_time(url: str) -> None:
    (first, mine), (second, other) = await opened(url), await opened(url)
    await first.append([started("ep-1"), said("ep-1", 2)])
    with pytest.raises(LeaseLost, match="played by another process"):
        await second.append([said("ep-1", 3)])
    assert not await other.claim("ep-1")
    assert await mine.claim("ep-1"), "who has it may claim it again"
    assert await other.unowned_episodes(9) == []
    assert await other.others() == [mine.name]
    await first.append([said("ep-1", 3)])
    await mine.release("ep-1")
    assert await other.unowned_episodes(9) == ["ep-1"]
    await second.append([said("ep-1", 4)])
    with pytest.raises(LeaseLost):
        await first.append([said("ep-1", 5)])
    await second.append([ended("ep-1", 5)])
    assert await first.leases() == []
    await check_chain(first, "ep-1", 5)
    await first.aclose()
    assert await other.others() == []
    await second.aclose()


async def test_what_a_process_claims_while_it_is_deposed_is_held_by_nobody(server_url: str) -> None:
    """Its claim is committed once its leases were looked up: it must not outlive the process in the table."""

    (first, mine), (second, other) = await opened(server_url), await opened(server_url)
    await mine.beat()
    with first._database.engine.connect() as claiming:
        assert mine._fences.claim_remaining(claiming, ["ep-1"], 1, RUN) == {"ep-1": False}
        deposing = asyncio.create_task(other.depose(mine.name))
        waits = text("SELECT 1 FROM pg_stat_activity WHERE datname = current_database() "
                     "AND wait_event_type = 'Lock'")  # fmt: skip
        with second._database.engine.connect() as watching:
            while watching.scalar(waits) is None:
                watching.rollback()
                await asyncio.sleep(0.01)
        assert not deposing.done(), "it waits for the claim"
        claiming.commit()
    assert await deposing == ["ep-1"]
    assert await second.leases() == []
    await first.aclose()
    await second.aclose()


async def test_a_deposed_process_records_nothing_of_what_it_held_and_may_begin_anew(url: str) -> None:
    """Neither alone nor in a commit with others; its old number is worth nothing once it is free again."""

    (old, gone), (new, other) = await opened(url), await opened(url)
    await old.append([started("ep-1")])
    await old.append([started("ep-2")])
    assert await other.depose(gone.name) == ["ep-1", "ep-2"]
    assert await other.unowned_episodes(1) == ["ep-2"]
    assert await other.claim("ep-1")
    outcomes = await asyncio.gather(
        old.append([said("ep-1", 2)]),
        old.append([started("ep-3")]),
        old.append([said("ep-2", 2)]),
        return_exceptions=True,
    )
    assert [type(one) for one in outcomes] == [LeaseLost, type(None), LeaseLost]
    await new.append([said("ep-1", 2), said("ep-1", 3)])
    await other.release("ep-1")
    with pytest.raises(LeaseLost):
        await old.append([said("ep-1", 2)])
    assert await gone.claim("ep-1")
    await asyncio.gather(old.append([said("ep-1", 4)]), old.append([said("ep-1", 5)]))
    await check_chain(new, "ep-1", 5)
    assert await other.others() == [gone.name], "it was there again once it began something"
    await old.aclose()
    await new.aclose()


async def test_a_commit_and_a_deposition_at_once_come_one_after_the_other(url: str) -> None:
    last, journals = 1, []
    holder, mine = await opened(url)
    await holder.append([started("ep-1")])
    for _ in range(12):
        following, other = await opened(url)
        journals.append(following)
        appends = [asyncio.ensure_future(holder.append([said("ep-1", last + 1)]))]
        deposed = asyncio.ensure_future(other.depose(mine.name))
        for seq in range(last + 2, last + 6):
            appends.append(asyncio.ensure_future(holder.append([said("ep-1", seq)])))
            await asyncio.sleep(0)
        outcomes = await asyncio.gather(*appends, return_exceptions=True)
        assert await deposed == ["ep-1"]
        told = len([one for one in outcomes if one is None])
        assert all(one is None for one in outcomes[:told]), "nothing is recorded after the deposition"
        last += told
        assert await other.claim("ep-1")
        await following.append([said("ep-1", last + 1)])
        last += 1
        journals.append(holder)
        holder, mine = following, other
    assert seqs(await holder.read("ep-1")) == list(range(1, last + 1))
    await check_chain(holder, "ep-1", last)
    for journal in {id(one): one for one in (*journals, holder)}.values():
        await journal.aclose()


PLAYING = """
    import asyncio, os, signal, sys
    from spectator.errors import SpectatorError
    from spectator.journal import inserts
    from spectator.journal.sql_journal import SqlJournal
    from tests.journal.records import said, started
    inside = int(sys.argv[2])
    add = inserts.ArrayInsertion.add
    def stop_inside(insertion, connection, rows):
        add(insertion, connection, rows)
        if rows.events[-1][1] == inside:
            print("stopping", flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
            sys.stdin.readline()  # the signal may reach another thread first
    inserts.ArrayInsertion.add = stop_inside
    async def main():
        journal = await SqlJournal.open(sys.argv[1], shared_as="stalled")
        await journal.append([started("ep-1")])
        seq = 2
        try:
            while True:
                await journal.append([said("ep-1", seq)])
                print(seq, flush=True)
                seq += 1
        except SpectatorError as error:
            print(type(error).__name__, flush=True)
        try:
            await journal.append([said("ep-1", seq)])
        except SpectatorError as error:
            print(type(error).__name__, flush=True)
        await journal.aclose()
    asyncio.run(main())
"""


@contextmanager
def playing(url: str, inside: int = 0) -> Iterator[subprocess.Popen[str]]:
    """A process that records an episode as fast as it can and stops within the commit of event ``inside``."""
    command = [sys.executable, "-c", textwrap.dedent(PLAYING), url, str(inside)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()


@pytest.mark.parametrize("lines", [3, 40])
def test_a_process_that_was_stopped_and_goes_on_is_refused(url: str, lines: int) -> None:
    with playing(url) as stalled:
        assert stalled.stdout is not None
        told = [stalled.stdout.readline().strip() for _ in range(lines)]
        stop(stalled, url)

        async def take_over() -> int:
            journal, ownership = await opened(url)
            (name,) = await ownership.others()
            assert await ownership.depose(name) == ["ep-1"]
            assert await ownership.claim("ep-1")
            last = len(await journal.read("ep-1"))
            assert last >= int(told[-1])
            await journal.append([said("ep-1", last + 1, "played on"), said("ep-1", last + 2)])
            await journal.aclose()
            return last

        last = run(take_over())
        stalled.send_signal(signal.SIGCONT)
        after = stalled.stdout.read().split()
        assert after[-1] == "LeaseLost", after
        assert all(int(one) <= last for one in (*told, *after) if one.isdecimal())

    async def look() -> None:
        journal, _ = await opened(url)
        await check_chain(journal, "ep-1", last + 2)
        await journal.aclose()

    run(look())


def test_a_process_that_stops_within_a_commit_is_waited_for_no_longer_than_seconds(server_url: str) -> None:
    """Its transaction holds the lease's row: the server undoes it, and then it may be deposed."""
    with playing(server_url, inside=5) as stalled:
        assert stalled.stdout is not None
        assert "stopping\n" in iter(stalled.stdout.readline, "")
        os.waitid(os.P_PID, stalled.pid, os.WSTOPPED | os.WNOWAIT)

        async def take_over() -> None:
            journal, ownership = await opened(server_url)
            (name,) = await ownership.others()
            freed: list[str] = []
            tries = 0
            while not freed:
                try:
                    tries += 1
                    freed = await ownership.depose(name)
                except JournalUnavailable:
                    assert tries < 3
            assert await ownership.claim("ep-1")
            await journal.append([said("ep-1", 5, "played on")])
            await journal.aclose()

        run(take_over())
        stalled.send_signal(signal.SIGCONT)
        told, _ = stalled.communicate("go on\n")
        assert told.split() == ["JournalUnavailable", "LeaseLost"]

    async def look() -> None:
        journal, _ = await opened(server_url)
        await check_chain(journal, "ep-1", 5)
        assert "played on" in (await journal.texts("ep-1"))[-1]
        await journal.aclose()

    run(look())


async def test_room_is_given_out_once_whatever_was_heard_of_it_since(url: str) -> None:
    """An episode that was begun for others needs room once, before and after one of them takes it."""

    (full, mine), (roomy, other) = await opened(url), await opened(url)
    await mine.beat(0)
    assert not await mine.claim_room(), "nobody has said how much there is"
    await other.beat(2)
    await mine.beat(0, handing=True)
    for episode_id in ("ep-1", "ep-2"):
        assert await mine.claim_room()
        await full.append([started(episode_id)])
        await mine.hand_over(episode_id)
    assert not await mine.claim_room()
    assert await other.claim("ep-1")
    assert not await mine.claim_room(), "what was taken is no room, before its next sign of life"
    await other.beat(1)
    assert not await mine.claim_room()
    await roomy.append([ended("ep-1", 2)])
    await other.beat(2)
    assert await mine.claim_room()
    await full.aclose()
    await roomy.aclose()


async def test_handing_an_episode_over_twice_gives_its_room_out_once(url: str) -> None:
    """A server repeats what it has not heard of yet: the claim of another start must not pay for that."""

    (full, mine), (roomy, other) = await opened(url), await opened(url)
    await mine.beat(0)
    await other.beat(2)
    for episode_id in ("ep-1", "ep-2"):
        assert await mine.claim_room()
        await full.append([started(episode_id)])
    await asyncio.gather(mine.hand_over("ep-1"), mine.hand_over("ep-1"))
    assert not await mine.claim_room(), "both places are taken: one is left alone, one is being handed over"
    await mine.hand_over("ep-2")
    assert not await mine.claim_room()
    assert await other.claim("ep-1") and await other.claim("ep-2")
    await mine.hand_over("ep-1")  # which is another's by now
    assert not await mine.claim("ep-1")
    await full.aclose()
    await roomy.aclose()


async def test_room_that_was_claimed_for_nothing_is_given_back(url: str) -> None:
    (full, mine), (roomy, other) = await opened(url), await opened(url)
    await mine.beat(0)
    await other.beat(1)
    assert await mine.claim_room()
    await mine.beat(0, handing=True)
    assert not await mine.claim_room(), "a sign of life alone gives nothing back"
    await mine.give_up_room()
    assert await mine.claim_room()
    await mine.beat(0)  # whoever died of it forgot it
    assert await mine.claim_room()
    await other.depose(mine.name)
    assert not await mine.claim_room(), "it shows again first that it is there"
    await full.aclose()
    await roomy.aclose()


async def test_clients_at_once_are_given_all_the_room_and_no_more(url: str) -> None:
    servers = [await opened(url) for _ in range(3)]
    (_, mine), (_, second), (_, roomy) = servers
    for one, free in ((mine, 0), (second, 0), (roomy, 3)):
        await one.beat(free)
    claimed = await asyncio.gather(*(one.claim_room() for one in (mine, second) * 4))
    assert sum(claimed) == 3
    for journal, _ in servers:
        await journal.aclose()


RUN = FlightLimit("first")


def of_fleet(episode_id: str) -> RecordedEvent:
    """The start of an episode of a run called ``first``."""
    event = started(episode_id).event
    return record(replace(event, data={**event.data, "run_id": "first"}))


async def test_a_fleet_s_episodes_are_claimed_once_in_their_order_and_by_no_server(url: str) -> None:
    (one, mine), (two, other) = await opened(url), await opened(url)
    await FleetRuns(one).begin(FleetRow("first", "{}", 1))
    owed = [f"ep-{number}" for number in range(6)]
    assert await mine.claim_remaining(owed, 2, RUN) == {"ep-0": False, "ep-1": False}
    assert await other.claim_remaining(owed, 3, RUN) == {"ep-2": False, "ep-3": False, "ep-4": False}
    assert await mine.claim_remaining(owed[2:], 9, RUN) == {"ep-5": False}
    assert await other.claim_remaining(owed, 9, RUN) == dict.fromkeys(["ep-2", "ep-3", "ep-4"], False), (
        "it has them"
    )
    await one.append([of_fleet("ep-0"), said("ep-0", 2)])
    await one.append([of_fleet("ep-1"), ended("ep-1", 2)])
    assert await other.depose(mine.name) == ["ep-0", "ep-5"]
    with pytest.raises(LeaseLost):
        await one.append([said("ep-0", 3)])
    assert await other.unowned_episodes(9) == [], "no server plays on what a fleet owes"
    assert not await other.claim("ep-0")
    assert await other.claim_remaining(owed, 9, RUN) == dict.fromkeys(owed[2:], False) | {"ep-0": True}
    await two.append([said("ep-0", 3), ended("ep-0", 4)])
    keep, later = Keep(episodes=1), datetime(2027, 1, 1, tzinfo=UTC)
    assert await two.surplus(keep, later) == [], "what is removed would be played again"
    assert await one.held_elsewhere() == []
    await one.aclose()
    await two.aclose()


async def test_no_more_of_a_run_are_claimed_at_once_than_may_be_by_any_number(url: str) -> None:
    journals = [await opened(url) for _ in range(4)]
    for name in ("first", "other"):
        await FleetRuns(journals[0][0]).begin(FleetRow(name, "{}", 1))
    owed, within = [f"ep-{number:02}" for number in range(40)], FlightLimit("first", 6)
    taken = await asyncio.gather(*(claimer.claim_remaining(owed, 4, within) for _, claimer in journals))
    assert sorted(len(part or ()) for part in taken) == [0, 0, 2, 4]
    assert taken.count(None) == 2, "who may have none is told apart from who finds none"
    assert len({one for part in taken for one in part or ()}) == 6
    free = journals[taken.index(None)][1]
    elsewhere = await free.claim_remaining(["ep-x"], 1, FlightLimit("other", 1))
    assert elsewhere == {"ep-x": False}, "each run has its own limit"
    four = next(place for place, part in enumerate(taken) if len(part or ()) == 4)
    assert len(await free.depose(journals[four][1].name)) == 4
    again = await free.claim_remaining(owed, 9, within)
    assert again is not None and len(again) == 4, "those of the dead are not in flight"
    await free.release(next(iter(again)))
    assert len(await free.claim_remaining(owed, 9, FlightLimit("first", 7)) or ()) == 2
    for journal, _ in journals:
        await journal.aclose()


async def test_who_claims_at_once_gets_what_nobody_else_got(url: str) -> None:
    journals = [await opened(url) for _ in range(4)]
    owed = [f"ep-{number:02}" for number in range(40)]
    claims = [claimer.claim_remaining(owed, 5, RUN) for _, claimer in journals for _ in range(2)]
    taken = await asyncio.gather(*claims)
    by_owner = [{**(taken[place] or {}), **(taken[place + 1] or {})} for place in range(0, 8, 2)]
    names = [one for part in by_owner for one in part]
    assert len(names) == len(set(names)) > 0
    held = {lease.episode_id: lease.owner for lease in await journals[0][0].leases()}
    for part, (_, claimer) in zip(by_owner, journals, strict=True):
        assert {held[one] for one in part} <= {claimer.name}
    for journal, _ in journals:
        await journal.aclose()
