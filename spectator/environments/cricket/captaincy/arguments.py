"""The captain's tools: arguments, JSON schemas, and which are legal now."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from spectator.environments.cricket.ball.situation import LINES, PACES, PLANNED_LENGTHS, SHOTS
from spectator.environments.cricket.laws import Side
from spectator.environments.cricket.match.captain_state import CALLS_A_TURN
from spectator.environments.cricket.match.field import BOUNDARY_M, PITCH_M, legal_presets
from spectator.environments.cricket.match.game import Game, Phase
from spectator.environments.cricket.scorer import may_bat
from spectator.observations import LegalAction

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Metres = Annotated[float, Field(ge=-2 * BOUNDARY_M, le=2 * BOUNDARY_M)]
Name = Annotated[str, Field(min_length=1, max_length=40)]
Note = Annotated[str, Field(max_length=500)]

AGGRESSION: Final = "0 block .. 0.5 what real sides do in this situation .. 1 hit everything"
ATTACK: Final = "0 save runs .. 0.5 what real sides do in this situation .. 1 hunt wickets at any price"


class ToolArguments(BaseModel):
    """Base of every tool's arguments: all optional, unknown ones rejected."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class PlayDelivery(ToolArguments):
    """Play the ball as planned: it is bowled and scored."""


class BowlDelivery(ToolArguments):
    """Bowl the ball as planned: the batting captain then decides how to play it."""


class CallToss(ToolArguments):
    """Call the toss; the winner elects. When the other side won, only they elect."""

    call: Literal["heads", "tails"] = Field("heads", description="What the visiting captain calls")
    elect: Literal["bat", "field"] = Field("field", description="What to do first if the toss is won")


class SetMatchPlan(ToolArguments):
    """Declare intentions, to which deeds are compared at the end: one intent for each phase and role."""

    batting_powerplay: Share = Field(0.5, description=AGGRESSION)
    batting_middle: Share = Field(0.5, description=AGGRESSION)
    batting_death: Share = Field(0.5, description=AGGRESSION)
    bowling_powerplay: Share = Field(0.5, description=ATTACK)
    bowling_middle: Share = Field(0.5, description=ATTACK)
    bowling_death: Share = Field(0.5, description=ATTACK)
    death_bowlers: list[Name] = Field([], max_length=3, description="Who is kept for the last overs")
    summary: Note = Field("", description="The plan in words; a note to yourself and the viewers, not scored")


class UpdateMatchPlan(ToolArguments):
    """Change the match plan; what is left out stays. It binds from the next over on."""

    batting_powerplay: Share | None = Field(None, description=AGGRESSION)
    batting_middle: Share | None = Field(None, description=AGGRESSION)
    batting_death: Share | None = Field(None, description=AGGRESSION)
    bowling_powerplay: Share | None = Field(None, description=ATTACK)
    bowling_middle: Share | None = Field(None, description=ATTACK)
    bowling_death: Share | None = Field(None, description=ATTACK)
    death_bowlers: list[Name] | None = Field(None, max_length=3, description="Who is kept for the last overs")
    summary: Note | None = Field(None, description="The plan in words")


class AnalyzeSituation(ToolArguments):
    """Ask the analyst: par, projection, chances, overs left. One of the overhead calls."""

    question: Note = Field("", description="What you want to know; kept as a note")


class ReflectAfterBall(ToolArguments):
    """Look back at the last ball; the note is kept and shown to you later. One of the overhead calls."""

    note: Note = Field("", description="What you learned")


class SelectBatter(ToolArguments):
    """Send the next batter in; before an innings, both openers."""

    batter: Name | None = Field(None, description="Default: the next in the natural order")
    partner: Name | None = Field(None, description="Only for openers: who begins at the other end")


class SetStrategy(ToolArguments):
    """Set how the side bats until changed. One of the overhead calls."""

    aggression: Share = Field(0.5, description=AGGRESSION)
    note: Note = Field("", description="Why, in words")


