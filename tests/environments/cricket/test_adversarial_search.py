"""No captain that does not look at the state beats the percentage captain; the long search is a benchmark."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from spectator.environments.cricket.ball.situation import DeliveryPlan
from spectator.environments.cricket.match.field import check_field
from spectator.observations import Observation
from tests.environments.cricket.playing import captain, play, tools_of
from tools.cricket_absurd import LIMIT as ABSURD
from tools.cricket_absurd import PLANS, field_costs
from tools.cricket_blind import USUAL, BlindCaptain, drawn, lawful_field, named
from tools.cricket_search import KEPT, LIMIT, contest, distinct, halved

SURE = 3.3
"""Standard errors above the limit that nobody of forty may reach by chance."""


@pytest.mark.parametrize(("overs", "pairs"), [(5, 30), (20, 5)])
def test_no_named_captain_that_does_not_look_wins(overs: int, pairs: int) -> None:
    """Constant and phase-wise plans, fields, intents, strokes, bowling and batting orders, in both seats."""
    chosen = [one for number, one in enumerate(named()) if number % 4 == 0]
    for one in chosen:
        score = contest(one, overs, pairs, seed=11)
        assert score.share < LIMIT + SURE * max(score.error, 0.25 / pairs**0.5), score


def test_no_drawn_captain_that_does_not_look_wins() -> None:
    """Fields anywhere that the Laws allow, with any lines, lengths and intents."""
    rng = random.Random(5)
    for number in range(5):
        score = contest(drawn(rng, number), 5, 30, seed=12)
        assert score.share < LIMIT + SURE * max(score.error, 0.25 / 30**0.5), score


def test_the_review_s_odd_field_with_one_wide_line_is_not_worth_it() -> None:
    """The combination that once beat every captain: nobody behind, everybody off, always wide."""
    rng = random.Random(8)
    field = max((lawful_field(rng, 2) for _ in range(12)), key=lambda one: sum(one.shape.ring[4:]))
    check_field(field, 2)
    wide = DeliveryPlan(None, "wide outside off")
    captain = BlindCaptain(
        "all off, all wide", attack=(0.0,) * 3, delivery=(wide,) * 3, fields=(field,) * 3,
        bowlers=("cheapest",) * 3, batters="hitters",
    )  # fmt: skip
    score = contest(captain, 5, 60, seed=13)
    assert score.share < LIMIT + 2.5 * score.error, score


def test_halving_keeps_who_is_better_and_each_once() -> None:
    """The reversed order is dropped, a captain under two names is played once, the usual one not at all."""
    every = {one.name: one for one in named()}
    pool = [every[name] for name in ("batters: reversed", "aggression 0", "always slog")]
    copies = [replace(every["always slog"], name="a copy"), replace(USUAL, name="nobody")]
    assert [one.name for one in distinct([*pool, *copies])] == [one.name for one in pool]
    pool += [replace(every["batters: reversed"], name=f"late {at}", elects="bat" if at % 2 else "field",
                     attack=(0.5, 0.5, 0.5 + at / 100)) for at in range(1, 10)]  # fmt: skip
    left = {one.name for one in halved(pool, 5, 12, seed=3)}
    assert len(left) == KEPT
    assert "always slog" in left


def test_the_search_finds_who_is_better() -> None:
    """Who sends the last in first loses, and the search says so."""
    reverse = next(captain for captain in named() if captain.name == "batters: reversed")
    assert contest(reverse, 5, 40, seed=14).share < 0.35


def test_spam_of_tools_changes_no_ball() -> None:
    """Every call that is legal and asks for nothing new, again before each ball: the match is the same."""
    usual, called = captain("heuristic", 9), set[str]()
    spam = {
        "analyze_situation": {}, "reflect_after_ball": {"note": "again"}, "set_field": {"preset": "standard"},
        "set_strategy": {"aggression": 0.5}, "set_bowling_strategy": {"attack": 0.5},
    }  # fmt: skip
    said: list[str] = []

    def spammer(observation: Observation) -> Mapping[str, Any]:
        action = usual.choose(observation).action
        if action["tool"] not in ("bowl_delivery", "play_delivery"):
            return action
        for name in tools_of(observation):
            if name in spam and name not in said:
                said.append(name)
                called.add(name)
                return {"tool": name, "arguments": spam[name]}
        said.clear()
        return action

    with_spam = play(9, spammer, max_overs=2).of("ball_bowled")
    assert called == set(spam)
    usual = captain("heuristic", 9)
    without = play(9, lambda observation: usual.choose(observation).action, max_overs=2).of("ball_bowled")
    assert with_spam == without


def test_absurd_plans_lose() -> None:
    """A few of the twenty, over whole innings; ``python -m tools.cricket_absurd`` plays all of them."""
    for plan in PLANS[1::5]:
        score = contest(plan, 20, 12, seed=15)
        assert score.share < ABSURD + SURE * max(score.error, 0.2 / 12**0.5), score


def test_lawful_nonsense_on_the_field_costs_matches() -> None:
    rng = random.Random(6)
    shares = [one.share for one in field_costs([lawful_field(rng, 2) for _ in range(8)], 20, 6, seed=16)]
    assert sum(shares) / len(shares) < 0.47
