"""The scores of votes, and the table of a day: kept, bounded, ranked."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from spectator.errors import JournalError
from spectator.evaluation import votes
from spectator.evaluation.votes import CallScore, ScoredVote, VoteTable, score_votes, voter_id

DAY = date(2026, 11, 28)


def vote(voter: str, regret: float = 1.0, *, best: bool = False, name: str = "") -> ScoredVote:
    return ScoredVote(voter, name, CallScore(regret, 0.0 if best else 1.0), best)


def test_equally_good_cards_share_the_truth() -> None:
    found = score_votes([0.5, 0.5, 0.4], 0.5, 0.5, 0, [1, 1, 0])
    assert found.best == [True, True, False]
    assert [one.brier for one in found.cards] == [0.25, 0.25, 0.75]
    assert found.crowd == CallScore(0.0, 0.0)
    assert found.captain == CallScore(0.0, 0.25)


def test_nothing_is_lost_below_nothing() -> None:
    """The best call is the best of those weighed: a card may equal it, never beat it."""
    found = score_votes([0.5, 0.4, 0.3], 0.49, 0.5, None, [0, 0, 1])
    assert [round(one.regret, 6) for one in found.cards] == [0.0, 9.0, 19.0]


def test_a_token_cannot_be_read_from_its_id() -> None:
    assert voter_id("a" * 16) != voter_id("b" * 16)
    assert "aaaa" not in voter_id("a" * 16)


def test_means_streaks_and_names_add_up_over_a_restart(tmp_path: Path) -> None:
    for number, best in enumerate([True, True, False, True, True, True, False]):
        name = "Ada" if number == 2 else ""
        VoteTable(tmp_path / "votes.db").add(DAY, [vote("a", float(number), best=best, name=name)])
    found = VoteTable(tmp_path / "votes.db").of(DAY, "a")
    assert found is not None
    day, place = found
    assert (day.name, day.calls, day.best, day.streak, day.longest) == ("Ada", 7, 5, 0, 3)
    assert day.mean.regret == 3.0
    assert day.mean.brier == pytest.approx(2 / 7)
    assert place == 1


def test_the_least_mean_regret_leads_from_enough_calls_on(tmp_path: Path) -> None:
    table = VoteTable(tmp_path / "votes.db")
    for _ in range(votes.LEAST_CALLS - 1):
        table.add(DAY, [vote("good", 0.5), vote("better", 0.2), vote("lucky", 0.0)])
    table.add(DAY, [vote("good", 0.5), vote("better", 0.2)])
    assert [one.voter for one in table.ranked(DAY)] == ["better", "good"]
    assert [(table.of(DAY, name) or (None, 0))[1] for name in ("better", "good", "lucky")] == [1, 2, None]
    assert table.of(DAY, "unknown") is None
    assert table.ranked(DAY + timedelta(days=1)) == []


def test_old_days_go_and_a_flood_of_voters_finds_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(votes, "MOST_VOTERS", 3)
    table = VoteTable(tmp_path / "votes.db")
    table.add(DAY, [vote("a"), vote("b")])
    table.add(DAY, [vote("a"), vote("robot-1"), vote("robot-2")])
    known = table.of(DAY, "a")
    assert known is not None
    assert known[0].calls == 2
    assert table.of(DAY, "robot-1") is None
    table.add(DAY + timedelta(days=votes.KEPT_DAYS + 1), [vote("c")])
    assert table.of(DAY, "a") is None


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "votes.db").write_text("not a database, but long enough to be looked at" * 20)
    with pytest.raises(JournalError, match="delete the file"):
        VoteTable(tmp_path / "votes.db").ranked(DAY)
