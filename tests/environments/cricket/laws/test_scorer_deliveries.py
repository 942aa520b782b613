"""Overs, wides, no-balls and free hits: each test names the rule of docs/cricket-laws.md."""

from __future__ import annotations

import pytest

from spectator.environments.cricket import scorer as laws
from spectator.environments.cricket.laws import Ball, BowlerLine, LawBroken, mark, overs_text
from tests.environments.cricket.builders import (
    BOWLED,
    CAUGHT,
    DOT,
    FOUR,
    NO_BALL,
    SIX,
    STUMPED,
    WIDE,
    bowl,
    everything,
    fresh,
    give_ball,
    over_of,
    ready,
    runs,
)

RUN_OUT = Ball(dismissal="run out")


def broken(rule: str) -> pytest.RaisesExc[LawBroken]:
    return pytest.raises(LawBroken, match=rf"^{rule}\.")


def test_O1_an_over_is_six_valid_balls() -> None:
    innings = bowl(fresh(), DOT, WIDE, NO_BALL, DOT, DOT, DOT, DOT)
    assert (innings.balls, innings.over_balls, innings.deliveries, innings.overs) == (5, 5, 7, [])
    innings = bowl(innings, DOT)
    assert (innings.balls, innings.over_balls, innings.bowler) == (6, 0, None)
    assert innings.overs == [(2, 0, False)]


@pytest.mark.parametrize("extra", [WIDE, NO_BALL])
def test_O2_a_wide_or_no_ball_as_last_ball_keeps_over_and_innings_open(extra: Ball) -> None:
    innings = bowl(fresh(1), *[DOT] * 5, extra)
    assert innings.bowler == 10
    assert innings.closed is None
    assert bowl(innings, DOT).closed == "overs"


def test_O3_nobody_bowls_two_overs_running() -> None:
    innings = bowl(fresh(), *[DOT] * 6)
    with broken("O3"):
        laws.take_bowler(innings, 10)
    innings = bowl(give_ball(innings, 9), *[DOT] * 6)
    assert give_ball(innings, 10).bowler == 10


def test_O4_an_over_is_finished_by_its_bowler() -> None:
    innings = bowl(fresh(), DOT)
    with broken("O4"):
        laws.take_bowler(innings, 9)


@pytest.mark.parametrize(
    ("overs", "limits"),
    [
        (1, [1]), (4, [1]), (5, [2]), (6, [2]), (9, [2]), (10, [2]), (12, [3, 3, 2]), (13, [3, 3, 3, 2]),
        (19, [4, 4, 4, 4, 3]), (20, [4]), (50, [10]), (47, [10, 10, 9]),
    ],
)  # fmt: skip
def test_O5_O6_O7_overs_per_bowler(overs: int, limits: list[int]) -> None:
    """O5 one fifth and the remainder as one more; O6 two of 5 to 9 overs; O7 our house rule for less."""
    innings = fresh(overs)
    innings.bowler, innings.over_bowlers, innings.bowling = None, [], {}
    for player, limit in enumerate(limits):
        assert laws.overs_left(innings, player) == limit
        innings.bowling[player] = BowlerLine(player)
        innings.bowling[player].overs_begun = limit
        assert laws.overs_left(innings, player) == 0
        with broken("O5"):
            laws.check_bowler(innings, player)


def test_O5_who_has_bowled_the_share_may_bowl_one_more_only_while_it_is_free() -> None:
    innings = fresh(11)
    innings.bowler, innings.over_bowlers, innings.bowling = None, [], {}
    for player in (0, 1):
        innings.bowling[player] = BowlerLine(player)
        innings.bowling[player].overs_begun = 2
    assert [laws.overs_left(innings, player) for player in (0, 1, 2)] == [1, 1, 3]
    innings.bowling[0].overs_begun = 3
    assert [laws.overs_left(innings, player) for player in (0, 1, 2)] == [0, 0, 2]


def test_O8_overs_are_written_in_base_six() -> None:
    assert [overs_text(balls) for balls in (0, 5, 6, 23, 24, 120)] == [
        "0.0",
        "0.5",
        "1.0",
        "3.5",
        "4.0",
        "20.0",
    ]
    assert not any(overs_text(balls).endswith((".6", ".7", ".8", ".9")) for balls in range(301))


