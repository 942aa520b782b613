"""The statistics against cases whose answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spectator.evaluation.intervals import wilson
from spectator.evaluation.statistics import bradley_terry, mean_interval, rank, share_interval


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def tables(shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points and games of a round robin of two games a pair and seed, from the first one's points."""
    seeds, k, _ = shares.shape
    points = np.triu(shares, 1)
    points = points + np.swapaxes(np.triu(2.0 - shares, 1), 1, 2)
    games = np.broadcast_to(2.0 * (1.0 - np.eye(k)), (seeds, k, k))
    return points, np.array(games)


@pytest.mark.parametrize(("n", "share"), [(5, 0.5), (10, 0.9), (40, 0.5), (40, 0.7), (40, 0.95)])
def test_intervals_of_shares_hold_the_truth_about_as_often_as_they_say(n: int, share: float) -> None:
    chance = rng()
    held = 0
    for _ in range(250):
        interval = share_interval(list(chance.binomial(2, share, size=n) / 2), chance, draws=500)
        held += interval.low <= share <= interval.high
    assert held / 250 >= 0.92


@pytest.mark.parametrize("skewed", [False, True])
def test_intervals_of_means_cover_at_ten_seeds_too(skewed: bool) -> None:
    """The percentile bootstrap, which it was, covers 90 % of normal and 86 % of exponential means."""
    chance, held = rng(3), 0
    for _ in range(300):
        values = chance.exponential(size=10) if skewed else chance.normal(1.0, 1.0, size=10)
        interval = mean_interval(list(values), chance, draws=500)
        held += interval.low <= 1.0 <= interval.high
    assert held / 300 >= 0.93


def test_an_interval_of_a_mean_stays_within_its_range_and_what_never_varies_has_none() -> None:
    found = mean_interval([1.0, 1.0, 0.9, 1.0], rng(), bounds=(0.0, 1.0))
    assert found.low < found.value < found.high == 1.0
    alike = mean_interval([0.98] * 10, rng())
    assert alike.low == pytest.approx(0.98) == alike.high
    few = mean_interval([1.0, 2.0], rng())
    assert few.high - few.low > 10, "two seeds say little"


def test_two_matches_of_a_pair_that_go_together_are_one_piece_of_evidence() -> None:
    """Pairs in which the same side wins both matches are as many as they are, not twice."""
    chance = rng()
    together = [float(won) for won in chance.integers(0, 2, size=100)]
    apart = list(chance.binomial(2, 0.5, size=100) / 2)
    wide, narrow = share_interval(together, chance), share_interval(apart, chance)
    assert (wide.high - wide.low) > 1.2 * (narrow.high - narrow.low)


def test_equal_captains_are_not_told_apart_and_a_better_one_is_found() -> None:
    even = share_interval([0.5] * 30 + [1.0] * 20 + [0.0] * 20, rng())
    assert even.low < 0.5 < even.high and even.value == 0.5
    better = share_interval(list(rng().binomial(2, 0.62, size=200) / 2), rng())
    assert 0.5 < better.low < 0.62 < better.high


def test_winning_every_match_is_not_certainty() -> None:
    few, many = share_interval([1.0] * 5, rng()), share_interval([1.0] * 200, rng())
    assert (few.value, few.high) == (1.0, 1.0) and few.low < 0.75
    assert 0.97 < many.low < 1.0


def test_a_share_needs_pairs_from_nought_to_one() -> None:
    for pairs in ([], [1.2], [-0.1, 0.5], [math.nan]):
        with pytest.raises(ValueError, match="from 0 to 1"):
            share_interval(pairs, rng())
    with pytest.raises(ValueError, match="at least one"):
        mean_interval([], rng())


