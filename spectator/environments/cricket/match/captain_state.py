"""A captain's current decisions: plans, field, notes, and orders for overs."""

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
"""Overhead calls per over that are free: one per ball."""

CALLS_A_TURN: Final = 8
"""Maximum calls between two that advance the game, so that a captain cannot deliberate forever."""

NOTES_KEPT: Final = 5

_OPENING_FIELD: Final = standard_field(RING_LIMIT)


@dataclass(slots=True)
class CaptainState:
    """One captain's side of the game.

    Args:
        plan: The match plan as last declared; ``None`` before the first.
        bound: The plan in force since the start of the over, with which intents are compared.
        shot: Planned stroke of the next ball.
        shot_aggression: Intent of the next ball if it differs from the strategy.
        delivery: Planned delivery until the end of the over.
        notes: The last few notes, oldest first.
        free_calls: Free overhead calls left in this over.
        turn_calls: Calls since the game last advanced.
        reflected: Whether the captain has looked back at the last ball.
        turn_tools: Once-a-ball tools already used for the next ball.
        refused_in_a_row: Refused calls since the last accepted one.
        charged: Overhead calls beyond the free ones.
        closeness: Sum over balls of the intent's closeness to the plan, each 0 to 1; see :meth:`judge`.
        balls: Balls for which this captain had an intent.
        analysis: Answer of the analyst, until the next ball.
        orders: Orders in force until the next decision, if captains order an over or a session.
        asked: The reason why the captain is asked for new orders.
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
        """Return the intent of the next ball as the batting side."""
        return BattingIntent(
            self.aggression if self.shot_aggression is None else self.shot_aggression, self.shot
        )

    def bowling_intent(self) -> BowlingIntent:
        """Return the intent of the next ball as the fielding side."""
        return BowlingIntent(self.attack, self.delivery, self.field)

    def begin_over(self) -> None:
        """Reset free calls and put the latest plan in force, at the start of an over."""
        self.free_calls = FREE_CALLS
        self.bound = self.plan
        self.delivery = None

    def note(self, text: str) -> None:
        """Keep a non-empty note."""
        if text:
            self.notes = [*self.notes, text][-NOTES_KEPT:]

    def judge(self, role: str, phase: str, intent: float) -> None:
        """Compare a ball's intent with the plan in force; without a plan it counts 0.

        Args:
            role: ``batting`` or ``bowling``.
            phase: ``powerplay``, ``middle`` or ``death``.
            intent: Aggression or attack of the ball, including the effect of a planned stroke.
        """
        self.balls += 1
        if self.bound is not None:
            self.closeness += max(0.0, 1.0 - 2.0 * abs(intent - self.bound[f"{role}_{phase}"]))


Decisions = Literal["ball", "over", "session"]
"""Scope of one decision of a captain; a session is the overs of one part of an innings."""

Reason = Literal["innings", "over", "session", "wicket", "boundary", "new_batter", "rate"]
"""The reason why a captain is asked for new orders."""

MAX_BALLS_REPORTED: Final = 60
"""Maximum balls since a captain's last decision that are reported at the next."""


class AskWhen(TypedDict):
    """Conditions under which a captain is asked before the orders run out.

    Keys:
        wicket: A wicket fell.
        boundary: A ball reached the rope.
        new_batter: A batter comes on strike who was not in when the orders were given.
        rate_above: The rate rose above this: the required rate of a chase, otherwise the run rate, in runs
            per over.
    """

    wicket: bool
    boundary: bool
    new_batter: bool
    rate_above: float | None


class Orders(TypedDict):
    """A captain's orders as plain JSON; each side leaves the other side's keys empty.

    Keys:
        intent: Aggression or attack, 0 to 1.
        by_batter: Aggression of individual batters, by name.
        shot: Stroke to play; ``None`` leaves it to the batter.
        next_batters: Names of the next batters; after them the natural order.
        bowlers: Names of the bowlers of the ordered overs; after them the usual choice.
        delivery: Planned length, line and pace.
        ask: Conditions to be asked sooner.
        seen: Batters whom the captain knew to be in.
        rate: The rate after the last ball.
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
    """Return a chase's required rate or otherwise the run rate, in runs per over."""
    if innings.needed is not None:
        return 6.0 * innings.needed / innings.balls_left if innings.balls_left else None
    return 6.0 * innings.runs / innings.balls if innings.balls else None


def at_crease(match: Match) -> list[str]:
    """Return the names of the batters in."""
    innings, team = match.current, match.teams[match.batting_side]
    return [team.named(player) for player in (innings.striker, innings.non_striker) if player is not None]


def session_of(innings: Innings, over: int) -> str:
    """Return the session of an over (0-based): the innings' part at its first ball."""
    return segment_at(6 * over, innings.format.powerplay_balls, innings.format.balls)


def overs_ahead(match: Match, decisions: Decisions) -> list[int]:
    """Return the overs (numbered from 1) that the next orders cover."""
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
    """Return the phase and the side that decides, for orders of overs or sessions."""
    awaited = match.awaited
    if awaited == "nothing":
        return "over", None
    if awaited == "batter":
        return ("batter" if match.current.batting else "openers"), match.batting_side
    if captains[match.fielding_side].orders is None:
        return "bowling_plan", match.fielding_side
    return "batting_plan", match.batting_side


def play_orders(game: Game) -> None:
    """Play by the current orders until a captain must decide or the match is over."""
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
    ball = next(fact.data for fact in reversed(game.pending) if fact.type == "cricket.ball_bowled")
    for captain in captains.values():
        captain.retold = [*captain.retold, f"{ball['at']} {ball['words']}"][-MAX_BALLS_REPORTED:]
    if match.result is not None or match.number != number:
        _ask(captains, "innings")
        return
    _after_ball(game, played, batter, batting)
    if played.over_ended and _orders_end(match, game.decisions):
        _ask(captains, "over" if game.decisions == "over" else "session")


def _after_ball(game: Game, played: PlayedBall, batter: CaptainState, batting: Orders) -> None:
    """Send in the next batter unless the captain chooses, and ask captains if due."""
    match = game.playing
    if match.awaited == "batter" and (batting["next_batters"] or not batting["ask"]["wicket"]):
        game.send_in(_next_batter(match, batting))
    now = rate_of(match.current)  # no innings ended, so this is the rate after the ball
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


def _orders_end(match: Match, decisions: Decisions) -> bool:
    """Check whether orders end with the over that was just completed."""
    innings = match.current
    over = innings.balls // 6
    return decisions == "over" or session_of(innings, over) != session_of(innings, over - 1)


def _next_batter(match: Match, orders: Orders) -> int:
    team, innings = match.teams[match.batting_side], match.current
    named = (team.find(name) for name in orders["next_batters"])
    chosen = next((player for player in named if player is not None and may_bat(innings, player)), None)
    return next(player for player in range(11) if may_bat(innings, player)) if chosen is None else chosen


def _next_bowler(match: Match, orders: Orders) -> int:
    """Return the next named bowler who may bowl now, or the usual bowler.

    Names up to that one are removed from the orders.
    """
    team, eligible = match.teams[match.fielding_side], match.eligible_bowlers()
    while orders["bowlers"]:
        player = team.find(orders["bowlers"].pop(0))
        if player in eligible:
            assert player is not None
            return player
    return usual_bowler(match)
