"""The policy that cricket's learner trains: softmax choices over features, and its critic.

The policy is linear and sees only the observation. The critic estimates the value of each choice per ball, by
least squares on all that was played. The policy climbs along the exact gradient of the critic's estimate, and
along the REINFORCE gradient of the rest, so that its steps are unbiased for any critic, and less noisy with a
better one. That holds as far as orders do not decide how many balls they last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from spectator.environments.cricket.ball.situation import LINES, PACES, PLANNED_LENGTHS, SHOTS
from spectator.environments.cricket.match.field import PRESET_NAMES
from tools.cricket_sight import PLAYER, SITUATION, Vector

LEVELS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
FIELDS: Final = (*PRESET_NAMES, "off crowded", "leg crowded")
CHOICES: Final[dict[str, tuple[Any, ...]]] = {
    "aggression": LEVELS,
    "shot": (None, *SHOTS),
    "attack": LEVELS,
    "field": FIELDS,
    "length": (None, *PLANNED_LENGTHS),
    "line": (None, *LINES),
    "pace": (None, *PACES),
}
"""Options of each part of its orders."""

PLAYERS: Final = ("bowler", "batter")
Role = Literal["batting", "bowling", "players"]
PARTS: Final[dict[Role, tuple[str, ...]]] = {
    "batting": ("aggression", "shot", "batter"),
    "bowling": ("attack", "field", "length", "line", "pace", "bowler"),
    "players": ("batter",),
}
"""Choices that are made together, by role."""

RATE: Final = 0.035
"""Step size (Adam)."""
FORGOTTEN: Final = 0.998
"""Weight of the critic's earlier data after a step."""
DOUBT: Final = 120.0
"""The critic's ridge, in decisions per coefficient. Fitted to 7,800
decisions, it explained 0.09 (batting) and 0.15 (bowling) of the variance of the next 2,600 with 100, and 0.03
and 0.06 with 2."""
MEMORY: Final = 20
"""Least steps over which weights are averaged; the likeliest choices use the mean of the last third of the
weights."""
LATE: Final = 150.0
"""The step size is ``RATE`` / sqrt(1 + steps / LATE)."""
CURIOUS: Final = 0.001
"""Entropy bonus, per nat."""
USUAL_BALLS: Final = 3.0
"""Balls that orders usually last."""
WEIGHED_EVERY: Final = 4
"""Steps between two fits of the critic."""


class Choice(NamedTuple):
    """A choice that was made.

    Args:
        name: Its name, a key of ``Learner.weights``.
        place: Index of the option taken among the open ones.
        open_to: Open options, by their indices in ``CHOICES``; for players, their indices.
        chances: Probability of each open option.
        seen: The features; for players, one row each.
    """

    name: str
    place: int
    open_to: Sequence[int]
    chances: Vector
    seen: Vector

    def gradient(self, push: Vector) -> Vector:
        """Return the gradient of ``push`` times the open scores, in the shape of the weights."""
        if self.seen.ndim > 1:
            return (push @ self.seen)[None, :]
        whole = np.zeros((len(CHOICES[self.name]), len(self.seen)))
        whole[list(self.open_to)] = push[:, None] * self.seen
        return whole

    @property
    def of_likelihood(self) -> Vector:
        """Gradient of the logarithm of its probability by the scores of what was open."""
        push = -self.chances
        push[self.place] += 1.0
        return push


class Decided(NamedTuple):
    """Choices made together, and their reward.

    Args:
        choices: The choices.
        reward: Reward until the next choices.
        balls: Balls bowled until then.
    """

    choices: Sequence[Choice]
    reward: float
    balls: int

    @property
    def weight(self) -> float:
        """Weight: the value of orders is proportional to the balls that they last."""
        return self.balls / USUAL_BALLS


class Critic:
    """Value of choices made together: linear in each choice and the features, by least squares.

    Args:
        parts: Names of the choices.
    """

    def __init__(self, parts: Sequence[str]) -> None:
        self._at: dict[str, tuple[int, int, int]] = {}
        end = 1 if parts == ("batter",) else SITUATION
        self._plain = end
        for name in parts:
            rows, across = (1, PLAYER) if name in PLAYERS else (len(CHOICES[name]), SITUATION)
            self._at[name] = end, rows, across
            end += rows * across
        self._squares: Vector = np.zeros((end, end))
        self._products: Vector = np.zeros(end)
        self._worth: Vector = np.zeros(end)

    def of(self, name: str) -> Vector:
        """Return the value of each option by features, in the shape of the weights."""
        start, rows, across = self._at[name]
        return self._worth[start : start + rows * across].reshape(rows, across)

    def values(self, choice: Choice) -> Vector:
        """Return the value of each open option."""
        worth = self.of(choice.name)
        if choice.seen.ndim > 1:
            return np.asarray(choice.seen @ worth[0])
        return np.asarray((worth @ choice.seen)[list(choice.open_to)])

    def row(self, decided: Decided) -> Vector:
        """Return choices as a row of the critic's linear model.

        Choices of players count once, others per ball.
        """
        found = np.zeros(len(self._worth))
        situations = [choice.seen for choice in decided.choices if choice.seen.ndim == 1]
        found[: self._plain] = decided.weight * situations[-1] if situations and self._plain > 1 else 1.0
        for choice in decided.choices:
            start, _, across = self._at[choice.name]
            if choice.seen.ndim > 1:
                found[start : start + across] += choice.seen[choice.place]
            else:
                start += choice.open_to[choice.place] * across
                found[start : start + across] += decided.weight * choice.seen
        return found

    def expected(self, rows: Vector) -> Vector:
        """Return the estimated value of choices, by their rows."""
        return np.asarray(rows @ self._worth)

    def saw(self, rows: Vector, rewards: Vector, *, fit: bool) -> None:
        """Add what choices brought; with ``fit`` solve again."""
        self._squares *= FORGOTTEN
        self._squares += rows.T @ rows
        self._products = FORGOTTEN * self._products + rows.T @ rewards
        if fit:
            doubt = DOUBT * np.eye(len(self._worth))
            self._worth = np.asarray(np.linalg.solve(self._squares + doubt, self._products), np.float64)


