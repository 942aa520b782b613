"""The model of many followers finds the cost that it is given, and says where the limits are."""

from __future__ import annotations

import pytest

from benchmarks.cluster_model import FollowerCost, FollowerLoad, fitted, needs

COST = FollowerCost(20_000.0, 2_500.0, 8.5)


def seen(episodes: int, viewers: int) -> FollowerLoad:
    steps, writes = episodes / 2.0, viewers / 2.0
    return FollowerLoad(episodes, viewers, steps, writes, COST.cores(steps, writes))


def test_the_cost_is_found_again_from_three_sizes() -> None:
    found = fitted([seen(4, 200), seen(64, 256), seen(4, 3_000)])
    assert found.idle_us == pytest.approx(COST.idle_us)
    assert found.step_us == pytest.approx(COST.step_us)
    assert found.write_us == pytest.approx(COST.write_us)


def test_viewers_sorted_by_episode_spare_the_database_and_nothing_else() -> None:
    anywhere = needs(COST, 1_000, 1_000_000, sorted_by_episode=False)
    by_episode = needs(COST, 1_000, 1_000_000, sorted_by_episode=True)
    assert anywhere["servers"] == by_episode["servers"] == 200
    assert anywhere["Mbit/s each"] == by_episode["Mbit/s each"]
    assert anywhere["reads a second"] == 100_000
    assert by_episode["reads a second"] == 500
    assert by_episode["cores each"] < 0.1 < 1.0 < anywhere["cores each"]
