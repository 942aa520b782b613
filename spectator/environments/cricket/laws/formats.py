"""Formats: the length of an innings, its powerplays, and the overs a bowler may bowl."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

MAX_OVERS: Final = 50
T20_OVERS: Final = 20
RING_LIMIT: Final = 5
"""Most fielders outside the ring when no powerplay is on (T20I playing conditions 28.7)."""


@dataclass(frozen=True, slots=True)
class Format:
    """One length of innings.

    Args:
        overs: Overs of an innings.
        balls: Valid balls of an innings.
        wickets: Dismissals that end it (10; 2 in a super over).
        powerplay_balls: Valid balls of the first powerplay, in which two may be outside the ring; wides and
            no-balls do not use it up (F7).
        middle_balls: Valid balls after which the limit outside the ring is five again; before them, after
            the powerplay, it is ``middle_limit``. Equal to ``powerplay_balls`` up to 20 overs.
        middle_limit: Fielders outside the ring between the two (4 in the one-day game).
        bowler_overs: Overs that every bowler may bowl.
        extra_overs: How many bowlers may bowl one more than that.
        is_super_over: Whether it decides a tie.
    """

    overs: int
    balls: int
    wickets: int
    powerplay_balls: int
    middle_balls: int
    middle_limit: int
    bowler_overs: int
    extra_overs: int
    is_super_over: bool = False

    def outside_limit(self, balls_bowled: int) -> int:
        """Most fielders outside the ring for the next ball."""
        if balls_bowled < self.powerplay_balls:
            return 2
        return self.middle_limit if balls_bowled < self.middle_balls else RING_LIMIT

    def overs_allowed(self, overs_begun: Sequence[int], bowler: int) -> int:
        """Overs that ``bowler`` may still begin, going by the limit alone (O5-O7).

        Args:
            overs_begun: Overs begun by each player of the side; a part of one counts as one (O4).
            bowler: Index into it.
        """
        mine = overs_begun[bowler]
        if mine > self.bowler_overs or not self.extra_overs:
            return max(0, self.bowler_overs - mine)
        used = sum(1 for begun in overs_begun if begun > self.bowler_overs)
        return self.bowler_overs - mine + (1 if used < self.extra_overs else 0)


SUPER_OVER: Final = Format(
    overs=1,
    balls=6,
    wickets=2,
    powerplay_balls=0,
    middle_balls=0,
    middle_limit=RING_LIMIT,
    bowler_overs=1,
    extra_overs=0,
    is_super_over=True,
)
"""One over, two wickets, no powerplay (R6)."""


@cache
def format_of(overs: int) -> Format:
    """The format with ``overs`` an innings.

    Up to 20 overs the men's T20I conditions: the powerplay is 30 % to the nearest ball (F5), a bowler has
    one fifth of 10 overs or more with the remainder as one more for that many bowlers (O5), two overs of
    5 to 9 (O6). House rules: one over each of 1 to 4 (O7); from 21 overs the one-day pattern, in proportion:
    a first powerplay of a fifth of the innings, then four outside until the last fifth.

    Raises:
        ValueError: ``overs`` is not in 1 .. 50.

    >>> twenty = format_of(20)
    >>> twenty.balls, twenty.powerplay_balls, twenty.bowler_overs
    (120, 36, 4)
    """
    if not 1 <= overs <= MAX_OVERS:
        raise ValueError(f"overs must be 1 .. {MAX_OVERS}, not {overs}")
    powerplay = (18 * overs + 5) // 10 if overs <= T20_OVERS else 6 * ((2 * overs + 5) // 10)
    bowler_overs, extra = (1, 0) if overs < 5 else (2, 0) if overs < 10 else divmod(overs, 5)
    return Format(
        overs=overs,
        balls=6 * overs,
        wickets=10,
        powerplay_balls=powerplay,
        middle_balls=powerplay if overs <= T20_OVERS else 6 * overs - powerplay,
        middle_limit=RING_LIMIT if overs <= T20_OVERS else 4,
        bowler_overs=bowler_overs,
        extra_overs=extra,
    )
