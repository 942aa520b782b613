"""Orders for an over or a session: what a captain wants until then, and when to be asked sooner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal, TypedDict

from spectator.environments.cricket.ball.vocabulary import DeliveryPlan
from spectator.environments.cricket.laws.deliveries import Side
from spectator.environments.cricket.laws.innings import Innings
from spectator.environments.cricket.laws.scorer import may_bat
from spectator.environments.cricket.match.advice import usual_bowler
from spectator.environments.cricket.match.captain_state import CaptainState
from spectator.environments.cricket.match.engine import Match, PlayedBall
from spectator.environments.cricket.match.segments import segment_at

if TYPE_CHECKING:
    from spectator.environments.cricket.match.game import Game, Phase

Decisions = Literal["ball", "over", "session"]
"""How much one decision of a captain covers; a session is the overs of one part of an innings."""

Reason = Literal["innings", "over", "session", "wicket", "boundary", "new_batter", "rate"]
"""Why a captain is asked for new orders."""

BALLS_RETOLD: Final = 60
"""Most balls since a captain's last decision that are told when the next is due."""


class AskWhen(TypedDict):
    """When a captain wants to be asked before the orders run out.

    Keys:
        wicket: A wicket has fallen.
        boundary: A ball reached the rope.
        new_batter: Somebody comes on strike whom the captain had not seen in when giving the orders.
        rate_above: The rate rose above this: the required rate of a chase, else the run rate, runs an over.
    """

    wicket: bool
    boundary: bool
    new_batter: bool
    rate_above: float | None


class Orders(TypedDict):
    """A captain's orders, plain JSON; those of the side that bats leave out the bowling and the reverse.

    Keys:
        intent: Aggression or attack, 0 .. 1.
        by_batter: Aggression of single batters, by name.
        shot: Stroke to play; ``None`` leaves it to the batter.
        next_batters: Who comes in, by name; the natural order after them.
        bowlers: Who bowls the overs that are ordered, by name; the usual choice after them.
        delivery: Length, line and pace asked for.
        ask: When to ask sooner.
        seen: Batters whom the captain knew to be in.
        rate: The rate when it was last looked at.
    """

    intent: float
    by_batter: dict[str, float]
    shot: str | None
    next_batters: list[str]
    bowlers: list[str]
    delivery: list[str | None] | None
    ask: AskWhen
    seen: list[str]
    rate: float | None


def rate_of(innings: Innings) -> float | None:
    """The required rate of a chase, else the run rate, in runs an over; ``None`` where there is none."""
    if innings.needed is not None:
        return 6.0 * innings.needed / innings.balls_left if innings.balls_left else None
    return 6.0 * innings.runs / innings.balls if innings.balls else None


def at_crease(match: Match) -> list[str]:
    """Names of the batters who are in."""
    innings, team = match.current, match.teams[match.batting_side]
    return [team.named(player) for player in (innings.striker, innings.non_striker) if player is not None]


def session_of(innings: Innings, over: int) -> str:
    """The session that an over (0-based) belongs to: the part of the innings that its first ball is in."""
    return segment_at(6 * over, innings.format.powerplay_balls, innings.format.balls)


def overs_ahead(match: Match, decisions: Decisions) -> list[int]:
    """Numbers (from 1) of the overs that the next orders cover, one in progress included."""
    innings = match.current
    now = innings.balls // 6
    if decisions == "over":
        return [now + 1]
    session, overs = session_of(innings, now), (innings.format.balls + 5) // 6
    covered = []
    for over in range(now, overs):
        if session_of(innings, over) != session:
            break
        covered.append(over + 1)
    return covered


def planned_turn(match: Match, captains: Mapping[Side, CaptainState]) -> tuple[Phase, Side | None]:
    """What is being decided and by whom where captains give orders for an over or a session."""
    awaited = match.awaited
    if awaited == "nothing":
        return "over", None
    if awaited == "batter":
        return ("batter" if match.current.batting else "openers"), match.batting_side
    if captains[match.fielding_side].orders is None:
        return "bowling_plan", match.fielding_side
    return "batting_plan", match.batting_side


