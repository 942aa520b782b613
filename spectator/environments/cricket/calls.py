"""A captain's calls: in plain words, and compared over the same futures.

For the next ball, a captain could call delivery, field and attack, or stroke and intent. The ball is bowled
under the call, with everything else as the captain has it and the rival playing as real sides do on the
current field; both sides then play on as real ones do. So the calls share the futures after each of the
eleven outcomes and differ only in how likely each outcome is.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectator.environments.contract import Alternative, Alternatives
from spectator.environments.cricket.ball.situation import LINES, PACES, PLANNED_LENGTHS, SHOTS, DeliveryPlan
from spectator.environments.cricket.ball.tables import CATEGORIES
from spectator.environments.cricket.captaincy.lookahead import INTENTS, fields, placed, plan_arguments
from spectator.environments.cricket.forecast.monte_carlo import next_ball_wins, wins
from spectator.environments.cricket.match.engine import NEUTRAL, BattingIntent, BowlingIntent
from spectator.environments.cricket.match.field import STANDARD, standard_field
from spectator.environments.cricket.match.forecasts import read_state
from spectator.environments.cricket.match.game import Game
from spectator.policies.policy import Action
from spectator.text import clean_text

LONGEST: Final = 100
"""Maximum characters of a call in words; names in it come from captains."""

UP_TO: Final = (0.35, 0.49, 0.51, 0.64, 1.0)
"""Upper limits of the intent levels described by the first to fifth word."""
BATTING: Final = ("play much safer", "play safer", "", "hit harder", "hit much harder")
BOWLING: Final = ("attack much less", "attack less", "", "attack more", "attack much more")

_PLANS: Final = {
    "set_match_plan": "declare a plan for the match",
    "update_match_plan": "change the plan for the match",
    "analyze_situation": "ask the analyst",
    "reflect_after_ball": "look back at the last ball",
    "bowl_delivery": "bowl on as things are set",
    "play_delivery": "bat on as things are set",
}

Arguments = Mapping[str, Any]


def call_words(tool: str, given: Arguments) -> str:
    """Describe a call in words.

    >>> call_words("plan_delivery", {"pace": "slower", "length": "full", "line": "outside off"})
    'slower ball, full, outside off'
    >>> call_words("set_strategy", {"aggression": 0.6}), call_words("set_field", {"preset": "leg_side"})
    ('hit harder (0.6)', 'leg side field')
    """
    words = _PLANS.get(tool) or _WORDS[tool](given)
    return clean_text(words, LONGEST)


def _delivery(given: Arguments) -> str:
    pace = given.get("pace")
    spoken = {"slower": "slower ball", "quick": "quicker ball", "stock": "stock ball"}.get(pace or "")
    parts = [part for part in (spoken, given.get("length"), given.get("line")) if part]
    return ", ".join(parts) or "the bowler's best ball"


def _field(given: Arguments) -> str:
    if given.get("fielders"):
        off = sum(one["x"] > 0 for one in given["fielders"])
        return f"a custom field, {off} on the off side"
    return f"{(given.get('preset') or 'standard').replace('_', ' ')} field"


def _intent(level: float, words: Sequence[str], usual: str) -> str:
    how = next(word for limit, word in zip(UP_TO, words, strict=True) if level <= limit)
    return f"{how} ({level:g})" if how else usual


def _attack(given: Arguments) -> str:
    return _intent(given["attack"], BOWLING, "bowl as real sides do")


def _aggression(given: Arguments) -> str:
    return _intent(given["aggression"], BATTING, "bat as real sides do")


def _shot(given: Arguments) -> str:
    parts = [given["shot"]] if given.get("shot") else []
    if given.get("aggression") is not None:
        parts.append(_intent(given["aggression"], BATTING, "as hard as usual"))
    return ", ".join(parts) or "the batter's own stroke"


def _bowler(given: Arguments) -> str:
    return f"{given.get('bowler') or 'the usual bowler'} to bowl"


def _batter(given: Arguments) -> str:
    first, partner = given.get("batter") or "the next of the order", given.get("partner")
    return f"{first} and {partner} to open" if partner else f"{first} to come in"


def _toss(given: Arguments) -> str:
    return "bat first" if given["elect"] == "bat" else "field first"


def _bowling_orders(given: Arguments) -> str:
    named = [given["bowler"]] if given.get("bowler") else list(given.get("bowlers") or ())[:1]
    parts = [f"{named[0]} to bowl"] if named else []
    if any(given.get(part) for part in ("length", "line", "pace")):
        parts.append(_delivery(given))
    if given.get("preset") or given.get("fielders"):
        parts.append(_field(given))
    if given["attack"] != NEUTRAL or not parts:
        parts.append(_attack(given))
    return ", ".join(parts)


def _batting_orders(given: Arguments) -> str:
    parts = [given["shot"]] if given.get("shot") else []
    if given["aggression"] != NEUTRAL or not parts:
        parts.append(_aggression(given))
    return ", ".join(parts)


_WORDS: Final[dict[str, Callable[[Arguments], str]]] = {
    "plan_delivery": _delivery,
    "set_field": _field,
    "set_bowling_strategy": _attack,
    "set_strategy": _aggression,
    "plan_shot": _shot,
    "select_bowler": _bowler,
    "select_batter": _batter,
    "call_toss": _toss,
    "bowl_over": _bowling_orders,
    "bowl_session": _bowling_orders,
    "play_over": _batting_orders,
    "play_session": _batting_orders,
}


SHOWN: Final = 5
"""Number of alternatives shown, including the decision itself."""
MAX_PER_TOOL: Final = 2
"""Maximum of these with the same tool if others exist: five lengths of one plan say less than two."""

Outcomes = NDArray[np.float64]
"""The decider's share of a win in each future or row of futures, shape ``(n,)``."""


