"""The state of one innings: score, scorecard lines, who is at which end, and what must happen next.

It knows neither teams nor chance; players are the indices 0 .. 10 of their sides. :mod:`.scorer` changes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeVar

from spectator.environments.cricket.laws.formats import Format

Awaited = Literal["batter", "bowler", "ball", "nothing"]


class LawBroken(ValueError):
    """Something that the Laws do not allow; nothing was changed.

    Args:
        rule: Short stable name, such as ``O3.consecutive_overs``.
        message: A sentence that says what would be lawful.
    """

    def __init__(self, rule: str, message: str) -> None:
        self.rule = rule
        self.message = message
        super().__init__(f"{rule}: {message}")


class BatterLine:
    """One batter's line of the scorecard; ``number`` is the order of appearance, from 1."""

    __slots__ = ("balls", "bowler", "fielder", "fours", "how", "number", "player", "runs", "sixes")

    def __init__(self, player: int, number: int = 0) -> None:
        self.player = player
        self.number = number
        self.runs = self.balls = self.fours = self.sixes = 0
        self.how: str | None = None
        self.bowler: int | None = None
        self.fielder: int | None = None


class BowlerLine:
    """One bowler's line of the scorecard; ``overs_begun`` counts part overs as whole ones (O4)."""

    __slots__ = ("balls", "maidens", "noballs", "number", "overs_begun", "player", "runs", "wickets", "wides")

    def __init__(self, player: int, number: int = 0) -> None:
        self.player = player
        self.number = number
        self.balls = self.runs = self.wickets = self.maidens = self.wides = self.noballs = (
            self.overs_begun
        ) = 0


CardLine = TypeVar("CardLine", BatterLine, BowlerLine)


class Innings:
    """The state of one innings; it begins with both ends vacant and awaits its openers.

    ``striker`` and ``non_striker`` are ends as much as players: ``None`` marks an end that the next batter
    takes. ``fall`` holds (runs, wicket, player, balls) and ``overs`` (runs, wickets, maiden)
    of each completed over, ``over_starters`` who began each over.

    Args:
        format: Its format.
        target: Runs that win it; ``None`` in a first innings.
        players: Batters that the side has (11; K8).
        barred_batters: Players who may not bat, as dismissed in an earlier super over (R6).
        barred_bowlers: Players who may not bowl, as the bowler of the super over before (R6).
    """

    __slots__ = (
        "balls",
        "barred_batters",
        "barred_bowlers",
        "batting",
        "bowler",
        "bowling",
        "byes",
        "closed",
        "deliveries",
        "fall",
        "format",
        "free_hit",
        "legbyes",
        "limit",
        "noballs",
        "non_striker",
        "over_balls",
        "over_bowlers",
        "over_conceded",
        "over_deliveries",
        "over_runs",
        "over_starters",
        "over_wickets",
        "overs",
        "partner_balls",
        "partner_runs",
        "partnerships",
        "penalties",
        "previous_bowlers",
        "retired",
        "runs",
        "striker",
        "target",
        "wickets",
        "wides",
    )

    def __init__(
        self,
        format: Format,
        *,
        target: int | None = None,
        players: int = 11,
        barred_batters: Iterable[int] = (),
        barred_bowlers: Iterable[int] = (),
    ) -> None:
        self.format = format
        self.target = target
        self.barred_batters = frozenset(barred_batters)
        self.barred_bowlers = frozenset(barred_bowlers)
        self.limit = min(format.wickets, players - 1)
        self.runs = self.wickets = self.balls = self.deliveries = 0
        self.wides = self.noballs = self.byes = self.legbyes = self.penalties = 0
        self.striker: int | None = None
        self.non_striker: int | None = None
        self.batting: dict[int, BatterLine] = {}
        self.bowling: dict[int, BowlerLine] = {}
        self.bowler: int | None = None
        self.over_bowlers: list[int] = []
        self.previous_bowlers: list[int] = []
        self.over_starters: list[int] = []
        self.over_balls = self.over_deliveries = self.over_runs = self.over_conceded = self.over_wickets = 0
        self.free_hit = False
        self.fall: list[tuple[int, int, int, int]] = []
        self.partner_runs = self.partner_balls = 0
        self.partnerships: list[int] = []
        self.overs: list[tuple[int, int, bool]] = []
        self.retired: list[int] = []
        self.closed: Literal["overs", "all out", "target"] | None = None

    @property
    def awaited(self) -> Awaited:
        """What must happen next: the next batter comes in before the next bowler is chosen."""
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
        """An independent copy."""
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
    twin = type(line)(line.player)
    for name in line.__slots__:
        setattr(twin, name, getattr(line, name))
    return twin
