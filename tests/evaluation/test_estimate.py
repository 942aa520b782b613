"""What an evaluation would take, said before any model is asked."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spectator.catalog import load_world
from spectator.environments.counting import WORLD as COUNTING
from spectator.environments.world import World
from spectator.evaluation.estimate import (
    TOKENS_A_CHARACTER,
    estimate_evaluation,
    matches_needed,
    rehearse,
    shared,
    total_lines,
)
from spectator.evaluation.schedule import EvaluationRequest, plan_evaluation
from spectator.llm.endpoints import Price
from spectator.policies.captains import ModelCaptain
from spectator.policies.model_presets import ModelSeat, model_presets
from spectator.policies.model_settings import ModelSettings
from tests.commands import spectator
from tests.fakes import ManualClock


def with_models(name: str, **tables: dict[str, object]) -> World:
    world = load_world(name)
    captains = {
        f"llm:{key}": ModelCaptain.model_validate(
            {"label": key, "model": "m", "base_url": "http://127.0.0.1:9/v1", **table}
        )
        for key, table in tables.items()
    }
    seat = ModelSeat(world.briefing, world.captains[world.default_captain].build)
    presets = model_presets(captains, seat, variables={}, clock=ManualClock(), rng=random.Random())
    opponents = {**world.opponents, **presets} if world.opponents else {}
    return replace(world, captains={**world.captains, **presets}, opponents=opponents)


def test_calls_tokens_money_and_time_are_said_for_each_model_and_nobody_is_asked() -> None:
    priced: dict[str, object] = {
        "price_in": 2.0,
        "price_out": 10.0,
        "price_cached_in": 0.2,
        "max_tokens": 500,
    }
    world = with_models("cricket", dear=priced, free={})
    request = EvaluationRequest(
        "cricket", ("llm:dear", "llm:free", "heuristic"), matches=4, options={"max_overs": 1}
    )
    dear, free = estimate_evaluation(plan_evaluation(request, load=lambda name: world))
    assert (dear.captain, free.captain, dear.seats) == ("llm:dear", "llm:free", 8)
    assert dear.calls == 8 * dear.match.calls > 100
    low = Price(input=2.0, cached_input=0.2, output=10.0).cost(dear.least)
    high = Price(input=2.0, output=10.0).cost(dear.most)
    assert 0 < low < high and dear.most.tokens_out == 500 * dear.calls
    said = "\n".join(dear.lines(4))
    assert f"{dear.calls:,} calls" in said and f"money: {low:.4g}" in said and "4 matches at once" in said
    assert "no price is known" in "\n".join(free.lines(4))
    assert dear.seconds(dear.least, 4) == dear.seconds(dear.least, 1) / 4


def test_a_typical_case_lies_between_the_bounds_and_a_total_is_over_all_models() -> None:
    priced: dict[str, object] = {
        "price_in": 2.0,
        "price_out": 10.0,
        "price_cached_in": 0.2,
        "max_tokens": 500,
    }
    world = with_models("cricket", dear=priced, cheap={"price_in": 0.1, "price_out": 0.2}, free={})
    request = EvaluationRequest(
        "cricket", ("llm:dear", "llm:cheap", "llm:free"), matches=4, options={"max_overs": 1}
    )
    demands = estimate_evaluation(plan_evaluation(request, load=lambda name: world))
    dear, cheap, _ = demands
    assert dear.price is not None and cheap.price is not None
    assert dear.least.tokens_out < dear.typical.tokens_out < dear.most.tokens_out
    costs = [dear.price.cost(used) for used in (dear.least, dear.typical, dear.most)]
    assert costs == sorted(costs)
    said = "\n".join(total_lines(demands, 4))
    typical = dear.price.cost(dear.typical) + cheap.price.cost(cheap.typical)
    assert f"typically {typical:.4g}, without llm:free, whose prices are unknown" in said
    tokens = sum(one.typical.tokens_in + one.typical.tokens_out for one in demands)
    assert f"typically {tokens:,}" in said and f"{sum(one.calls for one in demands):,} calls" in said
    assert not list(total_lines([], 4))


def test_the_matches_that_a_difference_needs_find_it_four_times_in_five() -> None:
    """Simulated: so many matches, decided by a coin of 55 %, reject one half in 80 % of the evaluations."""
    needed = matches_needed(1, head_to_head=True)
    rng = np.random.default_rng(2026)
    won = rng.binomial(needed, 0.55, size=4000) / needed
    found = np.abs(won - 0.5) > 1.96 * 0.5 / np.sqrt(needed)
    assert 0.78 < found.mean() < 0.82
    assert matches_needed(6, head_to_head=True) > 1.5 * needed
    assert matches_needed(1, head_to_head=False) >= 2 * needed - 2


def test_an_estimate_needs_no_keys_and_asks_no_one(tmp_path: Path) -> None:
    done = spectator(
        "evaluate", "counting", "--captains", "llm:openai,llm:anthropic,heuristic", "--estimate",
        "--out", tmp_path / "out", "--matches", "6", env={"OPENAI_API_KEY": None, "ANTHROPIC_API_KEY": None},
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "total of 2 models" in done.stdout and "typically" in done.stdout
    assert "a pair needs about 1,570 matches" in done.stdout and "of 3 pairs" in done.stdout
    assert not (tmp_path / "out").exists()
    played = spectator("evaluate", "counting", "--captains", "llm:openai,heuristic")
    assert played.exit_code == 1 and "needs a key in the variable OPENAI_API_KEY" in played.stderr


def test_a_model_against_itself_sits_in_both_seats_and_a_world_without_rivals_has_one() -> None:
    world = with_models("counting", mine={}, other={})
    request = EvaluationRequest("counting", ("llm:mine", "llm:other"), matches=6, options={"turns": 5})
    mine, other = estimate_evaluation(plan_evaluation(request, load=lambda name: world))
    assert mine.match.calls == other.match.calls == 5
    assert mine.calls == 5 * mine.seats


def test_without_models_there_is_nothing_to_estimate() -> None:
    request = EvaluationRequest("counting", ("heuristic", "random"), matches=2)
    assert estimate_evaluation(plan_evaluation(request, load=load_world)) == []


@pytest.mark.parametrize("style", ["tools", "json", "xml"])
def test_a_rehearsal_counts_what_is_read_and_what_was_read_before(style: str) -> None:
    settings = ModelSettings(model="m", style=style)  # type: ignore[arg-type]  # one of the styles
    played = rehearse(COUNTING, settings, {"turns": 9}, 3)["counter"]
    asked = played.rehearsal
    assert asked.calls == len(played.requests) == 9
    assert asked.prompts > asked.known > 0.8 * (asked.prompts - asked.longest)
    assert asked.tokens_in == round(asked.prompts * TOKENS_A_CHARACTER) and asked.answers > 0
    for before, after in zip(played.requests, played.requests[1:], strict=False):
        assert list(after.messages)[: len(before.messages)] == list(before.messages)


def test_what_two_texts_share_is_their_common_beginning() -> None:
    assert [shared(*pair) for pair in (("", "a"), ("abc", "abd"), ("abc", "abc"), ("x", "y"))] == [0, 2, 3, 0]
