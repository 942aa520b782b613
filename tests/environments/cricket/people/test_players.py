"""What a cricketer may be."""

from __future__ import annotations

from spectator.environments.cricket.people import PACE_STYLES, SPIN_STYLES, STYLE_TITLES, Player


def test_every_style_has_a_title() -> None:
    assert set(STYLE_TITLES) == {*PACE_STYLES, *SPIN_STYLES}


def test_the_surname_is_what_a_scorecard_prints() -> None:
    assert Player("x", "Ada van Nobody", "batter", 1).surname == "van Nobody"
    assert Player("x", "Ada", "batter", 1).surname == "Ada"
