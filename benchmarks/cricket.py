"""Owns the figures of the cricket world: deliveries a second, and what a step costs.

``python -m benchmarks.cricket`` prints them; CPU time of one thread, so that other work on the machine counts
as little as it can.
"""

from __future__ import annotations

import time
from statistics import median

from benchmarks.figures import HEADER, Figure
from spectator.environments.base import derive_seed
from spectator.environments.cricket import WORLD
from spectator.environments.cricket.environment import CricketEnvironment
from spectator.environments.cricket.simulate import simulate_matches
from spectator.policies.base import ScriptedPolicy

MATCHES = 60
EPISODES = 8


def machine_loop() -> float:
    """Nanoseconds that this machine takes for one turn of an empty Python loop: its own speed, just now."""
    began = time.thread_time()
    for _ in range(2_000_000):
        pass
    return (time.thread_time() - began) / 2_000_000 * 1e9


def deliveries_a_second() -> Figure:
    """Whole 20-over matches through the engine under the default captains, one JSON object a delivery."""
    for _ in simulate_matches(2, 20, 0):
        pass
    began = time.thread_time()
    bowled = sum(1 for _ in simulate_matches(MATCHES, 20, 1))
    rate = bowled / (time.thread_time() - began)
    return Figure(
        "deliveries a second, one core", f"{rate:,.0f}", ">= 30,000", f"{machine_loop():.0f} ns a loop"
    )


def step_costs() -> list[Figure]:
    """Medians of one environment step under two heuristic captains, balls apart from all other tools."""
    balls: list[float] = []
    others: list[float] = []
    for seed in range(EPISODES):
        environment = CricketEnvironment()
        observation = environment.reset(
            seed=seed, episode_id="bench", options=WORLD.options_type().model_dump()
        )
        captains: dict[str, ScriptedPolicy] = {}
        for side in WORLD.actors:
            policy = WORLD.captains["tactician"].build(derive_seed(seed, "policy", side))
            assert isinstance(policy, ScriptedPolicy)
            captains[side] = policy
        while not observation.done:
            action = captains[observation.actor or ""].choose(observation).action
            began = time.thread_time()
            observation = environment.step(action)
            (balls if action["tool"] == "play_delivery" else others).append(time.thread_time() - began)
            environment.facts()
    limit = f"{machine_loop():.0f} ns a loop"
    return [
        Figure("cricket step, a ball, median", f"{median(balls) * 1e6:.0f} us", "< 120 us", limit),
        Figure("cricket step, any other tool, median", f"{median(others) * 1e6:.0f} us", "< 60 us", limit),
    ]


def measure() -> list[Figure]:
    """All of them."""
    return [deliveries_a_second(), *step_costs()]


def main() -> None:
    """Measure and print."""
    print(HEADER)
    for figure in measure():
        print(figure.row())


if __name__ == "__main__":
    main()
