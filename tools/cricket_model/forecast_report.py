"""The report of the forecast against the match engine: bias, drift, and a logistic to beat.

``python -m tools.cricket_model.forecast_report`` writes ``docs/cricket-forecast.md``. Everything is measured
on matches of the engine between drawn squads, on drawn pitches and evenings.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectator.environments.cricket.forecast.monte_carlo import forecast
from spectator.environments.cricket.forecast.resources import runs_to_come
from spectator.environments.cricket.match.engine import Match, load_model
from spectator.environments.cricket.match.forecasting import forecast_state
from spectator.environments.cricket.simulate import open_match, play_out, send_in_next

CELLS: Final[tuple[tuple[int, str | float, str], ...]] = (
    (5, "all", "men"), (5, 145.0, "men"), (5, 210.0, "men"), (5, "all", "women"),
    (10, "all", "men"), (10, 190.0, "men"), (10, "all", "women"),
    (20, "all", "men"), (20, 145.0, "men"), (20, 190.0, "men"), (20, 210.0, "men"), (20, "all", "women"),
)  # fmt: skip


class Miss(NamedTuple):
    """Forecast less outcome of one match.

    Args:
        total: Of the first innings, in runs.
        start: Of the first side's chance.
        chase: Of the second side's, when its innings begins.
    """

    total: float
    start: float
    chase: float


class ChaseState(NamedTuple):
    """One ball of a chase.

    Args:
        balls_left: Valid balls left.
        lost: Wickets lost.
        needed: Runs wanted.
        chance: By the forecast.
        won: What came of it.
    """

    balls_left: int
    lost: int
    needed: int
    chance: float
    won: float


def _open(match: Match) -> None:
    send_in_next(match)
    send_in_next(match)


def _chance(match: Match, futures: int, rng: np.random.Generator) -> tuple[float, float]:
    state = forecast_state(match)
    assert state is not None
    told = forecast(state, futures, rng, match.model)
    return told.p_win, told.total


def _won(match: Match) -> float:
    """What the second side has of the first two innings."""
    margin = match.innings[1].runs - match.innings[0].runs
    return 1.0 if margin > 0 else 0.5 if margin == 0 else 0.0


def misses(overs: int, level: str | float, profile: str, matches: int, futures: int) -> list[Miss]:
    """Forecast less outcome of many matches."""
    model, rng = load_model(profile, level), np.random.default_rng(1)
    found = []
    for seed in range(matches):
        match = open_match(overs, seed, model=model)
        _open(match)
        start, total = _chance(match, futures, rng)
        chase = 0.0
        for _ in play_out(match):
            if match.number == 1 and match.awaited == "innings":
                match.close_innings()
                _open(match)
                chase, _ = _chance(match, futures, rng)
            if match.number == 2 and match.innings[1].closed:
                break
        won = _won(match)
        found.append(Miss(total - match.innings[0].runs, start - (1.0 - won), chase - won))
    return found


def changes(matches: int, futures: int) -> list[float]:
    """How one ball, drawn at random, changed the chance of the side batting first; 20 overs."""
    rng, draw = np.random.default_rng(2), random.Random(2)
    found = []
    for seed in range(matches):
        match = open_match(20, 5000 + seed)
        at, before = draw.randrange(200), None
        for number, _ in enumerate(play_out(match)):
            if before is None and number >= at and match.awaited == "ball":
                before, side = _chance(match, futures, rng)[0], match.batting_side
            elif before is not None and match.awaited == "ball" and match.batting_side == side:
                after = _chance(match, futures, rng)[0]
                found.append((after - before) * (1.0 if match.number == 1 else -1.0))
                break
            elif before is not None and match.result is not None:
                break
    return found


def chases(matches: int, futures: int) -> Iterator[ChaseState]:
    """One ball, drawn at random, of the chase of each match; 20 overs."""
    rng, draw = np.random.default_rng(3), random.Random(3)
    for seed in range(matches):
        match = open_match(20, 9000 + seed)
        at, state = draw.randrange(110), None
        for _ in play_out(match):
            innings = match.current
            if match.number == 2 and state is None and innings.balls >= at and match.awaited == "ball":
                assert innings.needed is not None
                state = (innings.balls_left, innings.wickets, innings.needed, _chance(match, futures, rng)[0])
            if match.number == 2 and match.innings[1].closed:
                break
        if state is not None:
            yield ChaseState(*state, _won(match))


def _features(states: Sequence[ChaseState]) -> NDArray[np.float64]:
    """The six terms of the reference logistic (see `chase_chance`)."""
    rows = []
    for at in states:
        overs = at.balls_left / 6.0
        z = (runs_to_come(at.balls_left, at.lost) - at.needed) / math.sqrt(max(4.0, 9.0 * overs))
        h, v = (10 - at.lost) / 10.0, overs / 20.0
        rows.append((1.0, z, math.copysign(z * z / 10.0, z), h, v, h * v))
    return np.array(rows)


def fit_logistic(states: Sequence[ChaseState]) -> NDArray[np.float64]:
    """Weights of the six terms, by Newton's method with a small ridge."""
    x, y = _features(states), np.array([at.won for at in states])
    beta = np.zeros(x.shape[1])
    for _ in range(30):
        p = 1.0 / (1.0 + np.exp(-np.clip(x @ beta, -30, 30)))
        hessian = (x * (p * (1 - p))[:, None]).T @ x + 0.01 * np.eye(len(beta))
        beta += np.linalg.solve(hessian, x.T @ (y - p) - 0.01 * beta)
    return np.asarray(beta)