class PlanShot(ToolArguments):
    """Plan the next ball's stroke; it holds for one ball. One of the overhead calls, once a ball."""

    shot: Literal[tuple(SHOTS)] | None = Field(None, description="Default: the batter's own choice")  # type: ignore[valid-type]  # the model's own list
    aggression: Share | None = Field(None, description=AGGRESSION + "; default: as the strategy says")


class SelectBowler(ToolArguments):
    """Give a bowler the over about to begin."""

    bowler: Name | None = Field(None, description="Default: the side's usual choice for this over")


class PlacedFielder(ToolArguments):
    """One fielder of a field of your own."""

    name: Name = Field("fielder", description="Name of the position")
    x: Metres = Field(description="Metres to the striker's off side of the middle stump")
    y: Metres = Field(
        description=f"Metres from the striker's stumps towards the bowler's, which are at {PITCH_M}"
    )


class SetField(ToolArguments):
    """Set the field until changed: a preset or nine fielders. One of the overhead calls, once a ball."""

    preset: str | None = Field(None, max_length=40, description="Default: standard, what real sides set here")
    fielders: list[PlacedFielder] | None = Field(
        None,
        min_length=9,
        max_length=9,
        description="Nine fielders beside bowler and keeper; instead of a preset",
    )


class SetBowlingStrategy(ToolArguments):
    """Set how the side bowls until changed. One of the overhead calls."""

    attack: Share = Field(0.5, description=ATTACK)
    note: Note = Field("", description="Why, in words")


class PlanDelivery(ToolArguments):
    """Plan what the bowler bowls until the end of the over. One of the overhead calls."""

    length: Literal[PLANNED_LENGTHS] | None = Field(None, description="Default: the bowler's habit")  # type: ignore[valid-type]  # the model's own list
    line: Literal[LINES] | None = Field(None, description="Default: the bowler's habit")  # type: ignore[valid-type]  # the model's own list
    pace: Literal[PACES] | None = Field(None, description="Default: the bowler's habit")  # type: ignore[valid-type]  # the model's own list


class AskSooner(ToolArguments):
    """When to ask again before these orders run out."""

    wicket: bool = Field(False, description="A wicket has fallen")
    boundary: bool = Field(False, description="A ball reached the rope")
    new_batter: bool = Field(False, description="A batter comes on strike who was not in when you ordered")
    rate_above: Annotated[float, Field(ge=0.0, le=36.0)] | None = Field(
        None, description="The required rate of a chase, else the run rate, rose above this: runs an over"
    )


class BatterIntent(ToolArguments):
    """The intent of one batter."""

    batter: Name = Field(description="Who")
    aggression: Share = Field(description=AGGRESSION)


class _BattingOrders(ToolArguments):
    aggression: Share = Field(0.5, description=AGGRESSION)
    by_batter: list[BatterIntent] = Field([], max_length=11, description="Batters who are to play otherwise")
    shot: Literal[tuple(SHOTS)] | None = Field(  # type: ignore[valid-type]  # the model's own list
        None, description="Stroke to every ball; default: the batters' own choice"
    )
    next_batters: list[Name] = Field(
        [], max_length=9, description="Who comes in at the fall of wickets; default: the natural order"
    )
    ask: AskSooner = Field(AskSooner(), description="When to ask again before these orders run out")
    note: Note = Field("", description="Why, in words")


class _BowlingOrders(ToolArguments):
    attack: Share = Field(0.5, description=ATTACK)
    preset: str | None = Field(None, max_length=40, description="Field; default: it stays as it is")
    fielders: list[PlacedFielder] | None = Field(
        None,
        min_length=9,
        max_length=9,
        description="Nine fielders beside bowler and keeper; instead of a preset",
    )
    length: Literal[PLANNED_LENGTHS] | None = Field(None, description="Default: the bowler's habit")  # type: ignore[valid-type]  # the model's own list
    line: Literal[LINES] | None = Field(None, description="Default: the bowler's habit")  # type: ignore[valid-type]  # the model's own list
    pace: Literal[PACES] | None = Field(None, description="Default: the bowler's habit")  # type: ignore[valid-type]  # the model's own list
    ask: AskSooner = Field(AskSooner(), description="When to ask again before these orders run out")
    note: Note = Field("", description="Why, in words")


