from __future__ import annotations

import numpy as np
import pytest

from spectator.environments.collider.analysis import likelihood
from spectator.environments.collider.analysis.likelihood import covariance, minimise
from spectator.environments.collider.analysis.peaks import PeakProblem
from spectator.environments.collider.analysis.shapes import design
from tests.environments.collider.analysis.toys import Toy

TOY = Toy(z=10.0)


def problem(seed: int) -> PeakProblem:
    columns = design("exponential", TOY.edges)
    return PeakProblem(TOY.edges, TOY.draw(seed), columns, 1, "gauss", 0.0, (0.2, 10.0), (1.6 / 125, 0.3))


def start(asked: PeakProblem, mass: float = 124.0) -> np.ndarray:
    return asked.start([300.0], [mass], 1.6, np.array([6.0, 0.0]))


@pytest.mark.parametrize("mass", [121.0, 124.0, 127.0, 129.0])
def test_every_start_near_the_peak_leads_to_the_same_minimum(mass: float) -> None:
    asked = problem(2)
    best = minimise(asked, start(asked, 125.0), asked.free())
    found = minimise(asked, start(asked, mass), asked.free())
    assert found.converged
    assert found.nll == pytest.approx(best.nll, abs=1e-4)


def test_migrad_goes_on_where_the_scoring_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = problem(2)
    best = minimise(asked, start(asked), asked.free())
    monkeypatch.setattr(likelihood, "_STEPS", 1)
    found = minimise(asked, start(asked), asked.free())
    assert found.converged
    assert found.nll == pytest.approx(best.nll, abs=1e-3)
    assert found.theta[1] == pytest.approx(best.theta[1], abs=0.01)


def test_fixed_parameters_stay_and_limits_hold() -> None:
    asked = problem(3)
    free = asked.free()
    free[1] = False
    held = minimise(asked, start(asked, 120.0), free)
    assert held.theta[1] == 120.0
    assert covariance(asked, held, free)[1, 1] == 0.0
    asked.upper[0] = 50.0
    limited = minimise(asked, start(asked), asked.free())
    assert limited.theta[0] == 50.0
    assert limited.at_limit[0]


def test_the_derivatives_are_those_of_the_expectation() -> None:
    columns = design("quadratic", TOY.edges)
    for model in ("gauss", "voigt", "crystal_ball"):
        asked = PeakProblem(TOY.edges, TOY.draw(1), columns, 2, model, 0.7, (0.2, 10.0))
        theta = asked.start([300.0, 90.0], [124.0, 133.0], 1.6, np.array([6.0, -0.2, 0.1]))
        rows = asked.derivatives(theta)
        for index in range(len(theta)):
            step = np.zeros_like(theta)
            step[index] = 1e-4
            slope = (asked.expected(theta + step) - asked.expected(theta - step)) / 2e-4
            assert rows[:, index] == pytest.approx(slope, abs=1e-4 * max(1.0, float(np.abs(slope).max())))
