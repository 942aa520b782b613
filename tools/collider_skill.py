"""Write docs/reports/collider-skill.md: scores by tier and policy, and the value of each action.

Run ``python -m tools.collider_skill`` after a change of rules, tiers or policies; it takes ten minutes.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spectator.environments.collider.environment import ColliderEnvironment
from spectator.environments.collider.physicists import (
    HeuristicPhysicist,
    OraclePhysicist,
    RandomPhysicist,
)
from spectator.environments.collider.reference_physicist import ReferencePhysicist
from spectator.environments.collider.scenarios import TIERS
from spectator.policies.policy import ScriptedPolicy, SeesTruth
from tools.collider_looks import Unoffered
from tools.collider_physicists import BlindPhysicist, BlindScript, drawn, varied

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reports" / "collider-skill.md"

BOUND = "What of the oracle's lead can be had"
LEARNING = "What a learner finds"
NULLS = "Claims where there is nothing"
"""Headings of sections written by other tools; this tool keeps them."""

ABILITIES = (
    ("channels", "look at the first channel only"),
    ("follow_up", "one run instead of a survey and two follow-ups"),
    ("set_trigger", "thresholds as quoted instead of those that suit the window"),
    ("optimise_selection", "no cut on the score"),
    ("subtract_background", "let the library choose the background function"),
    ("calibrate_detector", "no calibration"),
    ("cross_check", "no second threshold and no comparison of runs"),
    ("measure_angular", "no decay angles"),
    ("request_theory_review", "guess how rates grow with energy"),
    ("set_limit", "no limits"),
)


@dataclass(frozen=True, slots=True)
class CampaignResult:
    """Result of one campaign."""

    score: float
    is_null: bool
    kind: str
    discovered: bool
    right_mass: bool


def campaign(policy: ScriptedPolicy, seed: int, difficulty: str, scenario: str = "mixed") -> CampaignResult:
    """Play one campaign."""
    environment = ColliderEnvironment() if isinstance(policy, RandomPhysicist) else Unoffered()
    observation = environment.reset(
        seed=seed, episode_id="skill", options={"scenario": scenario, "difficulty": difficulty}
    )
    if isinstance(policy, SeesTruth):
        policy.see(environment.snapshot())
    while not observation.done:
        observation = environment.step(policy.choose(observation).action)
    claim, state = environment.laboratory.claim, environment.state
    return CampaignResult(
        observation.reward,
        not environment.truth()["particles"],
        claim["kind"] if claim else "none",
        bool(state["discovered"]),
        bool(state["correct_mass"]),
    )


def mean_of(scores: Sequence[float]) -> str:
    """Format a mean with its 95 % interval."""
    values = np.array(scores)
    return f"{values.mean():.3f} ± {1.96 * values.std(ddof=1) / math.sqrt(len(values)):.3f}"


def share(results: Sequence[bool]) -> str:
    """Format a share in per cent."""
    return f"{100.0 * sum(results) / len(results):.0f} %" if results else "-"


POLICIES: tuple[tuple[str, Callable[[int], ScriptedPolicy]], ...] = (
    ("random", RandomPhysicist),
    ("heuristic", lambda seed: HeuristicPhysicist()),
    ("reference", lambda seed: ReferencePhysicist()),
    ("oracle", lambda seed: OraclePhysicist()),
)


def skill_table(seeds: Sequence[int]) -> list[str]:
    """Return the rows of tier by policy."""
    rows = [
        "| tier | policy | score | discovered | mass right | nothing discovered | nothing, as evidence |",
        "|---|---|---|---|---|---|---|",
    ]
    for tier in TIERS:
        for name, make in POLICIES:
            results = [campaign(make(seed), seed, tier) for seed in seeds]
            signals = [each for each in results if not each.is_null]
            nulls = [each for each in results if each.is_null]
            rows.append(
                f"| {tier} | {name} | {mean_of([each.score for each in results])} "
                f"| {share([each.discovered for each in signals])} "
                f"| {share([each.right_mass for each in signals])} "
                f"| {share([each.kind == 'discovery' for each in nulls])} "
                f"| {share([each.kind == 'evidence' for each in nulls])} |"
            )
    return rows


def ablation_table(seeds: Sequence[int], tier: str) -> list[str]:
    """Return what the reference loses without each ability, paired by seed."""
    whole = np.array([campaign(ReferencePhysicist(), seed, tier).score for seed in seeds])
    rows = [f"| without | what it does instead | loss of score in {tier} |", "|---|---|---|"]
    for ability, instead in ABILITIES:
        without = np.array([campaign(ReferencePhysicist((ability,)), seed, tier).score for seed in seeds])
        rows.append(f"| `{ability}` | {instead} | {mean_of(list(whole - without))} |")
    return rows


def search_blind(
    tier: str, rounds: int, seeds: Sequence[int], fresh: Sequence[int]
) -> tuple[BlindScript, list[float]]:
    """Return the best script that ignores the data, and its scores on fresh seeds."""
    source = random.Random(1)

    def worth(script: BlindScript) -> float:
        return sum(campaign(BlindPhysicist(script), seed, tier).score for seed in seeds)

    best = BlindScript()
    most = worth(best)
    for number in range(rounds):
        tried = drawn(source) if number % 2 else varied(best, source)
        found = worth(tried)
        if found > most:
            best, most = tried, found
    return best, [campaign(BlindPhysicist(best), seed, tier).score for seed in fresh]


def section_of(page: str, heading: str) -> str:
    """Return the text below a second-level heading; empty if there is none."""
    _, found, rest = f"\n{page}".partition(f"\n## {heading}\n")
    return rest.partition("\n## ")[0].strip("\n") if found else ""


def with_section(page: str, heading: str, words: str) -> str:
    """Return ``page`` with ``words`` below a second-level heading, replaced or appended."""
    section = f"## {heading}\n\n{words.strip()}\n"
    before, found, rest = f"\n{page}".partition(f"\n## {heading}\n")
    if not found:
        return f"{page.rstrip()}\n\n{section}"
    _, more, after = rest.partition("\n## ")
    return f"{before}\n{section}\n## {after}"[1:] if more else f"{before}\n{section}"[1:]


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="campaigns of each cell")
    parser.add_argument(
        "--rounds", type=int, default=60, help="scripts tried in the search for a blind policy"
    )
    asked = parser.parse_args()
    seeds = range(50_000, 50_000 + asked.seeds)
    lines = [HEAD.format(seeds=asked.seeds), *skill_table(seeds), "", ABLATION]
    lines += [*ablation_table(seeds, "medium"), "", *ablation_table(seeds, "expert"), ""]
    lines += [BLIND.format(rounds=asked.rounds)]
    lines += ["| tier | best blind script found | its score on fresh seeds |", "|---|---|---|"]
    for tier in TIERS:
        best, scores = search_blind(tier, asked.rounds, range(60_000, 60_012), seeds[:100])
        words = f"ends with `{best.ending}`, {best.channels} channels, {best.share:.0%} of the budget"
        lines.append(f"| {tier} | {words} | {mean_of(scores)} |")
    page, old = "\n".join(lines) + "\n", PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    for heading in (LEARNING, NULLS, BOUND):
        if words := section_of(old, heading):
            page = with_section(page, heading, words)
    PAGE.write_text(page, encoding="utf-8")


HEAD = """# What skill is worth at the collider

Written by `python -m tools.collider_skill`; do not edit. Each figure is a mean over {seeds} seeds of the
scenario `mixed` with its 95 % interval; the seeds are the same for all policies. `random` draws actions and
arguments; `heuristic` follows one plan in two channels; `reference` decides by what it sees (a survey of all
channels, a follow-up of the best excess at other trigger thresholds, doubt, measurement); `oracle` knows the
truth and only has to measure it. The last two columns are shares of the campaigns in which there is nothing.
"""

ABLATION = """## What each action is worth

The reference physicist without one ability, against itself on the same seeds: what it loses.
"""

BLIND = """## What ignores the data

A search over scripts that ignore the data: beam, thresholds, runs, cuts, functions, and an
ending that is fixed beforehand. {rounds} are tried in each tier, the best on 12 seeds is played on others.
`python -m tools.collider_search` looks for longer.
"""

if __name__ == "__main__":
    main()
