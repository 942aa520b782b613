"""The situation of a ball: everything that its outcome depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from spectator.environments.cricket.ball.grounds import Boundaries
from spectator.environments.cricket.ball.matchups import EVEN, Conditions
from spectator.environments.cricket.ball.vocabulary import DeliveryPlan, FieldShape
from spectator.environments.cricket.people.players import Player


class Effects(NamedTuple):
    """What a match and its innings share, as shifts of the log odds of boundaries.

    Args:
        match: Pitch, ground and day: the same for both innings.
        innings: One of each of the four innings that a match with a super over can have; later ones reuse the
            last.
    """

    match: float
    innings: tuple[float, ...]

    def of(self, innings: int) -> float:
        """The shift in an innings, numbered from 1."""
        return self.match + self.innings[min(innings, len(self.innings)) - 1]


@dataclass(slots=True)
class Situation:
    """Everything the next ball depends on.

    Args:
        balls_bowled: Valid balls bowled in the innings.
        innings_balls: Valid balls an innings has, 6 to 300.
        wickets_lost: 0 to 9.
        runs_required: Runs still needed to win; ``None`` when there is no target.
        striker: Who faces.
        striker_balls: Balls he has faced in the innings.
        bowler: Who bowls; somebody who does not usually bowl counts as an off-spinner.
        free_hit: Whether it is a free hit.
        powerplay: Whether fielding restrictions of the powerplay hold.
        aggression: Batter's intent from 0 to 1; 0.5 is what the data does in this very situation.
        attack: Bowler's intent, likewise.
        delivery: What the bowler means to bowl.
        shot: A name in `SHOTS`, or ``None``.
        field: The field.
        effect: Shared shift of the match and innings, from `Effects.of`.
        conditions: Pitch and evening.
        second: Whether it is a second innings.
        seen: (length, line) pairs, as numbers, of the deliveries that the striker faced last, oldest first.
        place: Place in the order that the striker came in at, from 1; 0 for the natural one.
        wickets_limit: Dismissals that end the innings; 2 in a super over.
        boundaries: Boundaries of the ground, see :mod:`.grounds`; empty for the neutral one.
        tired: Load that the bowler began the over with, see :mod:`.tiredness`.
    """

    balls_bowled: int
    innings_balls: int
    wickets_lost: int
    runs_required: int | None
    striker: Player
    striker_balls: int
    bowler: Player
    free_hit: bool = False
    powerplay: bool = False
    aggression: float = 0.5
    attack: float = 0.5
    delivery: DeliveryPlan | None = None
    shot: str | None = None
    field: FieldShape = FieldShape.neutral()  # noqa: RUF009 - frozen
    effect: float = 0.0
    conditions: Conditions = EVEN
    second: bool = False
    seen: tuple[int, ...] = ()
    place: int = 0
    wickets_limit: int = 10
    boundaries: Boundaries = ()
    tired: float = 0.0