class PlayOver(_BattingOrders):
    """Say how the side bats until the over ends: it is then played by both captains' orders."""


class BowlOver(_BowlingOrders):
    """Say who bowls the over and how; it is played once the batting captain has given orders too."""

    bowler: Name | None = Field(None, description="Default: the side's usual choice for this over")


class PlaySession(_BattingOrders):
    """Say how the side bats until the powerplay, the middle or the death overs end."""


class BowlSession(_BowlingOrders):
    """Say who bowls the overs of the powerplay, the middle or the death, and how."""

    bowlers: list[Name] = Field(
        [], max_length=50, description="Who bowls each of them, in order; default: the side's usual choices"
    )


TOOLS: Final[dict[str, type[ToolArguments]]] = {
    "call_toss": CallToss,
    "set_match_plan": SetMatchPlan,
    "update_match_plan": UpdateMatchPlan,
    "analyze_situation": AnalyzeSituation,
    "reflect_after_ball": ReflectAfterBall,
    "select_batter": SelectBatter,
    "set_strategy": SetStrategy,
    "plan_shot": PlanShot,
    "play_delivery": PlayDelivery,
    "select_bowler": SelectBowler,
    "set_field": SetField,
    "set_bowling_strategy": SetBowlingStrategy,
    "plan_delivery": PlanDelivery,
    "bowl_delivery": BowlDelivery,
    "play_over": PlayOver,
    "bowl_over": BowlOver,
    "play_session": PlaySession,
    "bowl_session": BowlSession,
}
"""The arguments of each tool, by tool name."""

OVERHEAD: Final = frozenset({
    "set_strategy", "set_bowling_strategy", "set_field", "plan_delivery", "plan_shot", "reflect_after_ball",
    "analyze_situation",
})  # fmt: skip
"""Tools of which one per ball, six per over, are free."""

ONCE_A_BALL: Final = frozenset({"set_field", "plan_shot"})
"""Tools that may be used once per ball."""


def argument_schema(tool: str) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments, with optional types simplified.

    Args:
        tool: A key of :data:`TOOLS`.

    >>> argument_schema("set_strategy")["properties"]["aggression"]["maximum"]
    1.0
    """
    schema = TOOLS[tool].model_json_schema()
    definitions = schema.pop("$defs", {})
    simplified: dict[str, Any] = _simplify(schema, definitions)
    return simplified


def _simplify(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_simplify(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _simplify(definitions[node["$ref"].rpartition("/")[2]], definitions)
    choices = [choice for choice in node.get("anyOf", ()) if choice != {"type": "null"}]
    if choices:
        node = {**{key: value for key, value in node.items() if key != "anyOf"}, **choices[0]}
    return {
        key: _simplify(value, definitions)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str)) and not (key == "default" and value is None)
    }


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
"""The tools of each phase, the one that advances the game first."""

_SESSION: Final = {"bowl_over": "bowl_session", "play_over": "play_session"}

BOWLING_ORDERS: Final = frozenset({"bowl_over", "bowl_session"})

ADVANCING: Final = frozenset(
    {"call_toss", "select_batter", "select_bowler", "bowl_delivery", "play_delivery"}
    | _SESSION.keys()
    | {*_SESSION.values()}
)
"""Tools that advance the game."""


def legal_tools(game: Game, phase: Phase, actor: Side | None) -> tuple[str, ...]:
    """Return the tools that ``actor`` may use now, one that advances the game first.

    Args:
        actor: The side that decides; see :meth:`Game.turn`.
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
    """Return the legal actions, with the ranges of their arguments.

    Args:
        tools: The result of :func:`legal_tools`.
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
    """Return the names of players who may come in, in their natural order."""
    match = game.playing
    team = match.teams[match.batting_side]
    return [player.name for index, player in enumerate(team.players) if may_bat(match.current, index)]


def bowlers(game: Game) -> list[str]:
    """Return the names of players who may bowl the next over."""
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
    """Return the action for bowling orders with lawful bowlers and presets.

    Within an over no bowler can be named.
    """
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