def test_N1_a_no_ball_is_one_extra_debited_to_the_bowler_and_a_ball_faced() -> None:
    innings = bowl(fresh(), Ball(noball=True, bat=4, boundary=True))
    assert (innings.runs, innings.noballs, innings.balls) == (5, 1, 0)
    assert (innings.batting[0].runs, innings.batting[0].balls, innings.batting[0].fours) == (4, 1, 1)
    assert (innings.bowling[10].runs, innings.bowling[10].balls, innings.bowling[10].noballs) == (5, 0, 1)


@pytest.mark.parametrize(("byes", "legbyes"), [(2, 0), (0, 2)])
def test_N2_byes_off_a_no_ball_stay_byes_and_only_the_penalty_is_the_bowlers(byes: int, legbyes: int) -> None:
    innings = bowl(fresh(), Ball(noball=True, byes=byes, legbyes=legbyes, ran=2))
    assert (innings.noballs, innings.byes, innings.legbyes) == (1, byes, legbyes)
    assert (innings.runs, innings.bowling[10].runs) == (3, 1)


@pytest.mark.parametrize("kind", ["bowled", "caught", "caught and bowled", "lbw", "stumped", "hit wicket"])
def test_N3_off_a_no_ball_nobody_is_out_like_that(kind: str) -> None:
    with broken("N3"):
        bowl(fresh(), Ball(noball=True, dismissal=kind))


@pytest.mark.parametrize("kind", ["run out", "obstructing the field", "hit the ball twice"])
def test_N3_off_a_no_ball_somebody_may_be_out_like_that(kind: str) -> None:
    innings = bowl(fresh(), Ball(noball=True, dismissal=kind))
    assert (innings.wickets, innings.bowling[10].wickets, innings.noballs) == (1, 0, 1)


def test_N4_a_no_ball_overrides_a_wide() -> None:
    with broken("N4"):
        bowl(fresh(), Ball(noball=True, wide=True, wides=1))


@pytest.mark.parametrize("ran", [0, 1])
def test_N5_the_ball_after_a_no_ball_is_a_free_hit_for_whoever_is_on_strike(ran: int) -> None:
    innings = bowl(fresh(), Ball(noball=True, bat=ran, ran=ran))
    assert innings.free_hit
    assert innings.striker == ran


def test_N6_free_hit_survives_a_wide() -> None:
    innings = bowl(fresh(), NO_BALL, WIDE, WIDE)
    assert innings.free_hit
    assert not bowl(innings, DOT).free_hit


def test_N6_free_hit_survives_another_no_ball() -> None:
    assert bowl(fresh(), NO_BALL, NO_BALL).free_hit


def test_N6_free_hit_survives_the_call_of_over_being_put_off() -> None:
    innings = bowl(fresh(), *[DOT] * 5, NO_BALL)
    assert innings.free_hit
    assert innings.bowler == 10


@pytest.mark.parametrize("kind", ["bowled", "caught", "caught and bowled", "lbw", "stumped", "hit wicket"])
def test_N7_on_a_free_hit_nobody_is_out_like_that(kind: str) -> None:
    with broken("N7"):
        bowl(fresh(), NO_BALL, Ball(dismissal=kind))


@pytest.mark.parametrize("kind", ["stumped", "hit wicket"])
def test_N7_not_even_off_a_wide(kind: str) -> None:
    with broken("N7"):
        bowl(fresh(), NO_BALL, Ball(wide=True, wides=1, dismissal=kind))


def test_N7_a_run_out_counts_on_a_free_hit() -> None:
    assert bowl(fresh(), NO_BALL, RUN_OUT).wickets == 1


def test_N8_runs_after_the_stumps_are_hit_on_a_free_hit_count_as_byes() -> None:
    innings = bowl(fresh(), NO_BALL, Ball(byes=2, ran=2))
    assert (innings.byes, innings.wickets, innings.batting[0].runs) == (2, 0, 0)


