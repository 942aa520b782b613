"""The overs that are left are given out together: lawfully, nearly at best, the best where most is made."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import pairwise, product
from typing import Any

import pytest

from spectator.environments.cricket.captaincy.lookahead import (
    best_order,
    cards,
    fielding,
    later,
    remaining_over_costs,
    situation_of,
    to_come,
    value,
)
from spectator.environments.cricket.captaincy.planner import PlannerCaptain
from tests.environments.cricket.playing import begin, captain


@pytest.mark.parametrize("seed", range(12))
def test_the_order_is_lawful_and_nearly_the_best_there_is(seed: int) -> None:
    rng = random.Random(seed)
    overs, left, banned = 6, [2, 2, 1, 2], rng.choice((None, 0, 3))
    costs = [[rng.uniform(4, 12) for _ in left] for _ in range(overs)]
    order = best_order(costs, left, banned)
    lawful = [one for one in product(range(4), repeat=overs) if _lawful(one, left, banned)]
    of = {one: sum(row[by] for row, by in zip(costs, one, strict=True)) for one in lawful}
    ranked = sorted(of.values())
    assert of[tuple(order)] <= ranked[len(ranked) // 20], "among the best twentieth"


def _lawful(order: tuple[int, ...], left: list[int], banned: int | None) -> bool:
    return (
        order[0] != banned
        and all(one != following for one, following in pairwise(order))
        and all(order.count(bowler) <= limit for bowler, limit in enumerate(left))
    )


def test_nobody_can_bowl_what_the_laws_forbid() -> None:
    assert best_order([[1.0], [1.0]], left=[2], banned=None) == []
    assert best_order([[1.0, 2.0]], left=[1, 0], banned=0) == []


def test_what_is_ahead_is_reached_at_the_usual_pace() -> None:
    now = situation_of(_at_an_over(3, 20))
    assert now.powerplay
    ahead = later(now, 10)
    assert (ahead.balls_bowled, ahead.powerplay, ahead.wickets_lost) == (60, False, 3)


def test_a_good_bowler_is_worth_more_at_the_death_than_in_the_middle() -> None:
    view = _at_an_over(3, 20)
    people = cards(view, fielding(view))
    batters = [cards(view, view["batting"])[view[end]["name"]] for end in ("striker", "non_striker")]
    bowlers = sorted((man for man in people.values() if man.bowls == "pace"), key=lambda man: man.bowl_runs)
    costs = remaining_over_costs(situation_of(view), [bowlers[0], bowlers[-1]], batters, to_come(view), value)
    assert len(costs) == 20
    saved = [worse - better for better, worse in costs]
    assert all(one > 0 for one in saved)
    assert sum(saved[16:]) > sum(saved[8:12])


def test_the_planner_knows_how_many_overs_the_bowler_of_the_last_over_has_left() -> None:
    world, observation = begin(6, max_overs=5)
    usual, mine = captain("heuristic", 1), PlannerCaptain(1, {"bowler"})
    chosen: list[str] = []
    while len(chosen) < 5 and not observation.done:
        bowling = observation.content["phase"] == "bowler"
        action = (mine if bowling else usual).choose(observation).action
        if action["tool"] == "select_bowler":
            chosen.append(action["arguments"]["bowler"])
        observation = world.step(action)
        assert observation.refused is None
    assert len(chosen) == 5
    assert {name: 2 - chosen.count(name) for name in chosen} == {name: mine.left[name] for name in chosen}


def _at_an_over(seed: int, overs: int) -> Mapping[str, Any]:
    """What is shown when the first over is to be given."""
    world, observation = begin(seed, max_overs=overs)
    usual = captain("heuristic", 1)
    while observation.content["phase"] != "bowler":
        observation = world.step(usual.choose(observation).action)
    return observation.content
