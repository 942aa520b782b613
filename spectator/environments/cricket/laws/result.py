"""Results: targets, wins, ties, and who bats first in a super over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from spectator.environments.cricket.laws.deliveries import Side
from spectator.environments.cricket.laws.innings import Innings

SUPER_OVER_BATTERS: Final = 3
"""Batters of a super over, which two dismissals end."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a match ended.

    Args:
        kind: Won by runs, by wickets, in a super over, or tied (only where super overs are off).
        winner: ``None`` for a tie.
        margin: Runs or wickets; 0 for a tie or a super over.
        balls_left: Valid balls left of a chase won (R5).
        super_overs: How many super overs it took.
    """

    kind: Literal["runs", "wickets", "super over", "tie"]
    winner: Side | None
    margin: int
    balls_left: int
    super_overs: int

    def words(self, name: str) -> str:
        """The result as scorecards print it, for a winner called ``name``.

        >>> Result("wickets", "home", 3, 7, 0).words("Ironbark")
        'Ironbark won by 3 wickets (7 balls left)'
        """
        if self.kind == "tie":
            return "Match tied"
        if self.kind == "super over":
            count = "" if self.super_overs == 1 else f" (the {_ordinal(self.super_overs)})"
            return f"Match tied; {name} won the super over{count}"
        unit = self.kind if self.margin != 1 else self.kind[:-1]
        if self.kind == "runs":
            return f"{name} won by {self.margin} {unit}"
        balls = f"({self.balls_left} ball{'' if self.balls_left == 1 else 's'} left)"
        return f"{name} won by {self.margin} {unit} {balls if self.balls_left else 'off the last ball'}"


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"number {number}")


def other(side: Side) -> Side:
    """The opposing side."""
    return "away" if side == "home" else "home"


def target_of(first: Innings) -> int:
    """One more than the first innings' total, its penalty runs included (R2)."""
    return first.runs + 1


def decide(innings: Sequence[Innings], batting: Sequence[Side], *, super_over: bool = True) -> Result | None:
    """The result after ``innings`` were completed, or ``None`` when the match goes on.

    Args:
        innings: Closed innings, oldest first: two of the match, then two of each super over.
        batting: Who batted in each.
        super_over: Whether a tie is decided by super overs.
    """
    if len(innings) % 2:
        return None
    first, second = innings[-2], innings[-1]
    super_overs = len(innings) // 2 - 1
    if first.runs == second.runs:
        return None if super_over else Result("tie", None, 0, 0, super_overs)
    chased = second.runs > first.runs
    winner = batting[-1] if chased else batting[-2]
    if super_overs:
        return Result("super over", winner, 0, 0, super_overs)
    if chased:
        return Result("wickets", winner, second.limit - second.wickets, second.balls_left, 0)
    return Result("runs", winner, first.runs - second.runs, 0, 0)


def next_batting_side(batting: Sequence[Side]) -> Side:
    """Who bats in the next innings.

    The side that batted second bats first in a super over, and the order is reversed in every further one
    (R6), so that each innings after the first pair is begun by whoever batted last.
    """
    return other(batting[-1]) if len(batting) % 2 else batting[-1]


def barred_batters(innings: Sequence[Innings], batting: Sequence[Side], side: Side) -> frozenset[int]:
    """Players of ``side`` dismissed in earlier super overs, who may not bat in another (R6).

    House rule: when fewer than three would be left, everybody may bat again.
    """
    played = zip(innings[2:], batting[2:], strict=True)
    out = frozenset(fallen[2] for earlier, who in played if who == side for fallen in earlier.fall)
    return out if len(out) <= 11 - SUPER_OVER_BATTERS else frozenset()


def barred_bowlers(innings: Sequence[Innings], batting: Sequence[Side], side: Side) -> frozenset[int]:
    """Players of ``side`` who bowled the super over before, who may not bowl this one (R6)."""
    for played, who in zip(reversed(innings[2:]), reversed(batting[2:]), strict=True):
        if who != side:
            return frozenset(played.bowling)
    return frozenset()
