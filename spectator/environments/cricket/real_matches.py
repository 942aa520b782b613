"""Real matches: their score at any ball, and play from there.

Play starts at any ball of a record; what happened afterwards is shown to viewers, never to captains.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

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
    NO_BALL_DISMISSALS,
    Ball,
    BowlerLine,
    Innings,
    LawBroken,
    format_of,
    mark,
    overs_text,
)
from spectator.environments.cricket.match.engine import BattingIntent, BowlingIntent, Match
from spectator.environments.cricket.match.forecasts import PitchReading
from spectator.environments.cricket.match.game import RECENT_BALLS, Game
from spectator.environments.cricket.match.starts import position
from spectator.environments.cricket.real_match_record import (
    MatchPlace,
    RealMatch,
    RealWicket,
    RecordError,
    side_of,
    teams_at,
    whole_row,
)

WICKETS: Final = frozenset({"retired out", "timed out"})
"""Ways of leaving without a ball that count as a wicket."""


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
            row = whole_row(short)
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
