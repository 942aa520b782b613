"""The figures of the collider world: cheap steps a second, a reference episode, the import, and null claims.

``python -m benchmarks.collider`` prints them; CPU time of one thread. ``--nulls N`` counts how often the
reference physicist claims where there is nothing, over N campaigns of each kind of null.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median, quantiles
from typing import Any

from spectator.environments.collider.environment import ColliderEnvironment
from spectator.environments.collider.policies.reference import ReferencePhysicist

NULLS = ("null", "null_with_fluctuation", "trigger_bump")


def cheap_steps(number: int = 3_000) -> float:
    """Steps per CPU second of actions that compute nothing, four in six accepted, resets included."""
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
    """CPU seconds of the world in one reference episode, and its steps."""
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
    """CPU seconds until a fresh process has imported the world."""
    code = (
        "import time; t = time.process_time(); import spectator.environments.collider.world; "
        "print(time.process_time() - t)"
    )
    return min(
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(3)
    )


def null_claims(number: int) -> Iterator[str]:
    """How often the reference physicist claims where there is nothing."""
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
        found, hinted = kinds.count("discovery"), kinds.count("evidence")
        yield (
            f"| false claims, {scenario} | {found} discoveries ({100 * found / number:.2f} %), "
            f"{hinted} of evidence ({100 * hinted / number:.2f} %) in {number} | three tiers in turn |"
        )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nulls", type=int, default=0, help="campaigns of each kind of null")
    asked = parser.parse_args()
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
    for row in null_claims(asked.nulls) if asked.nulls else ():
        print(row, flush=True)


if __name__ == "__main__":
    main()
