"""Compare simulated with real matches: writes ``docs/reports/cricket-realism.md`` and its plots.

Run ``python -m tools.cricket_model.realism_report``; it measures every figure in the page.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from spectator.environments.cricket.ball.tables import MODEL_FILE
from spectator.environments.cricket.environment import CricketOptions
from spectator.environments.cricket.forecast.monte_carlo import forecast
from spectator.environments.cricket.forecast.state import BowlingAttack, ForecastState, plan_remaining_overs
from spectator.environments.cricket.people import Player, Squad, draw_fixture
from spectator.environments.cricket.simulation import simulate
from tools.cricket_model.fitting.counts import DATA, read_rows
from tools.cricket_model.fitting.targets import real_statistics
from tools.cricket_model.fitting.validation import HeldOutLoss, cross_validate
from tools.cricket_model.plotting import Series, plot
from tools.cricket_model.realism import MatchLog, read_matches, spread_of, statistics

REAL_MATCHES = 658
PARTS = 20
SEEN_CELL = 30
"""Least states of a cell of win_prob_cells.csv that is compared with the forecast."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One statistic.

    Args:
        name: Its name.
        real: Value in the tables.
        simulated: Value in the simulated matches.
        noise: Standard deviation between samples of 658 matches.
        z: Difference over the combined standard deviation of both samples.
    """

    name: str
    real: float
    simulated: float
    noise: float
    z: float


def compare(matches: Sequence[MatchLog]) -> list[Compared]:
    """Compare all statistics in the tables, the largest difference first."""
    real, seen, sd = real_statistics(), statistics(matches), spread_of(matches, PARTS)
    rows = []
    for name, value in real.items():
        noise = sd[name] * math.sqrt(len(matches) / PARTS / REAL_MATCHES)
        both = math.hypot(noise, sd[name] / math.sqrt(PARTS))
        rows.append(Compared(name, value, seen[name], noise, (seen[name] - value) / both))
    return sorted(rows, key=lambda row: -abs(row.z))


def chances(futures: int, seed: int) -> list[tuple[float, float, int]]:
    """Return forecast, outcome and number of states of every well-filled cell."""
    rng = np.random.default_rng(seed)
    home, away = (_average(squad) for squad in draw_fixture(seed))
    rows = []
    for row in read_rows("win_prob_cells.csv"):
        if int(row["n_states"]) < SEEN_CELL:
            continue
        balls, wickets, required = (
            (int(row[f"{name}_from"]) + int(row[f"{name}_to"])) / 2
            for name in ("balls_left", "wickets_in_hand", "runs_required")
        )
        lost = 10 - round(wickets)
        attack = BowlingAttack.of(away, 20, 4)
        for bowler in plan_remaining_overs(attack.copy(), None)[: (120 - int(balls)) // 6]:
            attack.take(bowler)
        state = ForecastState(
            innings_balls=120, powerplay_balls=36, balls=120 - int(balls), runs=0, wickets=lost,
            target=round(required), striker=lost, striker_balls=8, partner=min(10, lost + 1), partner_balls=8,
            to_come=tuple(range(lost + 2, 11)), batting=home, bowling=away, bowler=None,
            overs_left=tuple(attack.left), attack=attack,
            last_bowler=attack.starters[-1] if attack.starters else None,
        )  # fmt: skip
        rows.append((forecast(state, futures, rng).p_win, float(row["p_win"]), int(row["n_states"])))
    return rows


def _average(squad: Squad) -> tuple[Player, ...]:
    return tuple(
        replace(
            player, bat_runs=1.0, bat_out=1.0, bowl_runs=1.0, bowl_wickets=1.0, bowl_extras=1.0, bat_spin=0.0
        )
        for player in squad.players
    )


def write(folder: Path, matches: int, seed: int) -> list[Compared]:
    """Simulate, compare, and write the page and its plots into ``folder``."""
    played = list(read_matches(simulate(matches, seed, CricketOptions(max_overs=20).model_dump())))
    rows = compare(played)
    cells = chances(800, seed)
    plots = folder / "cricket-realism"
    plots.mkdir(parents=True, exist_ok=True)
    for name, text in _plots(played, rows, cells).items():
        (plots / f"{name}.svg").write_text(text, encoding="utf-8")
    page = _page(rows, cells, cross_validate(), len(played), seed)
    (folder / "cricket-realism.md").write_text(page, encoding="utf-8")
    return rows


def _plots(
    matches: Sequence[MatchLog], rows: Sequence[Compared], cells: Sequence[tuple[float, float, int]]
) -> dict[str, str]:
    return {
        "runs-by-over": _by_over(matches, "runs"),
        "wickets-by-over": _by_over(matches, "wickets"),
        "totals": _totals(matches),
        "chase-by-target": _chases(matches),
        "z": _z(rows),
        "forecast": _calibration(cells),
    }


def _by_over(matches: Sequence[MatchLog], what: str) -> str:
    series = []
    for innings, dash in ((1, ""), (2, "4 3")):
        logs = [match.first if innings == 1 else match.second for match in matches]
        seen, real = [], []
        table = [
            row
            for row in read_rows("ball_outcomes_by_over.csv")
            if row["cohort"] == "all" and row["innings"] == str(innings)
        ]
        for over, row in enumerate(table):
            begun = [log for log in logs if log.overs_begun > over]
            count = sum(log.over_runs[over] if what == "runs" else log.over_wickets[over] for log in begun)
            seen.append((over + 1, count / len(begun)))
            column = "runs_total" if what == "runs" else "wickets"
            started = REAL_MATCHES if innings == 1 else _begun_in_second(over)
            real.append((over + 1, float(row[column]) / started))
        series += [
            Series(f"real, innings {innings}", real, "real", dash),
            Series(f"simulated, innings {innings}", seen, "simulated", dash),
        ]
    return plot(f"{what.capitalize()} by over, in innings that had play in it", "over", what, series)


def _begun_in_second(over: int) -> float:
    return next(
        float(row["innings_still_going_in_over"])
        for row in read_rows("cumulative_by_over.csv")
        if (row["cohort"], row["innings"], row["after_over"]) == ("all", "2", str(over + 1))
    )


def _totals(matches: Sequence[MatchLog]) -> str:
    summary = json.loads((DATA / "innings_summary.json").read_text(encoding="utf-8"))["all"]
    shares = (0.01, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99)
    series = []
    for innings, dash in ((1, ""), (2, "4 3")):
        totals = sorted((match.first if innings == 1 else match.second).runs for match in matches)
        table = summary[f"innings{innings}_total"]
        real = [(table[f"p{round(100 * share)}"], share) for share in shares]
        seen = [(float(totals[int(share * (len(totals) - 1))]), share) for share in shares]
        series += [
            Series(f"real, innings {innings}", real, "real", dash),
            Series(f"simulated, innings {innings}", seen, "simulated", dash),
        ]
    return plot("Share of innings below a total", "total", "share", series)


def _chases(matches: Sequence[MatchLog]) -> str:
    seen, series = [], []
    for sample, dash in (("train_2018on", ""), ("train_plus_2008_2017", "4 3")):
        rows = [row for row in read_rows("chase_by_target.csv") if row["sample"] == sample]
        points = [(_middle(row), float(row["chase_win_rate"])) for row in rows]
        label = "real, 2018 on" if not dash else "real, 2008 on"
        series.append(Series(label, points, "real", dash))
        if not dash:
            for row in rows:
                low, high = int(row["target_from"]), int(row["target_to"])
                band = [match.chase_won for match in matches if low <= match.first.runs + 1 <= high]
                seen.append((_middle(row), sum(band) / max(1, len(band))))
    series.append(Series("simulated", seen, "simulated", ""))
    return plot("Chases won by target", "target", "share won", series)


def _middle(row: dict[str, str]) -> float:
    low, high = int(row["target_from"]), int(row["target_to"])
    return 90.0 if low == 0 else 240.0 if high > 300 else (low + high) / 2


def _z(rows: Sequence[Compared]) -> str:
    ordered = sorted(abs(row.z) for row in rows)
    n = len(ordered)
    seen = [(value, (at + 0.5) / n) for at, value in enumerate(ordered)]
    chance = [(x / 20, math.erf(x / 20 / math.sqrt(2))) for x in range(0, 61)]
    series = [Series("pure chance", chance, "real", ""), Series("simulated", seen, "simulated", "")]
    return plot("Share of statistics within so many standard deviations", "|z|", "share", series)


def _calibration(cells: Sequence[tuple[float, float, int]]) -> str:
    deciles = calibration(cells)
    series = [
        Series("perfect", [(0.0, 0.0), (1.0, 1.0)], "real", "4 3"),
        Series("forecast", [(seen, real) for seen, real, _ in deciles], "simulated", ""),
    ]
    return plot("Chases won against the forecast chance", "forecast", "won", series)


def calibration(cells: Sequence[tuple[float, float, int]]) -> list[tuple[float, float, int]]:
    """Return mean forecast, share won and states, by tenth of the forecast."""
    rows = []
    for tenth in range(10):
        band = [cell for cell in cells if tenth / 10 <= cell[0] < (tenth + 1) / 10 + (tenth == 9)]
        states = sum(n for _, _, n in band)
        if states:
            rows.append(
                (
                    sum(seen * n for seen, _, n in band) / states,
                    sum(real * n for _, real, n in band) / states,
                    states,
                )
            )
    return rows


def _page(
    rows: Sequence[Compared],
    cells: Sequence[tuple[float, float, int]],
    held: Sequence[HeldOutLoss],
    matches: int,
    seed: int,
) -> str:
    rms = math.sqrt(sum(row.z**2 for row in rows) / len(rows))
    mean = sum(abs(row.simulated - row.real) / row.noise for row in rows) / len(rows)
    states = sum(n for _, _, n in cells)
    bias = sum((seen - real) * n for seen, real, n in cells) / states
    off = math.sqrt(sum((seen - real) ** 2 * n for seen, real, n in cells) / states)
    model = json.loads(MODEL_FILE.read_text(encoding="utf-8"))
    text = (Path(__file__).parent / "realism.md").read_text(encoding="utf-8")
    figures = {
        "matches": str(matches),
        "seed": str(seed),
        "statistics": str(len(rows)),
        "rms": f"{rms:.2f}",
        "mean": f"{mean:.2f}",
        "beyond2": str(sum(abs(row.z) > 2 for row in rows)),
        "effect": " and ".join(f"{sd:.3f}" for sd in model["profiles"]["men"]["effect_sd"]),
        "states": f"{states:,}",
        "cells": str(len(cells)),
        "bias": f"{bias:+.3f}",
        "off": f"{off:.3f}",
        "held": "\n".join(
            f"| {one.innings} | {one.surface:.4f} | {one.table:.4f} | {one.phase:.4f} | {one.deliveries:,} |"
            for one in held
        ),
        "calibration": "\n".join(f"| {a:.3f} | {b:.3f} | {n:,} |" for a, b, n in calibration(cells)),
        "worst": _table(rows[:15]),
        "all": _table(sorted(rows, key=lambda row: row.name)),
    }
    for name, value in figures.items():
        text = text.replace("{{" + name + "}}", value)
    return text


def _table(rows: Sequence[Compared]) -> str:
    lines = ["| statistic | real | simulated | chance in 658 matches | z |", "|---|---|---|---|---|"]
    lines += [
        f"| {row.name} | {row.real:.4g} | {row.simulated:.4g} | {row.noise:.2g} | {row.z:+.1f} |"
        for row in rows
    ]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.cricket_model.realism_report", description=main.__doc__
    )
    parser.add_argument("--matches", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs/reports"), help="folder of the page")
    chosen = parser.parse_args(argv)
    write(chosen.out, chosen.matches, chosen.seed)


if __name__ == "__main__":
    main()
