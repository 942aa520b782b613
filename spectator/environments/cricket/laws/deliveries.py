"""One delivery as a scorer writes it down: runs, extras, dismissal, and the scorer's sign."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Side = Literal["home", "away"]
"""The two teams, which are also the two actors."""

SIDES: Final[tuple[Side, Side]] = ("home", "away")

BOWLERS_DISMISSALS: Final = frozenset(
    {"bowled", "caught", "caught and bowled", "lbw", "stumped", "hit wicket"}
)
"""Dismissals credited to the bowler (Laws 32-36, 39)."""

RUNNING_DISMISSALS: Final = frozenset({"run out", "obstructing the field"})
"""Dismissals that may happen while running, of either batter, with completed runs scored (Laws 37, 38)."""

NO_BALL_DISMISSALS: Final = frozenset({"run out", "obstructing the field", "hit the ball twice"})
"""All that can dismiss a batter off a no-ball (Law 21.18) and on a free hit (playing conditions 21.19)."""

WIDE_DISMISSALS: Final = frozenset({"stumped", "run out", "hit wicket", "obstructing the field"})
"""All that can dismiss a batter off a wide (Law 22.9)."""

DISMISSALS: Final = BOWLERS_DISMISSALS | NO_BALL_DISMISSALS
"""Every dismissal that a ball can bring."""


class Ball(NamedTuple):
    """What happened with one ball, as a scorer needs it.

    Args:
        bat: Runs off the bat, a boundary's allowance included.
        wide: Called wide.
        noball: Called no-ball; the penalty run is implied and not part of any other field.
        wides: All runs of a wide, its 1-run penalty included; 0 when not wide.
        byes: Byes run or, with ``boundary``, allowed.
        legbyes: Leg-byes, likewise.
        penalty: Penalty runs to the batting side, a multiple of 5.
        ran: Completed runs by running (with an overthrow boundary also the one in progress when the batters
            had crossed at the throw); its parity decides the ends.
        boundary: The ball reached or cleared the boundary.
        dismissal: One of :data:`DISMISSALS`, or ``None``.
        striker_out: Whether it is the striker who was run out (or obstructed); true for all other dismissals.
        crossed: The batters had crossed on the run in progress when the wicket was broken.
    """

    bat: int = 0
    wide: bool = False
    noball: bool = False
    wides: int = 0
    byes: int = 0
    legbyes: int = 0
    penalty: int = 0
    ran: int = 0
    boundary: bool = False
    dismissal: str | None = None
    striker_out: bool = True
    crossed: bool = False

    @property
    def valid(self) -> bool:
        """Whether it counts as one of the over (Law 17.3)."""
        return not (self.wide or self.noball)

    @property
    def extras(self) -> int:
        """All runs that are not off the bat."""
        return self.wides + self.noball + self.byes + self.legbyes + self.penalty

    @property
    def runs(self) -> int:
        """What the ball adds to the total."""
        return self.bat + self.wides + self.noball + self.byes + self.legbyes + self.penalty

    @property
    def conceded(self) -> int:
        """What the ball costs the bowler: no byes, leg-byes or penalties (Laws 21.16, 23)."""
        return self.bat + self.wides + self.noball

    @property
    def extra_kind(self) -> str | None:
        """The kind of extra, the call before what was run: noball, wide, bye, legbye, penalty."""
        if self.noball:
            return "noball"
        if self.wide:
            return "wide"
        if self.byes:
            return "bye"
        if self.legbyes:
            return "legbye"
        return "penalty" if self.penalty else None


def mark(ball: Ball) -> str:
    """The scorer's sign for a ball: ``·``, ``4``, ``W``, ``wd``, ``2wd``, ``5nb``, ``2b``, ``lb``, ``1W``.

    The number counts all runs of the ball and is left out when the sign itself says them.

    >>> mark(Ball(bat=4, boundary=True)), mark(Ball(wide=True, wides=1)), mark(Ball(dismissal="bowled"))
    ('4', 'wd', 'W')
    """
    runs = ball.runs
    if ball.noball:
        sign = "nb" if runs == 1 else f"{runs}nb"
    elif ball.wide:
        sign = "wd" if runs == 1 else f"{runs}wd"
    elif ball.byes:
        sign = "b" if runs == 1 else f"{runs}b"
    elif ball.legbyes:
        sign = "lb" if runs == 1 else f"{runs}lb"
    elif ball.dismissal:
        sign = str(runs) if runs else ""
    else:
        sign = str(runs) if runs else "·"
    return f"{sign}W" if ball.dismissal else sign


def overs_text(balls: int) -> str:
    """Overs in cricket's base-six notation: 22 balls are ``3.4``, 24 are ``4.0``, 4.6 never appears.

    Args:
        balls: Valid balls bowled.

    >>> overs_text(22)
    '3.4'
    """
    overs, over_balls = divmod(balls, 6)
    return f"{overs}.{over_balls}"
