"""What a cricketer may be."""

from __future__ import annotations

import pytest

from spectator.environments.cricket.people import PACE_STYLES, SPIN_STYLES, STYLE_TITLES, Player


def test_every_style_has_a_title() -> None:
    assert set(STYLE_TITLES) == {*PACE_STYLES, *SPIN_STYLES}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"order": 0}, "order"),
        ({"order": 12}, "order"),
        ({"bowls": "pace"}, "give both"),
        ({"style": "leg"}, "give both"),
        ({"bowls": "pace", "style": "leg"}, "leg is not a style of pace"),
        ({"bowls": "spin", "style": "right_pace"}, "right_pace is not a style of spin"),
        ({"bat_runs": 0.0}, "ratio"),
        ({"bat_out": float("nan")}, "ratio"),
        ({"bowl_runs": 9.0}, "ratio"),
    ],
)
def test_a_player_that_cannot_be_is_refused(wrong: dict[str, object], named: str) -> None:
    fields = {"id": "x", "name": "Ada Nobody", "role": "batter", "order": 1} | wrong
    with pytest.raises(ValueError, match=named):
        Player(**fields)  # type: ignore[arg-type]


def test_the_surname_is_what_a_scorecard_prints() -> None:
    assert Player("x", "Ada van Nobody", "batter", 1).surname == "van Nobody"
    assert Player("x", "Ada", "batter", 1).surname == "Ada"
