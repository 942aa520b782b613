"""The ball model: lawful balls, the tables' rates, and intent that never comes free."""

from __future__ import annotations

import random
import statistics
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectator.environments.cricket.ball.grounds import Conditions, draw_conditions
from spectator.environments.cricket.ball.plan_effects import OPEN_FIELD, POWERPLAY_FIELD
from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.ball.situation import (
    LENGTHS,
    LINES,
    PACES,
    PLANNED_LENGTHS,
    SHOTS,
    DeliveryPlan,
    FieldShape,
    Situation,
)
from spectator.environments.cricket.ball.tables import (
    CATEGORIES,
    DOT,
    FOUR,
    RUN_OUT,
    SIX,
    WICKET,
    WIDE,
    rhythm,
)
from spectator.environments.cricket.laws import NO_BALL_DISMISSALS, WIDE_DISMISSALS
from spectator.environments.cricket.people import PACE_STYLES, SPIN_STYLES, Player

MODEL = BallModel.load()
BATTER = Player("s", "Ada Striker", "batter", 3)
PACER = Player("p", "Ben Quick", "bowler", 11, "right", "pace", "right_pace")
SPINNER = Player("q", "Cy Turner", "bowler", 10, "right", "spin", "leg")
RUNS = (0, 1, 2, 3, 4, 6, 0, 0.4, 2.4, 3.6, 1.25)
"""Mean runs of each category; after a wide or no-ball another ball follows."""
SLIPS = FieldShape((0, 0, 1, 1, 1, 1, 1, 0), (0, 1, 0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 0, 1, 2))
OFF_SIDE = FieldShape((0, 0, 1, 0, 1, 1, 1, 1), (0, 1, 0, 0, 0, 1, 1, 1), (0,) * 8)
NINE_CLOSE = FieldShape(catching=(1, 1, 1, 1, 1, 1, 2, 1))

PHASES = {"powerplay": (18, 1, True), "middle": (60, 2, False), "death": (102, 4, False)}


def at(phase: str = "middle", **change: Any) -> Situation:
    balls, wickets, powerplay = PHASES[phase]
    usual = Situation(balls, 120, wickets, None, BATTER, 12, PACER, powerplay=powerplay)
    return replace(usual, **change)


def value(situation: Situation) -> float:
    """What the ball is worth to the batting side at its own prices: runs, or chances of a chase."""
    return float(sum(p * v for p, v in zip(MODEL.weights(situation), MODEL.values(situation), strict=True)))


def runs_of(situation: Situation) -> float:
    return sum(share * worth for share, worth in zip(MODEL.weights(situation), RUNS, strict=True))


def out_of(situation: Situation) -> float:
    return MODEL.weights(situation)[WICKET]


situations = st.builds(
    Situation,
    balls_bowled=st.integers(0, 5),
    innings_balls=st.sampled_from([1, 5, 20, 30]).map(lambda overs: 6 * overs),
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
    assert delivered.track.shot in {*SHOTS, "none", "work"}
    assert 60 < delivered.track.speed_kmh < 170


@settings(max_examples=200, deadline=None)
@given(situations)
def test_weights_are_probabilities(situation: Situation) -> None:
    p = MODEL.weights(situation)
    assert len(p) == CATEGORIES
    assert min(p) >= 0.0
    assert sum(p) == pytest.approx(1.0)


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
    """Runs and wickets rise together, and whatever an intent gains on average is charged: none is worth more
    than the usual one, and both ends of the scale cost."""
    steps = [at(phase, aggression=level) for level in (0.0, 0.2, 0.4, 0.5, 0.6, 0.8)]
    outs = [out_of(step) for step in steps]
    assert outs == sorted(outs)
    usual = value(at(phase))
    for level in (0.25, 0.4, 0.6, 0.75):
        assert usual - 0.35 < value(at(phase, aggression=level)) < usual
        assert usual < value(at(phase, attack=level)) < usual + 0.35
    assert value(at(phase, aggression=1.0)) < usual - 0.02
    assert value(at(phase, attack=0.0)) > usual + 0.02


def test_attack_buys_wickets_with_runs() -> None:
    for phase in PHASES:
        levels = [at(phase, attack=level) for level in (0.0, 0.25, 0.5, 0.75, 1.0)]
        assert [out_of(level) for level in levels] == sorted(out_of(level) for level in levels)


asked_for = st.sampled_from([
    {"delivery": DeliveryPlan("yorker", "stumps", "slower")}, {"delivery": DeliveryPlan("good", "stumps")},
    {"delivery": DeliveryPlan(None, "wide outside off", "quick")}, {"delivery": DeliveryPlan("short")},
    {"field": SLIPS}, {"field": OFF_SIDE}, {"field": OFF_SIDE, "delivery": DeliveryPlan("short", "leg")},
    {"shot": "cut"}, {"shot": "drive"}, {"shot": "sweep"},
])  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    asked_for,
    st.sampled_from([30, 60, 120]),
    st.floats(0, 0.999),
    st.integers(0, 9),
    st.none() | st.floats(0.5, 2.5),
    st.sampled_from([PACER, SPINNER]),
    st.integers(0, 40),
)
def test_nothing_that_can_be_asked_for_is_free(
    asked: dict[str, Any], balls: int, part: float, lost: int, rate: float | None, bowler: Player, faced: int
) -> None:
    """At every format and state no plan, stroke or field gains anything at the prices of the ball, unless a
    player or the ground suits it. What one loses beyond a small leeway stays lost.

    A ball that leaves few dots, or few boundaries, has too few to pay for all of it: a small rest remains.
    """
    bowled = int(part * balls)
    wanted = None if rate is None else max(1, round(rate * (balls - bowled)))
    usual = Situation(bowled, balls, lost, wanted, BATTER, faced, bowler, powerplay=bowled < 0.3 * balls)
    changed = replace(usual, **asked)
    assert MODEL.weights(changed) != MODEL.weights(usual)
    scale = float(MODEL.values(usual)[4] - MODEL.values(usual)[0])
    dots, hits = (
        sum(MODEL.weights(changed)[kind] for kind in kinds)
        / sum(MODEL.weights(usual)[kind] for kind in kinds)
        for kinds in ((DOT,), (FOUR, SIX))
    )
    gain = (value(changed) - value(usual)) * (1.0 if "shot" in asked else -1.0)
    assert gain < (0.03 if min(dots, hits) < 0.2 else 1e-6) * scale + 1e-9


