"""A one-day innings has the rates that are assumed for it: powerplay, middle, last overs, and wides."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from spectator.environments.cricket.ball.tables import WIDE
from spectator.environments.cricket.forecast import batch_innings, monte_carlo
from spectator.environments.cricket.forecast.arrays import SimulatedBalls
from spectator.environments.cricket.match.forecasts import forecast_state
from spectator.environments.cricket.simulation import open_match


def test_fifty_overs_have_rates_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = np.zeros((3, 4))

    def count(balls: SimulatedBalls) -> None:
        part = np.searchsorted((60, 240), balls.balls, side="right")
        for at in range(3):
            here = part == at
            wides = int((balls.category[here] == WIDE).sum())
            seen[at] += (int(balls.valid[here].sum()), int(balls.runs[here].sum()), wides, int(here.sum()))

    monkeypatch.setattr(monte_carlo, "play", partial(batch_innings.play, watch=count))
    for seed in range(12):
        state = forecast_state(open_match(50, seed))
        assert state is not None
        sides = state._replace(striker=0, partner=1, to_come=tuple(range(2, 11)))
        monte_carlo.Futures(sides, 40, np.random.default_rng(seed), None).first()
    powerplay, middle, last = 6.0 * seen[:, 1] / seen[:, 0]
    assert powerplay == pytest.approx(5.1, abs=0.3)
    assert middle == pytest.approx(5.0, abs=0.35)
    assert last == pytest.approx(7.5, abs=0.6)
    assert seen[:, 2].sum() / seen[:, 3].sum() == pytest.approx(0.023, abs=0.003)
