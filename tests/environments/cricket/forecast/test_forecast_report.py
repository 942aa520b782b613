"""The report of the forecast: what it measures is what it says, and on seeds the forecast holds."""

from __future__ import annotations

import math
import random
from itertools import pairwise
from statistics import fmean, stdev

import numpy as np
import pytest

from tools.cricket_model.forecast_matches import ChaseState, changes, chases, misses
from tools.cricket_model.forecast_real import compare_real, real_chases
from tools.cricket_model.forecast_scores import (
    against_logistic,
    brier,
    chances,
    compare,
    fit_logistic,
    log_loss,
)


def states(n: int, seed: int = 1, noise: float = 0.0) -> list[ChaseState]:
    """Made-up chases whose chance is known, told with ``noise`` of log odds."""
    draw = random.Random(seed)
    found = []
    for _ in range(n):
        balls, lost = draw.randrange(6, 114), draw.randrange(8)
        odds = draw.gauss(0.0, 1.5)
        chance = 1.0 / (1.0 + math.exp(-odds))
        said = 1.0 / (1.0 + math.exp(-odds - draw.gauss(0.0, noise)))
        found.append(
            ChaseState(balls, lost, draw.randrange(1, 2 * balls), said, float(draw.random() < chance))
        )
    return found


def test_scores_are_those_of_the_textbook() -> None:
    chance, won = np.array([0.8, 0.3, 1.0]), np.array([1.0, 0.0, 0.0])
    assert brier(chance, won) == pytest.approx([0.04, 0.09, 1.0])
    assert log_loss(chance, won) == pytest.approx([-math.log(0.8), -math.log(0.7), -math.log(0.001)])


def test_the_interval_is_that_of_the_difference_match_by_match() -> None:
    rng = np.random.default_rng(3)
    theirs = rng.normal(0.2, 0.3, 2000)
    found = compare(theirs - 0.01 + rng.normal(0.0, 0.02, 2000), theirs)
    assert found.low < found.ours - found.theirs < found.high < 0.0
    assert found.high - found.low == pytest.approx(2 * 1.96 * 0.02 / math.sqrt(2000), rel=0.15)


def test_the_logistic_is_judged_on_matches_that_it_has_not_seen() -> None:
    """Of pure luck nothing can be learnt: the logistic that saw the matches looks better than it is."""
    draw = random.Random(2)
    lucky = [at._replace(won=float(draw.random() < 0.5), chance=0.5) for at in states(60)]
    won = np.array([at.won for at in lucky])
    seen = brier(chances(lucky, fit_logistic(lucky)), won).mean()
    score, loss = against_logistic(lucky)
    assert seen < 0.25 < score.theirs
    assert score.ours == 0.25 and score.high < 0.0
    assert loss.ours == pytest.approx(math.log(2))


def test_a_forecast_that_knows_better_is_seen_to_know_better() -> None:
    sharp, blurred = (against_logistic(states(600, noise=noise))[0] for noise in (0.0, 2.0))
    assert sharp.high < 0.0
    assert blurred.ours > sharp.ours + 0.01
    assert blurred.theirs == sharp.theirs


def test_real_chases_are_those_that_only_the_longer_sample_has() -> None:
    rows = real_chases(30, drawn=6, innings=200)
    assert sum(row.matches for row in rows) == 1024
    assert sum(row.won for row in rows) / 1024 == pytest.approx(0.52, abs=0.02)
    assert all(0 <= row.won <= row.matches and 2 * row.won % 1 == 0 for row in rows)
    assert [row.low for row in rows] == sorted(row.low for row in rows)
    assert all(a.forecast > b.forecast - 0.05 and a.logistic > b.logistic for a, b in pairwise(rows))
    score, loss = compare_real(rows)
    assert score.ours < score.theirs and loss.ours < loss.theirs
    level, _ = compare_real(rows, level=True)
    assert level.ours < score.ours and level.theirs < score.theirs


def test_nobody_can_say_which_way_the_chance_will_move() -> None:
    """The change of one ball of each innings, drawn before it, is nothing on average."""
    means = [fmean(change.by for change in match) for match in changes(24, 60) if match]
    assert len(means) >= 22
    assert abs(fmean(means)) < 3.5 * stdev(means) / math.sqrt(len(means))


def test_the_forecast_before_any_ball_and_before_the_chase_is_right_on_average() -> None:
    found = list(misses(5, 190.0, "women", 60, 60))
    for column in zip(*found, strict=True):
        assert abs(fmean(column)) < 3.5 * stdev(column) / math.sqrt(len(column))


def test_the_page_s_forecast_holds_against_a_logistic() -> None:
    """On a hundred chases: no worse beyond chance; the report has thousands."""
    found = list(chases(120, 60))
    assert len({(at.balls_left, at.needed) for at in found}) > 80
    score, loss = against_logistic(found)
    assert score.low < 0.0 and loss.low < 0.0
