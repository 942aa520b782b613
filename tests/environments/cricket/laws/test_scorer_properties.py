"""Whatever is bowled, lawful or not, the scorecard adds up and a refused ball changes nothing."""

from __future__ import annotations

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from spectator.environments.cricket import scorer as laws
from spectator.environments.cricket.laws import (
    DISMISSALS,
    SUPER_OVER,
    Ball,
    Format,
    Innings,
    LawBroken,
    format_of,
)
from tests.environments.cricket.builders import apply, everything, fresh, ready

KINDS = sorted(DISMISSALS)

ANY_BALL = st.builds(
    Ball,
    bat=st.integers(-1, 7),
    wide=st.booleans(),
    noball=st.booleans(),
    wides=st.integers(0, 6),
    byes=st.integers(0, 5),
    legbyes=st.integers(0, 5),
    penalty=st.sampled_from([0, 0, 0, 5, 3]),
    ran=st.integers(-1, 5),
    boundary=st.booleans(),
    dismissal=st.sampled_from([None, *KINDS, "timed out"]),
    striker_out=st.booleans(),
    crossed=st.booleans(),
)


@st.composite
def likely_balls(draw: st.DrawFn) -> Ball:
    """Mostly lawful balls, free hits aside."""
    kind = draw(st.sampled_from(["bat", "bat", "bat", "wide", "noball", "bye", "legbye", "out", "run out"]))
    run = draw(st.integers(0, 3))
    boundary = draw(st.booleans()) and draw(st.booleans())
    if kind == "bat":
        return Ball(bat=draw(st.sampled_from([4, 6])), boundary=True) if boundary else Ball(bat=run, ran=run)
    if kind == "wide":
        return (
            Ball(wide=True, wides=5, boundary=True) if boundary else Ball(wide=True, wides=1 + run, ran=run)
        )
    if kind == "noball":
        return Ball(noball=True, bat=4, boundary=True) if boundary else Ball(noball=True, bat=run, ran=run)
    if kind == "bye":
        return Ball(byes=4, boundary=True) if boundary else Ball(byes=run, ran=run)
    if kind == "legbye":
        return Ball(legbyes=4, boundary=True) if boundary else Ball(legbyes=run, ran=run)
    if kind == "run out":
        out, crossed = draw(st.booleans()), draw(st.booleans())
        return Ball(bat=run, ran=run, dismissal="run out", striker_out=out, crossed=crossed)
    return Ball(dismissal=draw(st.sampled_from(KINDS)))


def adds_up(innings: Innings) -> None:
    """A1 to A4 of docs/cricket-laws.md."""
    bat = sum(line.runs for line in innings.batting.values())
    extras = innings.wides + innings.noballs + innings.byes + innings.legbyes + innings.penalties
    assert innings.runs == bat + extras, "A1"
    conceded = sum(line.runs for line in innings.bowling.values())
    assert conceded == innings.runs - innings.byes - innings.legbyes - innings.penalties, "A2"
    assert sum(line.wickets for line in innings.bowling.values()) <= innings.wickets, "A2"
    assert sum(line.balls for line in innings.bowling.values()) == innings.balls, "A2"
    standing = (
        0
        if innings.closed and innings.striker is not None and innings.non_striker is not None
        else (innings.partner_runs)
    )
    assert sum(innings.partnerships) + standing == innings.runs, "A3"
    scores = [runs for runs, *_ in innings.fall]
    assert scores == sorted(scores), "A3"
    assert len(innings.fall) == innings.wickets, "A3"
    vacant = (innings.striker is None) + (innings.non_striker is None)
    assert len(innings.batting) == innings.wickets + 2 - vacant, "A3"
    assert sum(runs for runs, *_ in innings.overs) + innings.over_runs == innings.runs, "A4"
    assert innings.balls == 6 * len(innings.overs) + innings.over_balls, "A4"
    assert all(line.balls >= 6 * line.maidens for line in innings.bowling.values()), "A4"
    assert 0 <= innings.balls <= innings.format.balls, "R1"
    assert innings.wickets <= innings.limit, "R1"
    assert all(line.overs_begun <= innings.format.bowler_overs + 1 for line in innings.bowling.values()), "O5"
    if innings.target is not None and innings.closed != "target":
        assert innings.runs < innings.target, "R1"


