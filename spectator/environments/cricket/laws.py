"""Formats, deliveries and the state of one innings, as the Laws define them.

An innings has neither teams nor chance in it; players are indices 0 to 10 of their sides. :mod:`.scorer`
changes its state.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final, Literal, NamedTuple, TypeVar

MAX_OVERS: Final = 50
T20_OVERS: Final = 20
RING_LIMIT: Final = 5
"""Maximum fielders outside the ring without a powerplay (T20I playing conditions 28.7)."""


@dataclass(frozen=True, slots=True)
class Format:
    """The rules of one length of innings.

    Args:
        wickets: Dismissals that end the innings (10; 2 in a super over).
        powerplay_balls: Valid balls of the first powerplay, in which two fielders may be outside the ring;
            wides and no-balls do not use it up (F7).
        middle_balls: Valid balls after which five fielders may be outside the ring again; before them, after
            the powerplay, the limit is ``middle_limit``. Equal to ``powerplay_balls`` up to 20 overs.
        middle_limit: Fielders outside the ring between the two (4 in one-day cricket).
        extra_overs: Number of bowlers who may bowl one more.
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
        """Return the maximum of fielders outside the ring for the next ball."""
        if balls_bowled < self.powerplay_balls:
            return 2
        return self.middle_limit if balls_bowled < self.middle_balls else RING_LIMIT

    def overs_allowed(self, overs_begun: Sequence[int], bowler: int) -> int:
        """Return the overs that ``bowler`` may still begin under the limit alone (O5-O7).

        Args:
            overs_begun: Overs begun by each player of the side; part of one counts as one (O4).
            bowler: Index into ``overs_begun``.
        """
        own = overs_begun[bowler]
        if own > self.bowler_overs or not self.extra_overs:
            return max(0, self.bowler_overs - own)
        used = sum(1 for begun in overs_begun if begun > self.bowler_overs)
        return self.bowler_overs - own + (1 if used < self.extra_overs else 0)


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
    """Return the format with ``overs`` overs per innings.

    Up to 20 overs the men's T20I conditions apply: the powerplay is 30 % to the nearest ball (F5); in 10
    overs or more a bowler has one fifth of them, and as many bowlers as the remainder one more (O5); in 5 to
    9 overs a bowler has two (O6). House rules: one over each in 1 to 4 (O7); from 21 overs the one-day
    pattern in proportion: a first powerplay of a fifth of the innings, then four fielders outside until the
    last fifth.

    Raises:
        ValueError: ``overs`` is not in 1 to 50.

    >>> twenty = format_of(20)
    >>> twenty.balls, twenty.powerplay_balls, twenty.bowler_overs
    (120, 36, 4)
    """
    if not 1 <= overs <= MAX_OVERS:
        raise ValueError(f"overs must be 1 to {MAX_OVERS}, not {overs}")
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


Side = Literal["home", "away"]
"""The two teams, which are also the actors' names."""

SIDES: Final[tuple[Side, Side]] = ("home", "away")

BOWLERS_DISMISSALS: Final = frozenset(
    {"bowled", "caught", "caught and bowled", "lbw", "stumped", "hit wicket"}
)
"""Dismissals credited to the bowler (Laws 32-36, 39)."""

RUNNING_DISMISSALS: Final = frozenset({"run out", "obstructing the field"})
"""Dismissals while running, of either batter; completed runs count (Laws 37, 38)."""

NO_BALL_DISMISSALS: Final = frozenset({"run out", "obstructing the field", "hit the ball twice"})
"""The only dismissals off a no-ball (Law 21.18) and on a free hit (playing conditions 21.19)."""

WIDE_DISMISSALS: Final = frozenset({"stumped", "run out", "hit wicket", "obstructing the field"})
"""The only dismissals off a wide (Law 22.9)."""

DISMISSALS: Final = BOWLERS_DISMISSALS | NO_BALL_DISMISSALS
"""Every dismissal possible off a ball."""


class Ball(NamedTuple):
    """The outcome of one ball, as a scorer needs it.

    Args:
        bat: Runs off the bat, including a boundary's allowance.
        noball: Called no-ball; the penalty run is implied and not part of any other field.
        wides: All runs of a wide, including its 1-run penalty; 0 when not wide.
        byes: Byes run or, with ``boundary``, allowed.
        legbyes: Leg-byes, likewise.
        penalty: Penalty runs to the batting side, a multiple of 5.
        ran: Completed runs by running (with an overthrow boundary also the run in progress if the batters had
            crossed at the throw); its parity decides the ends.
        boundary: The ball reached or cleared the boundary.
        dismissal: One of :data:`DISMISSALS`, or ``None``.
        striker_out: Whether the striker was run out (or obstructed); true for all other dismissals.
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
        """All runs that were not scored off the bat."""
        return self.wides + self.noball + self.byes + self.legbyes + self.penalty

    @property
    def runs(self) -> int:
        """Runs that the ball adds to the total."""
        return self.bat + self.wides + self.noball + self.byes + self.legbyes + self.penalty

    @property
    def extra_kind(self) -> str | None:
        """The kind of extra: noball, wide, bye, legbye or penalty, in this precedence."""
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
    """Return the scorer's sign for a ball.

    Signs are ``·``, ``4``, ``W``, ``wd``, ``2wd``, ``5nb``, ``2b``, ``lb``, ``1W``. The number counts all
    runs of the ball and is omitted if the sign already implies it.

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
    """Return overs in base-six notation: 22 balls are ``3.4`` and 24 are ``4.0``.

    >>> overs_text(22)
    '3.4'
    """
    overs, over_balls = divmod(balls, 6)
    return f"{overs}.{over_balls}"


