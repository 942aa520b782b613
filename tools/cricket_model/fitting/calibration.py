"""Calibrate by simulation: shared effects, short innings, scoring levels and profiles."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spectator.environments.cricket.forecast.arrays import InningsTotals, ModelArrays
from spectator.environments.cricket.forecast.batch_innings import play
from tools.cricket_model.fitting import raking
from tools.cricket_model.fitting.assembly import LEVEL_EFFECTS, SHORT_DIRECTION, shifted
from tools.cricket_model.fitting.counts import CATEGORIES, PHASES, Floats, read_json
from tools.cricket_model.fitting.population import draw_population
from tools.cricket_model.fitting.raking import Parameters, Spread, Tallies
from tools.cricket_model.fitting.selection import BowlerSelection

SIZE = len(CATEGORIES)
MATCH_OF_INNINGS = 1.0
"""The match effect's standard deviation against the innings effect's: with equal ones the powerplays of the
two innings correlate about as much as within one season (0.23), and a powerplay with the overs after it as in
the tables (0.28)."""

SHORT_OVERS = 5
SHORT_WICKETS = 2.85
"""Wickets of a 5-over innings: the tables' 0.5 to 0.6 an over."""


@dataclass(frozen=True, slots=True)
class Simulator:
    """Simulations with fixed seeds, so that two models differ by the model alone.

    Args:
        compiled: The model without its raked tables.
        selection: Choice of bowlers by over.
        matches: Matches a simulation.
        seed: Seed of every simulation.
    """

    compiled: ModelArrays
    selection: BowlerSelection
    matches: int
    seed: int

    def with_short(self, first: list[float], chase: list[float]) -> Simulator:
        """Return the same simulator with other levers of short innings."""
        tables = replace(self.compiled.tables, short=tuple(first), short_chase=tuple(chase))
        return replace(self, compiled=replace(self.compiled, tables=tables))

    def both(
        self, parameters: Parameters, spread: Spread, tallies: Tallies | None = None, *, overs: int = 20
    ) -> tuple[InningsTotals, InningsTotals]:
        """Simulate both innings."""
        rng = np.random.default_rng(self.seed)
        population = draw_population(self.matches, rng, self.selection)
        model = raking.with_parameters(self.compiled, parameters, self.selection)
        return raking.simulate(model, population, spread, rng, tallies, overs=overs)

    def first(
        self, parameters: Parameters, spread: Spread, *, overs: int = 20, effect: float = 0.0
    ) -> InningsTotals:
        """Simulate a first innings with an extra effect."""
        rng = np.random.default_rng(self.seed)
        population = draw_population(self.matches, rng, self.selection)
        sd = float(np.hypot(spread.match, spread.innings))
        at = raking.opening(population, 0, effect + rng.normal(0.0, sd, self.matches), overs)
        return play(
            raking.with_parameters(self.compiled, parameters, self.selection), population.people, at, rng
        )


def next_spread(
    spread: Spread, ends: tuple[InningsTotals, InningsTotals], wanted: tuple[float, float]
) -> Spread:
    """Adjust the effects so that the totals of both innings have the wanted variance."""
    lacking = sum(sd**2 - float(np.var(end.runs)) for sd, end in zip(wanted, ends, strict=True)) / len(ends)
    slope = sum(float(end.runs.mean()) for end in ends) / len(ends) * _RUNS_PER_EFFECT
    innings = math.sqrt(max(1e-4, spread.innings**2 + lacking / slope**2 / (1.0 + MATCH_OF_INNINGS**2)))
    return Spread(MATCH_OF_INNINGS * innings, innings)


_RUNS_PER_EFFECT = 0.62
"""Log change of a total per unit of effect, roughly; the iteration corrects it."""


def short_levers(simulator: Simulator, parameters: Parameters, spread: Spread, total: float) -> list[float]:
    """Return logs of the levers of a 5-over innings with the expected runs and wickets."""
    runs = wickets = 0.0
    for _ in range(8):
        levers = _short(runs, wickets)
        ends = simulator.with_short(levers, levers).first(parameters, spread, overs=SHORT_OVERS)
        runs += 6.0 * float(np.log(total / ends.runs.mean()))
        wickets += 1.1 * float(np.log(SHORT_WICKETS / ends.wickets.mean()))
    return levers


def short_chase_levers(
    simulator: Simulator, parameters: Parameters, spread: Spread, first: list[float], won: float
) -> list[float]:
    """Return logs of the levers of a 5-over chase that is won as often as over 20 overs."""
    runs = 0.0
    for _ in range(8):
        levers = _short(runs, first[5])
        trial = simulator.with_short(first, levers)
        ends = trial.both(parameters, spread, overs=SHORT_OVERS)
        runs += 3.0 * (won - float((ends[1].runs > ends[0].runs).mean()))
    return levers


def _short(runs: float, wickets: float) -> list[float]:
    levers = np.array(SHORT_DIRECTION) * runs
    levers[5] += wickets
    return [round(float(value), 4) for value in levers]


def level_totals(simulator: Simulator, parameters: Parameters, spread: Spread) -> list[float]:
    """Return the mean first-innings total at each of `LEVEL_EFFECTS`."""
    return [
        round(float(simulator.first(parameters, spread, effect=effect).runs.mean()), 2)
        for effect in LEVEL_EFFECTS
    ]


def fit_profile(
    simulator: Simulator, parameters: Parameters, spread: Spread, name: str
) -> tuple[Floats, Floats, Spread]:
    """Fit a profile's logs by phase, shape ``(3, 11)`` per innings, and its spread."""
    table = read_json("other_profiles.json")[name]
    wanted = [_phase_shares(table, innings) for innings in (1, 2)]
    logs = [np.zeros((3, SIZE)), np.zeros((3, SIZE))]
    sd = table["innings1_total"]["sd"]
    for _ in range(10):
        tallies = Tallies.empty()
        played = shifted(parameters, *logs)
        ends = simulator.both(played, spread, tallies)
        for innings, counted in enumerate((tallies.first.sum(axis=1), tallies.chase.sum(axis=(1, 2)))):
            by_phase = np.stack([counted[a:b].sum(axis=0) for a, b in ((0, 6), (6, 15), (15, 20))])
            shares = by_phase / by_phase.sum(axis=1, keepdims=True)
            logs[innings] += 0.9 * np.log((wanted[innings] + 2e-4) / (shares + 2e-4))
        spread = next_spread(spread, (ends[0], ends[0]), (sd, sd))
    return logs[0], logs[1], spread


def _phase_shares(table: dict[str, Any], innings: int) -> Floats:
    rows = []
    for phase in PHASES:
        shares = table["phase"][f"inn{innings}/{phase}"]["shares"]
        row = np.array([shares[category] for category in CATEGORIES])
        row[3] += shares["5"]
        rows.append(row / row.sum())
    return np.array(rows)
