"""How a match is decided: R2, R5 and R6."""

from __future__ import annotations

import pytest

from spectator.environments.cricket import scorer
from spectator.environments.cricket.laws import SUPER_OVER, Ball, Innings, LawBroken, Side
from tests.environments.cricket.builders import (
    BOWLED,
    DOT,
    FOUR,
    SIX,
    WIDE,
    bowl,
    fresh,
    give_ball,
    ready,
    runs,
)


def made(total: int, *, target: int | None = None) -> Innings:
    """A complete over, or as much of one as wins, that makes ``total`` (0 to 36) off the bat."""
    sixes, rest = divmod(total, 6)
    balls = [SIX] * sixes + ([Ball(bat=rest, ran=rest)] if rest else [])
    innings = fresh(1, target=target)
    for ball in [*balls, *[DOT] * 6]:
        if innings.closed:
            break
        innings = bowl(innings, ball)
    return innings


def decided(first: Innings, second: Innings) -> str:
    found = scorer.decide([first, second], ["home", "away"], super_over=False)
    assert found is not None
    return found.words("Red River" if found.winner == "home" else "Fernhill")


def test_R2_the_target_is_one_more_with_penalty_runs() -> None:
    assert scorer.target_of(made(12)) == 13
    assert scorer.target_of(bowl(fresh(1), Ball(penalty=5), *[DOT] * 5)) == 6


def test_R2_level_scores_are_a_tie() -> None:
    first = made(12)
    second = made(12, target=13)
    assert (second.closed, decided(first, second)) == ("overs", "Match tied")
    assert scorer.decide([first, second], ["home", "away"]) is None


def test_R5_won_by_runs() -> None:
    assert decided(made(12), made(3, target=13)) == "Red River won by 9 runs"
    assert decided(made(12), made(11, target=13)) == "Red River won by 1 run"


def test_R5_won_by_wickets_left_with_balls_left_from_valid_balls() -> None:
    second = bowl(fresh(1, target=13), BOWLED, WIDE, SIX, SIX)
    assert decided(made(12), second) == "Fernhill won by 9 wickets (3 balls left)"


def test_R5_a_chase_won_with_the_last_ball() -> None:
    second = bowl(fresh(1, target=13), BOWLED, SIX, FOUR, DOT, DOT, SIX)
    assert decided(made(12), second) == "Fernhill won by 9 wickets off the last ball"


def test_R5_a_chase_won_off_a_wide_does_not_use_a_ball() -> None:
    second = bowl(fresh(1, target=13), *[DOT] * 3, SIX, SIX, WIDE)
    assert decided(made(12), second) == "Fernhill won by 10 wickets (1 ball left)"


def test_R6_the_side_that_batted_second_bats_first_and_the_order_is_then_reversed() -> None:
    batting: list[Side] = ["home", "away"]
    while len(batting) < 8:
        batting.append(scorer.next_batting_side(batting))
    assert batting == ["home", "away", "away", "home", "home", "away", "away", "home"]


def super_over(*balls: Ball, target: int | None = None) -> Innings:
    innings = Innings(SUPER_OVER, target=target)
    return bowl(innings, *balls)


def test_R6_two_wickets_end_a_super_over_and_there_is_no_powerplay() -> None:
    innings = super_over(BOWLED, BOWLED)
    assert (innings.closed, innings.format.powerplay_balls) == ("all out", 0)


def test_R6_super_overs_decide_and_are_repeated_until_they_do() -> None:
    tied = [made(12), made(12, target=13)]
    level = [super_over(*[FOUR] * 6), super_over(*[FOUR] * 6, target=25)]
    won = [super_over(*[DOT] * 6), super_over(runs(1), target=1)]
    batting: list[Side] = ["home", "away", "away", "home", "home", "away"]
    assert scorer.decide([*tied, *level], batting[:4]) is None
    found = scorer.decide([*tied, *level, *won], batting)
    assert found is not None
    assert (found.winner, found.super_overs) == ("away", 2)
    assert found.words("Fernhill") == "Match tied; Fernhill won the super over (the second)"


def test_R6_dismissed_batters_and_the_last_bowler_are_not_available_again() -> None:
    tied = [made(12), made(12, target=13)]
    first = super_over(BOWLED, *[FOUR] * 5)
    second = super_over(*[FOUR] * 5, DOT, target=21)
    played = [*tied, first, second]
    batting: list[Side] = ["home", "away", "away", "home"]
    sides: list[Side] = ["home", "away"]
    assert scorer.barred_batters(played, batting, "away") == {0}
    assert scorer.barred_batters(played, batting, "home") == frozenset()
    assert [scorer.barred_bowlers(played, batting, side) for side in sides] == [{10}, {10}]
    again = Innings(SUPER_OVER, barred_batters={0}, barred_bowlers={10})
    with pytest.raises(LawBroken, match=r"^R6\."):
        give_ball(again, 10)
    assert 0 not in ready(again).batting


def test_R6_when_nobody_is_left_to_bat_everybody_may_again() -> None:
    """House rule: nine out in tied super overs would leave two, one too few."""
    pairs: list[Innings] = []
    batting: list[Side] = ["home", "away"]
    for number in range(5):
        barred = scorer.barred_batters([made(12), made(12, target=13), *pairs], batting, "away")
        assert len(barred) == (2 * number if number < 5 else 0)
        first = bowl(Innings(SUPER_OVER, barred_batters=barred), BOWLED, BOWLED)
        pairs += [first, super_over(*[DOT] * 6, target=1)]
        batting += ["away", "home"]
    played = [made(12), made(12, target=13), *pairs]
    assert scorer.barred_batters(played, batting, "away") == frozenset()


def test_R6_only_super_overs_count_their_own_wickets() -> None:
    """Those out in the match itself may bat in its super over."""
    tied = [bowl(fresh(1), BOWLED, *[DOT] * 5), bowl(fresh(1, target=1), *[DOT] * 6)]
    assert scorer.barred_batters(tied, ["home", "away"], "home") == frozenset()
