"""Real matches: their records, their score at any ball, and play from there.

A record holds both elevens with their ratings and every delivery as it was scored. It is the option
`real_match` of an episode, which can so be replayed without the file it was imported from. Play starts at any
ball of it; what happened afterwards is shown to viewers, never to captains.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from spectator.environments.cricket import scorer
from spectator.environments.cricket.ball.outcomes import BallTracker, BowledBall
from spectator.environments.cricket.ball.plan_effects import PlanEffects
from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.ball.situation import Effects, Situation
from spectator.environments.cricket.ball.tables import (
    BYE,
    DOT,
    FOUR,
    NO_BALL,
    ONE,
    RUN_OUT,
    SIX,
    THREE,
    TWO,
    WICKET,
    WIDE,
)
from spectator.environments.cricket.laws import (
    MAX_OVERS,
    NO_BALL_DISMISSALS,
    SIDES,
    Ball,
    BowlerLine,
    Innings,
    LawBroken,
    Side,
    format_of,
    mark,
    overs_text,
)
from spectator.environments.cricket.match.engine import BattingIntent, BowlingIntent, Match
from spectator.environments.cricket.match.forecasts import PitchReading
from spectator.environments.cricket.match.game import RECENT_BALLS, Game
from spectator.environments.cricket.match.starts import position
from spectator.environments.cricket.people import BowlingKind, Player, Role, Squad, Team, teams_of

ATTRIBUTION: Final = "Ball-by-ball data: Cricsheet (cricsheet.org), Open Data Commons Attribution License 1.0"
"""Shown wherever a real match is shown."""

MAX_DELIVERIES: Final = 500
Retirement = Literal["retired hurt", "retired not out", "retired out", "timed out"]
WICKETS: Final = frozenset({"retired out", "timed out"})
"""Ways of leaving without a ball that count as a wicket."""
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
        _, _, _, _, _, wides, noballs, *_ = _whole(rows[at])
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
    balls = sum(1 for row in rows if not any(_whole(row)[5:7]))
    return f"{overs_text(balls)} overs in {len(rows)} deliveries"


def _whole(row: list[int]) -> list[int]:
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


@dataclass(slots=True)
class Replayed:
    """A delivery that is about to be scored again.

    Args:
        situation: The state before it, under usual play.
        category: The model's category of what happened.
    """

    place: MatchPlace
    row: list[int]
    situation: Situation
    ball: Ball
    category: int


def replay(match: Match, record: RealMatch, until: MatchPlace | None = None) -> Iterator[Replayed]:
    """Score a real match again, delivery by delivery; each is scored after it was yielded.

    Args:
        match: A match before its first ball, with the record's elevens.
        until: The place to stop before; by default the end.

    Raises:
        RecordError: The Laws of this world do not allow what was recorded.
    """
    for number, played in enumerate(record.innings, 1):
        if until is not None and number > until.innings:
            return
        try:
            if number == 2:
                _open_second(match)
            innings = match.current
            innings.limit -= played.absent
            _add_penalty(innings, played.before)
        except (LawBroken, RecordError) as error:
            raise RecordError(getattr(error, "message", str(error)), MatchPlace(number, 0)) from error
        leaving: dict[int, list[RealWicket]] = {}
        for wicket in played.wickets:
            leaving.setdefault(wicket.at, []).append(wicket)
        for at, short in enumerate(played.balls):
            place = MatchPlace(number, at)
            row = _whole(short)
            if place == until:
                _change_ends(innings, row)
                return
            try:
                ball, fielder = _ready(match, row, leaving.get(at, []))
                situation = match.situation(BattingIntent(), BowlingIntent())
                if situation is None:
                    raise RecordError("no ball could be bowled in this state")
                yield Replayed(place, row, situation, ball, category_of(ball))
                scorer.take_ball(innings, ball, fielder)
                for wicket in leaving.get(at, []):
                    if wicket.kind.startswith(("retired", "timed")):
                        _retire(innings, wicket)
            except LawBroken as error:
                raise RecordError(error.message, place) from error
            except RecordError as error:
                raise RecordError(str(error), place) from error
        _add_penalty(innings, played.after)


def reach(match: Match, record: RealMatch, place: MatchPlace) -> Iterator[Replayed]:
    """Bring a match to a place of the record, as :func:`replay` does, ready to be played on.

    Raises:
        RecordError: See :func:`replay`; or the match is decided there.
    """
    yield from replay(match, record, place)
    if match.current.closed:
        match.close_innings()
    if match.result is not None:
        raise RecordError("the match is over there; start at an earlier ball")


def new_match(record: RealMatch, place: MatchPlace, model: BallModel, rng: random.Random) -> Match:
    """Return a match before its first ball, with the elevens of a place; the first team is at home."""
    first = side_of(record.innings[0].batting, 0)
    return Match(format_of(record.overs), teams_at(record, place), first, model, rng)


def _open_second(match: Match) -> None:
    innings = match.current
    if not innings.closed:
        bowled, overs = overs_text(innings.balls), innings.format.overs
        raise RecordError(
            f"the first innings ended after {bowled} of {overs} overs, so the match was shortened"
        )
    match.close_innings()


def _add_penalty(innings: Innings, runs: int) -> None:
    innings.runs += runs
    innings.penalties += runs


def _ready(match: Match, row: list[int], wickets: list[RealWicket]) -> tuple[Ball, int | None]:
    """Bring in the batters and the bowler of a delivery, and return it with its fielder."""
    innings = match.current
    over, striker, partner, bowler = row[:4]
    if innings.closed:
        raise RecordError("the innings was over before this delivery")
    if over != innings.balls // 6:
        raise RecordError(f"over {innings.balls // 6 + 1} does not have six valid balls (miscounted)")
    if striker == partner:
        raise RecordError("the same batter is at both ends")
    _bring_in(innings, striker, partner)
    if innings.bowler is None:
        match.give_ball(bowler)
    elif innings.bowler != bowler:
        _relieve(innings, bowler)
    ball, fielder = _ball(row, wickets, striker)
    if ball.dismissal not in (None, *NO_BALL_DISMISSALS):
        innings.free_hit = False  # not every competition has free hits for every no-ball
    return ball, fielder


def _change_ends(innings: Innings, row: list[int]) -> None:
    """MatchPlace the batters who are in as the next delivery has them, since no record says who crossed."""
    known = {innings.striker, innings.non_striker} - {None}
    if known and known <= {row[1], row[2]}:
        innings.striker, innings.non_striker = (end if end in known else None for end in row[1:3])


def _bring_in(innings: Innings, striker: int, partner: int) -> None:
    at_crease = {innings.striker, innings.non_striker} - {None}
    for gone in at_crease - {striker, partner}:
        raise RecordError(f"batter {gone + 1} of the order left without a dismissal")  # type: ignore[operator]
    for player in (striker, partner):
        if player in at_crease:
            continue
        line = innings.batting.get(player)
        if line is not None and line.how in ("retired hurt", "retired not out"):
            line.how = None
            innings.limit += 1
        elif line is not None:
            raise RecordError("a substitute bats in the place of one who has batted, as a twelfth batter")
        else:
            scorer.take_batter(innings, player)
    innings.striker, innings.non_striker = striker, partner


def _relieve(innings: Innings, bowler: int) -> None:
    """Let another bowler finish an over (Law 17.8): it counts for both, and the first began it."""
    if bowler in innings.previous_bowlers or not scorer.overs_left(innings, bowler):
        raise RecordError("the bowler who finished this over had no over left or bowled the one before")
    line = innings.bowling.get(bowler)
    if line is None:
        line = innings.bowling[bowler] = BowlerLine(bowler, len(innings.bowling) + 1)
    line.overs_begun += 1
    innings.bowler = bowler
    innings.over_bowlers.append(bowler)


def _retire(innings: Innings, wicket: RealWicket) -> None:
    """Take a batter off who left without a ball; see docs/cricket-laws.md, K7."""
    player = wicket.out
    if player not in innings.batting:
        scorer.take_batter(innings, player)  # timed out on the way in
    if player == innings.striker:
        innings.striker = None
    elif player == innings.non_striker:
        innings.non_striker = None
    else:
        raise RecordError(f"a batter is {wicket.kind} who was not in")
    innings.batting[player].how = wicket.kind
    if wicket.kind in WICKETS:
        innings.wickets += 1
        innings.over_wickets += 1
        innings.fall.append((innings.runs, innings.wickets, player, innings.balls))
    else:
        innings.limit -= 1
    innings.partnerships.append(innings.partner_runs)
    innings.partner_runs = innings.partner_balls = 0
    if innings.closed is None and innings.wickets >= innings.limit:
        innings.closed = "all out"


def _ball(row: list[int], wickets: list[RealWicket], striker: int) -> tuple[Ball, int | None]:
    """Return a delivery as the scorer needs it, and the fielder of its dismissal.

    Runs beyond the penalty that were scored as no-balls or with a wide go to byes or wides, as the Laws count
    them today.
    """
    bat, wides, noballs, byes, legbyes, penalty, ran_all = row[4:]
    if noballs > 1:
        byes += noballs - 1
    if wides:
        wides, byes, legbyes = wides + byes + legbyes, 0, 0
    scored = bat + byes + legbyes + max(0, wides - 1)
    boundary = not ran_all and (bat in (4, 6) or (not bat and scored == 4))
    taken = [one for one in wickets if not one.kind.startswith(("retired", "timed"))]
    if len(taken) > 1:
        raise RecordError("two batters are out off one delivery")
    out = taken[0] if taken else None
    ball = Ball(
        bat, wides > 0, noballs > 0, wides, byes, legbyes, penalty, 0 if boundary else scored, boundary,
        out.kind if out else None, out is None or out.out == striker,
    )  # fmt: skip
    return ball, out.fielder if out else None


_RUNS: Final = {0: DOT, 1: ONE, 2: TWO, 3: THREE, 4: FOUR, 5: FOUR, 6: SIX}


def category_of(ball: Ball) -> int:
    """Return the model's category of a ball."""
    if ball.noball:
        return NO_BALL
    if ball.wide:
        return WIDE
    if ball.dismissal:
        return RUN_OUT if ball.dismissal in NO_BALL_DISMISSALS else WICKET
    if ball.byes or ball.legbyes:
        return BYE
    return _RUNS.get(ball.bat, SIX)


