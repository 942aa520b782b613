"""What a captain is worth: matches on held-out seeds, both seats, intervals by seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch

from spectator.environments.cricket.match.circumstances import VARIED
from spectator.environments.cricket.recipe.examples import plain_options
from spectator.environments.cricket.recipe.fleet import MatchFleet, MatchJob
from spectator.environments.cricket.recipe.network import TorchNetwork
from spectator.environments.cricket.recipe.speaking import Speaking

HELD_OUT: Final = 720_000
"""The first seed of evaluations."""

BASE: Final = {"max_overs": 5, "decisions": "over", "reward": "decision_value"}
PACKS: Final[Mapping[str, Mapping[str, Any]]] = {
    "varied": {**BASE, **VARIED},
    "default": BASE,
    "women": {**BASE, **VARIED, "profile": "women"},
    "twenty": {**BASE, **VARIED, "max_overs": 20},
}


def jobs_of(pack: str, seeds: int, own: int | str, rival: int | str, first: int = HELD_OUT) -> list[MatchJob]:
    """Both seats of so many seeds."""
    options = plain_options(dict(PACKS[pack]))
    return [
        MatchJob((seed, side), seed, options, {side: own, "away" if side == "home" else "home": rival})
        for seed in range(first, first + seeds)
        for side in ("home", "away")
    ]


def played(
    fleet: MatchFleet,
    networks: Sequence[TorchNetwork],
    jobs: Sequence[MatchJob],
    *,
    shuffled: bool = False,
    width: int = 64,
) -> dict[Any, tuple[float, float]]:
    """What each match brought its own captain, by key: the result, and the worth of its decisions."""
    device = next(networks[0].parameters()).device
    generator = torch.Generator(device=device).manual_seed(5)
    fleet.spread(jobs, width)
    found: dict[Any, tuple[float, float]] = {}
    choose = lambda asks: Speaking(networks, asks, greedy=True, generator=generator, shuffled=shuffled)  # noqa: E731
    for _, _, over, _ in fleet.rounds(choose):
        for key, parts in over:
            home = key[1] == "home"
            won = parts["win_chance"] if home else 1.0 - parts["win_chance"]
            found[key] = won, parts["decision_value"] if home else -parts["rival_value"]
    return found


def interval(values: Mapping[Any, float]) -> tuple[float, float]:
    """Mean and half of the 95 % interval; both seats of a seed are one observation."""
    by_seed: dict[int, list[float]] = {}
    for (seed, _), value in values.items():
        by_seed.setdefault(seed, []).append(value)
    means = np.array([np.mean(one) for one in by_seed.values()])
    half = 1.96 * means.std(ddof=1) / math.sqrt(len(means)) if len(means) > 1 else float("nan")
    return round(float(means.mean()), 4), round(float(half), 4)


def figures(found: Mapping[Any, tuple[float, float]]) -> dict[str, Any]:
    """Wins and worth of decisions (in hundredths of a match), each with its interval."""
    value = interval({key: 100 * one[1] for key, one in found.items()})
    return {
        "matches": len(found),
        "wins": interval({key: one[0] for key, one in found.items()}),
        "value": value,
    }


def difference(
    mine: Mapping[Any, tuple[float, float]], theirs: Mapping[Any, tuple[float, float]]
) -> dict[str, Any]:
    """The same of the difference between two captains in the same matches."""
    both = mine.keys() & theirs.keys()
    return {
        "matches": len(both),
        "wins": interval({key: mine[key][0] - theirs[key][0] for key in both}),
        "value": interval({key: 100 * (mine[key][1] - theirs[key][1]) for key in both}),
    }
