"""Runs, ends, wickets, new batters and the end of an innings: each test names its rule."""

from __future__ import annotations

import pytest

from spectator.environments.cricket import scorer as laws
from spectator.environments.cricket.laws import SUPER_OVER, Ball, Innings, LawBroken
from tests.environments.cricket.builders import (
    BOWLED,
    CAUGHT,
    DOT,
    FOUR,
    NO_BALL,
    SIX,
    WIDE,
    apply,
    bowl,
    fresh,
    ready,
    runs,
    send_in,
)


def ends(innings: Innings) -> tuple[int | None, int | None]:
    return innings.striker, innings.non_striker


@pytest.mark.parametrize("run", [1, 2, 3])
@pytest.mark.parametrize("kind", ["bat", "byes", "legbyes", "wide", "noball"])
def test_S1_odd_runs_change_the_ends(kind: str, run: int) -> None:
    ball = {
        "bat": Ball(bat=run, ran=run),
        "byes": Ball(byes=run, ran=run),
        "legbyes": Ball(legbyes=run, ran=run),
        "wide": Ball(wide=True, wides=1 + run, ran=run),
        "noball": Ball(noball=True, bat=run, ran=run),
    }[kind]
    assert ends(bowl(fresh(), ball)) == ((1, 0) if run % 2 else (0, 1))


@pytest.mark.parametrize("ball", [WIDE, NO_BALL])
def test_S1_the_penalty_itself_does_not_change_the_ends(ball: Ball) -> None:
    assert ends(bowl(fresh(), ball)) == (0, 1)


def test_S2_five_wides_keep_the_ends_and_a_wide_with_a_run_changes_them() -> None:
    assert ends(bowl(fresh(), Ball(wide=True, wides=5, boundary=True))) == (0, 1)
    assert ends(bowl(fresh(), Ball(wide=True, wides=2, ran=1))) == (1, 0)
    assert ends(bowl(fresh(), Ball(noball=True, bat=1, ran=1))) == (1, 0)


def test_S3_a_single_off_the_last_ball_keeps_the_strike() -> None:
    assert ends(bowl(fresh(), *[DOT] * 5, runs(1))) == (0, 1)
    assert ends(bowl(fresh(), *[DOT] * 6)) == (1, 0)


@pytest.mark.parametrize("ball", [FOUR, SIX, Ball(byes=4, boundary=True)])
def test_S4_a_boundary_returns_the_batters(ball: Ball) -> None:
    assert ends(bowl(fresh(), ball)) == (0, 1)


def test_S4_more_runs_than_the_allowance_count_when_they_were_run() -> None:
    innings = bowl(fresh(), Ball(bat=5, ran=5, boundary=True))
    assert (innings.runs, innings.batting[0].fours, ends(innings)) == (5, 0, (1, 0))


def test_S5_overthrows_to_the_boundary_add_to_the_runs_run_and_are_the_strikers() -> None:
    innings = bowl(fresh(), Ball(bat=5, ran=1, boundary=True))
    assert (innings.batting[0].runs, innings.batting[0].fours, ends(innings)) == (5, 0, (1, 0))
    six = bowl(fresh(), Ball(bat=6, ran=2, boundary=True))
    assert (six.batting[0].runs, six.batting[0].sixes, ends(six)) == (6, 0, (0, 1))


@pytest.mark.parametrize("kind", ["caught", "caught and bowled", "bowled", "lbw", "stumped", "hit wicket"])
def test_S6_no_runs_with_a_dismissal_at_the_strikers_end(kind: str) -> None:
    with pytest.raises(LawBroken, match=r"^S6\."):
        bowl(fresh(), Ball(bat=1, ran=1, dismissal=kind))
    assert bowl(fresh(), Ball(dismissal=kind)).runs == 0


def test_S7_completed_runs_count_when_somebody_is_run_out() -> None:
    innings = bowl(fresh(), Ball(bat=1, ran=1, dismissal="run out"))
    assert (innings.runs, innings.batting[0].runs, innings.wickets) == (1, 1, 1)
    leg = bowl(fresh(), Ball(legbyes=1, ran=1, dismissal="run out"))
    assert (leg.runs, leg.legbyes, leg.batting[0].runs, leg.bowling[10].runs) == (1, 1, 0, 0)


