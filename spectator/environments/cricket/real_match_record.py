"""The record of a real match: both elevens with their ratings, and every delivery as it was scored.

It is the option `real_match` of an episode, which can so be replayed without the file it was imported from.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from spectator.environments.cricket.laws import MAX_OVERS, SIDES, Side, overs_text
from spectator.environments.cricket.people import BowlingKind, Player, Role, Squad, Team, teams_of

ATTRIBUTION: Final = "Ball-by-ball data: Cricsheet (cricsheet.org), Open Data Commons Attribution License 1.0"
"""Shown wherever a real match is shown."""

MAX_DELIVERIES: Final = 500
Dismissal = Literal[
    "bowled", "caught", "caught and bowled", "lbw", "stumped", "hit wicket", "run out",
    "obstructing the field", "hit the ball twice", "retired hurt", "retired not out", "retired out",
    "timed out",
]  # fmt: skip
Text = Annotated[str, StringConstraints(min_length=1, max_length=120)]
Slot = Annotated[int, Field(ge=0, le=10)]
Ratio = Annotated[float, Field(ge=0.2, le=5.0)]
Figure = Annotated[int, Field(ge=0, le=99)]


class _RecordPart(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class RealPlayer(_RecordPart):
    """A player with shrunk ratings; ratios as in `people.Player`."""

    name: Text
    role: Role
    bowls: BowlingKind | None = None
    bat_runs: Ratio = 1.0
    bat_out: Ratio = 1.0
    bowl_runs: Ratio = 1.0
    bowl_wickets: Ratio = 1.0
    bowl_extras: Ratio = 1.0


class RealWicket(_RecordPart):
    """How a batter left at a delivery; players are places in the elevens."""

    at: int = Field(ge=0, description="Index of the delivery")
    kind: Dismissal
    out: Slot
    fielder: Slot | None = None


class RealInnings(_RecordPart):
    """An innings as it was scored."""

    batting: int = Field(ge=0, le=1, description="Team that bats: 0 or 1")
    balls: list[Annotated[list[Figure], Field(min_length=4, max_length=11)]] = Field(
        max_length=MAX_DELIVERIES,
        description="Over, striker, non-striker, bowler, bat, wides, no-balls, byes, leg-byes, penalty, and "
        "1 if four or six were run; zeros at the end are omitted",
    )
    wickets: list[RealWicket] = Field(default_factory=list, max_length=40)
    absent: int = Field(default=0, ge=0, le=9, description="Players who could not bat")
    before: int = Field(default=0, ge=0, le=50, description="Penalty runs before the first ball")
    after: int = Field(default=0, ge=0, le=50, description="Penalty runs after the last ball")

    @field_validator("balls")
    @classmethod
    def _of_the_elevens(cls, balls: list[list[int]]) -> list[list[int]]:
        if any(row[0] >= MAX_OVERS or max(row[1:4]) > 10 for row in balls):
            raise ValueError(f"overs must be 0 to {MAX_OVERS - 1} and players 0 to 10")
        return balls


class Substitution(_RecordPart):
    """A player who takes another's place from a delivery on."""

    innings: int = Field(ge=1, le=2)
    at: int = Field(ge=0)
    team: int = Field(ge=0, le=1)
    place: Slot
    player: RealPlayer


class Stop(_RecordPart):
    """The first delivery that the world cannot follow, and why."""

    innings: int = Field(ge=1, le=2)
    at: int = Field(ge=0)
    why: Annotated[str, StringConstraints(max_length=300)]


class OverPrice(_RecordPart):
    """What a real over was worth to the fielding side, in chances to win.

    Args:
        before: With the bowler who bowled it, before its first ball.
        best: With the best bowler.
        after: After its last ball.
    """

    innings: int = Field(ge=1, le=2)
    over: int = Field(ge=1, le=MAX_OVERS)
    bowler: Text
    runs: Figure
    wickets: Figure
    before: float
    best_bowler: Text
    best: float
    error: float = Field(description="Standard error of `best` minus `before`")
    after: float


class RealMatch(_RecordPart):
    """The record of a real match."""

    title: Text
    date: Text
    venue: Text
    teams: list[Text] = Field(min_length=2, max_length=2)
    elevens: list[Annotated[list[RealPlayer], Field(min_length=11, max_length=11)]] = Field(
        min_length=2, max_length=2
    )
    overs: int = Field(ge=1, le=MAX_OVERS)
    toss: int = Field(ge=0, le=1, description="Team that won it")
    elected: Literal["bat", "field"]
    innings: list[RealInnings] = Field(min_length=1, max_length=2)
    result: Text
    substitutions: list[Substitution] = Field(default_factory=list, max_length=10)
    stop: Stop | None = None
    prices: list[OverPrice] = Field(default_factory=list, max_length=2 * MAX_OVERS)

    @model_validator(mode="after")
    def _has_keepers_and_names(self) -> RealMatch:
        for eleven in self.elevens:
            if sum(one.role == "keeper" for one in eleven) != 1:
                raise ValueError("each eleven must have one keeper")
        names = [one.name for eleven in self.elevens for one in eleven]
        if len(set(names)) < len(names) or len(set(self.teams)) < 2:
            raise ValueError("players and teams must have different names")
        for one in self.substitutions:
            keeps = self.elevens[one.team][one.place].role == "keeper"
            if (one.player.role == "keeper") != keeps:
                raise ValueError("a substitute must keep wicket exactly if the replaced player does")
        return self