def test_the_mean_is_the_mean_and_its_interval_shrinks_with_the_root_of_n() -> None:
    values = rng(3).normal(10.0, 2.0, size=1600)
    small, large = mean_interval(list(values[:100]), rng()), mean_interval(list(values), rng())
    assert large.value == pytest.approx(values.mean())
    assert large.low < 10.0 < large.high
    assert (small.high - small.low) / (large.high - large.low) == pytest.approx(4.0, rel=0.25)


def test_wilson_gives_the_published_intervals() -> None:
    """Agresti and Coull (1998), 0 and 8 of 10; checked by hand with z = 1.96."""
    none, eight = wilson(0, 10), wilson(8, 10)
    assert (none.value, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(0.2775, abs=1e-3)
    assert [eight.low, eight.high] == pytest.approx([0.4902, 0.9433], abs=1e-3)
    with pytest.raises(ValueError, match="games"):
        wilson(0, 0)


def test_bradley_terry_of_two_is_the_odds_and_of_a_cycle_is_level() -> None:
    won = np.array([[[0.0, 749.5], [249.5, 0.0]]])
    games = np.array([[[0.0, 999.0], [999.0, 0.0]]])
    ratings = bradley_terry(won, games)[0]
    assert ratings[0] - ratings[1] == pytest.approx(400 * math.log10(3.0), abs=0.5)
    cycle = np.array([[[0, 6, 0], [0, 0, 6], [6, 0, 0]]], dtype=float)
    assert bradley_terry(cycle, cycle + np.swapaxes(cycle, 1, 2))[0] == pytest.approx([0, 0, 0], abs=1e-6)


def test_bradley_terry_ranks_captains_who_never_met() -> None:
    """A beats B, B beats C: A is above C."""
    points = np.zeros((1, 3, 3))
    games = np.zeros((1, 3, 3))
    for high, low in ((0, 1), (1, 2)):
        points[0, high, low], points[0, low, high] = 7.0, 3.0
        games[0, high, low] = games[0, low, high] = 10.0
    ratings = bradley_terry(points, games)[0]
    assert ratings[0] > ratings[1] > ratings[2] and math.isfinite(ratings[0])


def test_the_ranking_finds_the_order_and_says_how_sure_it_is() -> None:
    chance = rng()
    strength = np.array([0.0, 0.9, 0.0])
    p = 1 / (1 + np.exp(strength[None, :] - strength[:, None]))
    points, games = tables(chance.binomial(2, p, size=(150, 3, 3)).astype(float))
    first, second, third = rank(["a", "b", "c"], points, games, chance, draws=800)
    assert first.name == "b" and first.best > 0.99 and (first.rank_low, first.rank_high) == (1, 1)
    assert {second.name, third.name} == {"a", "c"} and second.best < 0.01
    assert first.rating.low > second.rating.high
    assert sum(one.rating.value for one in (first, second, third)) == pytest.approx(0.0, abs=1e-6)
    assert sum(one.best for one in (first, second, third)) == pytest.approx(1.0)


def test_equal_captains_may_stand_in_either_order() -> None:
    points, games = tables(rng(5).binomial(2, 0.5, size=(60, 2, 2)).astype(float))
    for one in rank(["a", "b"], points, games, rng(), draws=800):
        assert (one.rank_low, one.rank_high) == (1, 2)
        assert one.rating.low < 0 < one.rating.high


def test_one_who_wins_everything_has_a_finite_rating_that_is_not_certain() -> None:
    points, games = tables(np.full((4, 2, 2), 2.0))
    best, worst = rank(["a", "b"], points, games, rng(), draws=800)
    assert best.name == "a" and math.isfinite(best.rating.high)
    assert best.rating.low < best.rating.value
    assert worst.rating.value == pytest.approx(-best.rating.value)


def test_a_ranking_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="two captains"):
        rank(["a"], np.zeros((1, 1, 1)), np.zeros((1, 1, 1)), rng())
    with pytest.raises(ValueError, match="two captains"):
        rank(["a", "b"], np.zeros((0, 2, 2)), np.zeros((0, 2, 2)), rng())