def test_S9_byes_and_leg_byes_are_not_the_bowlers_but_are_balls_faced() -> None:
    innings = bowl(fresh(), Ball(byes=1, ran=1), Ball(legbyes=4, boundary=True))
    assert (innings.runs, innings.bowling[10].runs, innings.byes, innings.legbyes) == (5, 0, 1, 4)
    assert (innings.batting[0].balls, innings.batting[1].balls) == (1, 1)


@pytest.mark.parametrize("crossed", [False, True])
def test_K1_caught_the_new_batter_takes_strike_even_if_they_crossed(crossed: bool) -> None:
    innings = ready(bowl(fresh(), CAUGHT._replace(crossed=crossed)))
    assert ends(innings) == (2, 1)


def test_K2_caught_off_the_last_ball_the_batter_who_stays_faces() -> None:
    innings = bowl(fresh(), *[DOT] * 5, CAUGHT)
    assert ends(innings) == (1, None)
    assert ends(ready(innings)) == (1, 2)


@pytest.mark.parametrize("kind", ["bowled", "lbw", "stumped", "hit wicket"])
def test_K3_the_new_batter_takes_the_strikers_end(kind: str) -> None:
    assert ends(ready(bowl(fresh(), Ball(dismissal=kind)))) == (2, 1)
    assert ends(ready(bowl(fresh(), *[DOT] * 5, Ball(dismissal=kind)))) == (1, 2)


@pytest.mark.parametrize(
    ("ran", "striker_out", "crossed", "expected"),
    [
        (0, True, False, (2, 1)),  # sent back: out at the striker's end
        (
            0,
            True,
            True,
            (1, 2),
        ),  # crossed: the striker is out at the bowler's end, the other runs to the striker's
        (0, False, False, (0, 2)),  # the non-striker is out going back to the bowler's end
        (0, False, True, (2, 0)),  # crossed: the non-striker is out at the striker's end
        (1, True, False, (1, 2)),  # a run made, turning back for the second
        (1, True, True, (2, 1)),  # out at the striker's end, coming back for the second
        (1, False, False, (2, 0)),
        (1, False, True, (0, 2)),
    ],
)
def test_K4_ends_after_a_run_out(
    ran: int, striker_out: bool, crossed: bool, expected: tuple[int, int]
) -> None:
    ball = Ball(bat=ran, ran=ran, dismissal="run out", striker_out=striker_out, crossed=crossed)
    innings = bowl(fresh(), ball)
    assert innings.batting[0 if striker_out else 1].how == "run out"
    assert ends(ready(innings)) == expected


def test_K5_what_the_bowler_is_credited_with() -> None:
    for kind in ("bowled", "caught", "caught and bowled", "lbw", "stumped", "hit wicket"):
        assert bowl(fresh(), Ball(dismissal=kind)).bowling[10].wickets == 1
    for kind in ("run out", "obstructing the field", "hit the ball twice"):
        innings = bowl(fresh(), Ball(dismissal=kind))
        assert (innings.bowling[10].wickets, innings.wickets) == (0, 1)


def test_K8_ten_wickets_end_the_innings() -> None:
    innings = bowl(fresh(), *[BOWLED] * 9)
    assert innings.closed is None
    assert bowl(innings, BOWLED).closed == "all out"


def test_K10_the_order_is_free_but_nobody_bats_twice() -> None:
    innings = send_in(bowl(fresh(), BOWLED), 10)
    assert innings.striker == 10
    again = bowl(innings, BOWLED)
    for player in (0, 1, 10, 11, -1):
        with pytest.raises(LawBroken, match=r"^K10\."):
            laws.take_batter(again, player)
    with pytest.raises(LawBroken, match=r"^K10\."):
        laws.take_batter(fresh(), 5)


@pytest.mark.parametrize(
    ("innings", "why"),
    [
        (bowl(fresh(1), *[DOT] * 6), "overs"),
        (bowl(fresh(), *[BOWLED] * 10), "all out"),
        (bowl(fresh(target=4), FOUR), "target"),
        (bowl(fresh(format=SUPER_OVER), BOWLED, BOWLED), "all out"),
    ],
)
def test_R1_an_innings_ends_and_the_ball_after_is_refused(innings: Innings, why: str) -> None:
    assert innings.closed == why
    assert innings.awaited == "nothing"
    with pytest.raises(LawBroken, match=r"^R1\."):
        apply(innings, DOT)


