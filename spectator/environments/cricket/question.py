"""What viewers may call before a captain decides: three cards, from what the captain sees.

The cards follow from the state of the match alone. They name nothing that only a captain knows: no plan, and
no day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spectator.environments.contract import OfferedCall, Question
from spectator.observations import Observation

_DELIVERIES: Final[Sequence[tuple[str, Mapping[str, str]]]] = (
    ("Yorker at the stumps", {"length": "yorker", "line": "stumps"}),
    ("Short, at the body", {"length": "short", "line": "leg"}),
    ("Good length, outside off", {"length": "good", "line": "outside off"}),
    ("Slower ball, back of a length", {"length": "back of a length", "pace": "slower"}),
    ("Full and wide of off", {"length": "full", "line": "wide outside off"}),
    ("Good length at the stumps", {"length": "good", "line": "stumps"}),
)
"""Deliveries in words; three neighbours are offered at a time."""

_INTENTS: Final[Sequence[tuple[str, float]]] = (
    ("Play it safe", 0.3), ("Bat as usual", 0.5), ("Hit out", 0.7),
)  # fmt: skip

_BATTING_ORDERS: Final[Mapping[str, str]] = {"bowl_over": "play_over", "bowl_session": "play_session"}
"""The batting side's orders, by those of the fielding side that come before."""

_CARDS: Final = 3


def question(observation: Observation) -> Question | None:
    """Return what viewers may call, or ``None`` in phases without three choices, as in super overs.

    Where the fielding captain decides first, every other question is about the batting captain's next call.
    """
    view = observation.content
    phase, side = view["phase"], observation.actor
    if side is None or view.get("super_over", True):  # or there is no match yet
        return None
    first = observation.legal_actions[0]["tool"]
    balls = view["score"]["balls"]
    if phase == "bowler":
        return _players(view, side, "select_bowler", "bowler", "Who should bowl for {team}?")
    if phase == "batter":
        return _players(view, side, "select_batter", "batter", "Who should come in for {team}?")
    if phase == "bowl":
        return _ball(view, side, balls) if balls % 2 == 0 else _intent(view, "play_delivery")
    if phase == "bowling_plan":
        if "bowlers" in view["choices"] and balls // 6 % 2 == 0:
            return _players(view, side, first, "bowler", "Who should bowl for {team}?")
        return _intent(view, _BATTING_ORDERS[first])
    return _intent(view, first) if phase == "batting_plan" else None


def _ball(view: Mapping[str, Any], side: str, balls: int) -> Question:
    begin = balls // 2 % len(_DELIVERIES)
    offered = [_DELIVERIES[(begin + place) % len(_DELIVERIES)] for place in range(_CARDS)]
    cards = [
        OfferedCall({"tool": "plan_delivery", "arguments": dict(plan)}, words) for words, plan in offered
    ]
    return Question(side, "bowl_delivery", f"What should {_team(view, side)} bowl?", cards)


def _intent(view: Mapping[str, Any], answered_by: str) -> Question:
    tool = "plan_shot" if answered_by == "play_delivery" else answered_by
    cards = [
        OfferedCall({"tool": tool, "arguments": {"aggression": level}}, words) for words, level in _INTENTS
    ]
    side = str(view["batting"])
    return Question(side, answered_by, f"How should {_team(view, side)} bat?", cards)


def _players(view: Mapping[str, Any], side: str, tool: str, what: str, words: str) -> Question | None:
    """Offer the usual choice and the next two; bowlers in the order of the overs that they have left."""
    choices = view["choices"]
    if what == "bowler":
        able = [one for one in choices["bowlers"] if not one["kind"].startswith("occasional")]
        able.sort(key=lambda one: -one["overs_left"])
        named = {one["name"]: f"{one['name']}, {one['kind']}" for one in able}
    else:
        named = {name: name for name in choices["batters"]}
    usual = choices["usual"] if what == "bowler" else next(iter(named), None)
    offered = [usual, *(name for name in named if name != usual)][:_CARDS]
    if len(offered) < _CARDS or not set(offered) <= named.keys():
        return None
    orders = {"attack": 0.5} if tool in _BATTING_ORDERS else {}
    plural = {"bowlers": True} if tool == "bowl_session" else {}
    cards = [
        OfferedCall(
            {"tool": tool, "arguments": {f"{what}s": [name], **orders} if plural else {what: name, **orders}},
            named[name],
        )
        for name in offered
    ]
    return Question(side, tool, words.format(team=_team(view, side)), cards)


def _team(view: Mapping[str, Any], side: str) -> str:
    return str(view["squads"][side]["name"])
