"""Learn to play the collider by the cross-entropy method, and plot the learning curve.

``nice -n 10 python -m tools.collider_learner --minutes 3 --page`` learns, prints the score by iteration next
to those of the random, heuristic and reference physicists on fresh seeds, and with ``--page`` writes the
curve to docs/reports/collider-skill/ and its section of docs/reports/collider-skill.md. It uses at most two
processes.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider.scenarios import TIERS
from tools.collider_physicists import (
    SIZE,
    Decisions,
    TunablePhysicist,
    decisions_of,
)
from tools.collider_skill import LEARNING, PAGE, POLICIES, campaign, mean_of, with_section
from tools.collider_validation.drawing import Chart, Layer, draw

Vector = NDArray[np.float64]

CANDIDATES, CAMPAIGNS, ELITE = 20, 5, 5
"""Per iteration: decisions tried, campaigns of each, and decisions to learn from."""

MEAN_RATE, SPREAD_RATE, LEAST_SPREAD = 0.6, 0.3, 0.15
"""Rates of mean and spread towards those of the elite, and the least spread."""

EVERY = 5
"""Iterations between two measurements on fresh seeds."""

FRESH_FROM, TRAINING_FROM = 700_000, 800_000
"""First seeds of the measurement and of the training."""

CURVE = PAGE.parent / "collider-skill" / "learner.svg"


@dataclass(frozen=True, slots=True)
class LearningPoint:
    """The learner after some iterations.

    Args:
        iteration: Number of iterations.
        campaigns: Campaigns learnt from so far.
        tried: Mean score of the decisions tried in the last of them; NaN before the first.
        scores: Scores of the mean decisions on fresh seeds.
    """

    iteration: int
    campaigns: int
    tried: float
    scores: Sequence[float]


@dataclass(frozen=True, slots=True)
class Belief:
    """A normal distribution over decisions, independent for each number."""

    mean: Vector
    spread: Vector

    def drawn(self, number: int, source: np.random.Generator) -> Vector:
        """Draw ``number`` decisions, one row each."""
        return np.asarray(self.mean + self.spread * source.standard_normal((number, len(self.mean))))

    def learnt(self, tried: Vector, scores: Sequence[float]) -> Belief:
        """Return the belief moved towards the best ``ELITE`` of the rows of ``tried``."""
        best = tried[np.argsort(scores)[::-1][:ELITE]]
        mean = self.mean + MEAN_RATE * (best.mean(axis=0) - self.mean)
        spread = self.spread + SPREAD_RATE * (best.std(axis=0) - self.spread)
        return Belief(mean, np.maximum(spread, LEAST_SPREAD))


def score_of(numbers: Sequence[float], seed: int, tier: str) -> float:
    """Return the score of one campaign with the decisions in ``numbers``."""
    return campaign(TunablePhysicist(decisions_of(numbers)), seed, tier).score


def baseline_score(name: str, seed: int, tier: str) -> float:
    """Return the score of one campaign of a physicist of the skill table."""
    return campaign(dict(POLICIES)[name](seed), seed, tier).score


def learn(
    workers: Executor, tier: str, fresh: Sequence[int], ends: float, source: np.random.Generator
) -> Iterator[tuple[LearningPoint, Belief]]:
    """Learn until ``ends``; yields points at the start, on the way and at the end."""
    belief, seed, tried_mean = Belief(np.zeros(SIZE), np.ones(SIZE)), TRAINING_FROM, float("nan")
    count = marked = 0

    def mark() -> tuple[LearningPoint, Belief]:
        scores = _scores(workers, [belief.mean.tolist()], fresh, tier)
        return LearningPoint(count, count * CANDIDATES * CAMPAIGNS, tried_mean, scores), belief

    yield mark()
    while time.monotonic() < ends:
        tried = belief.drawn(CANDIDATES, source)
        scores = np.reshape(
            _scores(workers, tried.tolist(), range(seed, seed + CAMPAIGNS), tier), (CANDIDATES, CAMPAIGNS)
        )
        seed, count, tried_mean = seed + CAMPAIGNS, count + 1, float(scores.mean())
        belief = belief.learnt(tried, scores.mean(axis=1).tolist())
        if count % EVERY == 0:
            marked = count
            yield mark()
    if count > marked:
        yield mark()


def _scores(
    workers: Executor, rows: Sequence[Sequence[float]], seeds: Sequence[int], tier: str
) -> list[float]:
    """Return the scores of each row on each seed, row by row."""
    pairs = [(row, seed) for row in rows for seed in seeds]
    numbers, chosen = [row for row, _ in pairs], [seed for _, seed in pairs]
    return list(workers.map(score_of, numbers, chosen, [tier] * len(pairs), chunksize=5))


def chart_of(marks: Sequence[LearningPoint], baselines: dict[str, list[float]], tier: str) -> str:
    """Return the curve as SVG."""
    last = marks[-1].campaigns
    learner = [(float(mark.campaigns), float(np.mean(mark.scores))) for mark in marks]
    errors = [1.96 * float(np.std(mark.scores, ddof=1)) / len(mark.scores) ** 0.5 for mark in marks]
    colours = {"random": "#999999", "heuristic": "#c77700", "reference": "#2a8a4a"}
    flat = [
        Layer(name, [(0.0, float(np.mean(scores))), (float(last), float(np.mean(scores)))], "line",
              colours[name], dash="6 4")
        for name, scores in baselines.items()
    ]  # fmt: skip
    learnt = [
        Layer("learner", learner, "line"),
        Layer("", learner, "points", errors=errors),
    ]
    return draw(
        Chart(
            f"A learner at the collider, {tier}", "campaigns learnt from", "score on fresh seeds",
            [*flat, *learnt], y_range=(0.0, 1.0),
        )
    )  # fmt: skip


def table_of(marks: Sequence[LearningPoint], baselines: dict[str, list[float]]) -> list[str]:
    """Return the rows of the table."""
    rows = ["| who | iteration | campaigns learnt from | mean of those tried | score on fresh seeds |"]
    rows.append("|---|---|---|---|---|")
    for mark in marks:
        tried = "-" if np.isnan(mark.tried) else f"{mark.tried:.3f}"
        rows.append(f"| learner | {mark.iteration} | {mark.campaigns:,} | {tried} | {mean_of(mark.scores)} |")
    return rows + [f"| {name} | - | - | - | {mean_of(scores)} |" for name, scores in baselines.items()]


def section(table: Sequence[str], learnt: Decisions, how: str) -> str:
    """Return the section of the page."""
    decided = ", ".join(f"`{name}` {_decision_text(getattr(learnt, name))}" for name in Decisions.__slots__)
    return "\n".join([WORDS.format(how=how), *table, "", f"What it decides in the end: {decided}."])


def _decision_text(value: float | bool | str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value or "left to the library" if isinstance(value, str) else f"{value:.3g}"


WORDS = f"""The cross-entropy method over the {SIZE} numbers of `tools/collider_physicists.py`: shares of the
resources for two runs, weight of the beam energy, trigger threshold of each run, cut, channels, background
function, which excesses are followed, examined, called evidence or a discovery, quoted error, and whether to
calibrate, compare runs, measure the spin and set limits. It starts in the middle of all
ranges. An iteration tries {CANDIDATES} decisions in {CAMPAIGNS} campaigns each, the same for all, and moves
towards the best {ELITE}. Fresh seeds are never learnt from; the score there is that of the mean decisions,
with a 95 % interval, and the others play the same seeds. Written by {{how}}

