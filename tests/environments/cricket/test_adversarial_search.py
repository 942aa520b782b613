"""No captain that does not look at the state beats the percentage captain; the long search is a benchmark."""

from __future__ import annotations

import random

import pytest

from benchmarks.cricket_blind import BlindCaptain, drawn, lawful_field, named
from benchmarks.cricket_search import LIMIT, contest
from spectator.environments.cricket.ball.vocabulary import DeliveryPlan
from spectator.environments.cricket.match.field import check_field

SURE = 3.3
"""Standard errors above the limit that nobody of forty may reach by chance."""


@pytest.mark.parametrize(("overs", "pairs"), [(5, 30), (20, 5)])
def test_no_named_captain_that_does_not_look_wins(overs: int, pairs: int) -> None:
    """Constant and phase-wise plans, fields, intents, strokes, bowling and batting orders, in both seats."""
    chosen = [captain for number, captain in enumerate(named()) if number % 4 == 0]
    for captain in chosen:
        score = contest(captain, overs, pairs, seed=11)
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


def test_the_search_finds_who_is_better() -> None:
    """Who sends the last in first loses, and the search says so."""
    reverse = next(captain for captain in named() if captain.name == "batters: reversed")
    assert contest(reverse, 5, 40, seed=14).share < 0.35