def play_on(game: Game) -> None:
    """Play by the orders that stand until somebody has to decide or the match is over."""
    match = game.playing
    while match.result is None and match.awaited != "batter":
        orders = {side: captain.orders for side, captain in game.captains.items()}
        batting, bowling = orders[match.batting_side], orders[match.fielding_side]
        if batting is None or bowling is None:
            return
        if match.awaited == "bowler":
            game.begin_over(_next_bowler(match, bowling))
        elif not _ask_about_new_batter(game):
            _play_ball(game, batting, bowling)


def _play_ball(game: Game, batting: Orders, bowling: Orders) -> None:
    match, captains = game.playing, game.captains
    batter, bowler = captains[match.batting_side], captains[match.fielding_side]
    striker = match.teams[match.batting_side].named(match.current.striker)
    batter.aggression = batting["intent"]
    batter.shot_aggression = batting["by_batter"].get(striker)
    batter.shot = batting["shot"]
    bowler.attack = bowling["intent"]
    bowler.delivery = None if bowling["delivery"] is None else DeliveryPlan(*bowling["delivery"])
    number = match.number
    played = game.play_ball()
    told = next(fact.data for fact in reversed(game.pending) if fact.type == "cricket.ball_bowled")
    for captain in captains.values():
        captain.retold = [*captain.retold, f"{told['at']} {told['words']}"][-BALLS_RETOLD:]
    if match.result is not None or match.number != number:
        _ask(captains, "innings")
        return
    _after(game, played, batter, batting)
    if played.over_ended and _run_out(match, game.decisions):
        _ask(captains, "over" if game.decisions == "over" else "session")


def _after(game: Game, played: PlayedBall, batter: CaptainState, batting: Orders) -> None:
    """Send in the next batter, unless the captain wants to choose, and see who asked to be asked."""
    match = game.playing
    if match.awaited == "batter" and (batting["next_batters"] or not batting["ask"]["wicket"]):
        game.send_in(_next_batter(match, batting))
    now = rate_of(match.current)  # no innings ended, so it is that of the ball
    for captain in game.captains.values():
        orders = captain.orders
        if orders is not None:
            reason = next(_reasons(orders, played, now), None)
            captain.orders = {**orders, "rate": now}
            if reason is not None:
                captain.orders, captain.asked = None, reason


def _reasons(orders: Orders, played: PlayedBall, now: float | None) -> Iterator[Reason]:
    ask, limit = orders["ask"], orders["ask"]["rate_above"]
    if ask["wicket"] and played.out is not None:
        yield "wicket"
    if ask["boundary"] and played.counted.boundary:
        yield "boundary"
    if limit is not None and now is not None and now > limit and (orders["rate"] or 0.0) <= limit:
        yield "rate"


def _ask_about_new_batter(game: Game) -> bool:
    match = game.playing
    striker = match.teams[match.batting_side].named(match.current.striker)
    asked = False
    for captain in game.captains.values():
        orders = captain.orders
        if orders is not None and orders["ask"]["new_batter"] and striker not in orders["seen"]:
            captain.orders, captain.asked, asked = None, "new_batter", True
    return asked


def _ask(captains: Mapping[Side, CaptainState], reason: Reason) -> None:
    for captain in captains.values():
        captain.orders, captain.asked = None, reason


def _run_out(match: Match, decisions: Decisions) -> bool:
    """Whether orders end with the over that was just completed."""
    innings = match.current
    over = innings.balls // 6
    return decisions == "over" or session_of(innings, over) != session_of(innings, over - 1)


def _next_batter(match: Match, orders: Orders) -> int:
    team, innings = match.teams[match.batting_side], match.current
    named = (team.find(name) for name in orders["next_batters"])
    chosen = next((player for player in named if player is not None and may_bat(innings, player)), None)
    return next(player for player in range(11) if may_bat(innings, player)) if chosen is None else chosen


def _next_bowler(match: Match, orders: Orders) -> int:
    """The first of those named who may bowl now and has not had his turn; the usual choice without one."""
    team, eligible = match.teams[match.fielding_side], match.eligible_bowlers()
    while orders["bowlers"]:
        player = team.find(orders["bowlers"].pop(0))
        if player in eligible:
            assert player is not None
            return player
    return usual_bowler(match)
