"""What is said agrees with what happened: commentary and reasons of whole matches, read by a checker."""

from __future__ import annotations

from typing import Any

import pytest

from tests.environments.cricket.playing import play
from tools.cricket_words import Reader, odd_pairs, read_match, read_matches


@pytest.fixture(scope="module")
def read() -> Reader:
    """Thirty matches; `python -m tools.cricket_words` reads hundreds."""
    return read_matches(30)


def test_no_line_and_no_reason_says_what_is_not_so(read: Reader) -> None:
    assert read.counted["lines"] > 2_500 and read.counted["reasons"] > 3_500
    assert read.notes == {}


def test_few_yorkers_that_nobody_planned_go_for_six(read: Reader) -> None:
    """6.6 % did; of real ones one or two in a hundred do."""
    assert read.counted["unplanned yorkers"] > 140
    assert read.counted["sixes off them"] < 0.04 * read.counted["unplanned yorkers"]


def test_captains_who_order_by_the_over_do_not_repeat_themselves_either() -> None:
    for seed in range(6):
        assert read_match(seed, "heuristic", "anchor", decisions="over").notes == {}


def ball(**changed: Any) -> dict[str, Any]:
    """A ball of a real match, changed."""
    told = play(3, max_overs=5).of("ball_bowled")
    usual = next(one for one in told if one["kind"] == "four" and one["contact"] == "middled")
    return {**usual, **changed}


@pytest.mark.parametrize(
    "changed",
    [
        {"shot": "drive", "zone": 7}, {"shot": "flick", "zone": 3, "line": "outside off"},
        {"shot": "pull", "zone": 3, "length": "full"}, {"shot": "late cut", "zone": 8, "line": "leg"},
        {"shot": "defend", "zone": 1}, {"shot": "drive", "zone": 6, "line": "leg"},
    ],
)  # fmt: skip
def test_the_checker_notices_strokes_that_do_not_fit(changed: dict[str, Any]) -> None:
    assert list(odd_pairs(ball(legbyes=0, **changed)))
    assert list(odd_pairs(ball(legbyes=0, shot="drive", zone=5, line="stumps", length="full"))) == []
