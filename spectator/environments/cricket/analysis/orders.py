"""Weighs what either captain could order for an over or a session.

The overs that the order covers are played with what it makes of each ball, the rival as real sides play; the
rest of the match by both sides as real ones do. What an order makes of a ball is how it changes the chance of
each outcome for the batter who faces, as he stands when it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from spectator.environments.cricket.analysis.weighing import Call, Weighed
from spectator.environments.cricket.ball.situation import Situation
from spectator.environments.cricket.ball.tables import CATEGORIES
from spectator.environments.cricket.ball.vocabulary import SHOTS, DeliveryPlan
from spectator.environments.cricket.captaincy.arguments import PlacedFielder
from spectator.environments.cricket.captaincy.fields import chosen_field
from spectator.environments.cricket.captaincy.worth import INTENTS, PLANS, fields, placed, told_plan, value
from spectator.environments.cricket.forecast.arrays import Floats
from spectator.environments.cricket.forecast.common_numbers import wins
from spectator.environments.cricket.forecast.state import ForecastState, plan_overs
from spectator.environments.cricket.laws.innings import LawBroken
from spectator.environments.cricket.match.advice import usual_bowler
from spectator.environments.cricket.match.engine import NEUTRAL, BattingIntent, BowlingIntent
from spectator.environments.cricket.match.field import Field, standard_field
from spectator.environments.cricket.match.forecasting import read_state, with_bowler
from spectator.environments.cricket.match.game import Game
from spectator.environments.cricket.match.orders import overs_ahead

FUTURES: Final = 6_000
"""Futures of each order."""
LIKELIEST: Final = 2
"""Of each part of an order, so many are simulated: those that are worth most on the next ball."""

HOW: Final = (
    "The overs ordered under this order, the rival as real sides play them; from then on both sides play as "
    "real ones do."
)

Given = Mapping[str, Any]
Part = TypeVar("Part")


class MeantOrder(NamedTuple):
    """An order, read.

    Args:
        given: Its arguments.
        state: Where the match stands, whoever bowls next included.
        bowling: How it is bowled.
        batting: How it is batted, by player of the batting side; the others bat as real ones do.
    """

    given: Given
    state: ForecastState
    bowling: BowlingIntent
    batting: Mapping[int, BattingIntent]


def weigh_orders(game: Game, tool: str, order: str, given: Given, seed: int) -> tuple[Weighed, Call] | None:
    """Weigh what could be ordered now.

    Args:
        game: Where it stands, before or within an over.
        tool: What was called; whatever orders nothing stands for real sides' way.
        order: The tool that orders here.
        given: Arguments of the call, as accepted.
        seed: Seed of the futures.

    Returns:
        What could be ordered, and what was; ``None`` where the match is not foretold, as in a super over.
    """
    state = read_state(game.playing, game.reading)
    if state is None:
        return None
    bowls = order.startswith("bowl")
    read = _bowling_order if bowls else _batting_order
    thought_of = _bowling_orders(game, state, order) if bowls else _batting_orders(game, state)
    usual: Given = {"attack": NEUTRAL} if bowls else {"aggression": NEUTRAL}

    def weighed(name: str, told: Given, meant: Given) -> Call:
        one = read(game, state, meant)
        won = wins(one.state, FUTURES, seed, game.model, _called(game, one))
        return Call(name, told, 1.0 - won if bowls else won)

    calls = [weighed(order, one, one) for one in thought_of]
    decided = weighed(tool, given, given if tool == order else usual)
    return Weighed(calls, FUTURES * (len(calls) + 1), HOW), decided


def _bowling_orders(game: Game, state: ForecastState, order: str) -> Iterator[Given]:
    """Each bowler as usual; the usual one with the likeliest plans, fields and attacks, and all of it."""
    match = game.playing
    team = match.teams[match.fielding_side]
    named: Given = {}
    if match.awaited == "bowler":
        usual = usual_bowler(match)
        able = [one for one in match.eligible_bowlers() if team.bowls[one] and one != usual]
        told = [
            {"bowler": team.named(one)} if order == "bowl_over" else {"bowlers": [team.named(one)]}
            for one in (usual, *able)
        ]
        yield from ({**one, "attack": NEUTRAL} for one in told)
        named = told[0]
    else:
        yield {"attack": NEUTRAL}
    balls = _balls(game, _bowling_order(game, state, named))
    plans = _likeliest(PLANS, balls, lambda ball, plan: replace(ball, delivery=plan), -1.0)
    known = () if game.field_frozen else fields(game.outside_limit, match.faced)
    best = _likeliest(known, balls, lambda ball, field: replace(ball, field=field.shape), -1.0)
    attacks = _likeliest(INTENTS, balls, lambda ball, level: replace(ball, attack=level), -1.0)
    yield from ({**named, "attack": NEUTRAL, **told_plan(plan)} for plan in plans)
    yield from ({**named, "attack": NEUTRAL, **placed(field)} for field in best)
    yield from ({**named, "attack": level} for level in attacks if level != NEUTRAL)
    together = placed(best[0]) if best else {}
    yield {**named, "attack": attacks[0], **told_plan(plans[0]), **together}


def _batting_orders(game: Game, state: ForecastState) -> Iterator[Given]:
    """Each intent; the likeliest strokes, and the likeliest with the likeliest intent."""
    yield from ({"aggression": level} for level in INTENTS)
    balls = _balls(game, _batting_order(game, state, {}))
    shots = _likeliest(SHOTS, balls, lambda ball, shot: replace(ball, shot=shot), 1.0)
    level = _likeliest(INTENTS, balls, lambda ball, one: replace(ball, shot=shots[0], aggression=one), 1.0)[0]
    yield from ({"aggression": NEUTRAL, "shot": shot} for shot in shots)
    if level != NEUTRAL:
        yield {"aggression": level, "shot": shots[0]}


def _likeliest(
    parts: Iterable[Part],
    balls: list[Situation],
    with_part: Callable[[Situation, Part], Situation],
    way: float,
) -> list[Part]:
    """Parts that make the balls worth most to who gains when their worth rises (1) or falls (-1)."""
    ranked = sorted(parts, key=lambda part: -way * sum(value(with_part(ball, part)) for ball in balls))
    return ranked[:LIKELIEST]


def _bowling_order(game: Game, state: ForecastState, given: Given) -> MeantOrder:
    match, captain = game.playing, game.captains[game.playing.fielding_side]
    team = match.teams[match.fielding_side]
    if match.awaited == "bowler":
        named = given.get("bowler") or next(iter(given.get("bowlers") or ()), None)
        found = team.find(named) if named else None
        able = match.eligible_bowlers()
        state = with_bowler(state, found if found is not None and found in able else usual_bowler(match))
    plan = {part: given.get(part) for part in ("length", "line", "pace")}
    delivery = DeliveryPlan(**plan) if any(plan.values()) else None
    intent = BowlingIntent(given.get("attack", NEUTRAL), delivery, _field(game, given, captain.field))
    return MeantOrder(given, state, intent, {})


def _field(game: Game, given: Given, standing: Field) -> Field:
    """The field that is ordered; the one that stands where none is, or none that is lawful."""
    preset, men = given.get("preset"), given.get("fielders")
    if not preset and not men:
        return standing
    fielders = [PlacedFielder.model_validate(man) for man in men] if men else None
    try:
        return chosen_field(preset, fielders, game.outside_limit, game.playing.faced)
    except LawBroken:
        return standing


def _batting_order(game: Game, state: ForecastState, given: Given) -> MeantOrder:
    match = game.playing
    team = match.teams[match.batting_side]
    if match.awaited == "bowler":
        state = with_bowler(state, usual_bowler(match))
    level: float = given.get("aggression", NEUTRAL)
    shot = given.get("shot")
    own: dict[int | None, float] = {
        team.find(one["batter"]): one["aggression"] for one in given.get("by_batter") or ()
    }
    intents = {player: BattingIntent(own.get(player, level), shot) for player in range(11)}
    return MeantOrder(given, state, BowlingIntent(field=game.captains[match.fielding_side].field), intents)


def _balls(game: Game, order: MeantOrder) -> list[Situation]:
    """The next ball of an order to each of the two who are in."""
    innings = game.playing.current
    over = innings.balls // 6
    in_now = [player for player in (innings.striker, innings.non_striker) if player is not None]
    return [_ball(game, order, over, player) for player in in_now]


def _ball(game: Game, order: MeantOrder, over: int, player: int, usual: bool = False) -> Situation:
    """A ball of an over under an order; as real sides play it, if ``usual``."""
    match = game.playing.copy()
    bowler = plan_overs(order.state)[over]
    if match.awaited == "bowler":
        match.give_ball(order.state.bowler if order.state.bowler is not None else usual_bowler(match))
    innings = match.current
    field = standard_field(innings.format.outside_limit(6 * over))
    bowling = BowlingIntent(field=field) if usual else order.bowling
    batting = BattingIntent() if usual else order.batting.get(player, BattingIntent())
    template = match.situation(batting, bowling)
    assert template is not None, "a batter is on strike and a bowler has the ball"
    line = innings.batting.get(player)
    return replace(
        template,
        balls_bowled=max(innings.balls, 6 * over),
        powerplay=6 * over < innings.format.powerplay_balls,
        striker=match.teams[match.batting_side].players[player],
        striker_balls=0 if line is None else line.balls,
        place=0 if line is None else line.number,
        bowler=match.teams[match.fielding_side].bowlers[bowler],
        free_hit=False,
        seen=(),
        effect=game.reading.expected(match.number).mean,
    )


def _called(game: Game, order: MeantOrder) -> Floats:
    """What an order makes of the chance of each outcome, by over, outcome and striker."""
    match, model = game.playing, game.model
    overs = (match.current.format.balls + 5) // 6
    ratios = np.ones((overs, CATEGORIES, 22), dtype=np.float32)
    for number in overs_ahead(match, game.decisions):
        for player in range(11):
            meant = np.array(model.weights(_ball(game, order, number - 1, player)))
            usual = np.array(model.weights(_ball(game, order, number - 1, player, usual=True)))
            ratios[number - 1, :, player] = np.divide(meant, usual, out=np.ones(CATEGORIES), where=usual > 0)
    return ratios
