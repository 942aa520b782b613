"""The ball model: lawful balls, the tables' rates, and intent that never comes free."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectator.environments.cricket.ball.fielding import OPEN_FIELD, POWERPLAY_FIELD
from spectator.environments.cricket.ball.plan_effects import WICKET_COST
from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.ball.situation import Situation
from spectator.environments.cricket.ball.tables import CATEGORIES, NO_BALL, RUN_OUT, SIX, WICKET, WIDE, rhythm
from spectator.environments.cricket.ball.vocabulary import (
    LENGTHS,
    LINES,
    PACES,
    PLANNED_LENGTHS,
    SHOTS,
    DeliveryPlan,
    FieldShape,
)
from spectator.environments.cricket.laws.deliveries import NO_BALL_DISMISSALS, WIDE_DISMISSALS
from spectator.environments.cricket.people.players import Player

MODEL = BallModel.load()
BATTER = Player("s", "Ada Striker", "batter", 3)
PACER = Player("p", "Ben Quick", "bowler", 11, "right", "pace", "right_pace")
SPINNER = Player("q", "Cy Turner", "bowler", 10, "right", "spin", "leg")
RUNS = (0, 1, 2, 3, 4, 6, 0, 0.4, 2.4, 3.6, 1.25)
"""Mean runs of each category; after a wide or no-ball another ball follows."""

PHASES = {"powerplay": (18, 1, True), "middle": (60, 2, False), "death": (102, 4, False)}


def at(phase: str = "middle", **change: Any) -> Situation:
    balls, wickets, powerplay = PHASES[phase]
    usual = Situation(balls, 120, wickets, None, BATTER, 12, PACER, powerplay=powerplay)
    return replace(usual, **change)


def value(situation: Situation, cost: float) -> float:
    """Runs less the cost of wickets, per valid ball."""
    p = MODEL.weights(situation)
    runs = sum(share * worth for share, worth in zip(p, RUNS, strict=True))
    return (runs - cost * (p[WICKET] + p[RUN_OUT])) / (1 - p[WIDE] - p[NO_BALL])


def runs_of(situation: Situation) -> float:
    return sum(share * worth for share, worth in zip(MODEL.weights(situation), RUNS, strict=True))


def out_of(situation: Situation) -> float:
    return MODEL.weights(situation)[WICKET]


situations = st.builds(
    Situation,
    balls_bowled=st.integers(0, 5),
    innings_balls=st.integers(1, 50).map(lambda overs: 6 * overs),
    wickets_lost=st.integers(0, 9),
    runs_required=st.none() | st.integers(1, 500),
    striker=st.builds(
        Player,
        st.just("s"),
        st.just("Ada Striker"),
        st.just("batter"),
        st.integers(1, 11),
        st.sampled_from(["right", "left"]),
        bat_runs=st.floats(0.5, 2),
        bat_out=st.floats(0.3, 3),
    ),
    striker_balls=st.integers(0, 200),
    bowler=st.sampled_from([PACER, SPINNER, BATTER]),
    free_hit=st.booleans(),
    powerplay=st.booleans(),
    aggression=st.floats(0, 1),
    attack=st.floats(0, 1),
    delivery=st.none()
    | st.builds(
        DeliveryPlan,
        st.none() | st.sampled_from(PLANNED_LENGTHS),
        st.none() | st.sampled_from(LINES),
        st.none() | st.sampled_from(PACES),
    ),
    shot=st.none() | st.sampled_from(sorted(SHOTS)),
    field=st.sampled_from([FieldShape.neutral(), OPEN_FIELD, POWERPLAY_FIELD]),
    effect=st.floats(-0.5, 0.5),
)


@settings(max_examples=400, deadline=None)
@given(situations, st.integers(0, 2**32), st.integers(0, 49))
def test_every_ball_is_one_that_cricket_knows(situation: Situation, seed: int, over: int) -> None:
    """Whatever is asked, what comes obeys the Laws' arithmetic and names what it names from the lists."""
    situation = replace(
        situation, balls_bowled=min(situation.balls_bowled + 6 * over, situation.innings_balls - 1)
    )
    delivered = MODEL.bowl(situation, random.Random(seed))
    ball = delivered.ball
    assert not (ball.wide and ball.noball)
    assert (ball.wides > 0) == ball.wide
    assert ball.bat in range(7) and ball.ran in range(6)
    if ball.boundary:
        assert max(ball.bat, ball.wides, ball.byes, ball.legbyes) >= 4
    else:
        assert ball.ran == (ball.wides - 1 if ball.wide else ball.bat + ball.byes + ball.legbyes)
    if ball.dismissal in ("bowled", "caught", "caught and bowled", "lbw", "stumped", "hit wicket"):
        assert ball.striker_out and ball.runs == (1 if ball.wide else 0)
    if ball.wide and ball.dismissal:
        assert ball.dismissal in WIDE_DISMISSALS and not ball.boundary
    if (ball.noball or situation.free_hit) and ball.dismissal:
        assert ball.dismissal in NO_BALL_DISMISSALS
    if ball.dismissal == "stumped":
        assert delivered.track.fielder == "keeper"
    assert (
        delivered.track.length in LENGTHS and delivered.track.line in LINES and delivered.track.pace in PACES
    )
    assert delivered.track.zone is None or 1 <= delivered.track.zone <= 8
    assert delivered.track.shot == "none" or delivered.track.shot in SHOTS
    assert 60 < delivered.track.speed_kmh < 170


