"""The policy that cricket's learner trains: softmax choices over numbers of the situation, by REINFORCE.

It is linear, and sees nothing that the observation does not show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectator.environments.cricket.ball.vocabulary import LINES, PACES, PLANNED_LENGTHS, SHOTS
from spectator.environments.cricket.captaincy.reasons import pressure
from spectator.environments.cricket.match.field import PRESET_NAMES

Vector = NDArray[np.float64]

LEVELS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
CHOICES: Final[dict[str, tuple[Any, ...]]] = {
    "aggression": LEVELS,
    "shot": (None, *SHOTS),
    "attack": LEVELS,
    "preset": PRESET_NAMES,
    "length": (None, *PLANNED_LENGTHS),
    "line": (None, *LINES),
    "pace": (None, *PACES),
}
"""What it chooses of each part of its orders, as a tool-user would before it knows the game: evenly."""

BATTING: Final = ("aggression", "shot")
BOWLING: Final = ("attack", "preset", "length", "line", "pace")
FEATURES: Final = 13
PLAYER: Final = 7
"""Numbers that it sees of a situation, and of a player to choose."""

RATE: Final = 0.035
"""Length of a step (Adam)."""

_TRAIT: Final = 6.0
"""What a batter's traits are multiplied by: they are log ratios of runs, of about 0.14 either way."""
_PITCHES: Final = {"green": -1.0, "even": 0.0, "dry": 1.0}
_FORGOTTEN: Final = 0.95
"""How much of what it knows of players is left after a step."""


class Choice(NamedTuple):
    """A choice that was made.

    Args:
        name: Of what: a key of ``Learner.weights``.
        gradient: Of the logarithm of its probability.
        player: What was seen of the player chosen; ``None`` for other choices.
    """

    name: str
    gradient: Vector
    player: Vector | None = None


Told = tuple[Sequence[Choice], float]
"""Choices made together, and what came of them."""


def features(view: Mapping[str, Any], bowler: str | None = None) -> Vector:
    """What it sees of a situation: the part, wickets, balls, the chase, and what suits those at the ends.

    Args:
        view: The situation.
        bowler: Who has been chosen to bowl, if it is not who bowls already.
    """
    score, striker = view["score"], view["striker"]
    way = _kind(view, bowler)
    asked = pressure(view)
    spin, short, leg = traits(view)
    return np.array([
        1.0, view["segment"] == "middle", view["segment"] == "death", score["wickets"] / 5.0,
        score["balls_left"] / (score["balls"] + score["balls_left"]), asked is not None,
        0.0 if asked is None else float(np.clip(asked - 1.0, -1.0, 1.0)),
        0.0 if striker is None else min(striker["balls"], 20) / 20.0,
        way, spin, short, leg, way * spin,
    ], dtype=np.float64)  # fmt: skip


def _kind(view: Mapping[str, Any], bowler: str | None) -> float:
    """Whether spin (1) or pace (-1) bowls; 0 where nobody does yet."""
    if bowler is None:
        kind = None if view["bowler"] is None else view["bowler"]["kind"]
    else:
        cards = {man["name"]: man for man in view["squads"][view["side"]]["players"]}
        kind = cards[bowler].get("bowls", "off spin")
    return 0.0 if kind is None else -1.0 if "pace" in kind else 1.0


def traits(view: Mapping[str, Any]) -> tuple[float, float, float]:
    """What suits the two who are in, on average: spin, short balls, the leg side; 0 where nobody is in."""
    squad = {man["name"]: man for man in view["squads"][view["batting"]]["players"]}
    pair = [squad[view[end]["name"]] for end in ("striker", "non_striker") if view[end] is not None]
    spin, short, leg = (
        _TRAIT * sum(man[name] for man in pair) / max(1, len(pair))
        for name in ("bat_spin", "bat_short", "bat_leg")
    )
    return spin, short, leg


def candidates(view: Mapping[str, Any], names: Sequence[str], *, bowling: bool) -> Vector:
    """What it sees of players to choose from, a row each, the one that the side would usually take first."""
    squad = {man["name"]: man for man in view["squads"][view["side"]]["players"]}
    liked, pitch, rows = traits(view)[0], _PITCHES[view["conditions"]["pitch"]], []
    for place, name in enumerate(names):
        man = squad[name]
        runs = man.get("bowl_runs", 1.3) if bowling else man["bat_runs"]
        wickets = man.get("bowl_wickets", 0.6) if bowling else man["bat_out"]
        spins = bowling and "pace" not in man.get("bowls", "off spin")
        middle = spins * (view["segment"] == "middle")
        rows.append([
            place == 0, 5.0 * (runs - 1.0), 5.0 * (wickets - 1.0), middle, place / 10.0,
            spins * liked, spins * pitch,
        ])  # fmt: skip
    return np.array(rows, dtype=np.float64)


