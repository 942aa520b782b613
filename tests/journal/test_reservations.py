"""What several processes may use together: parts of a day's caps, and how often something begins."""

from __future__ import annotations

import asyncio

from spectator.journal.coordination import BeginDecision, BeginLimit, Reservations
from spectator.journal.sql_journal import SqlJournal
from tests.postgres import Cluster

ONE, ALL = BeginLimit(2, 60.0), BeginLimit(3, 3600.0)


async def two(url: str) -> tuple[tuple[SqlJournal, SqlJournal], tuple[Reservations, Reservations]]:
    journals = await SqlJournal.open(url), await SqlJournal.open(url)
    return journals, (Reservations(journals[0]), Reservations(journals[1]))


async def close(journals: tuple[SqlJournal, SqlJournal]) -> None:
    for one in journals:
        await one.aclose()


async def test_no_more_is_reserved_of_a_day_than_its_cap_by_any_number_at_once(
    postgres: Cluster, database: str
) -> None:
    journals, shares = await two(postgres.url(database))
    asked = [shares[at % 2].reserve("money", cap=10.0, amount=0.75) for at in range(20)]
    parts = await asyncio.gather(*asked)
    assert sum(one.amount for one in parts) == 10.0
    assert sorted(one.amount for one in parts) == [0.0] * 6 + [0.25] + [0.75] * 13
    assert all(0 < one.left_s <= 86_400 for one in parts)
    await shares[0].settle("money", parts[0].day, 0.5)
    again = await shares[1].reserve("money", cap=10.0, amount=9.0)
    assert again.amount == 0.5, "what one gave back is there for the other"
    await close(journals)


async def test_what_was_used_beyond_is_counted_even_where_nothing_is_left(
    postgres: Cluster, database: str
) -> None:
    journals, (mine, other) = await two(postgres.url(database))
    await mine.reserve("money", cap=10.0, amount=4.0)
    assert (await mine.reserve("money", cap=10.0, amount=4.0, overdrawn=5.0)).amount == 1.0
    assert (await other.reserve("money", cap=10.0, amount=1.0, overdrawn=3.0)).amount == 0.0
    await close(journals)
    assert postgres.execute(database, "SELECT what, amount FROM reserved") == [("money", 13.0)]


async def test_a_day_begins_with_what_was_used_before_and_the_next_with_nothing(
    postgres: Cluster, database: str
) -> None:
    journals, (mine, other) = await two(postgres.url(database))
    await mine.open_day({"money": 9.0})
    await other.open_day({"money": 5.0})  # too late: it is reserved of already
    assert (await other.reserve("money", cap=10.0, amount=4.0)).amount == 1.0
    postgres.execute(database, "UPDATE reserved SET day = day - 1")
    today = await mine.reserve("money", cap=10.0, amount=4.0)
    assert today.amount == 4.0
    postgres.execute(database, "INSERT INTO reserved VALUES (CURRENT_DATE - 60, 'money', 1)")
    await mine.open_day({})
    await close(journals)
    assert [row[0] for row in postgres.execute(database, "SELECT amount FROM reserved ORDER BY day")] == [
        10,
        4,
    ]


async def test_beginnings_are_counted_for_one_and_for_all_by_any_number_at_once(
    postgres: Cluster, database: str
) -> None:
    journals, counts = await two(postgres.url(database))

    async def begin(at: int, whose: str) -> BeginDecision:
        return await counts[at % 2].begin("starts", whose, of_one=ONE, of_all=ALL)

    mine = await asyncio.gather(*(begin(at, "me") for at in range(6)))
    assert len([one for one in mine if one.number is not None]) == 2
    assert {one.own for one in mine if one.number is None} == {True}
    assert all(50 < one.wait_s <= 60 for one in mine if one.number is None)
    theirs = await asyncio.gather(*(begin(at, f"other {at}") for at in range(4)))
    (granted,) = (one.number for one in theirs if one.number is not None)
    refused = [one for one in theirs if one.number is None]
    assert all(3500 < one.wait_s <= 3600 and not one.own for one in refused)
    await counts[0].undo(granted)
    assert (await begin(1, "other 9")).number is not None, "what did not come about is not counted"
    postgres.execute(database, "UPDATE begun SET at = at - interval '61 s'")
    assert (await begin(0, "me")).wait_s < 3600 - 60, "the limit of all holds for an hour"
    postgres.execute(database, "UPDATE begun SET at = at - interval '1 hour'")
    assert (await begin(0, "me")).number is not None
    await close(journals)
    assert postgres.execute(database, "SELECT count(*) FROM begun") == [(1,)], "what is over is removed"


async def test_no_limit_refuses_nothing(postgres: Cluster, database: str) -> None:
    journals, (mine, _) = await two(postgres.url(database))
    for _ in range(5):
        begun = await mine.begin("starts", "me", of_one=BeginLimit(0, 60.0), of_all=BeginLimit(9, 3600.0))
        assert begun.number is not None
    await close(journals)
