"""Measure the coverage of the built-in entries of the collider league, and show a board of 100 experiments.

``python -m tools.collider_league`` writes docs/reports/collider-league.md: the coverage of each entry over
2,000 pseudo-experiments, in ranges of the true strength and of the largest nuisance parameter, and the board
of a development league with three more entries, which show what the score rewards.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from spectator.environments.collider.league import (
    BUILT_IN,
    DEVELOPMENT,
    League,
    LeagueEntry,
    LeagueFigure,
    LeagueTruth,
    PseudoExperiment,
    built_in_entry,
    enter,
    make_league,
    score_entries,
)

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "reports" / "collider-league.md"

STRENGTHS: Final = ((0.0, 0.5), (0.5, 1.0), (1.0, 2.0), (2.0, 3.0))
"""Ranges of the true strength."""

PULLS: Final = ((0.0, 1.25), (1.25, 1.75), (1.75, 9.0))
"""Ranges of the nuisance parameter that is farthest off, in standard errors."""


def counting(league: League, experiment: PseudoExperiment) -> tuple[float, float]:
    """Count events within 4 GeV of the peak, and ignore every nuisance parameter."""
    centres = np.array(league.edges[:-1]) + 0.5
    near = abs(centres - 125.0) < 4.0
    seen = float(np.array(experiment.counts)[near].sum())
    signal, background = (float(np.array(one)[near].sum()) for one in (league.signal, league.background))
    mu, error = (seen - background) / signal, math.sqrt(max(seen, 1.0)) / signal
    return mu - error, mu + error


def doubled(league: League, entry: LeagueEntry) -> LeagueEntry:
    """Return intervals that are twice as wide as those of an entry."""
    ends = {one.id: (one.low, one.high) for one in entry.intervals}

    def wider(_: League, experiment: PseudoExperiment) -> tuple[float, float]:
        low, high = ends[experiment.id]
        half = (high - low) / 2.0
        return low - half, high + half

    return enter(league, "toys, twice as wide", wider)


def share(covered: Sequence[bool]) -> str:
    """Return a coverage with its exact interval; bold where 68.27 % is outside."""
    from scipy.stats import binomtest

    if not covered:
        return "-"
    hits, number = sum(covered), len(covered)
    ends = binomtest(hits, number).proportion_ci(0.95, "exact")
    words = f"{100 * hits / number:.1f} ({100 * ends.low:.1f} to {100 * ends.high:.1f})"
    return words if ends.low <= 0.6827 <= ends.high else f"**{words}**"


def coverage_rows(truth: LeagueTruth, entries: Sequence[LeagueEntry]) -> list[str]:
    """Return the table of coverages: all experiments, then ranges of strengths and pulls."""
    mu = [one.mu for one in truth.experiments]
    pull = [max(map(abs, one.nuisances.values())) for one in truth.experiments]
    ranges = [("all", mu, (-1.0, 99.0))]
    ranges += [(f"{low:g} <= mu < {high:g}", mu, (low, high)) for low, high in STRENGTHS]
    ranges += [(f"{low:g} <= largest pull < {high:g}", pull, (low, high)) for low, high in PULLS]
    lines = [f"| experiments | number | {' | '.join(one.name for one in entries)} |"]
    lines.append("|---|---|" + "---|" * len(entries))
    for words, values, (low, high) in ranges:
        chosen = [number for number, value in enumerate(values) if low <= value < high]
        cells = [
            share([one.intervals[at].low <= mu[at] <= one.intervals[at].high for at in chosen])
            for one in entries
        ]
        lines.append(f"| {words} | {len(chosen):,} | {' | '.join(cells)} |")
    return lines


def board_rows(league: League, truth: LeagueTruth, entries: Sequence[LeagueEntry]) -> list[str]:
    """Return the board as a table."""
    lines = ["| rank | entry | coverage, % | mean width | score |", "|---|---|---|---|---|"]
    for one in score_entries(league, truth, entries):
        cells = (_figure(one.coverage, 1, 100.0), _figure(one.width, 3), _figure(one.score, 2))
        lines.append(f"| {one.rank} | {one.name} | {' | '.join(cells)} |")
    return lines


def _figure(figure: LeagueFigure, digits: int, scale: float = 1.0) -> str:
    value, low, high = (f"{scale * one:.{digits}f}" for one in (figure.value, figure.low, figure.high))
    return f"{value} ({low} to {high})"


WORDS: Final = """# The collider league

Written by `{how}`; do not edit.
[Evaluation](../evaluation.md#the-collider-league) says how to enter.

## The built-in entries cover
Coverage in % over {number:,} pseudo-experiments, which should be 68.27, with exact 95 % intervals; bold where
68.27 is outside. The strengths are uniform from 0 to 3 and the nuisance parameters standard normal.

{coverage}

`bayesian` covers on average over its prior, which is that of the truth, and not at each strength. `toys`
covers at each strength, on average over the nuisance parameters; the error of its toys is about 0.4 %.
`asymptotic` covers as well while the counts are this large; its intervals near 0 are cut, and some are the
point 0. If a nuisance parameter is far off, less coverage is expected: one experiment cannot show how far.

## A board of {experiments} experiments
`counting` counts events near the peak and ignores all nuisance parameters; `anything goes` always answers
0 to 3. The score is the quantile score of the FAIR Universe HiggsML uncertainty challenge
([arXiv:2410.02867](https://arxiv.org/abs/2410.02867)).

{board}
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=2000, help="experiments of the coverage")
    parser.add_argument("--experiments", type=int, default=100, help="experiments of the board")
    parser.add_argument("--seed", type=int, default=1, help="seed of the development leagues")
    parser.add_argument("--page", type=Path, default=PAGE, help="where to write the report")
    asked = parser.parse_args(argv)
    league, truth = make_league(f"{DEVELOPMENT}{asked.seed}", asked.number)
    coverage = coverage_rows(truth, [built_in_entry(league, name) for name in BUILT_IN])
    league, truth = make_league(f"{DEVELOPMENT}{asked.seed}", asked.experiments)
    entries = {name: built_in_entry(league, name) for name in BUILT_IN}
    more = [
        enter(league, "counting", counting),
        enter(league, "anything goes", lambda league, _: league.mu_range),
        doubled(league, entries["toys"]),
    ]
    page = WORDS.format(
        how="python -m tools.collider_league", number=asked.number, experiments=asked.experiments,
        coverage="\n".join(coverage), board="\n".join(board_rows(league, truth, [*entries.values(), *more])),
    )  # fmt: skip
    asked.page.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
