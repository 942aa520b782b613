"""Measure the cricket world: deliveries a second, a step, and a forecast.

``python -m benchmarks.cricket``. Counted is the CPU time of one thread, so that other work on the machine
matters little. Each is measured in rounds; the best round says more about the code, the median more about the
machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

import numpy as np

from benchmarks.figures import HEADER, Figure
from spectator.environments.cricket import WORLD
from spectator.environments.cricket.environment import CricketEnvironment, CricketOptions
from spectator.environments.cricket.forecast.monte_carlo import forecast
from spectator.environments.cricket.forecast.state import ForecastState
from spectator.environments.cricket.match.forecasts import forecast_state
from spectator.environments.cricket.match.starts import advance
from spectator.environments.cricket.simulation import (
    match_rows,
    open_match,
    play_out,
    simulate,
)
from spectator.environments.world import derive_seed
from spectator.policies.policy import ScriptedPolicy

ROUNDS: Final = 7
MATCHES: Final = 15
EPISODES: Final = 8
FUTURES: Final = 10_000
FORECASTS: Final = 15


def machine_loop() -> float:
    """Measure one turn of an empty Python loop, in nanoseconds."""
    began = time.thread_time()
    for _ in range(2_000_000):
        pass
    return (time.thread_time() - began) / 2_000_000 * 1e9


def deliveries_a_second() -> Figure:
    """Simulate whole 20-over matches under the default captains."""
    for _ in simulate(2, 0, CricketOptions(max_overs=20).model_dump()):
        pass
    rates = []
    for turn in range(ROUNDS):
        began = time.thread_time()
        bowled = sum(
            1 for number in range(MATCHES) for _ in match_rows(number, open_match(20, turn * 1000 + number))
        )
        rates.append(bowled / (time.thread_time() - began))
    return Figure(
        "deliveries a second through the match engine, one core",
        f"median {median(rates):,.0f}, best {max(rates):,.0f}",
        ">= 30,000",
        f"{machine_loop():.0f} ns a loop",
    )


def step_costs() -> list[Figure]:
    """Measure one environment step under two captains that plan every ball.

    Balls are counted separately from all other tools.
    """
    balls: list[float] = []
    others: list[float] = []
    for seed in range(EPISODES):
        taken = list(_steps(seed))
        balls.append(median(cost for ball, cost in taken if ball))
        others.append(median(cost for ball, cost in taken if not ball))
    limit = f"{machine_loop():.0f} ns a loop"
    return [
        Figure("step, a ball, median of a match", _microseconds(balls), "< 120 us", limit),
        Figure("step, any other tool, median of a match", _microseconds(others), "< 60 us", limit),
    ]


def _steps(seed: int) -> Iterator[tuple[bool, float]]:
    """Yield for each step whether it bowled a ball, and its seconds."""
    environment = CricketEnvironment()
    observation = environment.reset(seed=seed, episode_id="bench", options=WORLD.options_type().model_dump())
    captains: dict[str, ScriptedPolicy] = {}
    for side in WORLD.actors:
        policy = WORLD.captains["tactician"].build(derive_seed(seed, "policy", side))
        assert isinstance(policy, ScriptedPolicy)
        captains[side] = policy
    while not observation.done:
        action = captains[observation.actor or ""].choose(observation).action
        began = time.thread_time()
        observation = environment.step(action)
        yield action["tool"] == "play_delivery", time.thread_time() - began
        environment.facts()


def _microseconds(seconds: Sequence[float]) -> str:
    return f"median {median(seconds) * 1e6:.0f} us, best {min(seconds) * 1e6:.0f} us"


def forecast_costs() -> list[Figure]:
    """Measure forecasts of a fresh 5-over chase."""
    state, rng = _fresh_chase(), np.random.default_rng(1)
    forecast(state, FUTURES, rng)
    seconds, rates = [], []
    for _ in range(FORECASTS):
        began = time.thread_time()
        found = forecast(state, FUTURES, rng)
        seconds.append(time.thread_time() - began)
        rates.append(found.deliveries / seconds[-1] / 1e6)
    limit = f"{machine_loop():.0f} ns a loop"
    return [
        Figure(
            f"forecast of {FUTURES:,} futures of a fresh 5-over chase",
            f"median {median(seconds) * 1e3:.0f} ms, best {min(seconds) * 1e3:.0f} ms",
            "< 50 ms",
            limit,
        ),
        Figure(
            "forecast, simulated deliveries a second",
            f"median {median(rates):.1f} million, best {max(rates):.1f} million",
            ">= 3 million",
            limit,
        ),
    ]


def _fresh_chase() -> ForecastState:
    """Return a 5-over match after its first innings, the openers in."""
    match = open_match(5, 1)
    for _ in play_out(match):
        if match.awaited == "innings" and match.number == 1:
            break
    match.close_innings()
    advance(match)
    advance(match)
    state = forecast_state(match)
    assert state is not None
    return state


def measure() -> list[Figure]:
    """Return all figures."""
    return [deliveries_a_second(), *step_costs(), *forecast_costs()]


def main() -> None:
    """Measure and print."""
    print(HEADER)
    for figure in measure():
        print(figure.row())


if __name__ == "__main__":
    main()