Awaited = Literal["batter", "bowler", "ball", "nothing"]


class LawBroken(ValueError):
    """An attempt to do what the Laws forbid; nothing was changed.

    Args:
        rule: Short stable name, such as ``O3.consecutive_overs``.
        message: A sentence with the lawful alternative.
    """

    def __init__(self, rule: str, message: str) -> None:
        self.rule = rule
        self.message = message
        super().__init__(f"{rule}: {message}")


@dataclass(slots=True, eq=False)
class BatterLine:
    """A batter's scorecard line; ``number`` is the order of appearance, from 1."""

    player: int
    number: int = 0
    runs: int = 0
    balls: int = 0
    fours: int = 0
    sixes: int = 0
    how: str | None = None
    bowler: int | None = None
    fielder: int | None = None


@dataclass(slots=True, eq=False)
class BowlerLine:
    """A bowler's scorecard line; ``overs_begun`` counts part overs as whole (O4)."""

    player: int
    number: int = 0
    balls: int = 0
    runs: int = 0
    wickets: int = 0
    maidens: int = 0
    wides: int = 0
    noballs: int = 0
    overs_begun: int = 0


CardLine = TypeVar("CardLine", BatterLine, BowlerLine)


@dataclass(slots=True, eq=False)
class Innings:
    """The state of one innings, starting with both ends vacant.

    ``striker`` and ``non_striker`` are ends as well as players: ``None`` marks an end that the next batter
    takes. ``fall`` holds (runs, wicket, player, balls), ``overs`` holds (runs, wickets, maiden) of each
    completed over, and ``over_starters`` the bowler who began each over.

    Args:
        target: Runs that win it; ``None`` in a first innings.
        barred_batters: Players who may not bat after a dismissal in an earlier super over (R6).
        barred_bowlers: Players who may not bowl after bowling the previous super over (R6).
    """

    format: Format
    target: int | None = field(default=None, kw_only=True)
    barred_batters: Set[int] = field(default=frozenset(), kw_only=True)
    barred_bowlers: Set[int] = field(default=frozenset(), kw_only=True)
    limit: int = field(init=False)
    runs: int = 0
    wickets: int = 0
    balls: int = 0
    deliveries: int = 0
    wides: int = 0
    noballs: int = 0
    byes: int = 0
    legbyes: int = 0
    penalties: int = 0
    striker: int | None = None
    non_striker: int | None = None
    batting: dict[int, BatterLine] = field(default_factory=dict)
    bowling: dict[int, BowlerLine] = field(default_factory=dict)
    bowler: int | None = None
    over_bowlers: list[int] = field(default_factory=list)
    previous_bowlers: list[int] = field(default_factory=list)
    over_starters: list[int] = field(default_factory=list)
    over_balls: int = 0
    over_deliveries: int = 0
    over_runs: int = 0
    over_conceded: int = 0
    over_wickets: int = 0
    free_hit: bool = False
    fall: list[tuple[int, int, int, int]] = field(default_factory=list)
    partner_runs: int = 0
    partner_balls: int = 0
    partnerships: list[int] = field(default_factory=list)
    overs: list[tuple[int, int, bool]] = field(default_factory=list)
    closed: Literal["overs", "all out", "target"] | None = None

    def __post_init__(self) -> None:
        self.limit = self.format.wickets

    @property
    def awaited(self) -> Awaited:
        """The next required step; a batter comes in before the next bowler is chosen."""
        if self.closed:
            return "nothing"
        if self.striker is None or self.non_striker is None:
            return "batter"
        return "bowler" if self.bowler is None else "ball"

    @property
    def needed(self) -> int | None:
        """Runs still needed to win; ``None`` in a first innings."""
        return None if self.target is None else self.target - self.runs

    @property
    def balls_left(self) -> int:
        """Valid balls left."""
        return self.format.balls - self.balls

    def copy(self) -> Innings:
        """Return an independent copy."""
        twin = Innings.__new__(Innings)
        for name in Innings.__slots__:
            value = getattr(self, name)
            if isinstance(value, list):
                value = value.copy()
            setattr(twin, name, value)
        twin.batting = {player: _copy_line(line) for player, line in self.batting.items()}
        twin.bowling = {player: _copy_line(line) for player, line in self.bowling.items()}
        return twin


def _copy_line(line: CardLine) -> CardLine:
    return replace(line)