def test_what_no_side_would_do_costs_runs() -> None:
    """Nine close catchers to a set batter, a reverse sweep to pace: neither is given back."""
    for phase in PHASES:
        usual = at(phase)
        assert value(replace(usual, field=NINE_CLOSE)) > value(usual) + 0.4
        assert value(replace(usual, shot="reverse sweep")) < value(usual) - 0.3


def test_a_plan_pays_against_who_dislikes_it() -> None:
    """Short balls to who is weak against them, lines off the better side, men where he hits."""
    weak, strong = (at(striker=replace(BATTER, bat_short=trait)) for trait in (-0.1, 0.1))
    short = DeliveryPlan("short")
    assert value(replace(weak, delivery=short)) < value(weak) - 0.03
    assert value(replace(strong, delivery=short)) > value(strong) + 0.03
    leg = at(striker=replace(BATTER, bat_leg=0.1))
    wide = DeliveryPlan(None, "wide outside off")
    assert value(replace(leg, delivery=wide)) < value(leg) - 0.03
    assert value(replace(leg, field=OFF_SIDE)) > value(leg)
    assert value(replace(leg, shot="flick")) > value(leg) + 0.02 > value(replace(leg, shot="cut")) + 0.04


def test_a_batter_has_the_last_deliveries_in_mind() -> None:
    """The same again is easier, something else is not, and nobody's memory counts without a plan."""
    yorker, short = (LENGTHS.index(word) * len(LINES) + 1 for word in ("yorker", "short"))
    plan = DeliveryPlan("yorker")
    fresh = value(at("death", delivery=plan))
    assert value(at("death", delivery=plan, seen=(yorker,) * 6)) > fresh + 0.04
    assert value(at("death", delivery=plan, seen=(short,) * 6)) < fresh
    assert MODEL.weights(at("death", seen=(yorker,) * 6)) == MODEL.weights(at("death"))


def test_traits_pitches_and_evenings_favour_either_side_alike() -> None:
    """Spin and pace, batter by batter and day by day: as much for as against, over the balls of each."""
    likes = replace(BATTER, bat_spin=0.2)
    by_spin, by_pace = (
        runs_of(at(bowler=bowler, striker=likes)) / runs_of(at(bowler=bowler)) for bowler in (SPINNER, PACER)
    )
    assert by_spin > 1.08 and by_pace < 0.95
    assert 0.38 * (by_spin - 1.0) + 0.62 * (by_pace - 1.0) == pytest.approx(0.0, abs=0.01)
    dry, green = Conditions("dry"), Conditions("green")
    assert runs_of(at(bowler=SPINNER, conditions=dry)) < runs_of(at(bowler=SPINNER))
    assert runs_of(at(bowler=SPINNER, conditions=green)) > runs_of(at(bowler=SPINNER))
    dew = at(conditions=Conditions("even", "dew"))
    assert runs_of(replace(dew, second=True)) > runs_of(at()) == runs_of(dew)
    rng = random.Random(1)
    days = Counter(draw_conditions(rng) for _ in range(4000))
    for word, other in (("green", "dry"), ("wearing", "dew")):
        a, b = (sum(n for day, n in days.items() if wanted in day) for wanted in (word, other))
        assert abs(a - b) < 4 * (a + b) ** 0.5


