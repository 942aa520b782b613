"""The score: in [0, 1], a loss never above a win, and no way round playing well (paired by seed)."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from spectator.environments.cricket import WORLD, grading
from spectator.environments.cricket.forecast.outlook import outlook_of
from spectator.environments.cricket.laws import Ball, Innings, format_of
from spectator.environments.cricket.match.engine import load_model
from spectator.environments.world import derive_seed
from spectator.evaluation import figures
from spectator.observations import Observation
from tests.environments.cricket.builders import BOWLED, DOT, SIX, bowl, fresh
from tests.environments.cricket.playing import Chooser, captain, last_of, play, tools_of

SEEDS = range(200)
OVERS = 3
INTENTS = [f"{role}_{part}" for role in ("batting", "bowling") for part in ("powerplay", "middle", "death")]
Probe = Callable[[int], Chooser]


USUAL = outlook_of(load_model("men", "all"), format_of(5))


def standing(innings: Innings) -> float:
    """An innings among those of average sides: 0.5 is par."""
    return grading._below(grading._deviations(innings, USUAL))


def score_of(seed: int, home: str | Chooser) -> float:
    return last_of(seed, home, max_overs=OVERS).reward


@pytest.fixture(scope="module")
def heuristic() -> list[float]:
    return [score_of(seed, "heuristic") for seed in SEEDS]


def heuristic_of(seed: int) -> Chooser:
    policy = captain("heuristic", derive_seed(seed, "policy", "home"))
    return lambda observation: policy.choose(observation).action


def stalling(seed: int) -> Chooser:
    """Plays as the heuristic, but asks for the analysis first, as long as it may."""
    usual = heuristic_of(seed)

    def choose(observation: Observation) -> Mapping[str, Any]:
        if "analyze_situation" in tools_of(observation):
            return {"tool": "analyze_situation"}
        return usual(observation)

    return choose


def spamming(seed: int) -> Chooser:
    """Sends any tool at any time."""
    usual, rng = heuristic_of(seed), random.Random(seed)

    def choose(observation: Observation) -> Mapping[str, Any]:
        if rng.random() < 0.3:
            return {"tool": rng.choice(["bowl_delivery", "play_delivery", "call_toss", "select_bowler"])}
        return usual(observation)

    return choose


def parroting(seed: int) -> Chooser:
    """Changes the plan to whatever it is about to do, which is anything."""
    usual, rng = heuristic_of(seed), random.Random(seed)
    level = [0.5]

    def choose(observation: Observation) -> Mapping[str, Any]:
        tools, own = tools_of(observation), observation.content["you"]
        if "update_match_plan" in tools and own["plan"]["batting_powerplay"] != level[0]:
            return {"tool": "update_match_plan", "arguments": dict.fromkeys(INTENTS, level[0])}
        if "set_strategy" in tools and own["aggression"] != level[0]:
            return {"tool": "set_strategy", "arguments": {"aggression": level[0]}}
        if "set_bowling_strategy" in tools and own["attack"] != level[0]:
            return {"tool": "set_bowling_strategy", "arguments": {"attack": level[0]}}
        action = usual(observation)
        if action["tool"] == "set_match_plan":
            return {"tool": "set_match_plan"}
        if action["tool"] in ("set_strategy", "set_bowling_strategy"):
            action = {"tool": tools[0]}
        if action["tool"] in ("play_delivery", "bowl_delivery"):
            level[0] = round(rng.random(), 2)
        return action

    return choose


def constant(level: float) -> Probe:
    """Plans and plays one intent from first to last."""

    def probe(seed: int) -> Chooser:
        usual = heuristic_of(seed)

        def choose(observation: Observation) -> Mapping[str, Any]:
            tools, own = tools_of(observation), observation.content["you"]
            if "set_match_plan" in tools:
                return {"tool": "set_match_plan", "arguments": dict.fromkeys(INTENTS, level)}
            if "set_strategy" in tools and own["aggression"] != level:
                return {"tool": "set_strategy", "arguments": {"aggression": level}}
            if "set_bowling_strategy" in tools and own["attack"] != level:
                return {"tool": "set_bowling_strategy", "arguments": {"attack": level}}
            action = usual(observation)
            if action["tool"] in ("set_strategy", "set_bowling_strategy"):
                return {"tool": tools[0]}
            return action

        return choose

    return probe


def gibberish(seed: int) -> Chooser:
    """Plays the defaults and says nonsense instead of planning."""
    usual, rng = heuristic_of(seed), random.Random(seed)

    def choose(observation: Observation) -> Mapping[str, Any]:
        action = usual(observation)
        noise = "".join(rng.choice("asdf ghjkl") for _ in range(200))
        if action["tool"] == "set_match_plan":
            return {"tool": tools_of(observation)[0]}
        if rng.random() < 0.2 and "reflect_after_ball" in tools_of(observation):
            return {"tool": "reflect_after_ball", "arguments": {"note": noise}}
        return action

    return choose


PROBES: dict[str, Probe] = {
    "stalling": stalling,
    "spamming": spamming,
    "plan-parroting": parroting,
    "always-attack": constant(1.0),
    "always-defend": constant(0.0),
    "gibberish": gibberish,
}
WORSE = {"plan-parroting", "always-attack", "always-defend"}
SAME_PLAY = ("stalling", "spamming")


@pytest.mark.parametrize("name", [name for name in PROBES if name not in SAME_PLAY])
def test_no_probe_beats_the_heuristic(name: str, heuristic: list[float]) -> None:
    """Ahead by less than happens one time in a hundred by chance; fewer seeds show what is worse."""
    seeds = SEEDS[:120] if name in WORSE else SEEDS
    gains = [score_of(seed, PROBES[name](seed)) - heuristic[seed] for seed in seeds]
    error = statistics.stdev(gains) / math.sqrt(len(gains))
    assert statistics.mean(gains) < (-2.6 if name in WORSE else 2.6) * error, (statistics.mean(gains), error)


def test_words_plans_and_refusals_weigh_nothing(heuristic: list[float]) -> None:
    """The same play earns the same, however much is asked, refused or planned beside it."""
    for name in SAME_PLAY:
        assert [score_of(seed, PROBES[name](seed)) for seed in range(40)] == heuristic[:40], name


def adapting(seed: int) -> Chooser:
    """Plays as the heuristic, and plans 0 and 1 by turns, whatever it does."""
    usual, levels = heuristic_of(seed), [0.0, 1.0] * 6

    def choose(observation: Observation) -> Mapping[str, Any]:
        if "update_match_plan" in tools_of(observation) and levels:
            return {"tool": "update_match_plan", "arguments": dict.fromkeys(INTENTS, levels.pop())}
        return usual(observation)

    return choose


def test_leaving_a_plan_costs_nothing() -> None:
    """The same balls under changing plans, which scored less while keeping the plan weighed 0.20."""
    for seed in range(12):
        usual, changing = (last_of(seed, one, max_overs=OVERS) for one in ("heuristic", adapting(seed)))
        assert changing.metadata["rubric"]["plan_kept"] < usual.metadata["rubric"]["plan_kept"]
        assert changing.reward == usual.reward


def test_the_shares_make_a_whole_and_no_loss_scores_above_a_win() -> None:
    assert grading.RESULT_SHARE + grading.QUALITY_SHARE == pytest.approx(1.0)
    assert grading.QUALITY_SHARE < grading.RESULT_SHARE
    scores: dict[float, list[float]] = {0.0: [], 0.5: [], 1.0: []}
    for seed in range(60):
        last = play(seed, "random" if seed % 2 else "aggressive", max_overs=1, super_over=seed % 3 == 0).last
        scores[last.metadata["rubric"]["result"]].append(last.reward)
    assert max(scores[0.0]) < min(scores[1.0])
    assert all(0.0 <= score <= 1.0 for found in scores.values() for score in found)


def test_no_part_of_the_score_has_the_name_of_another_figure() -> None:
    """Reports also show a coherence and a tool validity, which are computed otherwise."""
    rubric = play(1, "heuristic", max_overs=1).last.metadata["rubric"]
    measures = {measure.name for measure in (*WORLD.measures, *figures.MEASURES)}
    assert rubric.keys() & measures <= {"score"}


def test_every_part_is_a_share_of_one() -> None:
    for seed in range(20):
        rubric = play(seed, "random", max_overs=2).last.metadata["rubric"]
        assert all(0.0 <= part <= 1.0 for part in rubric.values())


def test_refusals_and_charged_calls_cost_validity() -> None:
    def rubric(extra: Callable[[Observation], Mapping[str, Any] | None]) -> float:
        usual = heuristic_of(1)
        told = play(1, lambda seen: extra(seen) or usual(seen), max_overs=1)
        overs.append(sum(innings["balls"] for innings in told.environment.state["innings"]) / 6)
        return float(told.last.metadata["rubric"]["clean_calls"])

    overs: list[float] = []
    left = [3]

    def wrong(observation: Observation) -> Mapping[str, Any] | None:
        left[0] -= 1
        return {"tool": "nonsense"} if left[0] >= 0 else None

    assert rubric(lambda observation: None) == 1.0
    assert rubric(wrong) == pytest.approx(1.0 / (1.0 + 3 / max(1.0, overs[-1])), abs=1e-6)
    left[0] = 40
    assert 0.0 < rubric(wrong) < 0.1, "it falls with every refusal and never runs out"


def test_quality_is_measured_against_the_resource_par() -> None:
    found = {seed: play(seed, max_overs=5).last.metadata["rubric"] for seed in range(80)}
    assert 0.42 < statistics.mean(rubric["quality"] for rubric in found.values()) < 0.58
    won = [rubric["quality"] for rubric in found.values() if rubric["result"] == 1.0]
    lost = [rubric["quality"] for rubric in found.values() if rubric["result"] == 0.0]
    assert statistics.mean(won) > statistics.mean(lost)


def chase(*balls: Ball, target: int = 13) -> Innings:
    return bowl(fresh(5, target=target), *balls)


def test_a_chase_won_early_is_worth_what_it_was_worth() -> None:
    """18 runs off three balls are far above par for three balls, not far below par for thirty."""
    early = chase(SIX, SIX, SIX)
    assert early.closed == "target" and early.balls_left == 27
    used = USUAL.par - USUAL.runs_to_come(3, 0)
    expected = 0.5 * (1.0 + math.erf((18 - used) / USUAL.spread / math.sqrt(2.0)))
    assert standing(early) == pytest.approx(expected) and expected > 0.75
    unasked = bowl(fresh(5), SIX, SIX, SIX, *[DOT] * 27)
    assert unasked.closed is not None and standing(unasked) < 0.2, "as a whole innings it is poor"


def test_the_earlier_a_target_is_reached_with_the_same_wickets_the_better() -> None:
    found = [standing(chase(*[DOT] * late, SIX, SIX, SIX)) for late in (0, 6, 12, 18, 24)]
    assert found == sorted(found, reverse=True) and len(set(found)) == len(found)


def test_a_chase_that_lost_wickets_used_more_to_get_there() -> None:
    at_ease = chase(DOT, DOT, SIX, SIX, SIX)
    in_need = chase(BOWLED, BOWLED, SIX, SIX, SIX)
    assert at_ease.balls_left == in_need.balls_left
    assert standing(at_ease) > standing(in_need)


def test_a_target_that_was_missed_is_worth_no_more_than_it_was() -> None:
    missed = chase(SIX, *[DOT] * 29)
    unasked = bowl(fresh(5), SIX, *[DOT] * 29)
    assert missed.closed not in (None, "target")
    assert standing(missed) == standing(unasked) < 0.05


def test_a_plan_is_kept_by_deeds_as_planned_and_nought_without_a_plan() -> None:
    assert play(1, "heuristic", max_overs=2).last.metadata["rubric"]["plan_kept"] == 1.0
    assert play(1, "aggressive", max_overs=2).last.metadata["rubric"]["plan_kept"] == 1.0
    environment = play(1, "heuristic", "cricsheet", max_overs=2).environment
    game = environment._game
    assert game is not None
    assert grading.rubric(game.playing, game.captains["away"], "away")["plan_kept"] == 0.0
