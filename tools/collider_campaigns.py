"""Measure the collider world: cheap steps a second, an episode, the import, and null claims.

``python -m tools.collider_campaigns`` prints the figures; CPU time of one thread. ``--nulls N`` counts how
often the reference physicist claims a resonance in null campaigns, over N campaigns of each kind of null.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

from spectator.environments.collider.environment import ColliderEnvironment
from spectator.environments.collider.reference_physicist import ReferencePhysicist
from tools.collider_skill import NULLS as NULLS_HEADING
from tools.collider_skill import PAGE, with_section

NULLS = ("null", "null_with_fluctuation", "trigger_bump")


@dataclass(frozen=True, slots=True)
class NullClaims:
    """Claims in null campaigns of a scenario."""

    scenario: str
    discoveries: int
    evidence: int
    campaigns: int

    def row(self) -> str:
        """Return a row of the table of figures."""
        found = upper_limit(self.discoveries, self.campaigns)
        return (
            f"| false claims, {self.scenario} | {self.discoveries} discoveries (below {100 * found:.3f} % "
            f"at 95 %), {self.evidence} of evidence ({100 * self.evidence / self.campaigns:.2f} %) "
            f"in {self.campaigns} | three tiers in turn |"
        )


def cheap_steps(number: int = 3_000) -> float:
    """Measure steps per CPU second of actions that compute nothing.

    Four in six are accepted; resets are included.
    """
    environment = ColliderEnvironment()
    actions: list[dict[str, Any]] = [
        {"tool": "allocate_luminosity", "arguments": {"luminosity_fb": 5.0}},
        {"tool": "set_trigger", "arguments": {"thresholds_gev": {"diphoton": 100.0}}},
        {"tool": "allocate_luminosity", "arguments": {"luminosity_fb": -1.0}},
        {"tool": "allocate_luminosity", "arguments": {"luminosity_fb": 6.0}},
        {"tool": "set_trigger", "arguments": {"thresholds_gev": {"diphoton": 120.0}}},
        {"tool": "scan_bump", "arguments": {"channel": "diphoton"}},
    ]
    start, done = time.process_time(), True
    for count in range(number):
        if done:
            environment.reset(seed=1, episode_id="b", options={"scenario": "mixed", "difficulty": "medium"})
            environment.step({"tool": "configure_beam", "arguments": {"sqrt_s_tev": 13.0}})
        done = environment.step(actions[count % len(actions)]).done
        environment.facts()
    return number / (time.process_time() - start)


def episode_cost(seed: int, difficulty: str) -> tuple[float, int]:
    """Return CPU seconds of the world in one reference episode, and its steps."""
    environment, policy = ColliderEnvironment(), ReferencePhysicist()
    start = time.process_time()
    observation = environment.reset(
        seed=seed, episode_id="b", options={"scenario": "mixed", "difficulty": difficulty}
    )
    steps = 0
    while not observation.done:
        observation = environment.step(policy.choose(observation).action)
        steps += 1
    return time.process_time() - start, steps


def import_seconds() -> float:
    """Return the CPU seconds of the world's import in a new process."""
    code = (
        "import time; t = time.process_time(); import spectator.environments.collider.world; "
        "print(time.process_time() - t)"
    )
    return min(
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(3)
    )


def null_claims(number: int) -> Iterator[NullClaims]:
    """Yield how often the reference physicist claims a resonance in null campaigns."""
    for scenario in NULLS:
        kinds: list[str] = []
        for seed in range(100_000, 100_000 + number):
            environment, policy = ColliderEnvironment(), ReferencePhysicist()
            options = {"scenario": scenario, "difficulty": ("medium", "hard", "expert")[seed % 3]}
            observation = environment.reset(seed=seed, episode_id="b", options=options)
            while not observation.done:
                observation = environment.step(policy.choose(observation).action)
            claim = environment.laboratory.claim
            kinds.append(claim["kind"] if claim else "none")
        yield NullClaims(scenario, kinds.count("discovery"), kinds.count("evidence"), number)


def upper_limit(found: int, number: int) -> float:
    """Return the upper limit at 95 % on a chance (Clopper and Pearson).

    Where nothing was found it is about 3 / ``number``, the rule of three.

    >>> round(upper_limit(0, 1500), 5)
    0.002
    """
    from scipy.stats import beta

    return 1.0 if found >= number else float(beta.ppf(0.95, found + 1, number - found))


def null_section(counted: Sequence[NullClaims], how: str) -> str:
    """Return the section of docs/reports/collider-skill.md on false claims."""
    together = NullClaims(
        "all three",
        sum(each.discoveries for each in counted),
        sum(each.evidence for each in counted),
        sum(each.campaigns for each in counted),
    )
    rows = [
        f"| {each.scenario} | {each.campaigns:,} | {each.discoveries} "
        f"| {100 * upper_limit(each.discoveries, each.campaigns):.3f} % "
        f"| {each.evidence} ({100 * each.evidence / each.campaigns:.2f} %) "
        f"| {100 * upper_limit(each.evidence, each.campaigns):.2f} % |"
        for each in (*counted, together)
    ]
    return "\n".join((NULL_WORDS.format(how=how), *rows))


NULL_WORDS = """Campaigns of the reference physicist in which there is nothing, in the tiers medium, hard and
expert in turn: `null` has a smooth background, `null_with_fluctuation` a first run that fluctuates up, and
`trigger_bump` a false bump that the trigger makes. The upper limits hold at 95 % (Clopper and Pearson; with
no claims, about three over the number of campaigns). Evidence is 3 sigma global, which chance alone
reaches in 0.13 %; the rest are errors of judgement, which cost it the campaign.
Written by {how}

| scenario | campaigns | discoveries | upper limit | claims of evidence | upper limit |
|---|---|---|---|---|---|"""


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nulls", type=int, default=0, help="campaigns of each kind of null")
    parser.add_argument("--page", action="store_true", help="write them to docs/reports/collider-skill.md")
    asked = parser.parse_args()
    load = os.getloadavg()[0]
    print("| figure | value | how |\n|---|---|---|")
    episode_cost(0, "medium")
    print(
        f"| cheap steps a CPU second | {max(cheap_steps() for _ in range(3)):,.0f} | best of 3 rounds |",
        flush=True,
    )
    for difficulty in ("easy", "medium", "hard"):
        costs = [episode_cost(seed, difficulty) for seed in range(30)]
        times = [1000 * cost for cost, _ in costs]
        print(
            f"| reference episode, {difficulty}, {median(steps for _, steps in costs):.0f} steps "
            f"| median {median(times):.0f} ms, p95 {quantiles(times, n=20)[-1]:.0f} ms | CPU of 30 |",
            flush=True,
        )
    print(
        f"| import of the world | {import_seconds():.2f} s | CPU in a fresh process, best of 3 |", flush=True
    )
    counted: list[NullClaims] = []
    for each in null_claims(asked.nulls) if asked.nulls else ():
        counted.append(each)
        print(each.row(), flush=True)
    if counted and asked.page:
        how = (
            f"`nice -n {os.nice(0)} python -m tools.collider_campaigns --nulls {asked.nulls} --page`\n"
            f"(one thread, {os.cpu_count()} cores; load of the machine {load:.1f} at the start, "
            f"{os.getloadavg()[0]:.1f} at the end)."
        )
        page = with_section(PAGE.read_text(encoding="utf-8"), NULLS_HEADING, null_section(counted, how))
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
