"""Formats (F5 to F7, O5 to O7) and lawful fields (F1 to F4)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.environments.cricket.laws import SUPER_OVER, LawBroken, format_of, overs_text
from spectator.environments.cricket.match.field import (
    BOUNDARY_M,
    POSITIONS,
    PRESET_NAMES,
    RING_M,
    Field,
    check_field,
    custom_field,
    is_outside,
    legal_presets,
    preset_field,
    standard_field,
    zone_of,
)
from tests.environments.cricket.builders import DOT, NO_BALL, WIDE, bowl, fresh

# T20I playing conditions from July 2025: overs of a shortened innings and of its powerplay.
POWERPLAYS = {
    5: "1.3", 6: "1.5", 7: "2.1", 8: "2.2", 9: "2.4", 10: "3.0", 11: "3.2", 12: "3.4", 13: "3.5", 14: "4.1",
    15: "4.3", 16: "4.5", 17: "5.1", 18: "5.2", 19: "5.4", 20: "6.0",
}  # fmt: skip


@pytest.mark.parametrize(("overs", "powerplay"), POWERPLAYS.items())
def test_F5_powerplay_of_a_shortened_innings_to_the_ball(overs: int, powerplay: str) -> None:
    assert overs_text(format_of(overs).powerplay_balls) == powerplay


def test_F5_house_powerplay_of_one_to_four_overs() -> None:
    assert [format_of(overs).powerplay_balls for overs in (1, 2, 3, 4)] == [2, 4, 5, 7]


def test_F7_wides_and_no_balls_do_not_use_up_the_powerplay() -> None:
    innings = bowl(fresh(5), *[DOT] * 6, DOT, DOT, WIDE, NO_BALL)
    assert innings.format.outside_limit(innings.balls) == 2
    innings = bowl(innings, DOT)
    assert innings.format.outside_limit(innings.balls) == 5


def test_F1_two_outside_in_the_powerplay_then_five() -> None:
    t20 = format_of(20)
    assert [t20.outside_limit(balls) for balls in (0, 35, 36, 119)] == [2, 2, 5, 5]
    assert SUPER_OVER.outside_limit(0) == 5


def test_the_one_day_pattern_from_21_overs() -> None:
    fifty = format_of(50)
    assert (fifty.powerplay_balls, fifty.middle_balls, fifty.bowler_overs) == (60, 240, 10)
    assert [fifty.outside_limit(balls) for balls in (59, 60, 239, 240)] == [2, 4, 4, 5]


@pytest.mark.parametrize("overs", [0, 51, -1])
def test_there_are_1_to_50_overs(overs: int) -> None:
    with pytest.raises(ValueError, match="1 to 50"):
        format_of(overs)


@pytest.mark.parametrize("limit", [2, 4, 5])
def test_legal_presets_are_lawful_and_the_rest_are_not(limit: int) -> None:
    for name in PRESET_NAMES:
        field = preset_field(name, limit)
        assert len(field.fielders) == 9
        if name in legal_presets(limit):
            check_field(field, limit)
        else:
            with pytest.raises(LawBroken, match=r"^F1\."):
                check_field(field, limit)


def test_the_standard_field_uses_all_that_is_allowed_and_is_neutral() -> None:
    for limit in (2, 4, 5):
        assert standard_field(limit).outside == limit
        assert standard_field(limit).shape.fielders == 0


def field_of(**moved: tuple[float, float]) -> Field:
    """Nine men in the ring, some of them moved."""
    ring = [
        "short third",
        "backward point",
        "cover",
        "mid-off",
        "mid-on",
        "midwicket",
        "square leg",
        "extra cover",
    ]
    placed = [(name, *POSITIONS[name]) for name in [*ring, "gully"]]
    return custom_field(
        [(name, *moved.get(name.replace("-", "_").replace(" ", "_"), (x, y))) for name, x, y in placed]
    )


def test_F1_a_third_man_outside_is_refused_in_the_powerplay() -> None:
    two = field_of(cover=(57.0, 32.0), mid_off=(22.0, 70.0))
    check_field(two, 2)
    three = field_of(cover=(57.0, 32.0), mid_off=(22.0, 70.0), mid_on=(-22.0, 70.0))
    with pytest.raises(LawBroken, match=r"^F1\.outside_ring: 3 "):
        check_field(three, 2)


def test_F2_a_sixth_man_on_the_leg_side_is_refused() -> None:
    check_field(field_of(gully=(-10.0, 12.0), cover=(-15.0, 25.0)), 5)
    with pytest.raises(LawBroken, match=r"^F2\.leg_side: 6 "):
        check_field(field_of(gully=(-10.0, 12.0), cover=(-15.0, 25.0), mid_off=(-3.0, 30.0)), 5)


def test_F3_a_third_man_behind_square_leg_is_refused() -> None:
    check_field(field_of(midwicket=(-20.0, -3.0), mid_on=(-10.0, -15.0)), 5)
    with pytest.raises(LawBroken, match=r"^F3\.behind_square: 3 "):
        check_field(field_of(midwicket=(-20.0, -3.0), mid_on=(-10.0, -15.0), square_leg=(-24.0, -9.0)), 5)


def test_F4_F8_nine_fielders_on_the_ground_off_the_pitch_and_apart() -> None:
    with pytest.raises(LawBroken, match=r"^F4\.nine"):
        custom_field([("slip", 3.0, -14.0)])
    with pytest.raises(LawBroken, match=r"^F4\.off_the_ground"):
        field_of(cover=(90.0, 0.0))
    with pytest.raises(LawBroken, match=r"^F8\.on_the_pitch"):
        field_of(cover=(0.5, 10.0))
    with pytest.raises(LawBroken, match=r"^F4\.same_spot"):
        field_of(cover=POSITIONS["gully"])


@given(angle=st.floats(0, 2 * math.pi), distance=st.floats(1, BOUNDARY_M))
def test_the_ring_is_semicircles_joined_by_straight_lines(angle: float, distance: float) -> None:
    x, y = distance * math.sin(angle), -distance * math.cos(angle)
    nearest = min(math.hypot(x, y - stumps) for stumps in [k * 20.12 / 200 for k in range(201)])
    if abs(nearest - RING_M) > 0.1:
        assert is_outside(x, y) == (nearest > RING_M)


@pytest.mark.parametrize(
    ("position", "zone"),
    [
        ("fine leg", 1), ("backward square leg", 2), ("midwicket", 3), ("long-on", 4), ("long-off", 5),
        ("cover", 6), ("backward point", 7), ("third", 8),
    ],
)  # fmt: skip
def test_zones_run_from_fine_leg_round_to_third(position: str, zone: int) -> None:
    assert zone_of(*POSITIONS[position]) == zone
