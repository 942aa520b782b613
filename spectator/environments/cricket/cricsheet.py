"""Cricsheet's JSON format (version 1): read and check a match file.

Only what the world can play is taken: limited overs of six balls, two innings. Everything else is refused,
or left out, with a sentence that names its place in the file. The data is ODC-By 1.0; none is shipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from spectator.environments.cricket.laws import MAX_OVERS
from spectator.environments.cricket.real_match_record import MatchPlace, RealWicket, Stop
from spectator.errors import SpectatorError
from spectator.text import clean_text

MAX_BYTES: Final = 20_000_000
Name = Annotated[
    str, StringConstraints(min_length=1, max_length=80), AfterValidator(lambda text: clean_text(text, 80))
]
Count = Annotated[int, Field(ge=0, le=99)]
M = TypeVar("M", bound=BaseModel)


class CricsheetError(SpectatorError):
    """A file that is not a match that the world can play; the message says where and why."""


class _SheetPart(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class _SheetRuns(_SheetPart):
    batter: Count
    extras: Count
    total: Count
    non_boundary: bool = False


class _SheetExtras(_SheetPart):
    wides: Count = 0
    noballs: Count = 0
    byes: Count = 0
    legbyes: Count = 0
    penalty: Count = 0


class _SheetFielder(_SheetPart):
    name: Name | None = None


class _SheetWicket(_SheetPart):
    kind: Name
    player_out: Name
    fielders: list[_SheetFielder] = Field(default_factory=list)


class SheetReplacement(_SheetPart):
    """A substitute who comes in."""

    team: Name
    incoming: Name = Field(alias="in")
    outgoing: Name | None = Field(alias="out", default=None)


class _SheetRole(_SheetPart):
    role: Name
    outgoing: Name | None = Field(alias="out", default=None)


class _SheetReplacements(_SheetPart):
    role: list[_SheetRole] = Field(default_factory=list)
    match: list[SheetReplacement] = Field(default_factory=list)


_NO_EXTRAS: Final = _SheetExtras()
_NO_REPLACEMENTS: Final = _SheetReplacements()


class SheetDelivery(_SheetPart):
    """A delivery."""

    batter: Name
    bowler: Name
    non_striker: Name
    runs: _SheetRuns
    extras: _SheetExtras = Field(default_factory=lambda: _NO_EXTRAS)
    wickets: list[_SheetWicket] = Field(default_factory=list)
    replacements: _SheetReplacements = Field(default_factory=lambda: _NO_REPLACEMENTS)


class _SheetOver(_SheetPart):
    over: int = Field(ge=0, lt=MAX_OVERS)
    deliveries: list[SheetDelivery] = Field(max_length=60)


class _SheetTarget(_SheetPart):
    runs: int | None = None
    overs: float | int | None = None


class _SheetPenalty(_SheetPart):
    pre: int = Field(default=0, ge=0, le=50)
    post: int = Field(default=0, ge=0, le=50)


class _SheetInnings(_SheetPart):
    team: Name
    overs: list[_SheetOver] = Field(default=[], max_length=2 * MAX_OVERS)
    target: _SheetTarget = _SheetTarget()
    penalty_runs: _SheetPenalty = _SheetPenalty()
    absent_hurt: list[Name] = Field(default_factory=list)
    super_over: bool = False
    forfeited: bool = False


class _SheetBy(_SheetPart):
    runs: int | None = None
    wickets: int | None = None


class SheetOutcome(_SheetPart):
    """How a match ended."""

    winner: Name | None = None
    by: _SheetBy = _SheetBy()
    result: str | None = None
    eliminator: Name | None = None
    bowl_out: Name | None = None
    method: str | None = None


class _SheetToss(_SheetPart):
    winner: Name
    decision: Literal["bat", "field"]


class _SheetRegistry(_SheetPart):
    people: dict[Name, str] = {}


class _SheetInfo(_SheetPart):
    balls_per_over: int = 6
    dates: list[Name] = Field(min_length=1)
    gender: Literal["male", "female"]
    match_type: Name
    overs: int | None = None
    outcome: SheetOutcome
    players: dict[Name, list[Name]]
    registry: _SheetRegistry = _SheetRegistry()
    season: str | int | None = None
    teams: list[Name] = Field(min_length=2, max_length=2)
    toss: _SheetToss
    venue: Name = "unknown venue"


class _SheetMeta(_SheetPart):
    data_version: str


class _SheetCheck(_SheetPart):
    meta: _SheetMeta
    info: dict[str, Any]


class _SheetFile(_SheetPart):
    info: _SheetInfo
    innings: list[_SheetInnings] = Field(default_factory=list)


DISMISSALS: Final = {"handled the ball": "obstructing the field"}
_KNOWN: Final = frozenset(RealWicket.model_fields["kind"].annotation.__args__)  # type: ignore[union-attr]


@dataclass(slots=True)
class Scorebook:
    """A match file that was read.

    Args:
        key: Name of its pack, from the file's name.
        keys: The key of each person by name: the registry's id, or name and file without one.
        elevens: Names of both elevens as they started, in the file's order.
        overs: Overs of an innings.
        notes: Sentences on what was left out or assumed.
    """

    key: str
    file: _SheetFile
    keys: dict[str, str]
    elevens: list[list[str]]
    overs: int
    notes: list[str] = field(default_factory=list)
    stop: Stop | None = None

    @property
    def innings(self) -> Sequence[_SheetInnings]:
        """The two innings of the match, or one."""
        return [one for one in self.file.innings if not one.super_over]

    @property
    def women(self) -> bool:
        """Whether it is women's cricket."""
        return self.file.info.gender == "female"

    @property
    def venue(self) -> str:
        """The venue without its city, so that both spellings are one ground."""
        return self.file.info.venue.partition(",")[0]

    @property
    def season(self) -> str:
        """The season, or the year of its first day."""
        season = self.file.info.season
        return str(season) if season is not None else self.file.info.dates[0][:4]

    def deliveries(self) -> Iterator[tuple[MatchPlace, int, SheetDelivery, int]]:
        """Yield place, over, delivery and the batting team of every ball."""
        for number, innings in enumerate(self.innings, 1):
            team, at = self.file.info.teams.index(innings.team), 0
            for over in innings.overs:
                for delivery in over.deliveries:
                    yield MatchPlace(number, at), over.over, delivery, team
                    at += 1


