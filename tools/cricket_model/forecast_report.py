"""Report on the forecast: before any ball, from ball to ball, and against a logistic.

``python -m tools.cricket_model.forecast_report`` writes ``docs/reports/cricket-forecast.md``. It judges the
forecast of the watch page (`forecast_data`), on simulated matches between drawn squads, on drawn pitches and
evenings, and on real chases.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Final

from tools.cricket_model.forecast_matches import Change, ChaseState, Miss, changes, chases, misses
from tools.cricket_model.forecast_real import RealChases, compare_real, real_chases, under_way
from tools.cricket_model.forecast_scores import ScoreGap, against_logistic
from tools.cricket_model.realism_report import calibration

LEVELS: Final[tuple[str | float, ...]] = ("all", 145.0, 190.0, 210.0)
CELLS: Final = tuple(
    (overs, level, profile) for overs in (5, 10, 20) for profile in ("men", "women") for level in LEVELS
)


def mean_text(values: Sequence[float], digits: int) -> str:
    """Format a mean with its standard error."""
    return f"{fmean(values):+.{digits}f} ± {_error(values):.{digits}f}"


def _error(values: Sequence[float]) -> float:
    return stdev(values) / math.sqrt(len(values))


def _before(matches: int, futures: int) -> dict[str, str]:
    rows, z = [], []
    every: list[Miss] = []
    for overs, level, profile in CELLS:
        found = list(misses(overs, level, profile, matches, futures))
        columns = list(zip(*found, strict=True))
        z += [fmean(column) / _error(column) for column in columns]
        figures = [mean_text(column, digits) for column, digits in zip(columns, (1, 3, 3), strict=True)]
        rows.append(f"| {overs} | {level} | {profile} | {' | '.join(figures)} |")
        every += found
    _, start, chase = zip(*every, strict=True)
    return {
        "rows": "\n".join(rows), "figures": str(len(z)), "beyond2": str(sum(abs(one) > 2 for one in z)),
        "beyond3": str(sum(abs(one) > 3 for one in z)),
        "rms": f"{math.sqrt(fmean(one * one for one in z)):.2f}",
        "all_start": mean_text(start, 4), "all_chase": mean_text(chase, 4), "every": f"{len(every):,}",
    }  # fmt: skip


def _ball_to_ball(found: Iterable[Sequence[Change]]) -> dict[str, str]:
    matches = [list(match) for match in found]
    moved = [[change.by for match in matches for change in match if change.innings == at] for at in (1, 2)]
    means = [fmean(change.by for change in match) for match in matches if match]
    return {
        "first": mean_text(moved[0], 4), "second": mean_text(moved[1], 4), "both": mean_text(means, 4),
        "balls": f"{sum(map(len, moved)):,}", "watched": str(len(means)),
    }  # fmt: skip


def _scores(names: Sequence[str], compared: Sequence[ScoreGap]) -> str:
    return "\n".join(
        f"| {name} | {one.ours:.4f} | {one.theirs:.4f} | {one.ours - one.theirs:+.4f} "
        f"({one.low:+.4f} to {one.high:+.4f}) |"
        for name, one in zip(names, compared, strict=True)
    )


def _drawn(states: Sequence[ChaseState]) -> dict[str, str]:
    tenths = calibration([(at.chance, at.won, 1) for at in states])
    return {
        "judged": f"{len(states):,}",
        "scores": _scores(("Brier score", "log loss"), against_logistic(states)),
        "calibration": "\n".join(f"| {said:.3f} | {won:.3f} | {n:,} |" for said, won, n in tenths),
    }


def _real(rows: list[RealChases]) -> dict[str, str]:
    lines = [
        f"| {row.low} to {row.high} | {row.matches} | {row.won / row.matches:.3f} | {row.forecast:.3f} "
        f"| {row.logistic:.3f} |"
        for row in rows
    ]
    return {
        "real": f"{sum(row.matches for row in rows):,}",
        "real_rows": "\n".join(lines),
        "real_scores": _scores(
            (
                "Brier score",
                "log loss",
                "Brier score, both at the share won",
                "log loss, both at the share won",
            ),
            (*compare_real(rows), *compare_real(rows, level=True)),
        ),
        "real_told": f"{_mean(rows, (row.forecast for row in rows)):.2f} and "
        f"{_mean(rows, (row.logistic for row in rows)):.2f}",
        "real_won": f"{_mean(rows, (row.won / row.matches for row in rows)):.2f}",
    }


def _mean(rows: list[RealChases], chances: Iterable[float]) -> float:
    """Return the mean over single chases."""
    total = sum(chance * row.matches for chance, row in zip(chances, rows, strict=True))
    return total / sum(row.matches for row in rows)


def _cells(scores: tuple[float, float]) -> dict[str, str]:
    return {"cells_ours": f"{scores[0]:.4f}", "cells_theirs": f"{scores[1]:.4f}"}


def page(matches: int, futures: int) -> str:
    """Return the report.

    Args:
        matches: Matches per row before any ball; four times as many against the logistic.
        futures: Futures per forecast; a tenth before any ball, where the outcome is most of the noise.
    """
    figures = {
        "matches": str(matches), "futures": f"{futures:,}", "fewer": str(futures // 10),
        **_real(real_chases(futures // 5)), **_cells(under_way(futures)),
        **_ball_to_ball(changes(matches, futures)),
        **_drawn(list(chases(4 * matches, futures))),
        **_before(matches, futures // 10),
    }  # fmt: skip
    text = (Path(__file__).parent / "forecast.md").read_text(encoding="utf-8")
    for name, value in figures.items():
        text = text.replace("{{" + name + "}}", value)
    return text


def main(argv: list[str] | None = None) -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.cricket_model.forecast_report", description=main.__doc__
    )
    parser.add_argument(
        "--matches", type=int, default=400, help="matches per row; four times as many against the logistic"
    )
    parser.add_argument("--futures", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("docs/reports/cricket-forecast.md"))
    chosen = parser.parse_args(argv)
    chosen.out.write_text(page(chosen.matches, chosen.futures), encoding="utf-8")


if __name__ == "__main__":
    main()