class Call(NamedTuple):
    """One call that was weighed.

    Args:
        outcomes: Share of a win in each future, relative to ``level`` of :class:`Weighed`.
        words: The call in words, if tool and arguments do not describe it.
    """

    tool: str
    given: Mapping[str, Any]
    outcomes: Outcomes
    words: str = ""


class Weighed(NamedTuple):
    """All calls that were weighed at a decision.

    Args:
        how: What is simulated, in a sentence.
        level: Chance to which ``outcomes`` are added, and its standard error.
    """

    calls: Sequence[Call]
    futures: int
    how: str
    level: tuple[float, float] = (0.0, 0.0)


def best_of(weighed: Weighed, decided: Call, cards: Sequence[Action] = ()) -> Alternatives:
    """Return the best calls and the decision, best first.

    Args:
        weighed: The calls considered.
        decided: The decision, weighed over the same futures.
        cards: Calls that are returned as well.
    """
    others = [one for one in weighed.calls if not _same(one, decided)]
    ranked = sorted([decided, *others], key=lambda one: -float(one.outcomes.mean()))
    of_a_kind = MAX_PER_TOOL if len({one.tool for one in others}) > 1 else SHOWN
    kept, kinds = [decided], Counter[str]()
    for one in ranked:
        if one is not decided and len(kept) < SHOWN and kinds[one.tool] < of_a_kind:
            kept.append(one)
            kinds[one.tool] += 1
    places = {id(one): place for place, one in enumerate(ranked, 1)}
    kept.sort(key=lambda one: places[id(one)])

    def shown(calls: Iterable[Call]) -> list[Alternative]:
        return [_alternative(one, decided, places[id(one)], *weighed.level) for one in calls]

    asked = [one if id(one) in places else decided for one in _called(weighed, decided, cards)]
    return Alternatives(shown(kept), len(ranked), weighed.futures, weighed.how, shown(asked))


def _called(weighed: Weighed, decided: Call, cards: Sequence[Action]) -> list[Call]:
    """Return the call of each card; none if one of them was not considered.

    Of the settings for a ball only those are considered that change something; the others equal the decision.
    """
    known = {_key(one.tool, one.given): one for one in weighed.calls}
    found = [known.get(_key(card["tool"], card.get("arguments") or {})) for card in cards]
    if not decided.words and None in found:
        return []
    return [one or decided for one in found]


def _key(tool: str, given: Arguments) -> str:
    return json.dumps([tool, _set_arguments(given)], sort_keys=True)


def _same(one: Call, decided: Call) -> bool:
    """Check whether a call equals the decision in every future, whatever its spelling."""
    spelt_out = one.tool == decided.tool or bool(decided.words)  # what is set for the ball is in its words
    return spelt_out and np.array_equal(one.outcomes, decided.outcomes)


def _alternative(call: Call, decided: Call, place: int, level: float, level_error: float) -> Alternative:
    gain = call.outcomes - decided.outcomes
    return Alternative(
        action={"tool": call.tool, "arguments": _set_arguments(call.given)},
        words=call.words or call_words(call.tool, call.given),
        chance=min(1.0, max(0.0, level + float(call.outcomes.mean()))),
        error=math.hypot(level_error, _error(call.outcomes)),
        gain=float(gain.mean()),
        gain_error=_error(gain),
        played=call is decided,
        place=place,
    )


def _error(values: Outcomes) -> float:
    return float(values.std()) / math.sqrt(len(values))


def _set_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments without empty ones."""
    return {name: value for name, value in given.items() if value not in (None, "", [])}


ROWS: Final = 3_000
"""Rows of futures; each row has one future after each outcome of the ball."""
FUTURES: Final = 10_000
"""Futures of the position, with the ball played as real sides play it."""

PLANS: Final = tuple(
    DeliveryPlan(length, line, pace)
    for length in (None, *PLANNED_LENGTHS)
    for line in (None, *LINES)
    for pace in (None, *PACES)
    if length or line or pace
)

BALL_TOOLS: Final = ("bowl_delivery", "play_delivery")

HOW: Final = (
    "The next ball under this call, the rival as real sides play it; from then on both sides play as real "
    "ones do."
)


class IntendedCall(NamedTuple):
    """A call and the captain's resulting intent for the next ball."""

    tool: str
    given: Mapping[str, Any]
    intent: BattingIntent | BowlingIntent


