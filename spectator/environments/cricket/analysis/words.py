"""A captain's call in a few plain words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from spectator.environments.cricket.match.engine import NEUTRAL
from spectator.text import clean_text

LONGEST: Final = 100
"""Characters of a call in words at most; names in it are the captains' own."""

UP_TO: Final = (0.35, 0.49, 0.51, 0.64, 1.0)
"""Up to which level an intent is called by the first of five words, the second, and so on."""
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
    """A call in words.

    Args:
        tool: Name of the tool.
        given: Its arguments, as they were accepted.

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
    told = [part for part in (spoken, given.get("length"), given.get("line")) if part]
    return ", ".join(told) or "whatever the bowler bowls best"


def _field(given: Arguments) -> str:
    if given.get("fielders"):
        off = sum(man["x"] > 0 for man in given["fielders"])
        return f"a field of its own, {off} on the off side"
    return f"{(given.get('preset') or 'standard').replace('_', ' ')} field"


def _intent(level: float, words: Sequence[str], usual: str) -> str:
    how = next(word for limit, word in zip(UP_TO, words, strict=True) if level <= limit)
    return f"{how} ({level:g})" if how else usual


def _attack(given: Arguments) -> str:
    return _intent(given["attack"], BOWLING, "bowl as real sides do")


def _aggression(given: Arguments) -> str:
    return _intent(given["aggression"], BATTING, "bat as real sides do")


def _shot(given: Arguments) -> str:
    told = [given["shot"]] if given.get("shot") else []
    if given.get("aggression") is not None:
        told.append(_intent(given["aggression"], BATTING, "as hard as usual"))
    return ", ".join(told) or "the batter's own stroke"


def _bowler(given: Arguments) -> str:
    return f"{given.get('bowler') or 'the usual bowler'} to bowl"


def _batter(given: Arguments) -> str:
    first, partner = given.get("batter") or "the next of the order", given.get("partner")
    return f"{first} and {partner} to open" if partner else f"{first} to come in"


def _toss(given: Arguments) -> str:
    return "bat first" if given["elect"] == "bat" else "field first"


def _bowling_orders(given: Arguments) -> str:
    named = [given["bowler"]] if given.get("bowler") else list(given.get("bowlers") or ())[:1]
    told = [f"{named[0]} to bowl"] if named else []
    if any(given.get(part) for part in ("length", "line", "pace")):
        told.append(_delivery(given))
    if given.get("preset") or given.get("fielders"):
        told.append(_field(given))
    if given["attack"] != NEUTRAL or not told:
        told.append(_attack(given))
    return ", ".join(told)


def _batting_orders(given: Arguments) -> str:
    told = [given["shot"]] if given.get("shot") else []
    if given["aggression"] != NEUTRAL or not told:
        told.append(_aggression(given))
    return ", ".join(told)


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
