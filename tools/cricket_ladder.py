"""Rate cricket's captains.

``python -m tools.cricket_ladder`` plays every captain against the percentage captain, from both seats of
every seed, and rates them by their share of wins (Elo: 400 times the decimal logarithm of the odds, 1,000 for
the percentage captain). ``--rewards`` also prints what each reward mode pays them for the same matches; it
exits with 1 if a mode surely pays a captain more than another one that surely wins more.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import Any, Final

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.captaincy.planner import TOOLS, PlannerCaptain
from spectator.environments.cricket.environment import CricketEnvironment
from spectator.environments.cricket.oracle import OracleCaptain
from spectator.environments.world import derive_seed
from spectator.observations import Observation
from spectator.policies.policy import Action, ScriptedPolicy
from tools.cricket_search import WinShare

USUAL: Final = "heuristic"
BASE_RATING: Final = 1000.0

REWARDS: Final = ("result", "score", "decision_value")
PARTIAL: Final = {"planner_steady": TOOLS - {"attack", "shot"}}
"""Captains that leave part of the planner's decisions to the usual play, by name."""

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
    """Return one of the world's captains, or of `PARTIAL`, as a function of world and observation."""
    if name in PARTIAL:
        return scripted(PlannerCaptain(seed, PARTIAL[name]))
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


def paid(build: Build, side: str, seed: int, options: Mapping[str, Any]) -> dict[str, float]:
    """Play one match against the percentage captain.

    Returns:
        The reward of ``side`` by the option ``reward``, and for ``score`` also by ``result``.
    """
    world = CricketEnvironment()
    complete = WORLD.options_type.model_validate(options).model_dump()
    observation = world.reset(seed=seed, episode_id="ladder", options=complete)
    mine, usual = build(derive_seed(seed, "mine")), chooser(USUAL, derive_seed(seed, "usual"))
    reward = observation.reward
    while not observation.done:
        chosen = (mine if observation.actor == side else usual)(world, observation)
        observation = world.step(chosen)
        reward += observation.reward
    parts, home = observation.metadata["rubric"], side == WORLD.actors[0]
    assert WORLD.rival_reward is not None
    rival = WORLD.rival_reward(complete, parts)
    assert isinstance(rival, float), "one seat"
    rewards = {complete["reward"]: reward if home else rival}
    if complete["reward"] == "score":
        rewards["result"] = parts["result"] if home else 1.0 - parts["result"]
    return rewards


def contest(
    name: str, build: Build, overs: int, pairs: int, seed: int, reward: str = "score"
) -> dict[str, WinShare]:
    """Play a captain against the percentage captain, from both seats of every seed.

    Args:
        reward: The option of that name.

    Returns:
        The mean reward by mode (see :func:`paid`); by ``result`` it is the share of wins.
    """
    options = {"max_overs": overs, "reward": reward}
    found: dict[str, list[float]] = {}
    for number in range(pairs):
        match_seed = derive_seed(seed, "ladder", number)
        seats = [paid(build, side, match_seed, options) for side in WORLD.actors]
        for mode in seats[0]:
            found.setdefault(mode, []).append(sum(seat[mode] for seat in seats) / 2)
    return {mode: WinShare.of(name, shares) for mode, shares in found.items()}


def disordered(found: Mapping[str, Sequence[WinShare]]) -> list[str]:
    """Return the pairs of captains that a mode surely orders against their share of wins, as sentences.

    Args:
        found: By reward mode, the same captains in the same order.
    """
    faults = []
    for mode, scores in found.items():
        for (better, wins), (worse, losses) in permutations(zip(scores, found["result"], strict=True), 2):
            if _surely_above(wins, losses) and _surely_above(worse, better):
                faults.append(f"{mode} pays {worse.name} more than {better.name}, who wins more")
    return faults


def _surely_above(one: WinShare, other: WinShare) -> bool:
    return one.share - other.share > 1.96 * math.hypot(one.error, other.error)


def rewards_table(found: Mapping[str, Sequence[WinShare]]) -> str:
    """Return what each mode pays as a Markdown table, by share of wins."""
    lines = [f"| captain | matches | {' | '.join(found)} |", "|---|---|" + "---|" * len(found)]
    for one in sorted(zip(*found.values(), strict=True), key=lambda scores: -scores[0].share):
        cells = " | ".join(f"{score.share:+.4f} ± {score.half:.4f}" for score in one)
        lines.append(f"| {one[0].name} | {2 * one[0].pairs:,} | {cells} |")
    return "\n".join(lines)


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
    parser.add_argument("--rewards", action="store_true", help="also print what each reward mode pays")
    chosen = parser.parse_args(argv)
    found: dict[str, list[WinShare]] = {mode: [] for mode in REWARDS}
    for asked in chosen.captains.split(","):
        name, _, given = asked.partition(":")
        for mode in ("score", "decision_value") if chosen.rewards else ("score",):
            pairs, build = int(given or chosen.pairs), partial(chooser, name)
            for paid_by, score in contest(name, build, chosen.overs, pairs, chosen.seed, mode).items():
                found[paid_by].append(score)
        print(rated(found["result"][-1]).row(), file=sys.stderr, flush=True)
    print("| captain | rating | 95 % | wins | matches |\n|---|---|---|---|---|")
    for one in sorted(map(rated, found["result"]), key=lambda other: -other.rating[0]):
        print(one.row())
    if chosen.rewards:
        print(f"\n{rewards_table(found)}")
        if faults := disordered(found):
            sys.exit("; ".join(faults))


if __name__ == "__main__":
    main()