def current_call(intent: BattingIntent | BowlingIntent) -> str:
    """Describe the call that bowls or plays the ball, with the intent set for it.

    >>> current_call(BattingIntent(0.7, "sweep")), current_call(BattingIntent())
    ('bat on: sweep, hit much harder (0.7)', 'bat on as real sides do')
    """
    if isinstance(intent, BattingIntent):
        parts = [call_words("plan_shot", {"shot": intent.shot, "aggression": intent.aggression})]
        usual, name = intent == BattingIntent(), "bat on"
    else:
        plan, field = intent.delivery, intent.field.preset
        parts = [] if plan is None else [call_words("plan_delivery", plan_arguments(plan))]
        parts += [] if field == STANDARD else [f"{field.replace('_', ' ')} field"]
        if intent.attack != NEUTRAL:
            parts.append(call_words("set_bowling_strategy", {"attack": intent.attack}))
        usual, name = not parts, "bowl on"
    return f"{name} as real sides do" if usual else f"{name}: {', '.join(parts)}"


def bowling_calls(game: Game, own: BowlingIntent, legal: Iterable[str]) -> Iterator[IntendedCall]:
    """Yield the fielding captain's calls for the next ball.

    They are bowling on, and every other plan, field and attack.
    """
    yield IntendedCall("bowl_delivery", {}, own)
    if "plan_delivery" in legal:
        for plan in (one for one in PLANS if one != own.delivery):
            yield IntendedCall("plan_delivery", plan_arguments(plan), own._replace(delivery=plan))
    if "set_field" in legal:
        known = fields(game.outside_limit, game.playing.faced)
        for field in (one for one in known if one != own.field):
            yield IntendedCall("set_field", placed(field), own._replace(field=field))
    if "set_bowling_strategy" in legal:
        for attack in (one for one in INTENTS if one != own.attack):
            yield IntendedCall("set_bowling_strategy", {"attack": attack}, own._replace(attack=attack))


def batting_calls(own: BattingIntent, legal: Iterable[str], planned: bool) -> Iterator[IntendedCall]:
    """Yield the batting captain's calls for the next ball.

    They are batting on, every stroke with every intent, and every other strategy.

    Args:
        planned: Whether an intent is already planned for this ball; a strategy would not change it.
    """
    yield IntendedCall("play_delivery", {}, own)
    if "plan_shot" in legal:
        for shot in (None, *SHOTS):
            for level in INTENTS:
                given = {"shot": shot, "aggression": level}
                yield IntendedCall("plan_shot", given, BattingIntent(level, shot))
    if "set_strategy" in legal and not planned:
        for level in (one for one in INTENTS if one != own.aggression):
            yield IntendedCall("set_strategy", {"aggression": level}, own._replace(aggression=level))


def weigh_ball(
    game: Game, calls: Sequence[IntendedCall], decided: IntendedCall, seed: int
) -> tuple[Weighed, Call] | None:
    """Weigh calls for the next ball.

    Args:
        game: The game, with a bowler and a striker.

    Returns:
        The calls considered and the decision; ``None`` if there is no forecast, as in a super over.
    """
    match = game.playing
    state = read_state(match, game.reading)
    outside = match.current.format.outside_limit(match.current.balls)
    usual = _weights(game, BattingIntent(), BowlingIntent(field=standard_field(outside)))
    if state is None or usual is None:
        return None
    bats = isinstance(decided.intent, BattingIntent)
    sign, seen = (1.0 if bats else -1.0), game.captains[match.fielding_side].field
    won = sign * next_ball_wins(state, ROWS, seed, match.model)
    position = wins(state, FUTURES, seed, match.model)
    chance = float(position.mean())
    level = (chance if bats else 1.0 - chance), float(position.std()) / math.sqrt(FUTURES)

    def weighed(one: IntendedCall) -> Call:
        intents = (one.intent, BowlingIntent(field=seen)) if bats else (BattingIntent(), one.intent)
        likely = _weights(game, *intents)
        assert likely is not None, "both captains face the same ball"
        words = current_call(one.intent) if not one.given and one.tool in BALL_TOOLS else ""
        return Call(one.tool, one.given, won @ (likely - usual), words)

    futures = ROWS * CATEGORIES + FUTURES
    return Weighed([weighed(one) for one in calls], futures, HOW, level), weighed(decided)


def _weights(game: Game, batting: BattingIntent, bowling: BowlingIntent) -> NDArray[np.float64] | None:
    """Return each outcome's chance on the next ball, as the balls so far suggest."""
    match = game.playing
    situation = match.situation(batting, bowling)
    if situation is None:
        return None
    read = replace(situation, effect=game.reading.expected(match.number).mean)
    return np.array(match.model.weights(read), dtype=np.float64)
