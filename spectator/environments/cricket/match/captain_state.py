"""A captain's standing decisions: plans, field, notes, and orders for overs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from spectator.environments.cricket.ball.situation import DeliveryPlan
from spectator.environments.cricket.laws import RING_LIMIT, Innings, Side
from spectator.environments.cricket.match.engine import (
    NEUTRAL,
    BattingIntent,
    BowlingIntent,
    Match,
    PlayedBall,
    segment_at,
    usual_bowler,
)
from spectator.environments.cricket.match.field import Field, standard_field
from spectator.environments.cricket.scorer import may_bat

if TYPE_CHECKING:
    from spectator.environments.cricket.match.game import Game, Phase


FREE_CALLS: Final = 6
"""Overhead calls an over that cost nothing: one a ball."""

CALLS_A_TURN: Final = 8
"""Calls that do not advance the game between two that do; a captain may not think for ever."""

NOTES_KEPT: Final = 5

_OPENING_FIELD: Final = standard_field(RING_LIMIT)


@dataclass(slots=True)
class CaptainState:
    """One captain's side of the game.

    Args:
        plan: The match plan as last declared; ``None`` until there is one.
        bound: The plan as it stood when the over began, which deeds are compared with.
        aggression: Batting strategy.
        shot: Planned stroke of the next ball.
        shot_aggression: Intent of the next ball when it differs from the strategy.
        attack: Bowling strategy.
        delivery: Planned delivery until the end of the over.
        field: The field that is set.
        notes: The last few notes, oldest first.
        free_calls: Overhead calls left that cost nothing this over.
        turn_calls: Calls since the game last went on.
        reflected: Whether the last ball was looked back at.
        turn_tools: Tools that may be used once a ball, if they were used for the next one.
        calls: All accepted calls.
        refusals: All refused calls.
        refused_in_a_row: Refused calls since the last accepted one.
        charged: Overhead calls beyond the free ones.
        plan_changes: Updates of the match plan.
        closeness: Sum over balls of how coherent the deed was, each 0 .. 1; see :meth:`judge`.
        balls: Balls this captain had an intent for.
        analysis: Answer of the analyst, until the next ball.
        orders: What stands until the next decision, where captains give orders for an over or a session.
        asked: Why the captain is asked for new ones.
        retold: Balls since the captain's last decision, in words.
    """

    plan: dict[str, Any] | None = None
    bound: dict[str, Any] | None = None
    aggression: float = NEUTRAL
    shot: str | None = None
    shot_aggression: float | None = None
    attack: float = NEUTRAL
    delivery: DeliveryPlan | None = None
    field: Field = _OPENING_FIELD
    notes: list[str] = dataclasses.field(default_factory=list)
    free_calls: int = FREE_CALLS
    turn_calls: int = 0
    reflected: bool = True
    turn_tools: list[str] = dataclasses.field(default_factory=list)
    calls: int = 0
    refusals: int = 0
    refused_in_a_row: int = 0
    charged: int = 0
    plan_changes: int = 0
    closeness: float = 0.0
    balls: int = 0
    analysis: dict[str, Any] | None = None
    orders: Orders | None = None
    asked: str = "innings"
    retold: list[str] = dataclasses.field(default_factory=list)

    def batting_intent(self) -> BattingIntent:
        """Intent of the next ball as the batting side."""
        return BattingIntent(
            self.aggression if self.shot_aggression is None else self.shot_aggression, self.shot
        )

    def bowling_intent(self) -> BowlingIntent:
        """Intent of the next ball as the fielding side."""
        return BowlingIntent(self.attack, self.delivery, self.field)

    def begin_over(self) -> None:
        """Free calls are counted by the over; plans declared during it bind from the next."""
        self.free_calls = FREE_CALLS
        self.bound = self.plan
        self.delivery = None

    def note(self, text: str) -> None:
        """Keep a note, if there is one."""
        if text:
            self.notes = [*self.notes, text][-NOTES_KEPT:]

    def judge(self, role: str, phase: str, intent: float) -> None:
        """Compare a deed with the plan in force; without a plan it counts nothing.

        Args:
            role: ``batting`` or ``bowling``.
            phase: ``powerplay``, ``middle`` or ``death``.
            intent: Aggression or attack of the ball, a planned stroke's own share included.
        """
        self.balls += 1
        if self.bound is not None:
            self.closeness += max(0.0, 1.0 - 2.0 * abs(intent - self.bound[f"{role}_{phase}"]))


Decisions = Literal["ball", "over", "session"]
"""How much one decision of a captain covers; a session is the overs of one part of an innings."""

Reason = Literal["innings", "over", "session", "wicket", "boundary", "new_batter", "rate"]
"""Why a captain is asked for new orders."""

MAX_BALLS_REPORTED: Final = 60
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
        captain.retold = [*captain.retold, f"{told['at']} {told['words']}"][-MAX_BALLS_REPORTED:]
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