def read_scorebook(text: bytes, name: str) -> Scorebook:
    """Read a Cricsheet file.

    Args:
        name: The file's name without its ending.

    Raises:
        CricsheetError: It is not a match that the world can play.
    """
    if len(text) > MAX_BYTES:
        raise CricsheetError(f"the file is larger than {MAX_BYTES // 1_000_000} MB; is it one match?")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CricsheetError(f"not readable as JSON ({error}); is it torn? Download it again") from error
    version = _checked(_SheetCheck, data).meta.data_version
    if not version.startswith("1."):
        raise CricsheetError(
            f"meta.data_version is {version!r}; only version 1 is read. Download JSON, not YAML"
        )
    _refuse_formats(data["info"])
    file = _checked(_SheetFile, data)
    info = file.info
    elevens = [_eleven(file, team) for team in info.teams]
    people = info.registry.people
    keys = {one: people.get(one, f"{one} ({name})") for team in info.teams for one in info.players[team]}
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:48] or "match"
    book = Scorebook(f"real-{slug}", file, keys, elevens, info.overs or 0)
    unknown = [one for one in keys if one not in people]
    if unknown:
        book.notes.append(
            f"info.registry.people: no id for {', '.join(unknown[:3])}{' and others' if unknown[3:] else ''} "
            "(known by name within this file only)"
        )
    _check_innings(book)
    return book


def _checked(model: type[M], data: Any) -> M:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"])
        place = clean_text("".join(parts).removeprefix("."), 120) or "the file"
        raise CricsheetError(
            f"{place}: {problem['msg'][0].lower()}{problem['msg'][1:]}; not a whole Cricsheet match"
        ) from error


def _refuse_formats(info: Mapping[str, Any]) -> None:
    balls, overs, kind = info.get("balls_per_over", 6), info.get("overs"), info.get("match_type")
    if balls != 6:
        raise CricsheetError(f"info.balls_per_over is {balls}; the world plays overs of six balls")
    if type(overs) is not int or not 1 <= overs <= MAX_OVERS:
        what = "missing" if overs is None else clean_text(repr(overs), 20)
        raise CricsheetError(
            f"info.overs is {what} (match type {clean_text(str(kind), 20)}); the world plays innings of 1 to "
            f"{MAX_OVERS} overs"
        )


