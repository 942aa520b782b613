"""What a ball is worth by the rules and the model, and what the planner chooses from."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from spectator.environments.cricket.ball.grounds import Boundaries
from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.ball.situation import Situation
from spectator.environments.cricket.ball.usual_play import Values
from spectator.environments.cricket.ball.vocabulary import LINES, PLANNED_LENGTHS, DeliveryPlan
from spectator.environments.cricket.match.field import (
    Field,
    custom_field,
    inside_the_rope,
    legal_presets,
    preset_field,
)
from spectator.environments.cricket.match.positions import POSITIONS

INTENTS: Final = (0.3, 0.4, 0.5, 0.6, 0.7)
WORTH_A_CALL: Final = 0.002
"""Least share of a boundary's worth for which a standing decision is changed."""
PLANS: Final = tuple(
    DeliveryPlan(length, line)
    for length in (None, *PLANNED_LENGTHS)
    for line in (None, *LINES)
    if length or line
)


@cache
def _model() -> BallModel:
    return BallModel.load()


def value(ball: Situation) -> float:
    """What a ball is worth to the batting side in its very state: runs of a first innings, chances of a
    chase."""
    return float(sum(p * v for p, v in zip(_model().weights(ball), values_here(ball), strict=True)))


def values_here(ball: Situation) -> Values:
    """What each category is worth to the batting side in the very state of a ball; shape ``(11,)``."""
    prices = _model().prices(ball.innings_balls, super_over=ball.wickets_limit == 2)
    return prices.here(ball.balls_bowled, ball.wickets_lost, ball.runs_required)


class CallWorth:
    """Whether a change is worth a call."""

    def __init__(self, ball: Situation) -> None:
        worth = _model().values(ball)
        self._least = WORTH_A_CALL * float(worth[4] - worth[0])

    def gain(self, changed: Situation, now: Situation, way: float) -> bool:
        """Whether ``changed`` is worth more to who gains when the value rises (1) or falls (-1)."""
        return way * (value(changed) - value(now)) > self._least


_OFF_SIDE: Final = (
    "slip", "short third", "backward point", "cover point", "cover", "extra cover", "mid-off", "third",
    "sweeper cover",
)  # fmt: skip
_LEG_SIDE: Final = (
    "point", "cover", "mid-off", "short third", "square leg", "short midwicket", "mid-on",
    "deep square leg", "deep midwicket",
)  # fmt: skip


@cache
def fields(outside_limit: int, faced: Boundaries) -> tuple[Field, ...]:
    """The fields that it thinks of: the presets, and one crowded on either side.

    Args:
        outside_limit: Most fielders outside the ring.
        faced: The boundaries as the striker sees them; nobody is placed beyond them.
    """
    own = (
        custom_field([(name, *inside_the_rope(*POSITIONS[name], faced)) for name in names], faced)
        for names in (_OFF_SIDE, _LEG_SIDE)
    )
    return (*(preset_field(name, outside_limit) for name in legal_presets(outside_limit)), *own)


def placed(field: Field) -> dict[str, Any]:
    """A field as an argument."""
    shown = field.copy_shown()
    return {"fielders": shown["fielders"]} if field.preset == "custom" else {"preset": field.preset}


def told_plan(plan: DeliveryPlan) -> dict[str, Any]:
    """A plan as an argument."""
    words = {"length": plan.length, "line": plan.line, "pace": plan.pace}
    return {name: word for name, word in words.items() if word is not None}