def test_W1_the_wide_stands_whatever_follows() -> None:
    innings = bowl(fresh(), Ball(wide=True, wides=1, dismissal="run out"))
    assert (innings.runs, innings.wides, innings.wickets) == (1, 1, 1)


def test_W2_all_runs_off_a_wide_are_wides_and_the_bowlers() -> None:
    innings = bowl(fresh(), Ball(wide=True, wides=5, boundary=True))
    assert (innings.runs, innings.wides, innings.byes, innings.bowling[10].runs) == (5, 5, 0, 5)
    for wrong in (
        Ball(wide=True, wides=1, byes=1, ran=1),
        Ball(wide=True, wides=1, bat=1, ran=1),
        Ball(wide=True),
    ):
        with broken("W2"):
            bowl(fresh(), wrong)
    with broken("W2"):
        bowl(fresh(), Ball(wides=2, ran=1))


def test_W3_a_wide_is_neither_faced_nor_valid() -> None:
    innings = bowl(fresh(), WIDE)
    assert (innings.balls, innings.batting[0].balls, innings.bowling[10].balls) == (0, 0, 0)


@pytest.mark.parametrize("kind", ["bowled", "caught", "caught and bowled", "lbw", "hit the ball twice"])
def test_W4_off_a_wide_nobody_is_out_like_that(kind: str) -> None:
    with broken("W4"):
        bowl(fresh(), Ball(wide=True, wides=1, dismissal=kind))


@pytest.mark.parametrize("kind", ["stumped", "run out", "hit wicket", "obstructing the field"])
def test_W4_off_a_wide_somebody_may_be_out_like_that(kind: str) -> None:
    assert bowl(fresh(), Ball(wide=True, wides=1, dismissal=kind)).wickets == 1


def test_W5_stumped_off_a_wide() -> None:
    innings = bowl(fresh(), Ball(wide=True, wides=1, dismissal="stumped"))
    assert (innings.runs, innings.wickets, innings.bowling[10].wickets, innings.balls) == (1, 1, 1, 0)
    assert ready(innings).striker == 2


def test_marks_say_what_happened() -> None:
    signs = {
        "·": DOT, "1": runs(1), "4": FOUR, "6": SIX, "wd": WIDE,
        "5wd": Ball(wide=True, wides=5, boundary=True), "nb": NO_BALL,
        "5nb": Ball(noball=True, bat=4, boundary=True), "3nb": Ball(noball=True, byes=2, ran=2),
        "b": Ball(byes=1, ran=1), "4b": Ball(byes=4, boundary=True), "lb": Ball(legbyes=1, ran=1),
        "2lb": Ball(legbyes=2, ran=2), "W": BOWLED, "1W": Ball(bat=1, ran=1, dismissal="run out"),
        "wdW": Ball(wide=True, wides=1, dismissal="stumped"),
    }  # fmt: skip
    assert {sign: mark(ball) for sign, ball in signs.items()} == {sign: sign for sign in signs}


@pytest.mark.parametrize(
    ("ball", "rule"),
    [
        (Ball(bat=2, ran=1), "S1"),
        (Ball(bat=-1, ran=-1), "S1"),
        (Ball(bat=1, byes=1, ran=2), "S9"),
        (Ball(byes=1, legbyes=1, ran=2), "S9"),
        (Ball(penalty=3), "R8"),
        (Ball(bat=3, boundary=True), "S4"),
        (Ball(byes=6, boundary=True), "S4"),
        (Ball(dismissal="timed out"), "K5"),
        (Ball(bat=1, ran=1, dismissal="caught"), "S6"),
        (Ball(dismissal="bowled", striker_out=False), "K3"),
    ],
)
def test_a_ball_that_could_not_happen_is_refused_and_changes_nothing(ball: Ball, rule: str) -> None:
    innings = bowl(fresh(), runs(1))
    before = everything(innings)
    with broken(rule):
        laws.take_ball(innings, ball)
    assert everything(innings) == before


def test_stumped_and_caught_are_the_bowlers_and_over_helper_makes_an_over() -> None:
    innings = bowl(fresh(), *over_of([STUMPED, CAUGHT]))
    assert innings.bowling[10].wickets == 2
    assert innings.overs == [(0, 2, True)]