@settings(max_examples=200, deadline=None)
@given(situations)
def test_weights_are_probabilities(situation: Situation) -> None:
    p = MODEL.weights(situation)
    assert len(p) == CATEGORIES
    assert min(p) >= 0.0
    assert sum(p) == pytest.approx(1.0)


def test_one_seed_draws_the_same_balls_in_another_process() -> None:
    """No hash order, clock or global generator takes part."""
    code = (
        "import random\n"
        "from spectator.environments.cricket.ball.sampler import BallModel, Situation\n"
        "from spectator.environments.cricket.people.squads import draw_fixture\n"
        "m, (a, b), r = BallModel.load(), draw_fixture(1), random.Random(5)\n"
        "print([m.bowl(Situation(i, 120, 0, None, a.players[0], i, b.players[10]), r) for i in range(60)])"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "9")
    ]
    assert runs[0] == runs[1]


def test_looking_at_a_ball_changes_nothing() -> None:
    """What it looked like is fixed when it is bowled: whoever looks, late or twice, sees the same."""
    looked, unseen = random.Random(3), random.Random(3)
    now = [MODEL.bowl(at("death"), looked) for _ in range(300)]
    tracks = [ball.track for ball in now]
    later = [MODEL.bowl(at("death"), unseen) for _ in range(300)]
    assert looked.getstate() == unseen.getstate()
    assert [ball.ball for ball in now] == [ball.ball for ball in later]
    assert [ball.track for ball in reversed(later)] == tracks[::-1] == [ball.track for ball in reversed(now)]


def test_nobody_leaves_or_blocks_a_ball_with_four_a_ball_wanted() -> None:
    rng = random.Random(4)
    lost = Situation(115, 120, 4, 24, BATTER, 12, PACER)
    easy = replace(lost, runs_required=4)
    shots = [
        Counter(ball.track.shot for ball in (MODEL.bowl(at, rng) for _ in range(600)) if not ball.ball.wide)
        for at in (lost, easy)
    ]
    assert not shots[0]["none"] and not shots[0]["defend"]
    assert shots[1]["none"] and shots[1]["defend"]


