"""Futures for holding calls against each other: all take the same random numbers, future by future.

What one call makes of a future and what another makes of the same one differ by the calls, and by what
follows from them, alone; so their difference has a fraction of the noise of either.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.ball.tables import CATEGORIES
from spectator.environments.cricket.forecast.arrays import Floats
from spectator.environments.cricket.forecast.monte_carlo import Futures
from spectator.environments.cricket.forecast.state import ForecastState

Wins = NDArray[np.float64]
"""1, 0.5 or 0 for every future, shape ``(n,)``: whether the side batting now wins."""


def wins(state: ForecastState, n: int, seed: int, model: BallModel, called: Floats | None = None) -> Wins:
    """Play ``n`` futures from ``state``.

    Args:
        state: Where the match stands.
        n: How many, at least 1.
        seed: Seed of their common numbers, 0 or more: the same one for all that are held against each other.
        model: The ball model.
        called: See :class:`..arrays.InningsArrays`.
    """
    futures = Futures(state, n, np.random.default_rng(seed), model, (seed,), called)
    return futures.wins(futures.first())


def next_ball_wins(state: ForecastState, rows: int, seed: int, model: BallModel) -> NDArray[np.float64]:
    """Whether the side batting now wins after each of the eleven categories of the next ball.

    The futures of a row have the same luck after the ball. So a row says more of how much better one category
    is than another, which is what calls differ by, and less of how good any is, than eleven futures would.

    Args:
        state: Where the match stands.
        rows: How many independent rows, at least 1.
        seed: Seed of their numbers.
        model: The ball model.

    Returns:
        1, 0.5 or 0, shape ``(rows, 11)``.
    """
    forced = np.tile(np.arange(CATEGORIES, dtype=np.uint8), rows)
    rng = np.random.default_rng(seed)
    futures = Futures(state, len(forced), rng, model, (seed,), sharing=CATEGORIES)
    return futures.wins(futures.first(forced)).reshape(rows, CATEGORIES)
