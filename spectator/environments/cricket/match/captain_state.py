"""A captain's standing decisions: plan, strategies, field and notes, with the count of tool calls."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spectator.environments.cricket.ball.vocabulary import DeliveryPlan
from spectator.environments.cricket.laws.formats import RING_LIMIT
from spectator.environments.cricket.match.engine import NEUTRAL, BattingIntent, BowlingIntent
from spectator.environments.cricket.match.field import Field, standard_field

if TYPE_CHECKING:
    from spectator.environments.cricket.match.orders import Orders

FREE_CALLS: Final = 6
"""Overhead calls an over that cost nothing: one a ball."""

CALLS_A_TURN: Final = 8
"""Calls that do not advance the game between two that do; a captain may not think for ever."""

NOTES_KEPT: Final = 5

_OPENING_FIELD: Final = standard_field(RING_LIMIT)


@dataclass(slots=True)
class CaptainState:
    """One captain's side of the game.

    Args:
        plan: The match plan as last declared; ``None`` until there is one.
        bound: The plan as it stood when the over began, which deeds are compared with.
        aggression: Batting strategy.
        shot: Planned stroke of the next ball.
        shot_aggression: Intent of the next ball when it differs from the strategy.
        attack: Bowling strategy.
        delivery: Planned delivery until the end of the over.
        field: The field that is set.
        notes: The last few notes, oldest first.
        free_calls: Overhead calls left that cost nothing this over.
        turn_calls: Calls since the game last went on.
        reflected: Whether the last ball was looked back at.
        turn_tools: Tools that may be used once a ball, if they were used for the next one.
        calls: All accepted calls.
        refusals: All refused calls.
        refused_in_a_row: Refused calls since the last accepted one.
        charged: Overhead calls beyond the free ones.
        plan_changes: Updates of the match plan.
        closeness: Sum over balls of how coherent the deed was, each 0 .. 1; see :meth:`judge`.
        balls: Balls this captain had an intent for.
        analysis: Answer of the analyst, until the next ball.
        orders: What stands until the next decision, where captains give orders for an over or a session.
        asked: Why the captain is asked for new ones.
        retold: Balls since the captain's last decision, in words.
    """

    plan: dict[str, Any] | None = None
    bound: dict[str, Any] | None = None
    aggression: float = NEUTRAL
    shot: str | None = None
    shot_aggression: float | None = None
    attack: float = NEUTRAL
    delivery: DeliveryPlan | None = None
    field: Field = _OPENING_FIELD
    notes: list[str] = dataclasses.field(default_factory=list)
    free_calls: int = FREE_CALLS
    turn_calls: int = 0
    reflected: bool = True
    turn_tools: list[str] = dataclasses.field(default_factory=list)
    calls: int = 0
    refusals: int = 0
    refused_in_a_row: int = 0
    charged: int = 0
    plan_changes: int = 0
    closeness: float = 0.0
    balls: int = 0
    analysis: dict[str, Any] | None = None
    orders: Orders | None = None
    asked: str = "innings"
    retold: list[str] = dataclasses.field(default_factory=list)

    def batting_intent(self) -> BattingIntent:
        """Intent of the next ball as the batting side."""
        return BattingIntent(
            self.aggression if self.shot_aggression is None else self.shot_aggression, self.shot
        )

    def bowling_intent(self) -> BowlingIntent:
        """Intent of the next ball as the fielding side."""
        return BowlingIntent(self.attack, self.delivery, self.field)

    def begin_over(self) -> None:
        """Free calls are counted by the over; plans declared during it bind from the next."""
        self.free_calls = FREE_CALLS
        self.bound = self.plan
        self.delivery = None

    def note(self, text: str) -> None:
        """Keep a note, if there is one."""
        if text:
            self.notes = [*self.notes, text][-NOTES_KEPT:]

    def judge(self, role: str, phase: str, intent: float) -> None:
        """Compare a deed with the plan in force; without a plan it counts nothing.

        Args:
            role: ``batting`` or ``bowling``.
            phase: ``powerplay``, ``middle`` or ``death``.
            intent: Aggression or attack of the ball, a planned stroke's own share included.
        """
        self.balls += 1
        if self.bound is not None:
            self.closeness += max(0.0, 1.0 - 2.0 * abs(intent - self.bound[f"{role}_{phase}"]))