def test_an_intent_fits_a_match_up() -> None:
    """Hitting out pays off who suits the batter; attacking pays against who is in trouble."""
    happy, unhappy = (at(striker=replace(BATTER, bat_spin=like), bowler=SPINNER) for like in (0.24, -0.24))
    assert value(replace(happy, aggression=0.7)) > value(happy) + 0.01
    assert value(replace(unhappy, aggression=0.7)) < value(unhappy) - 0.01
    assert value(replace(unhappy, attack=0.7)) < value(unhappy) - 0.01


def test_in_a_powerplay_spin_is_hit_and_pace_is_not() -> None:
    """Spin with the new ball costs against who hits out, and nothing against who does not."""

    def gained(bowler: Player, aggression: float) -> float:
        usual, hit = (at("powerplay", bowler=bowler, aggression=one) for one in (0.5, aggression))
        later = replace(usual, powerplay=False)
        return value(hit) - value(usual) - (value(replace(later, aggression=aggression)) - value(later))

    assert gained(SPINNER, 0.8) > 0.1 and gained(PACER, 0.8) < -0.02
    assert 0.8 * gained(PACER, 0.7) + 0.2 * gained(SPINNER, 0.7) < 0.01


def test_every_style_costs_the_same_on_average() -> None:
    """What the tables say of a style where real captains used it is not there for the taking."""
    styles = (*PACE_STYLES, *SPIN_STYLES)
    bowlers = [replace(PACER if "pace" in style else SPINNER, style=style) for style in styles]
    for phase in PHASES:
        for hand in ("right", "left"):
            worth = [value(at(phase, bowler=one, striker=replace(BATTER, bats=hand))) for one in bowlers]
            assert max(worth) - min(worth) < 0.3
        both = [
            sum(
                value(at(phase, bowler=one, striker=replace(BATTER, bats=hand))) for hand in ("right", "left")
            )
            for one in bowlers
        ]
        assert max(both) - min(both) < 0.12, (phase, both)


def test_a_batter_is_at_his_best_in_his_own_place() -> None:
    usual = value(at())
    assert value(at(place=BATTER.order)) == usual
    assert value(at(place=8)) < value(at(place=5)) < usual


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
    short, full = DeliveryPlan(length="short"), DeliveryPlan(length="full")
    assert value(at(delivery=short, shot="pull")) > value(at(delivery=short, shot="drive")) + 0.05
    assert value(at(delivery=full, shot="drive")) > value(at(delivery=full, shot="pull")) + 0.05
    assert out_of(at(shot="slog")) > 1.2 * out_of(at()) and out_of(at(shot="defend")) < out_of(at())


def test_strokes_into_the_gaps_of_a_field_pay() -> None:
    """With seven men on the off side a pull finds more room than a cut."""
    gained = [value(at(field=OFF_SIDE, shot=shot)) - value(at(shot=shot)) for shot in ("pull", "cut")]
    assert gained[0] > 0.01 > -0.01 > gained[1]


def test_fields_answer_lines_and_strokes() -> None:
    """Seven on the off side let fewer fours through there: batters find the open sectors."""
    rng = random.Random(5)
    zones = [
        Counter(
            ball.track.zone
            for ball in (MODEL.bowl(at(field=field), rng) for _ in range(6000))
            if ball.ball.bat == 4
        )
        for field in (FieldShape.neutral(), OFF_SIDE)
    ]
    off = [sum(seen[zone] for zone in (6, 7, 8)) for seen in zones]
    assert off[1] < 0.85 * off[0]


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
    with pytest.raises(ValueError, match="level must be between"):
        BallModel.load(level=900)


def test_eras_and_profiles_differ() -> None:
    assert BallModel.load(level="ipl 2024").level > 0.1 > 0.0 == MODEL.level > BallModel.load(level=150).level
    women = BallModel.load("women")
    assert women.weights(at("middle"))[SIX] < 0.8 * MODEL.weights(at("middle"))[SIX]
    assert women.weights(at("middle"))[4] > 1.2 * MODEL.weights(at("middle"))[4]


@pytest.mark.parametrize("counts", [(1,) * 7, (2,) * 8, (-1, 2, 1, 1, 1, 1, 1, 1)])
def test_a_field_that_cannot_stand_is_refused(counts: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"must have eight counts|9 fielders"):
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
