"""The line of the chances, for cards and tiles."""

from __future__ import annotations

from typing import Any

import pytest

from spectator.environments.cricket.show.summary import chances

TOLD: dict[str, Any] = {
    "2": {"000": {"home": 0.4}, "001": {"home": 0.3}},
    "1": {"002": {"home": 0.6}, "001": {"home": 0.55}},
}


def test_chances_stand_in_the_order_of_play() -> None:
    assert chances({"chances": TOLD}) == [0.55, 0.6, 0.4, 0.3]


@pytest.mark.parametrize(("ended", "last"), [({"winner": "home"}, 1.0), ({"winner": "away"}, 0.0), ({}, 0.5)])
def test_the_end_is_what_came_of_it(ended: dict[str, str], last: float) -> None:
    assert chances({"chances": TOLD, "result": "over", **ended})[-1] == last


def test_a_match_without_a_forecast_has_no_line() -> None:
    assert chances({"result": "over", "winner": "home"}) == []