def _eleven(file: _SheetFile, team: str) -> list[str]:
    """Return the eleven who started, without later replacements."""
    named = file.info.players.get(team)
    if named is None:
        raise CricsheetError(f"info.players has no list for {team!r}, a team of info.teams")
    incoming, active = set[str](), set[str]()
    for innings in file.innings:
        for over in innings.overs:
            for one in over.deliveries:
                active |= {one.batter, one.non_striker, one.bowler}
                incoming |= {new.incoming for new in one.replacements.match}
    eleven = [name for name in dict.fromkeys(named) if name not in incoming]
    idle = [name for name in eleven if name not in active]
    while len(eleven) > 11 and idle:
        eleven.remove(idle.pop())
    if len(eleven) != 11:
        raise CricsheetError(
            f"info.players[{team!r}] names {len(eleven)} players without replacements; eleven are needed"
        )
    return eleven


def _check_innings(book: Scorebook) -> None:
    info, played = book.file.info, book.innings
    if not played or not any(one.overs for one in played):
        raise CricsheetError("innings is empty: no ball was bowled, so there is nothing to play on")
    if len(played) > 2:
        raise CricsheetError(f"innings has {len(played)} entries besides super overs; the world plays two")
    for number, one in enumerate(played):
        if one.team not in info.teams:
            raise CricsheetError(f"innings[{number}].team is {one.team!r}, which is not in info.teams")
        if one.forfeited:
            raise CricsheetError(f"innings[{number}] was forfeited; the world plays both innings")
    if info.toss.winner not in info.teams:
        raise CricsheetError(f"info.toss.winner is {info.toss.winner!r}, which is not in info.teams")
    if len(played) == 2 and played[0].team == played[1].team:
        raise CricsheetError("innings[1].team is the team of innings[0]; each bats once")
    if len(played) < len(book.file.innings):
        number = next(at for at, one in enumerate(book.file.innings) if one.super_over)
        book.notes.append(f"innings[{number}] is a super over: left out; the match is played on to its tie")
    if info.outcome.result == "no result":
        book.notes.append(
            "info.outcome: no result; it can be played on from any ball, and counts for ratings"
        )
    for number, one in enumerate(played):
        for over in one.overs:
            for at, ball in enumerate(over.deliveries):
                _check_delivery(book, f"innings[{number}].overs[{over.over}].deliveries[{at}]", ball)
    if len(played) == 2:
        _check_target(book)


def _check_delivery(book: Scorebook, place: str, ball: SheetDelivery) -> None:
    for part in ("batter", "non_striker", "bowler"):
        if getattr(ball, part) not in book.keys:
            raise CricsheetError(f"{place}.{part}: {getattr(ball, part)!r} is not in info.players")
    extras = ball.extras
    given = extras.wides + extras.noballs + extras.byes + extras.legbyes + extras.penalty
    if ball.runs.extras != given or ball.runs.total != ball.runs.batter + given:
        raise CricsheetError(f"{place}.runs: batter and extras do not add up to the total")
    for wicket in ball.wickets:
        if DISMISSALS.get(wicket.kind, wicket.kind) not in _KNOWN:
            raise CricsheetError(f"{place}.wickets: unknown kind {wicket.kind!r}")
        if wicket.player_out not in book.keys:
            raise CricsheetError(f"{place}.wickets: {wicket.player_out!r} is not in info.players")


def _check_target(book: Scorebook) -> None:
    """Note where a match was shortened, and how far it can be played then."""
    first, second = book.innings
    target, method = second.target, book.file.info.outcome.method
    made = sum(one.runs.total for over in first.overs for one in over.deliveries)
    made += first.penalty_runs.pre + first.penalty_runs.post
    by = f" ({method})" if method else ""
    if target.overs is not None and target.overs != book.overs:
        if method is None and len(first.overs) <= target.overs == int(target.overs):
            book.overs = int(target.overs)
            book.notes.append(f"innings[1].target.overs: played as {book.overs} overs a side")
            return
        why = f"innings[1].target.overs is {target.overs:g} of {book.overs}: shortened{by}"
    elif target.runs is not None and target.runs != made + 1:
        why = f"innings[1].target.runs is {target.runs}, but {made} were made first: a revised target{by}"
    else:
        return
    book.stop = Stop(innings=2, at=0, why=f"{why}, so only the first innings can be played on")