def brier(states: Sequence[ChaseState], beta: NDArray[np.float64]) -> tuple[float, float, float]:
    """Brier scores of the forecast and of the logistic, and the standard error of their difference."""
    won = np.array([at.won for at in states])
    ours = (np.array([at.chance for at in states]) - won) ** 2
    theirs = (1.0 / (1.0 + np.exp(-np.clip(_features(states) @ beta, -30, 30))) - won) ** 2
    error = float((ours - theirs).std(ddof=1) / math.sqrt(len(won)))
    return float(ours.mean()), float(theirs.mean()), error


def told(values: Sequence[float], digits: int) -> str:
    """A mean with its standard error."""
    return f"{fmean(values):+.{digits}f} ± {stdev(values) / math.sqrt(len(values)):.{digits}f}"


def page(matches: int, futures: int) -> str:
    """The report."""
    rows = []
    for overs, level, profile in CELLS:
        found = misses(overs, level, profile, matches, futures)
        columns = [told([getattr(one, name) for one in found], digits)
                   for name, digits in (("total", 1), ("start", 3), ("chase", 3))]  # fmt: skip
        rows.append(f"| {overs} | {level} | {profile} | {' | '.join(columns)} |")
    moved = changes(2 * matches, futures)
    states = list(chases(4 * matches, futures))
    beta = fit_logistic(states[: len(states) // 2])
    ours, theirs, error = brier(states[len(states) // 2 :], beta)
    text = (Path(__file__).parent / "forecast.md").read_text(encoding="utf-8")
    figures = {
        "matches": str(matches), "futures": str(futures), "rows": "\n".join(rows),
        "moved": told(moved, 4), "balls": str(len(moved)), "fitted": str(len(states) // 2),
        "judged": str(len(states) - len(states) // 2), "ours": f"{ours:.4f}", "theirs": f"{theirs:.4f}",
        "difference": f"{ours - theirs:+.4f} ± {error:.4f}",
    }  # fmt: skip
    for name, value in figures.items():
        text = text.replace("{{" + name + "}}", value)
    return text


def main(argv: list[str] | None = None) -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.cricket_model.forecast_report", description=main.__doc__
    )
    parser.add_argument("--matches", type=int, default=200, help="of each row; more for the rest")
    parser.add_argument("--futures", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("docs/cricket-forecast.md"))
    chosen = parser.parse_args(argv)
    chosen.out.write_text(page(chosen.matches, chosen.futures), encoding="utf-8")


if __name__ == "__main__":
    main()