![Learning curve](collider-skill/learner.svg)
"""


def main() -> None:
    """Learn, print, and write the page if ``--page`` is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0, help="time to learn")
    parser.add_argument("--tier", choices=list(TIERS), default="medium")
    parser.add_argument("--fresh", type=int, default=60, help="seeds of the measurement")
    parser.add_argument("--workers", type=int, choices=(1, 2), default=2, help="processes")
    parser.add_argument("--seed", type=int, default=1, help="seed of the decisions tried")
    parser.add_argument("--page", action="store_true", help="write the curve and its section")
    asked = parser.parse_args()
    fresh, load = range(FRESH_FROM, FRESH_FROM + asked.fresh), os.getloadavg()[0]
    marks: list[LearningPoint] = []
    with ProcessPoolExecutor(asked.workers) as workers:
        ends = time.monotonic() + 60.0 * asked.minutes
        for mark, now in learn(workers, asked.tier, fresh, ends, np.random.default_rng(asked.seed)):
            marks.append(mark)
            belief = now
            print(f"{mark.iteration:4d} {mark.tried:6.3f} {mean_of(mark.scores)}", flush=True)
        baselines = {
            name: list(workers.map(baseline_score, [name] * len(fresh), fresh, [asked.tier] * len(fresh)))
            for name in ("random", "heuristic", "reference")
        }
    table = table_of(marks, baselines)
    print("\n".join(table))
    if asked.page:
        processes = "1 process" if asked.workers == 1 else f"{asked.workers} processes"
        how = (
            f"`nice -n {os.nice(0)} python -m tools.collider_learner --minutes {asked.minutes:g} "
            f"--workers {asked.workers} --page`\n(tier {asked.tier}, {processes}, {os.cpu_count()} cores; "
            f"load of the machine {load:.1f} at the start, {os.getloadavg()[0]:.1f} at the end)."
        )
        CURVE.parent.mkdir(exist_ok=True)
        CURVE.write_text(chart_of(marks, baselines, asked.tier), encoding="utf-8")
        words = section(table, decisions_of(belief.mean.tolist()), how)
        page = with_section(PAGE.read_text(encoding="utf-8"), LEARNING, words)
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
