"""What an evaluation would take, said before any model is asked."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from spectator.catalog import load_world
from spectator.environments.counting import WORLD as COUNTING
from spectator.environments.world import World
from spectator.evaluation.estimate import TOKENS_A_CHARACTER, estimate_evaluation, rehearse, shared
from spectator.evaluation.schedule import EvaluationRequest, plan_evaluation
from spectator.llm.endpoints import Price
from spectator.policies.captains import ModelCaptain
from spectator.policies.model_presets import ModelSeat, model_presets
from spectator.policies.prompts import ModelSettings
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
