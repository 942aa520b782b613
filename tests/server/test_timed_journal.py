"""What is staged counts as what has not ended, until it is given up."""

from __future__ import annotations

from pathlib import Path

from server.journal import TimedJournal
from tests.journal.records import said, started, url_of


async def test_what_is_staged_takes_room_as_what_is_recorded_does(tmp_path: Path) -> None:
    journal = await TimedJournal.open(url_of(tmp_path))
    counted: list[tuple[str, int]] = []
    journal.recorded = lambda episode_id, size, ended: counted.append((episode_id, size))
    first, second = [started("ep-1")], [said("ep-1", 2)]
    journal.begin_staging("ep-1")
    await journal.append(first)
    journal.end_staging("ep-1")
    await journal.append(second)
    sizes = [len(first[0].text), len(second[0].text)]
    assert counted == [("ep-1", size) for size in sizes]
    await journal.unstage("ep-1")
    assert journal.unended == {"ep-1": sum(sizes)}, "it is an episode by now"
    journal.begin_staging("ep-2")
    await journal.append([started("ep-2")])
    assert set(journal.unended) == {"ep-1", "ep-2"}
    await journal.unstage("ep-2")
    assert set(journal.unended) == {"ep-1"}
    await journal.aclose()
