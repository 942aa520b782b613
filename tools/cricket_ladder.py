"""Rate cricket's captains.

``python -m tools.cricket_ladder`` plays every captain against the percentage captain, from both seats of
every seed, and rates them by their share of wins (Elo: 400 times the decimal logarithm of the odds, 1,000 for
the percentage captain).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.environment import CricketEnvironment
from spectator.environments.cricket.oracle import OracleCaptain
from spectator.environments.world import derive_seed
from spectator.observations import Observation
from spectator.policies.policy import Action, ScriptedPolicy
from tools.cricket_search import WinShare

USUAL: Final = "heuristic"
BASE_RATING: Final = 1000.0

Chooser = Callable[[CricketEnvironment, Observation], Action]
Build = Callable[[int], Chooser]


@dataclass(frozen=True, slots=True)
class Rated:
    """A rated captain.

    Args:
        score: Wins against the percentage captain.
        rating: Rating, and the ends of its 95 % interval.
    """

    score: WinShare
    rating: tuple[float, float, float]

    def row(self) -> str:
        """Return a row of a Markdown table."""
        middle, low, high = self.rating
        return (
            f"| {self.score.name} | {middle:.0f} | {low:.0f} to {high:.0f} | {self.score.share:.3f} "
            f"± {1.96 * self.score.error:.3f} | {2 * self.score.pairs:,} |"
        )


def chooser(name: str, seed: int) -> Chooser:
    """Return one of the world's captains as a function of world and observation."""
    policy = {**WORLD.captains, **WORLD.opponents}[name].build(seed)
    if isinstance(policy, OracleCaptain):
        oracle = policy

        def see(world: CricketEnvironment, observation: Observation) -> Action:
            oracle.see(world.snapshot())
            return oracle.answer(observation).action

        return see
    assert isinstance(policy, ScriptedPolicy)
    return scripted(policy)


def scripted(policy: ScriptedPolicy) -> Chooser:
    """Return a scripted captain as such a function."""

    def choose(world: CricketEnvironment, observation: Observation) -> Action:
        return policy.choose(observation).action

    return choose


def share(build: Build, side: str, seed: int, overs: int) -> float:
    """Play one match against the percentage captain; returns the share of ``side``."""
    world = CricketEnvironment()
    options = WORLD.options_type.model_validate({"max_overs": overs}).model_dump()
    observation = world.reset(seed=seed, episode_id="ladder", options=options)
    mine, usual = build(derive_seed(seed, "mine")), chooser(USUAL, derive_seed(seed, "usual"))
    winner: str | None = None
    while not observation.done:
        chosen = (mine if observation.actor == side else usual)(world, observation)
        observation = world.step(chosen)
        for fact in world.facts():
            if fact.type == "cricket.match_ended":
                winner = fact.data["winner"]
    return 0.5 if winner is None else float(winner == side)


def contest(name: str, build: Build, overs: int, pairs: int, seed: int) -> WinShare:
    """Play a captain against the percentage captain, from both seats of every seed."""
    shares = []
    for number in range(pairs):
        match_seed = derive_seed(seed, "ladder", number)
        shares.append(sum(share(build, side, match_seed, overs) for side in WORLD.actors) / 2)
    return WinShare.of(name, shares)


def rated(score: WinShare) -> Rated:
    """Return the rating of a share of wins."""
    ends = (score.share, score.share - 1.96 * score.error, score.share + 1.96 * score.error)
    middle, low, high = (BASE_RATING + 400.0 * math.log10(odds(one)) for one in ends)
    return Rated(score, (middle, low, high))


def odds(one: float) -> float:
    """Return the odds of a share of wins, clipped away from certainty."""
    kept = min(0.995, max(0.005, one))
    return kept / (1.0 - kept)


def main(argv: list[str] | None = None) -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(prog="python -m tools.cricket_ladder", description=main.__doc__)
    parser.add_argument("--overs", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--captains",
        default="random,novice,blocker,match_ups,planner,oracle:40",
        help="names, each with an optional number of pairs, such as oracle:40",
    )
    chosen = parser.parse_args(argv)
    found = []
    for asked in chosen.captains.split(","):
        name, _, pairs = asked.partition(":")
        played = contest(name, partial(chooser, name), chosen.overs, int(pairs or chosen.pairs), chosen.seed)
        found.append(rated(played))
        print(found[-1].row(), file=sys.stderr, flush=True)
    print("| captain | rating | 95 % | wins | matches |\n|---|---|---|---|---|")
    for one in sorted(found, key=lambda other: -other.rating[0]):
        print(one.row())


if __name__ == "__main__":
    main()
