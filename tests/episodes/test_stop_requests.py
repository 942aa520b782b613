"""Stops that could not be recorded outlive the process, and nothing that their file holds breaks a start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spectator.clock import SystemClock
from spectator.episodes.controls import Pace
from spectator.episodes.recovery import Recovered
from spectator.episodes.restore import SIZE, StopRequests
from spectator.errors import ConfigurationError, JournalError, JournalUnavailable
from spectator.journal.sql_journal import SqlJournal
from tests.episodes.harness import end_of, recover, supervising
from tests.episodes.test_playing_on import url_of
from tests.fakes import until


def test_what_is_noted_is_there_for_the_next_process_until_it_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "stops.json"
    stops = StopRequests.open(path)
    assert path.stat().st_size == SIZE
    assert stops.note("ep-1", "stopped by operator") and stops.note("ep-2", "stopped by visitor")
    again = StopRequests.open(path)
    assert (again.detail("ep-1"), again.detail("ep-3")) == ("stopped by operator", None)
    again.forget("ep-1")
    again.forget("ep-1")
    assert json.loads(path.read_bytes()) == {"ep-2": "stopped by visitor"}
    assert path.stat().st_size == SIZE


def test_more_stops_than_the_file_has_room_for_make_it_longer_for_a_while(tmp_path: Path) -> None:
    path = tmp_path / "stops.json"
    stops = StopRequests.open(path)
    for number in range(200):
        assert stops.note(f"ep-{number}", "stopped by operator")
    assert StopRequests.open(path).detail("ep-199") == "stopped by operator"
    for number in range(200):
        stops.forget(f"ep-{number}")
    assert path.stat().st_size == SIZE


@pytest.mark.parametrize("held", [b"", b"   ", b"{", b"[]", b'{"ep-1": 7}', b"\xff\xfe", b"null"])
def test_a_file_that_cannot_be_read_is_begun_anew(tmp_path: Path, held: bytes) -> None:
    path = tmp_path / "stops.json"
    path.write_bytes(held)
    assert StopRequests.open(path).detail("ep-1") is None
    assert json.loads(path.read_bytes()) == {}


def test_what_is_no_ordinary_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "stops.json").mkdir()
    with pytest.raises(ConfigurationError, match="not a regular file"):
        StopRequests.open(tmp_path / "stops.json")


def test_where_it_cannot_be_written_it_says_so(tmp_path: Path) -> None:
    stops = StopRequests(tmp_path / "gone" / "stops.json")
    assert stops.note("ep-1", "stopped by operator") is False
    assert stops.detail("ep-1") == "stopped by operator"


class Failing(SqlJournal):
    """A journal that can be told to refuse every end."""

    failure: JournalError | None = None

    async def append(self, events, *, attachments=None):  # type: ignore[no-untyped-def]
        if self.failure is not None and events[-1].type == "episode.ended":
            raise self.failure
        await super().append(events, attachments=attachments)


@pytest.mark.parametrize("failure", [JournalUnavailable("full"), JournalError("never")])
async def test_an_end_that_was_not_recorded_is_no_stop_and_the_next_process_ends_it(
    tmp_path: Path, failure: JournalError
) -> None:
    """Without patience the episode is over at once, its end unrecorded; that was answered as a stop."""

    journal = await Failing.open(url_of(tmp_path))
    stops = StopRequests.open(tmp_path / "stops.json")
    async with supervising(journal=journal, stops=stops) as stage:
        episode = await stage.start(pace=Pace.FAST, options={"turns": 1000})
        await until(lambda: episode.head_seq > 4)
        journal.failure = failure
        with pytest.raises(JournalUnavailable, match=r"could not be recorded.*a restart ends it too"):
            await stage.supervisor.stop(None, by="test")
    journal.failure = None
    stops = StopRequests.open(tmp_path / "stops.json")
    async with supervising(journal=journal, stops=stops) as stage:
        recovered = await recover(journal, SystemClock(), stage.supervisor)
        assert recovered == Recovered(stopped=["ep-0001"])
        assert stage.supervisor.running() == []
    events = await journal.read("ep-0001")
    assert (end_of(events)["reason"], end_of(events)["detail"]) == ("stopped", "stopped by test")
    assert stops.detail("ep-0001") is None
    await journal.aclose()
