"""What the balls so far say of the day: how much better than expected runs come, and how sure that is.

A match and each of its innings have an effect that nobody sees (`Effects`). Every ball tells a little of it:
boundaries where few were to be expected speak for a good day to bat on, dots and wickets against one. The
reading adds that up as the gradient and the information of the log likelihood (one Newton step from the
expected effect, which is small), with the shift of each over (`rhythm`), unknown too, integrated out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.ball.tables import CATEGORIES, DOT, FOUR, SIX, WICKET, effect_scale
from spectator.environments.cricket.ball.tracking import BowledBall

INNINGS: Final = 2
"""Innings that are read; super overs are not foretold."""


class Expected(NamedTuple):
    """What is to be expected of the effect of an innings.

    Args:
        mean: Beside the model's level, a shift of the log odds of boundaries.
        sd: Its standard deviation.
    """

    mean: float
    sd: float


@dataclass(slots=True)
class _InningsReading:
    """What the balls of one innings say.

    Args:
        gradient: Of the log likelihood by the effect, over completed overs.
        information: Its expected curvature, likewise.
        over: Over of the last ball.
        balls: Sums over its balls: gradient by effect and by the over's shift, and the three entries of their
            information (effect, both, shift).
    """

    gradient: float = 0.0
    information: float = 0.0
    over: int = 0
    balls: list[float] = field(default_factory=lambda: [0.0] * 5)

    def sums(self, shift_sd: float) -> tuple[float, float]:
        """Gradient and information by the effect, the over's shift integrated out."""
        effect, shift, of_effect, both, of_shift = self.balls
        share = both / (of_shift + shift_sd**-2)
        return self.gradient + effect - share * shift, self.information + of_effect - share * both


class PitchReading:
    """Reads the effect of a match from its balls; as fair as a viewer, it sees what came of each and not why.

    Args:
        model: The model that the match is played by.

    >>> model = BallModel.load()
    >>> reading = PitchReading(model)
    >>> Expected(0.0, math.hypot(*model.tables.effect_sd)) == reading.expected(1)
    True
    """

    def __init__(self, model: BallModel) -> None:
        self._model = model
        tables = model.tables
        self._effect = [0.0] * CATEGORIES
        self._effect[DOT], self._effect[WICKET] = -tables.dot_share, -tables.wicket_share
        self._effect[FOUR] = self._effect[SIX] = 1.0
        self._shift = self._effect.copy()
        self._shift[WICKET] = 0.0
        self._innings = [_InningsReading() for _ in range(INNINGS)]

    def saw(self, innings: int, ball: BowledBall) -> None:
        """Take note of a ball.

        Args:
            innings: Its innings, from 1; super overs say nothing.
            ball: The ball; the effect that it was bowled under is not looked at.
        """
        if innings > INNINGS:
            return
        reading, over = self._innings[innings - 1], ball.at.balls_bowled // 6
        if over != reading.over:
            sums = reading.sums(self._model.tables.rhythm_sd)
            reading.gradient, reading.information = sums
            reading.over, reading.balls = over, [0.0] * 5
        told = self._told(ball)
        reading.balls = [a + b for a, b in zip(reading.balls, told, strict=True)]

    def expected(self, innings: int) -> Expected:
        """The effect of an innings (1 or 2) by all balls seen so far."""
        tables = self._model.tables
        match_sd, innings_sd = tables.effect_sd
        spread = match_sd**2 + innings_sd**2
        gradient, information = self._innings[0].sums(tables.rhythm_sd)
        first = 1.0 / (1.0 / spread + information)
        if innings == 1:
            return Expected(gradient * first, math.sqrt(first))
        shared = match_sd**2 / spread
        mean = shared * gradient * first
        before = shared**2 * first + shared * innings_sd**2 + innings_sd**2
        gradient, information = self._innings[1].sums(tables.rhythm_sd)
        second = 1.0 / (1.0 / before + information)
        return Expected((mean / before + gradient) * second, math.sqrt(second))

    def dump(self) -> list[list[float]]:
        """All that :meth:`load` needs, plain JSON."""
        return [[one.gradient, one.information, one.over, *one.balls] for one in self._innings]

    def load(self, data: Sequence[Sequence[float]]) -> None:
        """Go on from where :meth:`dump` was called."""
        self._innings = [
            _InningsReading(gradient, information, int(over), list(balls))
            for gradient, information, over, *balls in data
        ]

    def _told(self, ball: BowledBall) -> tuple[float, ...]:
        """What one ball adds to the sums of its over."""
        at, category = ball.at, ball.category
        scale = effect_scale(at.innings_balls)
        level = self._model.level * scale
        usual = self._model.weights(replace(at, effect=0.0))
        chances = [p * math.exp(by * level) for p, by in zip(usual, self._effect, strict=True)]
        total = sum(chances)
        by_effect, by_shift = self._effect, self._shift
        mean = mean_shift = of_effect = both = of_shift = 0.0
        for p, effect, shift in zip(chances, by_effect, by_shift, strict=True):
            p /= total
            mean += p * effect
            mean_shift += p * shift
            of_effect += p * effect * effect
            both += p * effect * shift
            of_shift += p * shift * shift
        return (
            scale * (by_effect[category] - mean),
            by_shift[category] - mean_shift,
            scale * scale * (of_effect - mean * mean),
            scale * (both - mean * mean_shift),
            of_shift - mean_shift * mean_shift,
        )