class MatchPlace(NamedTuple):
    """A place in a real match: before delivery ``at`` (from 0) of an innings."""

    innings: int
    at: int


class RecordError(ValueError):
    """A record that the world cannot follow, or a position that is not in it.

    Args:
        place: The first delivery that cannot be followed, if it is one.
    """

    def __init__(self, message: str, place: MatchPlace | None = None) -> None:
        super().__init__(message)
        self.place = place


START: Final = "1:0.0"
_PLACE: Final = re.compile(r"(?:([12]):)?(\d{1,2})\.([0-5])(?:\+(\d))?")


def place_of(record: RealMatch, text: str) -> MatchPlace:
    """Return the place that a text names.

    Args:
        text: Such as ``2:14.3``: the second innings after 14.3 overs; the first innings if none is named.
            ``14.3+1`` is one delivery later, after a wide or no-ball.

    Raises:
        RecordError: The text names no ball of the match, or one that the world cannot follow.
    """
    found = _PLACE.fullmatch(text)
    if found is None:
        raise RecordError("must name an innings and overs, such as 2:14.3 (or 2:14.3+1 one delivery later)")
    number, over, ball, more = (int(part or 0) for part in found.groups())
    number = number or 1
    if number > len(record.innings):
        raise RecordError("the match has no second innings; start in the first")
    rows, wanted, valid, at = record.innings[number - 1].balls, 6 * over + ball, 0, 0
    while at < len(rows) and valid < wanted:
        _, _, _, _, _, wides, noballs, *_ = whole_row(rows[at])
        valid += not (wides or noballs)
        at += 1
    if valid < wanted or at + more > len(rows):
        raise RecordError(f"innings {number} has only {_counted(rows)}; start at {text!r} is not in it")
    at += more
    place, stop = MatchPlace(number, at), record.stop
    if stop is not None and (place > (stop.innings, stop.at) or place == (2, 0) == (stop.innings, stop.at)):
        raise RecordError(f"the world cannot follow the match to {text!r}: {stop.why}")
    return place


def _counted(rows: list[list[int]]) -> str:
    balls = sum(1 for row in rows if not any(whole_row(row)[5:7]))
    return f"{overs_text(balls)} overs in {len(rows)} deliveries"


def whole_row(row: list[int]) -> list[int]:
    """Return a delivery with the zeros that its row omits."""
    return row + [0] * (11 - len(row))


def teams_at(record: RealMatch, place: MatchPlace, home: int = 0) -> dict[Side, Team]:
    """Return both elevens as they are at a place, with substitutes in.

    Args:
        home: The team that takes the home seat, 0 or 1.
    """
    elevens = [list(eleven) for eleven in record.elevens]
    for one in record.substitutions:
        if (one.innings, one.at) <= place:
            elevens[one.team][one.place] = one.player
    squads = [
        Squad(name, tuple(_player(f"{seat}{order}", player, order) for order, player in enumerate(eleven, 1)))
        for seat, name, eleven in zip("ab", record.teams, elevens, strict=True)
    ]
    return teams_of(squads if home == 0 else squads[::-1])


def _player(id: str, one: RealPlayer, order: int) -> Player:
    style = {"pace": "right_pace", "spin": "off", None: None}[one.bowls]
    return Player(
        id, one.name, one.role, order, bowls=one.bowls, style=style,  # type: ignore[arg-type]  # of its kind
        bat_runs=one.bat_runs, bat_out=one.bat_out, bowl_runs=one.bowl_runs,
        bowl_wickets=one.bowl_wickets, bowl_extras=one.bowl_extras,
    )  # fmt: skip


def side_of(team: int, home: int) -> Side:
    """Return the seat of a team."""
    return SIDES[team if home == 0 else 1 - team]


def shown(record: RealMatch, home: int, text: str) -> dict[str, Any]:
    """Return what viewers see of a real match: its line by over, its result, and the prices of its overs."""
    lines = {str(number): _line(one) for number, one in enumerate(record.innings, 1)}
    return {
        "title": record.title,
        "venue": record.venue,
        "date": record.date,
        "result": record.result,
        "start": text,
        "attribution": ATTRIBUTION,
        "lines": lines,
        "batting": {str(number): side_of(one.batting, home) for number, one in enumerate(record.innings, 1)},
        **({"prices": [one.model_dump() for one in record.prices]} if record.prices else {}),
    }


def _line(innings: RealInnings) -> list[list[int]]:
    """Return runs and wickets after each over that was begun, from the deliveries alone."""
    line: list[list[int]] = []
    runs, wickets = innings.before, 0
    out = [one.at for one in innings.wickets if one.kind not in ("retired hurt", "retired not out")]
    for at, short in enumerate(innings.balls):
        row = whole_row(short)
        runs += sum(row[4:10])
        wickets += out.count(at)
        while len(line) <= row[0]:
            line.append([runs, wickets])
        line[row[0]] = [runs, wickets]
    return line
