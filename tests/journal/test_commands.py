"""Commands in a journal that several processes write: given once, answered by the last owner."""

from __future__ import annotations

from spectator.journal.commands import STOP, Command, Commands
from spectator.journal.ownership import Ownership
from spectator.journal.sql_journal import SqlJournal
from tests.journal.records import ended, said, started
from tests.postgres import Cluster

PAUSE = Command("c-1", "ep-1", "pause", "{}")


async def opened(server_url: str) -> tuple[SqlJournal, Ownership, Commands]:
    journal = await SqlJournal.open(server_url)
    assert journal.ownership is not None
    return journal, journal.ownership, Commands(journal, journal.ownership.name)


async def test_only_the_owner_takes_a_command_and_only_its_last_one_answers(server_url: str) -> None:
    (first, mine, player), (second, other, asker) = await opened(server_url), await opened(server_url)
    await first.append([started("ep-1"), said("ep-1", 2)])
    assert await asker.played_elsewhere("ep-1") and not await player.played_elsewhere("ep-1")
    assert not await asker.played_elsewhere("ep-none")
    for _ in range(2):
        await asker.give(PAUSE)
    assert await asker.take() == [], "who does not hold the lease carries nothing out"
    assert await player.take() == await player.take() == [PAUSE]
    assert not await asker.withdraw("c-1"), "somebody is at it"
    await other.depose(mine.name)
    assert await other.claim("ep-1")
    await player.answer("c-1", "of the deposed one")
    assert (await asker.outcome("c-1")).answer is None
    assert await asker.take() == [PAUSE], "the next owner carries it out"
    await asker.answer("c-1", "done")
    await asker.answer("c-1", "twice")
    assert (await player.outcome("c-1")).answer == "done"
    assert await asker.take() == []
    await asker.forget("c-1")
    assert (await player.outcome("c-1")).ended
    for journal in (first, second):
        await journal.aclose()


async def test_commands_come_in_the_order_they_were_given_and_one_that_nobody_took_is_withdrawn(
    server_url: str,
) -> None:
    journal, _, commands = await opened(server_url)
    await journal.append([started("ep-1")])
    given = [Command(f"c-{number}", "ep-1", "pace", "{}") for number in (3, 1, 2)]
    for one in given:
        await commands.give(one)
    assert await commands.withdraw("c-1") and not await commands.withdraw("c-1")
    assert await commands.take() == [given[0], given[2]]
    await journal.aclose()


async def test_a_stop_is_found_where_nobody_plays_until_the_end_is_recorded(
    server_url: str, postgres: Cluster
) -> None:
    journal, ownership, commands = await opened(server_url)
    await journal.append([started("ep-1")])
    stop = Command("c-1", "ep-1", STOP, '{"by":"visitor"}')
    await commands.give(stop)
    await commands.give(Command("c-2", "ep-1", "pause", "{}"))
    assert await commands.unowned_stops(9) == []
    await ownership.release("ep-1")
    assert await commands.unowned_stops(9) == [stop]
    await commands.tidy()
    assert await commands.unowned_stops(9) == [stop], "a stop waits however long"
    await ownership.claim("ep-1")
    await journal.append([ended("ep-1", 2)])
    outcome = await commands.outcome("c-1")
    assert (outcome.ended, outcome.answer) == (True, None) and outcome.reason is not None
    await commands.tidy()
    assert (await commands.outcome("c-1")).reason is not None, "whoever asked may still look"
    database = server_url.split("/")[3].split("?")[0]
    postgres.execute(database, "UPDATE commands SET given_at = given_at - interval '61 s'")
    await commands.tidy()
    assert postgres.execute(database, "SELECT * FROM commands") == []
    await journal.aclose()


async def test_who_started_an_episode_is_known_to_all_until_it_has_ended(server_url: str) -> None:
    (journal, _, mine), (second, _, other) = await opened(server_url), await opened(server_url)
    await journal.append([started("ep-1")])
    await mine.note_starter("ep-1", "a digest")
    await mine.tidy()
    assert await other.starter("ep-1") == "a digest"
    await journal.append([ended("ep-1", 2)])
    await other.tidy()
    assert await mine.starter("ep-1") is None
    assert await mine.secret("seat keys", b"mine") == await other.secret("seat keys", b"other") == b"mine"
    for one in (journal, second):
        await one.aclose()
