"""Assumed directions, lengths and lines of deliveries, set by hand from common knowledge of the game.

Every figure is a round one. Shares are whole per cents; effects are multipliers of the levers dot, single,
two and three, four, six, wicket and wide, before they are made to average to one over the shares.
"""

from __future__ import annotations

from typing import Final

Row = tuple[float, ...]

LENGTH_PERCENT: Final[dict[str, tuple[Row, Row, Row]]] = {
    "pace": ((2, 3, 20, 40, 25, 10), (2, 5, 23, 35, 22, 13), (6, 16, 30, 18, 14, 16)),
    "spin": ((1, 2, 20, 55, 20, 2), (1, 3, 21, 50, 22, 3), (2, 6, 25, 42, 22, 3)),
}
"""Full toss, yorker, full, good, back of a length, short, in powerplay, middle and death: with the new ball a
good length, at the end full balls and yorkers, spin full to good throughout."""

LENGTH_EFFECT: Final[dict[str, tuple[Row, ...]]] = {
    "pace": (
        (0.9, 1.0, 1.0, 1.2, 1.2, 1.0, 1.0),
        (1.0, 1.1, 1.1, 0.8, 0.5, 1.1, 1.0),
        (0.9, 1.0, 1.0, 1.2, 1.2, 1.1, 1.0),
        (1.1, 1.0, 1.0, 0.8, 0.9, 1.0, 1.0),
        (1.0, 1.1, 1.1, 0.9, 0.8, 0.9, 1.0),
        (1.0, 0.9, 0.9, 1.2, 1.3, 1.1, 1.0),
    ),
    "spin": (
        (0.8, 1.0, 1.0, 1.3, 1.3, 0.9, 1.0),
        (0.9, 1.1, 1.1, 1.0, 0.9, 0.9, 1.0),
        (0.9, 1.1, 1.1, 1.1, 1.1, 0.9, 1.0),
        (1.1, 0.9, 0.9, 0.9, 1.0, 1.1, 1.0),
        (0.9, 1.1, 1.1, 1.0, 0.8, 0.9, 1.0),
        (0.9, 1.0, 1.0, 1.3, 1.3, 0.9, 1.0),
    ),
}
"""By length, the same in every phase: good balls give dots, yorkers singles and hardly a six, what is full or
short goes for boundaries, and a spinner's good length takes his wickets."""

LINE_PERCENT: Final[dict[str, Row]] = {"pace": (10, 50, 25, 15), "spin": (5, 50, 30, 15)}
"""Wide outside off, outside off, stumps, leg: most balls are bowled outside off, spinners straighter."""

LINE_EFFECT: Final[tuple[Row, ...]] = (
    (1.0, 0.9, 0.9, 1.3, 1.0, 1.0, 2.5),
    (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.9),
    (1.0, 1.0, 1.0, 0.9, 0.9, 1.1, 0.4),
    (1.0, 1.0, 1.0, 1.0, 1.1, 0.8, 2.0),
)
"""By line, for pace and spin alike: width is cut and driven for four, the stumps bring bowled and lbw, and
wides come of both edges."""

DIRECTION_PERCENT: Final[dict[str, tuple[Row, ...]]] = {
    "pace": (
        (5, 5, 15, 15, 15, 25, 15, 5),
        (5, 10, 20, 15, 15, 15, 15, 5),
        (5, 15, 25, 15, 10, 15, 10, 5),
        (10, 10, 20, 5, 5, 25, 15, 10),
        (13, 10, 15, 10, 10, 17, 13, 12),
        (3, 12, 35, 25, 15, 5, 3, 2),
    ),
    "spin": (
        (3, 5, 15, 20, 20, 25, 10, 2),
        (3, 12, 25, 20, 13, 17, 8, 2),
        (5, 10, 30, 15, 10, 15, 10, 5),
        (10, 10, 15, 5, 5, 25, 15, 15),
        (7, 13, 20, 10, 10, 20, 13, 7),
        (1, 8, 40, 30, 15, 4, 1, 1),
    ),
}
"""The sectors (`ball_plans.SECTORS`) of dots, ones, twos, threes, fours and sixes, the same in every phase:
dots find cover, twos the leg side, sixes midwicket and the straight boundary; fours off pace go squarer and
finer than off spin."""