def test_what_is_drawn_has_the_stated_probabilities() -> None:
    """Sixty thousand balls of one situation match `weights` category by category."""
    rng, situation, n = random.Random(3), at("death"), 60_000
    drawn = [MODEL.bowl(situation, rng).ball for _ in range(n)]
    p = MODEL.weights(situation)
    counts = Counter(
        "wide"
        if b.wide
        else "noball"
        if b.noball
        else "extra"
        if b.byes or b.legbyes
        else (b.dismissal and "out") or b.bat
        for b in drawn
    )
    for name, share in (
        (0, p[0]),
        (1, p[1]),
        (4, p[4]),
        (6, p[SIX]),
        ("wide", p[WIDE]),
        ("out", p[WICKET] + p[RUN_OUT]),
    ):
        sd = (share * (1 - share) / n) ** 0.5
        assert counts[name] / n == pytest.approx(share, abs=5 * sd + 1e-4), name


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("bowler", [PACER, SPINNER])
def test_neutral_is_neutral(phase: str, bowler: Player) -> None:
    """The middle of each intent, the neutral field and the reference field change nothing."""
    plain = MODEL.weights(at(phase, bowler=bowler))
    same = MODEL.weights(at(phase, bowler=bowler, aggression=0.5, attack=0.5, field=FieldShape.neutral()))
    assert plain == same
    reference = POWERPLAY_FIELD if phase == "powerplay" else OPEN_FIELD
    for a, b in zip(plain, MODEL.weights(at(phase, bowler=bowler, field=reference)), strict=True):
        assert a == pytest.approx(b, rel=1e-9)


@pytest.mark.parametrize("phase", PHASES)
def test_intent_moves_along_the_frontier(phase: str) -> None:
    """Runs and wickets rise together, and no intent is worth much more than the data's own, ball for ball.

    In the middle overs with wickets in hand the tables do say that sides could dare more: the ceiling is 8 %.
    What a fixed intent is worth over whole innings is tested in test_forecast.py.
    """
    steps = [at(phase, aggression=level) for level in (0.0, 0.2, 0.4, 0.5, 0.6, 0.8)]
    assert [runs_of(step) for step in steps] == sorted(runs_of(step) for step in steps)
    calm, bold = at(phase, aggression=0.4), at(phase, aggression=0.6)
    assert out_of(calm) < out_of(at(phase)) < out_of(bold)
    cost = WICKET_COST[list(PHASES).index(phase)]
    for level in (0.0, 0.25, 0.75, 1.0):
        assert value(at(phase, aggression=level), cost) < value(at(phase), cost) * 1.08


def test_attack_buys_wickets_with_runs() -> None:
    for phase in PHASES:
        levels = [at(phase, attack=level) for level in (0.0, 0.25, 0.5, 0.75, 1.0)]
        assert [out_of(level) for level in levels] == sorted(out_of(level) for level in levels)
        assert [runs_of(level) for level in levels] == sorted(runs_of(level) for level in levels)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("bowler", [PACER, SPINNER])
def test_no_delivery_plan_is_a_free_lunch(phase: str, bowler: Player) -> None:
    """Against an average batter no plan is worth more than 3.5 % of a ball's runs to either side."""
    cost = WICKET_COST[list(PHASES).index(phase)]
    usual = value(at(phase, bowler=bowler), cost)
    plans = [DeliveryPlan(length=length) for length in PLANNED_LENGTHS]
    plans += [DeliveryPlan(line=line) for line in LINES] + [DeliveryPlan(pace=pace) for pace in PACES]
    plans += [DeliveryPlan("yorker", "stumps", "slower"), DeliveryPlan("good", "stumps", "quick")]
    scale = runs_of(at(phase, bowler=bowler))
    for plan in plans:
        gain = value(at(phase, bowler=bowler, delivery=plan), cost) - usual
        assert abs(gain) < 0.035 * scale, (plan, gain / scale)


def test_plans_change_what_happens() -> None:
    """A plan is not idle: the planned length comes, and the mix of outcomes moves."""
    rng = random.Random(1)
    plan = DeliveryPlan(length="yorker", line="stumps")
    drawn = [MODEL.bowl(at("death", delivery=plan), rng) for _ in range(4000)]
    usual = [MODEL.bowl(at("death"), rng) for _ in range(4000)]
    share = [sum(ball.track.length == "yorker" for ball in balls) / 4000 for balls in (drawn, usual)]
    assert share[0] > 0.45 > 0.2 > share[1]
    sixes = [
        MODEL.weights(at("death", delivery=DeliveryPlan(length=length)))[SIX] for length in ("yorker", "full")
    ]
    assert sixes[0] < 0.93 * sixes[1]


