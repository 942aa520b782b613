"""Reported chances against outcomes: counted by tenths, with matches as independent units."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spectator.catalog import load_world
from spectator.environments.cricket.show.summary import reported_win_chance
from spectator.errors import EnvironmentFault
from spectator.evaluation.figures import PROMISES, EpisodeFigures, figures_of
from spectator.evaluation.intervals import EVEN, Reliability, reliability_of
from spectator.events import Event
from tests.evaluation.test_figures import play
from tests.evaluation.test_standings import figures


def reporting(match: EpisodeFigures, *chances: float) -> EpisodeFigures:
    tenths = [(0, 0.0, 0.0)] * PROMISES
    for chance in chances:
        count, total, squares = tenths[int(10 * chance)]
        tenths[int(10 * chance)] = count + 1, total + chance, squares + chance**2
    return replace(match, promised=tuple(tenths))


def test_chances_are_held_against_what_happened_tenth_by_tenth() -> None:
    found = Reliability()
    found.add(reporting(figures(1, "a", "b", 1.0), 0.72, 0.78, 0.55))
    found.add(reporting(figures(2, "a", "b", 0.0), 0.75, 0.05))
    found.add(reporting(figures(3, "a", "b", 0.5), 0.51))
    tenths = found.tenths()
    seventh = tenths[7]
    assert (seventh.low, seventh.count, seventh.matches) == (0.7, 3, 2)
    assert seventh.promised == pytest.approx(0.75) and seventh.happened is not None
    assert seventh.happened.value == pytest.approx(2 / 3)
    assert tenths[5].happened is not None and tenths[5].happened.value == pytest.approx(0.75)
    assert tenths[1].happened is None and tenths[1].promised is None
    squares = [(0.72, 1), (0.78, 1), (0.55, 1), (0.75, 0), (0.05, 0), (0.51, 0.5)]
    assert found.brier == pytest.approx(sum((p - y) ** 2 for p, y in squares) / 6)


def test_an_interval_counts_matches_not_moments() -> None:
    many, few = Reliability(), Reliability()
    for number in range(20):
        many.add(reporting(figures(number, "a", "b", float(number % 2)), *[0.55] * 50))
    few.add(reporting(figures(1, "a", "b", 1.0), *[0.55] * 1000))
    wide, narrow = few.tenths()[5].happened, many.tenths()[5].happened
    assert wide is not None and narrow is not None
    assert (wide.n, narrow.n) == (1, 20)
    assert narrow.high - narrow.low < 0.45 < wide.high - wide.low


def test_always_saying_half_earns_the_score_of_knowing_nothing() -> None:
    found = Reliability()
    found.add(reporting(figures(1, "a", "b", 1.0), 0.5))
    assert found.brier == EVEN
    assert Reliability().brier is None


@pytest.mark.parametrize(
    "left_out",
    [
        {"reason": "stopped"},
        {"forked": True},
        {"promised": ()},
        {"reason": "policy_error", "forfeited": "away"},
    ],
)
def test_what_was_cut_short_forked_forfeited_or_untold_counts_for_nothing(left_out: dict[str, Any]) -> None:
    match = replace(reporting(figures(1, "a", "b", 1.0), 0.4), **left_out)
    assert reliability_of([match]) == {}
    assert reliability_of([match, reporting(figures(2, "a", "b", 1.0), 0.4)])["cricket"].matches == 1


def test_a_real_match_tells_its_chances_and_its_figures_keep_them() -> None:
    match = figures_of(play("cricket", "heuristic", "heuristic", max_overs=1, forecast_futures=20))
    assert match is not None and sum(count for count, _, _ in match.promised) > 5
    assert EpisodeFigures.from_json(match.to_json()) == match
    silent = figures_of(play("cricket", "heuristic", "heuristic", max_overs=1))
    assert silent is not None and silent.promised == ()


def test_what_is_decided_is_no_promise() -> None:
    forecast = Event("ep-1", "e", 1, "", 1, "cricket.forecast", {"home": 0.7, "futures": 20})
    assert reported_win_chance(forecast) == 0.7
    assert reported_win_chance(replace(forecast, data={"home": 1.0, "futures": 0})) is None
    assert reported_win_chance(replace(forecast, type="step.taken")) is None


def test_a_chance_beyond_its_range_is_the_worlds_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    world = replace(load_world("counting"), promise=lambda event: 1.5)
    monkeypatch.setattr("spectator.evaluation.figures.load_world", lambda name: world)
    with pytest.raises(EnvironmentFault, match=r"from 0 to 1, not 1\.5"):
        figures_of(play())
