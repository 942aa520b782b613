"""The parts of an innings: powerplay, middle and death."""

from __future__ import annotations

from typing import Final, Literal

from spectator.environments.cricket.laws.innings import Innings

Segment = Literal["powerplay", "middle", "death"]

DEATH_SHARE: Final = 0.25
"""Last part of an innings that counts as its death: 5 of 20 overs, as in the tables."""


def segment_of(innings: Innings) -> Segment:
    """The part of an innings that its next ball is in."""
    return segment_at(innings.balls, innings.format.powerplay_balls, innings.format.balls)


def segment_at(bowled: int, powerplay_balls: int, innings_balls: int) -> Segment:
    """The part of an innings that the ball after ``bowled`` valid ones is in.

    >>> [segment_at(balls, powerplay_balls=9, innings_balls=30) for balls in (0, 9, 24)]
    ['powerplay', 'middle', 'death']
    """
    if bowled < powerplay_balls:
        return "powerplay"
    return "death" if innings_balls - bowled <= DEATH_SHARE * innings_balls else "middle"