@dataclass(slots=True)
class Learner:
    """A softmax over every choice, linear in what is seen; it climbs along the gradient of its rewards.

    Args:
        seed: Of what it draws.
    """

    seed: int
    weights: dict[str, Vector] = field(init=False)
    _source: np.random.Generator = field(init=False)
    _moments: dict[str, tuple[Vector, Vector]] = field(init=False)
    _baseline: dict[str, tuple[float, float]] = field(default_factory=dict)
    _steps: int = 0
    _known: dict[str, tuple[Vector, Vector]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._source = np.random.default_rng(self.seed)
        self.weights = {name: np.zeros((len(values), FEATURES)) for name, values in CHOICES.items()}
        self.weights |= {"bowler": np.zeros((1, PLAYER)), "batter": np.zeros((1, PLAYER))}
        self._moments = {name: (np.zeros_like(one), np.zeros_like(one)) for name, one in self.weights.items()}

    def choose(self, name: str, seen: Vector, open_to: Sequence[int], *, best: bool) -> tuple[int, Vector]:
        """One of the values that are open, and the gradient of the logarithm of its probability.

        Args:
            name: A key of ``weights``.
            seen: The features, or of a player to choose a row for each.
            open_to: Which values may be chosen.
            best: Whether to take the likeliest instead of drawing.
        """
        weights = self.weights[name]
        scores = (weights @ seen)[list(open_to)] if seen.ndim == 1 else seen @ weights[0]
        chances = np.exp(scores - scores.max())
        chances /= chances.sum()
        place = int(chances.argmax()) if best else int(self._source.choice(len(chances), p=chances))
        gradient = np.zeros_like(weights)
        if seen.ndim == 1:
            push = -chances
            push[place] += 1.0
            gradient[list(open_to)] = push[:, None] * seen
        else:
            gradient[0] = seen[place] - chances @ seen
        return open_to[place], gradient

    def learn(self, told: Sequence[Told]) -> None:
        """Take a step along the gradients of choices, each weighed by what it brought beyond the usual."""
        sums = {name: np.zeros_like(one) for name, one in self.weights.items()}
        shared = list(self._shared(told))
        by_name: dict[str, list[float]] = {}
        for choice, reward in shared:
            by_name.setdefault(choice.name, []).append(reward)
        for name, rewards in by_name.items():
            mean, spread = self._baseline.get(name, (float(np.mean(rewards)), float(np.std(rewards)) + 1e-6))
            self._baseline[name] = (
                0.9 * mean + 0.1 * float(np.mean(rewards)), 0.9 * spread + 0.1 * float(np.std(rewards))
            )  # fmt: skip
        for choice, reward in shared:
            mean, spread = self._baseline[choice.name]
            sums[choice.name] += choice.gradient * float(
                np.clip((reward - mean) / (spread + 1e-6), -4.0, 4.0)
            )
        self._steps += 1
        for name, total in sums.items():
            if name in by_name:
                self._climb(name, total / len(by_name[name]))

    def _shared(self, told: Sequence[Told]) -> Iterator[tuple[Choice, float]]:
        """Choices with what came of them, less what a player chosen with them is worth.

        Who bowls or bats decides far more than how, and would drown it. Choices made together are drawn
        independently, so that what is taken off one for another leaves its gradient what it is on average.
        """
        for role in ("bowler", "batter"):
            with_others = [
                (one.player, reward)
                for choices, reward in told
                for one in choices
                if one.name == role and one.player is not None and len(choices) > 2
            ]
            if with_others:
                self._regress(role, *(np.array(column) for column in zip(*with_others, strict=True)))
        for choices, reward in told:
            worth = sum(self._worth(one) for one in choices if one.player is not None)
            for one in choices:
                yield one, reward if one.player is not None else reward - worth

    def _regress(self, role: str, players: Vector, rewards: Vector) -> None:
        """Add to what is known of the worth of players, by least squares."""
        seen = np.column_stack([players, np.ones(len(players))])
        squares, products = self._known.get(role, (np.eye(PLAYER + 1), np.zeros(PLAYER + 1)))
        self._known[role] = (
            _FORGOTTEN * squares + seen.T @ seen, _FORGOTTEN * products + seen.T @ rewards
        )  # fmt: skip

    def _worth(self, chosen: Choice) -> float:
        """What the player chosen is worth, by what is known of such players."""
        if chosen.player is None or chosen.name not in self._known:
            return 0.0
        squares, products = self._known[chosen.name]
        return float(chosen.player @ np.linalg.solve(squares, products)[:PLAYER])

    def _climb(self, name: str, gradient: Vector) -> None:
        first, second = self._moments[name]
        first, second = 0.9 * first + 0.1 * gradient, 0.99 * second + 0.01 * gradient**2
        self._moments[name] = first, second
        rise = first / (1.0 - 0.9**self._steps)
        size = np.sqrt(second / (1.0 - 0.99**self._steps)) + 1e-8
        self.weights[name] = self.weights[name] + RATE * rise / size
