"""Checkpoints beside the record: the newest two that fit are there, and one once the episode has ended."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from spectator.errors import JournalError
from spectator.journal.contract import Checkpoint
from spectator.journal.sql_journal import SqlJournal
from tests.journal.records import ended, execute, run, said, started, url_of


def at(seq: int, body: bytes = b"here") -> Checkpoint:
    return Checkpoint("ep-1", seq, body)


both = pytest.mark.usefixtures("each_store")


async def opened(folder: Path) -> SqlJournal:
    """A journal with an unended episode of nine events."""
    journal = await SqlJournal.open(url_of(folder))
    await journal.append([started("ep-1"), *(said("ep-1", seq) for seq in range(2, 10))])
    return journal


@both
async def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    journal = await opened(tmp_path)
    assert await journal.checkpoints("ep-1") == []
    for seq in (2, 4, 6, 8):
        await journal.keep_checkpoint(at(seq))
    assert await journal.checkpoints("ep-1") == [at(8), at(6)]
    await journal.keep_checkpoint(at(7, b"anew"))
    assert await journal.checkpoints("ep-1") == [at(7, b"anew"), at(6)], "the later one was not reached again"
    assert await journal.checkpoints("ep-2") == []
    await journal.aclose()


@both
async def test_one_after_an_event_that_is_not_recorded_is_refused(tmp_path: Path) -> None:
    journal = await opened(tmp_path)
    await journal.keep_checkpoint(at(3))
    with pytest.raises(JournalError, match="follows event 10 of ep-1, which is not recorded"):
        await journal.keep_checkpoint(at(10))
    assert await journal.checkpoints("ep-1") == [at(3)]
    await journal.append([said("ep-1", 10)])
    await journal.aclose()
    reader = await SqlJournal.open(url_of(tmp_path), writable=False)
    assert await reader.checkpoints("ep-1") == [at(3)]
    with pytest.raises(JournalError, match="read-only"):
        await reader.keep_checkpoint(at(4))
    await reader.aclose()


@both
@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE checkpoints SET body = x'00' WHERE seq = 6",
        "UPDATE checkpoints SET body = 'text' WHERE seq = 6",
        "UPDATE checkpoints SET digest = x'00' WHERE seq = 6",
        "UPDATE checkpoints SET seq = 7 WHERE seq = 6",
        "UPDATE events SET digest = NULL WHERE seq = 6",
        "UPDATE events SET digest = x'00' WHERE seq = 6",
        "DELETE FROM events WHERE seq >= 6",
    ],
)
def test_one_that_does_not_fit_its_event_is_left_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    async def scenario() -> None:
        journal = await opened(tmp_path)
        for seq in (4, 6):
            await journal.keep_checkpoint(at(seq))
        execute(tmp_path, damage)
        assert await journal.checkpoints("ep-1") == [at(4)]
        await journal.aclose()

    with caplog.at_level(logging.WARNING):
        run(scenario())
    assert "is damaged: ignored" in caplog.text


@both
async def test_the_newest_stays_after_the_end_and_goes_with_the_episode(tmp_path: Path) -> None:
    journal = await opened(tmp_path)
    await journal.append([started("ep-2"), said("ep-2", 2)])
    await journal.keep_checkpoint(Checkpoint("ep-2", 2, b"there"))
    await journal.keep_checkpoint(at(9))
    await journal.append([ended("ep-1", 10)])
    assert len(await journal.checkpoints("ep-1")) == 1
    await journal.remove("ep-1")
    assert await journal.checkpoints("ep-1") == []
    await journal.keep_checkpoint(Checkpoint("ep-2", 1, b"before"))
    await journal.keep_checkpoint(Checkpoint("ep-2", 2, b"there"))
    await journal.append([ended("ep-2", 3)])
    await journal.tidy()
    assert await journal.checkpoints("ep-2") == [Checkpoint("ep-2", 2, b"there")]
    await journal.remove("ep-2")
    await journal.aclose()
    assert execute(tmp_path, "SELECT * FROM checkpoints") == []