@dataclass(slots=True)
class Learner:
    """A softmax over every choice, linear in the features, trained by policy gradient.

    Args:
        seed: Seed of its draws.
    """

    seed: int
    weights: dict[str, Vector] = field(init=False)
    settled: dict[str, Vector] = field(init=False)
    _source: np.random.Generator = field(init=False)
    _moments: dict[str, tuple[Vector, Vector]] = field(init=False)
    _critics: dict[Role, Critic] = field(init=False)
    _steps: int = 0

    def __post_init__(self) -> None:
        self._source = np.random.default_rng(self.seed)
        self.weights = {name: np.zeros((len(values), SITUATION)) for name, values in CHOICES.items()}
        self.weights |= {name: np.zeros((1, PLAYER)) for name in PLAYERS}
        self.settled = dict(self.weights)
        self._moments = {name: (np.zeros_like(one), np.zeros_like(one)) for name, one in self.weights.items()}
        self._critics = {role: Critic(parts) for role, parts in PARTS.items()}

    def choose(self, name: str, seen: Vector, open_to: Sequence[int], *, best: bool) -> Choice:
        """Choose one of the open options.

        Args:
            name: A key of ``weights``.
            seen: The features; for players, one row each.
            open_to: Open options.
            best: Whether to take the likeliest by the averaged weights instead of drawing.
        """
        weights = self.settled[name] if best else self.weights[name]
        scores = (weights @ seen)[list(open_to)] if seen.ndim == 1 else seen @ weights[0]
        chances = np.exp(scores - scores.max())
        chances /= chances.sum()
        if best:
            place = int(chances.argmax())
        else:
            place = min(len(chances) - 1, int(np.searchsorted(chances.cumsum(), self._source.random())))
        return Choice(name, place, open_to, chances, seen)

    def learn(self, decided: Sequence[Decided]) -> None:
        """Take a step along the gradient of the rewards."""
        self._steps += 1
        sums = {name: np.zeros_like(one) for name, one in self.weights.items()}
        counts = dict.fromkeys(self.weights, 0)
        for role, decisions in _by_role(decided):
            critic = self._critics[role]
            rows = np.array([critic.row(one) for one in decisions])
            rewards = np.array([one.reward for one in decisions])
            missed = rewards - critic.expected(rows)
            missed -= missed.mean()
            bound = 4.0 * float(missed.std())
            for one, rest in zip(decisions, np.clip(missed, -bound, bound), strict=True):
                for choice in one.choices:
                    worth = critic.values(choice) - CURIOUS * np.log(choice.chances + 1e-9)
                    push = choice.chances * (worth - choice.chances @ worth)
                    push *= one.weight if choice.seen.ndim == 1 else 1.0
                    sums[choice.name] += choice.gradient(push + float(rest) * choice.of_likelihood)
                    counts[choice.name] += 1
            critic.saw(rows, rewards, fit=self._steps % WEIGHED_EVERY == 1)
        for name, count in counts.items():
            if count:
                self._climb(name, sums[name] / count)

    def _climb(self, name: str, gradient: Vector) -> None:
        first, second = self._moments[name]
        first, second = 0.9 * first + 0.1 * gradient, 0.99 * second + 0.01 * gradient**2
        self._moments[name] = first, second
        rise = first / (1.0 - 0.9**self._steps)
        size = np.sqrt(second / (1.0 - 0.99**self._steps)) + 1e-8
        rate = RATE / np.sqrt(1.0 + self._steps / LATE)
        self.weights[name] = self.weights[name] + rate * rise / size
        share = 1.0 / max(min(self._steps, MEMORY), self._steps / 3.0)
        self.settled[name] = self.settled[name] + share * (self.weights[name] - self.settled[name])


def _by_role(decided: Sequence[Decided]) -> Iterator[tuple[Role, list[Decided]]]:
    """Yield decisions with choices, by role."""
    for role in PARTS:
        mine = [one for one in decided if one.choices and _role(one.choices) == role]
        if len(mine) > 1:
            yield role, mine


def _role(choices: Sequence[Choice]) -> Role:
    names = {choice.name for choice in choices}
    return "batting" if "aggression" in names else "bowling" if "attack" in names else "players"