def start_at(game: Game, record: RealMatch, place: MatchPlace, home: int, rng: random.Random) -> None:
    """Bring a game from before its toss to a place of a real match.

    The day's effect is drawn from what the balls so far reveal of it.

    Raises:
        RecordError: See :func:`replay`.
    """
    game.toss_winner, game.elected, game.called = side_of(record.toss, home), record.elected, "heads"
    game.announce_toss()
    match = game.new_match(side_of(record.innings[0].batting, home))
    tracker, marks = BallTracker(PlanEffects(match.model.tables)), list[str]()
    for one in reach(match, record, place):
        track = (0.0, 0.0, 0.0, 0.0), (0, 0, 0, one.category)
        game.reading.observe(one.place.innings, BowledBall(one.ball, one.situation, *track, tracker))
        marks.append(mark(one.ball))
    innings = match.current
    match.restore(likely_effects(match, game.reading, rng), match.batting, match.innings)
    game.match = match
    this_over = marks[len(marks) - innings.over_deliveries :]
    if match.number > 1 or innings.deliveries:
        game.emit("position_set", position(match, this_over))
    if not innings.deliveries:
        game.announce_innings()
        return
    game.recent, game.this_over = marks[-min(RECENT_BALLS, innings.deliveries) :], this_over
    game.open_field()


def likely_effects(match: Match, reading: PitchReading, rng: random.Random) -> Effects:
    """Draw the effects of match and innings given the balls that were read."""
    match_sd, innings_sd = match.model.tables.effect_sd
    shared = match_sd**2 / (match_sd**2 + innings_sd**2)
    drawn = match.model.draw_effects(rng)
    expected = reading.expected(match.number)
    total = rng.gauss(expected.mean, expected.sd)
    day = rng.gauss(shared * total, match_sd * math.sqrt(1.0 - shared))
    own = list(drawn.innings)
    own[match.number - 1] = total - day
    return Effects(match.model.level + day, tuple(own))


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
        row = _whole(short)
        runs += sum(row[4:10])
        wickets += out.count(at)
        while len(line) <= row[0]:
            line.append([runs, wickets])
        line[row[0]] = [runs, wickets]
    return line