def test_strokes_pay_against_the_right_length_only() -> None:
    """A pull to a short plan beats a drive to it, and the other way round to a full one."""
    cost = WICKET_COST[1]
    short, full = DeliveryPlan(length="short"), DeliveryPlan(length="full")
    assert value(at(delivery=short, shot="pull"), cost) > value(at(delivery=short, shot="drive"), cost) + 0.05
    assert value(at(delivery=full, shot="drive"), cost) > value(at(delivery=full, shot="pull"), cost) + 0.05
    assert out_of(at(shot="slog")) > 1.2 * out_of(at()) and runs_of(at(shot="slog")) > runs_of(at())
    assert out_of(at(shot="defend")) < out_of(at()) and runs_of(at(shot="defend")) < 0.9 * runs_of(at())


def test_fields_answer_lines_and_strokes() -> None:
    """Seven on the off side defend a wide line better than a leg-stump one, and a cut better than a pull."""
    off = FieldShape((0, 0, 1, 0, 1, 1, 1, 1), (0, 1, 0, 0, 0, 1, 1, 1), (0,) * 8)

    def fours(**change: Any) -> float:
        return MODEL.weights(at(field=off, **change))[4] / MODEL.weights(at(**change))[4]

    assert fours(delivery=DeliveryPlan(line="wide outside off")) < fours(delivery=DeliveryPlan(line="leg"))
    assert fours(shot="cut") < fours(shot="pull")


def test_catchers_matter_most_to_a_new_batter() -> None:
    slips = FieldShape((0, 0, 1, 1, 1, 1, 1, 0), (0, 1, 0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 0, 1, 2))

    def risk(faced: int) -> float:
        situation = at("powerplay", striker_balls=faced)
        return out_of(replace(situation, field=slips)) / out_of(situation)

    assert risk(1) > risk(12) > 0.9


def test_skill_moves_runs_and_wickets_by_its_ratio() -> None:
    better = replace(BATTER, bat_runs=1.1)
    assert runs_of(at(striker=better)) / runs_of(at()) == pytest.approx(1.1, abs=0.02)
    assert out_of(at(striker=replace(BATTER, bat_out=1.3))) / out_of(at()) == pytest.approx(1.3, abs=0.03)
    assert runs_of(at(bowler=replace(PACER, bowl_runs=0.9))) / runs_of(at()) == pytest.approx(0.9, abs=0.02)
    wild = MODEL.weights(at(bowler=replace(PACER, bowl_extras=1.5)))
    assert wild[WIDE] / MODEL.weights(at())[WIDE] == pytest.approx(1.5, abs=0.05)


def test_batters_get_set_and_the_tail_is_the_tail() -> None:
    assert runs_of(at("powerplay", striker_balls=0)) < 0.75 * runs_of(at("powerplay", striker_balls=12))
    assert runs_of(at("middle", striker_balls=0)) < 0.75 * runs_of(at("middle", striker_balls=20))
    eleven = Player("t", "Cy Tail", "bowler", 11, "right", "pace", "right_pace")
    assert runs_of(at("death", striker=eleven, striker_balls=3)) < 0.8 * runs_of(at("death", striker_balls=3))
    assert out_of(at("death", striker=eleven, striker_balls=3)) > out_of(at("death", striker_balls=3))


def test_a_steep_chase_costs_wickets() -> None:
    """The same wickets down, a rate of 16 instead of 7 raises runs by a fifth and wickets by a third at
    least."""
    easy, steep = (at("middle", runs_required=rate * 10) for rate in (7, 16))
    assert runs_of(steep) > 1.15 * runs_of(easy)
    assert out_of(steep) > 1.35 * out_of(easy)


def test_overs_have_a_rhythm_of_their_own() -> None:
    """Shifts of overs centre on 0 with the stated sd, are unrelated from over to over, and need no state."""
    rng = random.Random(2)
    effects = [rng.gauss(0.0, 0.15) for _ in range(3000)]
    first, second = ([rhythm(effect, over, 0.2) for effect in effects] for over in (7, 8))
    assert statistics.mean(first) == pytest.approx(0.0, abs=0.015)
    assert statistics.pstdev(first) == pytest.approx(0.2, abs=0.01)
    assert statistics.correlation(first, second) == pytest.approx(0.0, abs=0.06)
    assert statistics.correlation(effects, first) == pytest.approx(0.0, abs=0.06)
    assert rhythm(0.1, 7, 0.2) == rhythm(0.1, 7, 0.2) != rhythm(0.1, 8, 0.2)
    assert rhythm(0.0, 7, 0.2) == 0.0


