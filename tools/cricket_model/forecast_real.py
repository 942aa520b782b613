"""Forecast real chases of 2008 to 2017 at their start; neither model was fitted to them.

The tables hold how many chases of each range of targets were won: from 2008 on, and from 2018 on. The
difference is separate matches. Only the first innings' total is known, not the sides, so the forecast is the
mean over drawn sides and infers the day's conditions from the total alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.forecast.monte_carlo import forecast
from spectator.environments.cricket.forecast.state import BowlingAttack, ForecastState
from spectator.environments.cricket.match.forecasts import Expected
from spectator.environments.cricket.people import Squad, draw_fixture
from spectator.environments.cricket.simulation import open_match, play_out
from tools.cricket_model.fitting.counts import read_rows
from tools.cricket_model.forecast_scores import ScoreGap, brier, chase_chance, compare, log_loss, moved_to
from tools.cricket_model.realism_report import SEEN_CELL
from tools.cricket_model.realism_report import chances as cell_chances

BALLS: Final = 120
LOWEST: Final = 85
HIGHEST: Final = 250
"""Range of targets; the table's open ranges end here."""
FIXTURES: Final = 40
READ_INNINGS: Final = 3000
SEED: Final = 4000


class RealChases(NamedTuple):
    """Real chases in a range of targets.

    Args:
        low: Smallest target.
        high: Largest.
        matches: Number of chases.
        won: Chases won; a tie counts 0.5.
        forecast: Chance by the forecast.
        logistic: Chance by the logistic of `win_prob_model.json`.
    """

    low: int
    high: int
    matches: int
    won: float
    forecast: float
    logistic: float


def real_chases(futures: int, drawn: int = FIXTURES, innings: int = READ_INNINGS) -> list[RealChases]:
    """Return every range of targets with both forecasts at its middle.

    Args:
        futures: Futures per chase.
        drawn: Pairs of sides drawn for the unknown ones.
        innings: First innings simulated to relate totals to the day's conditions.
    """
    says, rng = _TotalReading(innings), np.random.default_rng(SEED)
    fixtures = [draw_fixture(SEED + number) for number in range(drawn)]
    found = []
    for low, high, matches, won in _between_samples():
        target = round((max(LOWEST, low) + min(HIGHEST, high)) / 2)
        expected = says.expected(target - 1)
        starts = (_start(home, away, target, expected) for home, away in fixtures)
        chance = float(np.mean([forecast(start, futures, rng).p_win for start in starts]))
        found.append(RealChases(low, high, matches, won, chance, chase_chance(BALLS, 0, target)))
    return found


def compare_real(rows: list[RealChases], *, level: bool = False) -> tuple[ScoreGap, ScoreGap]:
    """Compare Brier score and log loss of forecast and logistic over single matches.

    Args:
        rows: The chases.
        level: Whether both are first shifted, in log odds, to the share won, so that only their
            discrimination is compared.
    """
    won = np.concatenate([_outcomes(row) for row in rows])
    ours, theirs = (
        np.repeat([getattr(row, name) for row in rows], [row.matches for row in rows])
        for name in ("forecast", "logistic")
    )
    if level:
        ours, theirs = (moved_to(float(won.mean()), chances) for chances in (ours, theirs))
    return (
        compare(brier(ours, won), brier(theirs, won)),
        compare(log_loss(ours, won), log_loss(theirs, won)),
    )


def under_way(futures: int) -> tuple[float, float]:
    """Return Brier scores of forecast and logistic on chases under way.

    The states are the cells of `win_prob_cells.csv`. They cannot be split by match, and the logistic was
    fitted to some of those matches.
    """
    rows = [row for row in read_rows("win_prob_cells.csv") if int(row["n_states"]) >= SEEN_CELL]
    sums, states = [0.0, 0.0], 0
    for row, (ours, won, n) in zip(rows, cell_chances(futures, 1), strict=True):
        balls, wickets, needed = (
            round((int(row[f"{name}_from"]) + int(row[f"{name}_to"])) / 2)
            for name in ("balls_left", "wickets_in_hand", "runs_required")
        )
        states += n
        for at, chance in enumerate((ours, chase_chance(balls, 10 - wickets, needed))):
            sums[at] += n * (won * (1.0 - chance) ** 2 + (1.0 - won) * chance**2)
    return sums[0] / states, sums[1] / states


def _outcomes(row: RealChases) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the matches of a range one by one, with no more ties than needed."""
    whole, tied = divmod(row.won, 1.0)
    outcomes = np.zeros(row.matches)
    outcomes[: int(whole)] = 1.0
    if tied:
        outcomes[int(whole)] = tied
    return outcomes


def _between_samples() -> Iterator[tuple[int, int, int, float]]:
    """Yield range of targets, matches and wins of the matches only in the longer sample."""
    counts: dict[tuple[int, int], list[float]] = {}
    for row in read_rows("chase_by_target.csv"):
        sign = -1 if row["sample"] == "train_2018on" else 1
        matches, share = int(row["matches"]), float(row["chase_win_rate"])
        sums = counts.setdefault((int(row["target_from"]), int(row["target_to"])), [0.0, 0.0])
        sums[0] += sign * matches
        sums[1] += sign * round(2.0 * share * matches) / 2.0
    for (low, high), (played, won) in sorted(counts.items()):
        yield low, high, round(played), won


class _TotalReading:
    """What a first innings' total predicts of the chase's effect, by least squares over simulated matches.

    Args:
        innings: Number of first innings to play.
    """

    def __init__(self, innings: int) -> None:
        totals, effects = [], []
        for number in range(innings):
            match = open_match(BALLS // 6, SEED + number)
            for _ in play_out(match):
                if match.current.closed:
                    break
            totals.append(match.innings[0].runs)
            effects.append(match.effects.of(1))
        match_sd, innings_sd = BallModel.load().tables.effect_sd
        spread = match_sd**2 + innings_sd**2
        self._mean = float(np.mean(totals))
        slope = float(np.polyfit(np.array(totals) - self._mean, effects, 1)[0])
        self._slope = slope * match_sd**2 / spread
        self._sd = float(np.sqrt(spread - self._slope**2 * np.var(totals)))

    def expected(self, total: int) -> Expected:
        """Return the effect expected in the chase of a total."""
        return Expected(self._slope * (total - self._mean), self._sd)


def _start(home: Squad, away: Squad, target: int, expected: Expected) -> ForecastState:
    """Return a chase before its first ball, ``home`` batting."""
    attack = BowlingAttack.of(away.players, BALLS // 6, 4)
    return ForecastState(
        innings_balls=BALLS, powerplay_balls=36, balls=0, runs=0, wickets=0, target=target, striker=0,
        striker_balls=0, partner=1, partner_balls=0, to_come=tuple(range(2, 11)), batting=home.players,
        bowling=away.players, bowler=None, overs_left=tuple(attack.left), attack=attack, second=True,
        effect_mean=expected.mean, effect_sd=expected.sd,
    )  # fmt: skip
