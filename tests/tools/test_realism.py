"""Simulated matches against the tables of real ones, through the whole engine."""

from __future__ import annotations

import math

import pytest

from spectator.environments.cricket.environment import CricketOptions
from spectator.environments.cricket.simulation import simulate
from tools.cricket_model.fitting.targets import real_statistics
from tools.cricket_model.realism import MatchLog, read_matches, spread_of, statistics

MATCHES = 300


@pytest.fixture(scope="module")
def matches() -> list[MatchLog]:
    return list(read_matches(simulate(MATCHES, 2026, CricketOptions(max_overs=20).model_dump())))


def test_every_real_statistic_is_measured(matches: list[MatchLog]) -> None:
    real, seen = real_statistics(), statistics(matches)
    assert set(real) <= set(seen)
    assert len(real) > 150
    assert all(math.isfinite(value) for value in real.values())


def test_simulated_matches_look_like_real_ones(matches: list[MatchLog]) -> None:
    """Differences from the tables are those of chance: root mean square under 1.5 of the expected, none past
    6."""
    real, seen, sd = real_statistics(), statistics(matches), spread_of(matches, 10)
    noise = {name: sd[name] * math.sqrt(1 / 10 + 30 / 658) for name in real}
    z = {name: (seen[name] - real[name]) / noise[name] for name in real if noise[name] > 0}
    worst = sorted(z.items(), key=lambda item: -abs(item[1]))[:9]
    assert math.sqrt(sum(value**2 for value in z.values()) / len(z)) < 1.5, worst
    assert abs(worst[0][1]) < 6, worst


@pytest.mark.parametrize(
    ("name", "slack"),
    [
        ("1 total mean", 6.5),
        ("1 total sd", 5.0),
        ("2 total mean", 6.5),
        ("1 wickets mean", 0.45),
        ("2 wickets mean", 0.6),
        ("1 pp runs per over", 0.35),
        ("1 death runs per over", 0.5),
        ("dismissed caught", 0.03),
        ("dismissed run out", 0.012),
        ("extras wide", 0.5),
        ("chase won", 0.11),
        ("batter 1 runs", 3.5),
    ],
)
def test_well_known_figures(matches: list[MatchLog], name: str, slack: float) -> None:
    """Within about four standard errors of the real figure."""
    assert statistics(matches)[name] == pytest.approx(real_statistics()[name], abs=slack)