def test_a_free_hit_is_hit() -> None:
    """2.13 runs off the bat (extras.json), no bowler's wicket."""
    p = MODEL.weights(at("middle", free_hit=True))
    assert p[WICKET] == 0.0
    assert sum(share * runs for share, runs in zip(p, (0, 1, 2, 3, 4, 6), strict=False)) == pytest.approx(
        2.13, abs=0.2
    )


def test_an_impossible_level_or_profile_is_refused() -> None:
    with pytest.raises(ValueError, match="profile must be one of men, women, associates"):
        BallModel.load("martians")
    with pytest.raises(ValueError, match="level must be a number or one of all, ipl 2008"):
        BallModel.load(level="ipl 1066")
    with pytest.raises(ValueError, match="level must lie between"):
        BallModel.load(level=900)


def test_eras_and_profiles_differ() -> None:
    assert BallModel.load(level="ipl 2024").level > 0.1 > 0.0 == MODEL.level > BallModel.load(level=150).level
    women = BallModel.load("women")
    assert women.weights(at("middle"))[SIX] < 0.8 * MODEL.weights(at("middle"))[SIX]
    assert women.weights(at("middle"))[4] > 1.2 * MODEL.weights(at("middle"))[4]


@pytest.mark.parametrize("counts", [(1,) * 7, (2,) * 8, (-1, 2, 1, 1, 1, 1, 1, 1)])
def test_a_field_that_cannot_stand_is_refused(counts: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"must hold eight counts|9 fielders"):
        FieldShape(ring=counts)


def test_a_plan_outside_the_vocabulary_is_refused() -> None:
    for wrong in ({"length": "full toss"}, {"length": "bouncer"}, {"line": "middle"}, {"pace": "fast"}):
        with pytest.raises(ValueError, match="must be one of"):
            DeliveryPlan(**wrong)


def test_nothing_comes_about_that_could_not() -> None:
    """Over fifty thousand balls: no lbw pitching outside leg, no bouncer bowls anybody, wides are wide."""
    rng = random.Random(12)
    counts: Counter[str] = Counter()
    for number in range(50_000):
        phase = ("powerplay", "middle", "death")[number % 3]
        one = MODEL.bowl(at(phase, bowler=PACER if number % 2 else SPINNER, aggression=0.7), rng)
        seen = one.track
        kind = one.ball.dismissal
        counts[kind or "none"] += 1
        if kind == "lbw":
            assert seen.line in ("stumps", "outside off") and seen.length not in ("short", "back of a length")
        if kind == "bowled":
            assert seen.line in ("stumps", "outside off") and seen.length != "short"
        if kind in ("bowled", "lbw", "stumped", "hit wicket"):
            assert seen.zone is None and seen.contact in ("missed", "padded")
        if kind == "caught and bowled":
            assert seen.zone in (4, 5) and seen.fielder == "bowler"
        if kind == "caught" and seen.fielder == "keeper":
            assert seen.contact == "edged" and seen.zone is None and not seen.aerial
        if one.ball.wide:
            assert seen.line in ("wide outside off", "leg") or seen.length == "short"
        if seen.contact == "left":
            assert seen.line != "stumps" or one.ball.wide
        if one.ball.boundary:
            assert seen.fielder is None
        if seen.shot in ("pull", "hook", "upper cut", "late cut") and seen.contact in ("middled", "mistimed"):
            assert seen.length not in ("full toss", "yorker", "full")
        if seen.shot in ("flick", "glance"):
            assert seen.line != "wide outside off" or one.ball.extras
        if seen.shot == "cut" and kind is None:
            assert seen.length in ("good", "back of a length", "short")
        if one.ball.legbyes:
            assert seen.line != "wide outside off"
        if seen.contact in ("missed", "left", "padded"):
            assert not one.ball.bat
    assert min(counts[kind] for kind in ("bowled", "caught", "lbw", "stumped", "run out")) > 20
