"""Weighs what either captain could call for the next ball: delivery, field and attack, or stroke and intent.

The ball is bowled under the call, everything else of the captain's own as it stands, the rival as real sides
play on the field that is set; whatever comes of it is played on from by both sides as real ones do. So the
futures after each of the eleven outcomes serve all calls, which differ by how likely they make each; how good
the position is as such, others say.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectator.environments.cricket.analysis.weighing import Call, Weighed
from spectator.environments.cricket.analysis.words import call_words
from spectator.environments.cricket.ball.tables import CATEGORIES
from spectator.environments.cricket.ball.vocabulary import LINES, PACES, PLANNED_LENGTHS, SHOTS, DeliveryPlan
from spectator.environments.cricket.captaincy.worth import INTENTS, fields, placed, told_plan
from spectator.environments.cricket.forecast.common_numbers import next_ball_wins, wins
from spectator.environments.cricket.match.engine import NEUTRAL, BattingIntent, BowlingIntent
from spectator.environments.cricket.match.field import standard_field
from spectator.environments.cricket.match.forecasting import read_state
from spectator.environments.cricket.match.game import Game
from spectator.environments.cricket.match.positions import STANDARD

ROWS: Final = 3_000
"""Rows of futures, one after each outcome of the ball."""
FUTURES: Final = 10_000
"""Futures of the position, with the ball as real sides play it."""

PLANS: Final = tuple(
    DeliveryPlan(length, line, pace)
    for length in (None, *PLANNED_LENGTHS)
    for line in (None, *LINES)
    for pace in (None, *PACES)
    if length or line or pace
)

GOES_ON: Final = ("bowl_delivery", "play_delivery")

HOW: Final = (
    "The next ball under this call, the rival as real sides play it; from then on both sides play as real "
    "ones do."
)


class Intended(NamedTuple):
    """A call and what it makes of its captain's intent for the next ball.

    Args:
        tool: Its tool.
        given: Its arguments.
        intent: The intent.
    """

    tool: str
    given: Mapping[str, Any]
    intent: BattingIntent | BowlingIntent


def going_on(intent: BattingIntent | BowlingIntent) -> str:
    """The call that bowls or plays the ball, with what is set for it.

    >>> going_on(BattingIntent(0.7, "sweep")), going_on(BattingIntent())
    ('bat on: sweep, hit much harder (0.7)', 'bat on as real sides do')
    """
    if isinstance(intent, BattingIntent):
        told = [call_words("plan_shot", {"shot": intent.shot, "aggression": intent.aggression})]
        usual, name = intent == BattingIntent(), "bat on"
    else:
        plan, field = intent.delivery, intent.field.preset
        told = [] if plan is None else [call_words("plan_delivery", told_plan(plan))]
        told += [] if field == STANDARD else [f"{field.replace('_', ' ')} field"]
        if intent.attack != NEUTRAL:
            told.append(call_words("set_bowling_strategy", {"attack": intent.attack}))
        usual, name = not told, "bowl on"
    return f"{name} as real sides do" if usual else f"{name}: {', '.join(told)}"


def bowling_calls(game: Game, own: BowlingIntent, legal: Iterable[str]) -> Iterator[Intended]:
    """What the fielding captain may call for the next ball: every plan, field and attack beside those set."""
    yield Intended("bowl_delivery", {}, own)
    if "plan_delivery" in legal:
        for plan in (one for one in PLANS if one != own.delivery):
            yield Intended("plan_delivery", told_plan(plan), own._replace(delivery=plan))
    if "set_field" in legal:
        known = fields(game.outside_limit, game.playing.faced)
        for field in (one for one in known if one != own.field):
            yield Intended("set_field", placed(field), own._replace(field=field))
    if "set_bowling_strategy" in legal:
        for attack in (one for one in INTENTS if one != own.attack):
            yield Intended("set_bowling_strategy", {"attack": attack}, own._replace(attack=attack))


def batting_calls(own: BattingIntent, legal: Iterable[str], planned: bool) -> Iterator[Intended]:
    """The same of the batting captain: every stroke with every intent, every strategy.

    Args:
        own: The intent as it stands.
        legal: Tools that may be used.
        planned: Whether an intent is planned for this ball, which no strategy changes.
    """
    yield Intended("play_delivery", {}, own)
    if "plan_shot" in legal:
        for shot in (None, *SHOTS):
            for level in INTENTS:
                given = {"shot": shot, "aggression": level}
                yield Intended("plan_shot", given, BattingIntent(level, shot))
    if "set_strategy" in legal and not planned:
        for level in (one for one in INTENTS if one != own.aggression):
            yield Intended("set_strategy", {"aggression": level}, own._replace(aggression=level))


def weigh_ball(
    game: Game, calls: Sequence[Intended], decided: Intended, seed: int
) -> tuple[Weighed, Call] | None:
    """Weigh calls for the next ball.

    Args:
        game: Where it stands, with a bowler and a striker.
        calls: What could be called.
        decided: What was.
        seed: Seed of the futures.

    Returns:
        What could be called, and what was; ``None`` where the match is not foretold, as in a super over.
    """
    match = game.playing
    state = read_state(match, game.reading)
    outside = match.current.format.outside_limit(match.current.balls)
    usual = _weights(game, BattingIntent(), BowlingIntent(field=standard_field(outside)))
    if state is None or usual is None:
        return None
    bats = isinstance(decided.intent, BattingIntent)
    way, seen = (1.0 if bats else -1.0), game.captains[match.fielding_side].field
    won = way * next_ball_wins(state, ROWS, seed, match.model)
    position = wins(state, FUTURES, seed, match.model)
    chance = float(position.mean())
    level = (chance if bats else 1.0 - chance), float(position.std()) / math.sqrt(FUTURES)

    def weighed(one: Intended) -> Call:
        intents = (one.intent, BowlingIntent(field=seen)) if bats else (BattingIntent(), one.intent)
        likely = _weights(game, *intents)
        assert likely is not None, "it is the same ball"
        words = going_on(one.intent) if not one.given and one.tool in GOES_ON else ""
        return Call(one.tool, one.given, won @ (likely - usual), words)

    futures = ROWS * CATEGORIES + FUTURES
    return Weighed([weighed(one) for one in calls], futures, HOW, level), weighed(decided)


def _weights(game: Game, batting: BattingIntent, bowling: BowlingIntent) -> NDArray[np.float64] | None:
    """Chance of each outcome of the next ball, the day as the balls so far tell of it."""
    match = game.playing
    situation = match.situation(batting, bowling)
    if situation is None:
        return None
    read = replace(situation, effect=game.reading.expected(match.number).mean)
    return np.array(match.model.weights(read), dtype=np.float64)
