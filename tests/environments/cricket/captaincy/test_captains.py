"""Scripted captains, the usual choice of bowler, the resource par and the prompt."""

from __future__ import annotations

from collections import Counter

import pytest

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.captaincy.reasons import hurried
from spectator.environments.cricket.simulation import open_match, play_out
from tests.environments.cricket.playing import SCRIPTED, begin, captain, play


def test_there_are_several_named_styles_and_the_data_and_chance() -> None:
    styles = {"heuristic", "aggressive", "anchor", "defensive", "spin_first", "tactician"}
    fair = {*styles, "random", "novice", "blocker", "match_ups", "planner"}
    assert set(WORLD.captains) == {*fair, "oracle", "trained"}
    assert {*fair, "cricsheet"} <= set(WORLD.opponents)
    for name, preset in {**WORLD.captains, **WORLD.opponents}.items():
        assert preset.name == name
        assert preset.label
        assert preset.summary.endswith(".")


@pytest.mark.parametrize("name", sorted({*SCRIPTED, "self"} - {"random"}))
def test_every_decision_states_its_reason_in_words(name: str) -> None:
    environment, observation = begin(21, max_overs=2)
    captains = {side: captain(name, 7) for side in ("home", "away")}
    reasons = Counter[str]()
    while not observation.done:
        assert observation.actor is not None
        decision = captains[observation.actor].choose(observation)
        assert 8 <= len(decision.reasoning) <= 300
        assert decision.source == "heuristic"
        reasons[decision.reasoning] += 1
        observation = environment.step(decision.action)
        assert observation.refused is None
    assert len(reasons) > 12


def test_styles_differ_in_what_they_do() -> None:
    def intents(name: str) -> set[float]:
        balls = play(5, name, "heuristic", max_overs=5).of("ball_bowled")
        return {ball["intents"]["aggression"] for ball in balls if ball["side"] == "home"}

    assert intents("heuristic") == {0.5} == intents("cricsheet")
    assert min(intents("aggressive")) > 0.6
    assert min(intents("anchor")) < 0.45 < max(intents("anchor"))


def test_the_tactician_plans_deliveries_within_the_free_calls() -> None:
    told = play(6, "tactician", "tactician", max_overs=5)
    assert any(ball["intents"]["length"] == "yorker" for ball in told.of("ball_bowled"))
    assert told.last.metadata["rubric"]["clean_calls"] == 1.0


def test_the_usual_bowlers_are_those_of_real_sides() -> None:
    """Shares of spin: 38 % of balls, about 20 % in the powerplay, 64 % in overs 7 to 12 (data README)."""
    spin, overs, used = Counter[int](), Counter[int](), Counter[int]()
    for seed in range(60):
        match = open_match(20, seed)
        for _ in play_out(match):
            pass
        for innings, side in zip(match.innings[:2], match.batting[:2], strict=True):
            team = match.teams["away" if side == "home" else "home"]
            for over, bowler in enumerate(innings.over_starters):
                assert team.players[bowler].bowls is not None, "a side of six bowlers needs nobody else"
                overs[over] += 1
                spin[over] += team.bowlers[bowler].bowls == "spin"
            if innings.balls == 120:
                used[len(innings.bowling)] += 1
    share = spin.total() / overs.total()
    assert 0.33 < share < 0.45
    assert 0.12 < sum(spin[over] for over in range(6)) / sum(overs[over] for over in range(6)) < 0.33
    assert 0.5 < sum(spin[over] for over in range(6, 12)) / sum(overs[over] for over in range(6, 12)) < 0.75
    assert set(used) <= {5, 6, 7}


def test_five_overs_are_usually_bowled_two_two_one_and_end_with_pace() -> None:
    shapes, last = Counter[tuple[int, ...]](), 0
    for seed in range(60):
        match = open_match(5, seed)
        for _ in play_out(match):
            pass
        innings = match.innings[0]
        if innings.balls == 30:
            last += match.teams["away" if match.batting[0] == "home" else "home"].bowls_spin[
                innings.over_starters[-1]
            ]
            begun = sorted((line.overs_begun for line in innings.bowling.values()), reverse=True)
            shapes[tuple(begun)] += 1
    assert set(shapes) <= {(2, 2, 1), (2, 1, 1, 1)}
    assert shapes[2, 2, 1] > 0.6 * shapes.total()
    assert last < 0.1 * shapes.total(), "pace bowls the last over"


def test_nobody_waits_for_the_bad_ball_when_the_rate_runs_away() -> None:
    """Neither in deed nor in words; and a captain changes his mind once an over at most."""
    seen = 0
    for seed in range(8):
        environment, observation = begin(seed, max_overs=10)
        captains = {side: captain("anchor", seed) for side in ("home", "away")}
        changes = Counter[tuple[int, int]]()
        while not observation.done:
            view = observation.content
            decision = captains[observation.actor or ""].choose(observation)
            if view["phase"] == "bat" and hurried(view):
                seen += 1
                assert decision.action["tool"] == "set_strategy" or view["you"]["aggression"] >= 0.5
                assert "bad ball" not in decision.reasoning and "wickets first" not in decision.reasoning
            if decision.action["tool"] == "set_strategy":
                changes[view["innings"], view["score"]["balls"] // 6] += 1
            observation = environment.step(decision.action)
        assert max(changes.values()) <= 3
    assert seen > 20


def test_a_field_for_spin_is_set_to_spin_only() -> None:
    told = play(12, "spin_first", "spin_first", max_overs=10)
    kinds = {
        seen.content["bowler"]["kind"]
        for seen in told.observations
        if seen.content["phase"] == "bat" and seen.content["field"]["preset"] == "spin"
    }
    assert kinds and not any("pace" in kind for kind in kinds)
