"""A league's fixtures, table and next match follow from its captains and its recorded matches alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations

import pytest

from spectator.errors import EndReason
from spectator.evaluation.figures import EpisodeFigures, SeatFigures
from spectator.evaluation.league import (
    FINAL,
    TRIES,
    Fixture,
    Season,
    last_final,
    league_matches,
    newest_season,
    round_robin,
)
from spectator.journal.contract import EpisodeSummary

THREE = ("a", "b", "c")


class Record:
    """A journal's matches of a league, as they are recorded one after the other."""

    def __init__(self) -> None:
        self.summaries: list[EpisodeSummary] = []
        self.figures: dict[str, EpisodeFigures] = {}

    def add(
        self,
        group: str,
        home: str,
        away: str,
        outcome: float | None,
        reason: EndReason | None = "finished",
        own: int = 10,
    ) -> str:
        """Record a match; ``own`` of the ten decisions of its home captain are its own."""
        name = f"ep-{len(self.summaries):04}"
        over = reason is not None
        self.summaries.append(
            EpisodeSummary(
                name, "e", "cricket", "Cricket", home, home.upper(), away, "default", 7, "2026-01-01",
                "2026-01-02" if over else None, reason, None, "a result", 5, 9,
                run_id="league", group_id=group,
            )
        )  # fmt: skip
        if over:
            self.figures[name] = EpisodeFigures(
                name, "cricket", "1", "default", len(self.summaries), {}, "2026-01-02", reason or "finished",
                "a result", False,
                tuple(
                    SeatFigures(
                        actor, captain, captain, "model",
                        {} if won is None else {"outcome": won, "decision_value": 10 * won}, 10,
                        {"unreachable": 10 - own} if actor == "home" and own < 10 else {},
                    )
                    for actor, captain, won in (
                        ("home", home, outcome), ("away", away, None if outcome is None else 1.0 - outcome),
                    )
                ),
            )  # fmt: skip
        return name

    def season(self, captains: Sequence[str] = THREE, legs: int = 1) -> Season:
        """Return the newest season of what is recorded."""
        return newest_season(captains, legs, league_matches(self.summaries, self.figures))


@pytest.mark.parametrize("count", [2, 5, 6, 8])
def test_everyone_meets_everyone_and_nobody_twice_in_a_round(count: int) -> None:
    """Once, or once from each seat; a round has each captain at most once."""
    names = [chr(97 + number) for number in range(count)]
    once, twice = round_robin(names, 1), round_robin(names, 2)
    assert sorted(tuple(sorted(one[1:])) for one in once) == sorted(combinations(names, 2))
    assert sorted((one.home, one.away) for one in twice) == sorted(permutations(names, 2))
    assert [one.number for one in twice] == list(range(1, len(twice) + 1))
    seats = [sum(one.home == name for one in once) for name in names]
    assert max(seats) - min(seats) <= 1 + count % 2
    size = count // 2
    for first in range(0, len(once), size):
        playing = [name for one in once[first : first + size] for name in one[1:]]
        assert len(playing) == len(set(playing))


def test_a_season_is_played_to_its_final_and_the_next_begins() -> None:
    record = Record()
    assert record.season().upcoming == round_robin(THREE, 1)
    for fixture in round_robin(THREE, 1):  # c loses twice
        record.add(fixture.group(1), fixture.home, fixture.away, {1: 0.0, 2: 0.0, 3: 0.5}[fixture.number])
    season = record.season()
    assert [(row.captain, row.points, row.form) for row in season.table] == [
        ("a", 3, ["W", "T"]), ("b", 3, ["W", "T"]), ("c", 0, ["L", "L"]),
    ]  # fmt: skip
    share = season.table[0].sums.share
    assert share is not None and share.low < 0.75 == share.value < share.high
    assert season.head_to_head["a", "b"] == (0, 1, 0)
    best = season.best_decisions
    assert best is not None and (best[0].fixture, best[1]) == (1, -10.0)
    assert [row.longest_run for row in season.table] == [1, 1, 0]
    assert season.upcoming == [Fixture(FINAL, "a", "b")] and not season.is_over
    final = record.add("1.final", "a", "b", 0.0)
    season = record.season()
    assert (season.is_over, season.champion, season.upcoming) == (True, "b", [])
    record.add("2.1", "c", "b", None, reason=None)
    season, matches = record.season(), league_matches(record.summaries, record.figures)
    assert (season.number, len(season.played)) == (2, 0)
    crowned = last_final(season, matches)
    assert crowned is not None and (crowned.summary.episode_id, crowned.winner) == (final, "b")


def test_level_captains_are_ordered_by_their_matches_against_each_other() -> None:
    record = Record()
    beaten = {"a": "bc", "b": "d", "c": "b", "d": "ac"}
    for fixture in round_robin("abcd", 1):
        pair = (fixture.home, fixture.away)
        record.add(fixture.group(1), *pair, 1.0 if pair[1] in beaten[pair[0]] else 0.0)
    assert [(row.captain, row.points) for row in record.season("abcd").table] == [
        ("d", 4), ("a", 4), ("c", 2), ("b", 2),
    ]  # fmt: skip
    assert record.season("abcd").upcoming == [Fixture(FINAL, "d", "a")]
    record.figures.popitem()
    assert record.season("abcd").upcoming == [], "the final waits until every result is read"


def test_the_next_match_after_one_that_did_not_end_well() -> None:
    """Stopped: again. Failed: again, up to a limit. Unreached: no result. Running: it is the next one."""
    record = Record()
    record.add("1.1", "c", "b", None, "stopped")
    assert record.season().upcoming[0].number == 1
    for _ in range(TRIES):
        assert record.season().upcoming[0].number == 1
        record.add("1.1", "c", "b", None, "environment_error")
    season = record.season()
    assert season.upcoming[0].number == 2 and season.played[1].failed
    assert [row.form for row in season.table] == [[], ["N"], ["N"]]
    record.add("1.2", "c", "a", 1.0, own=0)
    season = record.season()
    assert season.upcoming[0].number == 3
    assert [(row.captain, row.points, row.form) for row in season.table if row.captain != "b"] == [
        ("a", 0, ["N"]), ("c", 0, ["N", "N"]),
    ]  # fmt: skip
    record.add("1.3", "a", "b", None, reason=None)
    live = record.season().live
    assert live is not None and live.fixture == record.season().upcoming[0].number == 3


def test_other_captains_begin_another_season_without_a_final() -> None:
    record = Record()
    record.add("4.1", "c", "b", 1.0)
    assert record.season().number == 4
    assert (record.season("abcd").number, record.season("abcd").upcoming[0].number) == (5, 1)
    record.add("evaluation", "x", "y", 1.0)
    assert record.season().number == 4, "a group of another form is ignored"


def test_records_that_are_no_longer_kept_are_not_played_again() -> None:
    """The retention limits may remove the oldest matches of a season that is being played."""
    record = Record()
    record.add("1.2", "c", "a", 1.0)
    record.add("1.3", "a", "b", 1.0)
    season = record.season()
    assert [row.captain for row in season.table] == ["c", "a", "b"]
    assert season.upcoming == [Fixture(FINAL, "c", "a")]