@settings(max_examples=150, deadline=None)
@given(
    format=st.integers(1, 5).map(format_of) | st.just(SUPER_OVER),
    target=st.none() | st.integers(1, 60),
    balls=st.lists(likely_balls(), max_size=60),
)
def test_A1_to_A4_hold_after_every_lawful_ball(format: Format, target: int | None, balls: list[Ball]) -> None:
    innings = fresh(format=format, target=target)
    for ball in balls:
        if innings.closed:
            break
        innings = ready(innings)
        try:
            innings = apply(innings, ball)
        except LawBroken as broken:
            assert broken.rule.startswith(("N3", "N7", "S6")), broken
        adds_up(innings)


@settings(max_examples=400, deadline=None)
@given(before=st.lists(likely_balls(), max_size=8), ball=ANY_BALL, waits=st.booleans())
@example(before=[], ball=Ball(bat=-1, ran=-1), waits=True)
@example(before=[Ball(dismissal="bowled")], ball=Ball(), waits=False)
def test_any_ball_is_scored_so_that_it_adds_up_or_refused_by_name(
    before: list[Ball], ball: Ball, waits: bool
) -> None:
    innings = fresh(2, target=40)
    for earlier in before:
        try:
            innings = apply(ready(innings), earlier)
        except LawBroken:
            continue
    if waits and not innings.closed:
        innings = ready(innings)
    held = everything(innings)
    try:
        after = apply(innings, ball)
    except LawBroken as broken:
        assert "." in broken.rule
        assert broken.message.endswith((".", ")"))
    else:
        adds_up(after)
        assert innings.awaited == "ball"
        assert innings.target is not None
        counted = laws.settle(ball, innings.target - innings.runs)
        assert after.runs - innings.runs == counted.runs <= ball.runs
        assert counted.runs >= 0
        assert after.deliveries == innings.deliveries + 1
        assert after.balls - innings.balls == counted.valid
        assert after.wickets - innings.wickets == (counted.dismissal is not None)
    assert everything(innings) == held


@settings(max_examples=60, deadline=None)
@given(balls=st.lists(likely_balls(), max_size=50), seed=st.integers(0, 1000))
def test_A5_replaying_the_log_reproduces_the_innings(balls: list[Ball], seed: int) -> None:
    """The log is what was asked of the scorer: bowlers, batters and balls, in order."""
    rng = random.Random(seed)
    innings, log = Innings(format_of(4)), list[tuple[str, Ball | int]]()

    def do(what: str, value: Ball | int) -> None:
        if isinstance(value, Ball):
            laws.take_ball(innings, value)
        elif what == "batter":
            laws.take_batter(innings, value)
        else:
            laws.take_bowler(innings, value)
        log.append((what, value))

    for ball in balls:
        while innings.awaited == "batter":
            do("batter", rng.choice([player for player in range(11) if laws.may_bat(innings, player)]))
        if innings.awaited == "bowler":
            able = [p for p in range(11) if p not in innings.previous_bowlers and laws.overs_left(innings, p)]
            do("bowler", rng.choice(able))
        if innings.closed:
            break
        try:
            do("ball", ball)
        except LawBroken:
            continue
    want, innings = everything(innings), Innings(format_of(4))
    for what, value in list(log):
        do(what, value)
    assert everything(innings) == want


@settings(max_examples=200, deadline=None)
@given(ball=likely_balls(), needed=st.integers(1, 10))
def test_R3_what_settles_a_chase_is_never_more_than_the_ball_and_at_least_what_was_needed(
    ball: Ball, needed: int
) -> None:
    settled = laws.settle(ball, needed)
    assert settled.runs == ball.runs if ball.runs < needed else needed <= settled.runs <= ball.runs
    if settled != ball:
        assert (settled.runs, settled.dismissal) == (needed, None)
