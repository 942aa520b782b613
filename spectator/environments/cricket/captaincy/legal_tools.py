"""Which of the captain's tools are legal now, with the ranges of their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from spectator.environments.cricket.captaincy.arguments import argument_schema
from spectator.environments.cricket.laws.deliveries import Side
from spectator.environments.cricket.laws.scorer import may_bat
from spectator.environments.cricket.match.captain_state import CALLS_A_TURN
from spectator.environments.cricket.match.field import legal_presets
from spectator.environments.cricket.match.game import Game, Phase
from spectator.observations import LegalAction

_PLANNING: Final = ("set_match_plan", "update_match_plan", "analyze_situation", "reflect_after_ball")
_BY_PHASE: Final[dict[Phase, tuple[str, ...]]] = {
    "toss": ("call_toss", "set_match_plan", "update_match_plan"),
    "elect": ("call_toss", "set_match_plan", "update_match_plan"),
    "openers": ("select_batter", *_PLANNING),
    "batter": ("select_batter", *_PLANNING),
    "bowler": ("select_bowler", *_PLANNING),
    "bowl": ("bowl_delivery", "plan_delivery", "set_bowling_strategy", "set_field", *_PLANNING),
    "bat": ("play_delivery", "plan_shot", "set_strategy", *_PLANNING),
    "bowling_plan": ("bowl_over", *_PLANNING),
    "batting_plan": ("play_over", *_PLANNING),
    "over": (),
}
"""The tools of each phase, the one that goes on with the game first."""

_SESSION: Final = {"bowl_over": "bowl_session", "play_over": "play_session"}

BOWLING_ORDERS: Final = frozenset({"bowl_over", "bowl_session"})

ADVANCING: Final = frozenset(
    {"call_toss", "select_batter", "select_bowler", "bowl_delivery", "play_delivery"}
    | _SESSION.keys()
    | {*_SESSION.values()}
)
"""Tools that go on with the game."""


def legal_tools(game: Game, phase: Phase, actor: Side | None) -> tuple[str, ...]:
    """Names of the tools that ``actor`` may use now, one that goes on with the game first.

    Args:
        game: The game.
        phase: What is being decided.
        actor: Who decides it; see :meth:`Game.turn`.
    """
    if actor is None:
        return ()
    captain = game.captains[actor]
    frozen = phase == "bowl" and game.field_frozen
    tools = _legal(
        phase, captain.turn_calls >= CALLS_A_TURN, captain.plan is not None, captain.reflected, frozen
    )
    if captain.turn_tools:
        tools = tuple(tool for tool in tools if tool not in captain.turn_tools)
    return (_SESSION.get(tools[0], tools[0]), *tools[1:]) if game.decisions == "session" else tools


@cache
def _legal(phase: Phase, spent: bool, planned: bool, reflected: bool, frozen: bool) -> tuple[str, ...]:
    tools = _BY_PHASE[phase]
    if spent:
        return tools[:1]
    without = {
        "set_match_plan": planned,
        "update_match_plan": not planned,
        "reflect_after_ball": reflected,
        "set_field": frozen,
    }
    return tuple(tool for tool in tools if not without.get(tool, False))


def legal_actions(game: Game, tools: tuple[str, ...]) -> Sequence[LegalAction]:
    """What the actor may do now, with the ranges of the arguments.

    Args:
        game: The game.
        tools: As :func:`legal_tools` has them.
    """
    if not tools:
        return ()
    first = tools[0]
    if first in ("select_batter", "select_bowler"):
        names = batters(game) if first == "select_batter" else bowlers(game)
        return [_choice(first, tuple(names), game.phase == "openers"), *_fixed(tools[1:])]
    if first in BOWLING_ORDERS:
        return [_bowling_orders(first, tuple(bowlers(game)), game.outside_limit), *_fixed(tools[1:])]
    if "set_field" in tools:
        return _with_presets(tools, game.outside_limit)
    return _fixed(tools)


def batters(game: Game) -> list[str]:
    """Names of those who may come in, in their natural order."""
    match = game.playing
    team = match.teams[match.batting_side]
    return [player.name for index, player in enumerate(team.players) if may_bat(match.current, index)]


def bowlers(game: Game) -> list[str]:
    """Names of those who may bowl the over about to begin."""
    match = game.playing
    team = match.teams[match.fielding_side]
    return [team.players[index].name for index in match.eligible_bowlers()]


@cache
def _schema(tool: str) -> dict[str, Any]:
    return argument_schema(tool)


@cache
def _fixed(tools: tuple[str, ...]) -> tuple[LegalAction, ...]:
    return tuple(LegalAction(tool=tool, arguments=_schema(tool)) for tool in tools)


@cache
def _with_presets(tools: tuple[str, ...], outside_limit: int) -> tuple[LegalAction, ...]:
    return tuple(
        LegalAction(tool=tool, arguments=_narrowed(tool, ("preset",), legal_presets(outside_limit)))
        if tool == "set_field"
        else LegalAction(tool=tool, arguments=_schema(tool))
        for tool in tools
    )


def _choice(tool: str, names: tuple[str, ...], openers: bool) -> LegalAction:
    fields = ("bowler",) if tool == "select_bowler" else ("batter", "partner") if openers else ("batter",)
    return LegalAction(tool=tool, arguments=_narrowed(tool, fields, names))


@cache
def _bowling_orders(tool: str, names: tuple[str, ...], outside_limit: int) -> LegalAction:
    """Who may bowl the next over, and which presets are lawful; nobody is to be named within an over."""
    schema = _narrowed(tool, ("preset",), legal_presets(outside_limit))
    if tool == "bowl_over":
        if names:
            schema["properties"]["bowler"] = {**schema["properties"]["bowler"], "enum": list(names)}
        else:
            del schema["properties"]["bowler"]
    return LegalAction(tool=tool, arguments=schema)


def _narrowed(tool: str, fields: tuple[str, ...], names: tuple[str, ...]) -> dict[str, Any]:
    schema = _schema(tool)
    properties = dict(schema["properties"])
    for name in fields:
        properties[name] = {**properties[name], "enum": list(names)}
    if tool == "select_batter" and "partner" not in fields:
        del properties["partner"]
    return {**schema, "properties": properties}