def test_R1_ten_wickets_off_the_last_ball_are_all_out() -> None:
    innings = bowl(fresh(2), *[BOWLED] * 9, DOT, DOT)
    assert bowl(innings, BOWLED).closed == "all out"


@pytest.mark.parametrize("call", [WIDE, NO_BALL])
def test_R3_level_scores_and_a_wide_or_no_ball_ends_it_with_one_extra(call: Ball) -> None:
    hit = Ball(wide=True, wides=5, boundary=True) if call.wide else Ball(noball=True, bat=6, boundary=True)
    innings = bowl(fresh(target=1), hit)
    assert (innings.runs, innings.wides + innings.noballs, innings.batting[0].runs) == (1, 1, 0)
    assert (innings.closed, innings.balls) == ("target", 0)


def test_R3_nothing_run_after_the_winning_run_counts() -> None:
    innings = bowl(fresh(target=1), runs(3))
    assert (innings.runs, innings.batting[0].runs) == (1, 1)
    byes = bowl(fresh(target=2), Ball(byes=3, ran=3))
    assert (byes.runs, byes.byes) == (2, 2)


def test_R3_a_run_out_after_the_winning_run_does_not_count() -> None:
    innings = bowl(fresh(target=1), Ball(bat=1, ran=1, dismissal="run out"))
    assert (innings.runs, innings.wickets, innings.closed) == (1, 0, "target")


def test_R3_a_stumping_off_the_winning_wide_does_not_count() -> None:
    innings = bowl(fresh(target=1), Ball(wide=True, wides=1, dismissal="stumped"))
    assert (innings.runs, innings.wickets, innings.closed) == (1, 0, "target")


@pytest.mark.parametrize(
    ("ball", "total"), [(SIX, 6), (FOUR, 4), (Ball(noball=True, bat=6, boundary=True), 7)]
)
def test_R4_a_boundary_hit_before_enough_was_run_counts_in_full(ball: Ball, total: int) -> None:
    innings = bowl(fresh(target=2 if ball.noball else 1), ball)
    assert innings.runs == total


def test_R4_an_overthrow_after_enough_was_run_does_not() -> None:
    innings = bowl(fresh(target=1), Ball(bat=5, ran=1, boundary=True))
    assert innings.runs == 1


def test_R5_a_chase_won_off_a_wide_leaves_the_balls_as_they_were() -> None:
    innings = bowl(fresh(1, target=2), *[DOT] * 5, runs(1)._replace(bat=0, byes=1, ran=1))
    assert innings.closed == "overs"
    won = bowl(fresh(1, target=2), DOT, runs(1), WIDE)
    assert (won.closed, won.balls_left) == ("target", 4)


def test_R8_penalty_runs_to_the_batting_side_count_at_once() -> None:
    innings = bowl(fresh(), Ball(penalty=5))
    assert (innings.runs, innings.penalties, innings.bowling[10].runs) == (5, 5, 0)


def test_apply_leaves_the_innings_before_it_alone() -> None:
    before = fresh()
    apply(before, FOUR)
    apply(before, BOWLED)
    assert (before.runs, before.wickets, before.batting[0].balls, before.bowling[10].runs) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("balls", "maiden"),
    [
        ([DOT] * 6, True),
        ([DOT] * 5 + [Ball(byes=4, boundary=True)], True),
        ([DOT] * 5 + [Ball(legbyes=1, ran=1)], True),
        ([DOT] * 5 + [BOWLED], True),
        ([DOT] * 5 + [runs(1)], False),
        ([WIDE] + [DOT] * 6, False),
        ([NO_BALL] + [DOT] * 6, False),
    ],
)
def test_A4_a_maiden_allows_byes_and_leg_byes_but_neither_wides_nor_no_balls(
    balls: list[Ball], maiden: bool
) -> None:
    innings = bowl(fresh(), *balls)
    assert innings.overs[0][2] is maiden
    assert innings.bowling[10].maidens == maiden
