"""What each of the captain's tools does: plans, fields, orders, and balls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from spectator.environments.cricket.ball.grounds import Boundaries
from spectator.environments.cricket.ball.situation import DeliveryPlan
from spectator.environments.cricket.captaincy.arguments import (
    ADVANCING,
    ONCE_A_BALL,
    OVERHEAD,
    TOOLS,
    AnalyzeSituation,
    BowlOver,
    BowlSession,
    CallToss,
    PlacedFielder,
    PlanDelivery,
    PlanShot,
    PlayOver,
    PlaySession,
    ReflectAfterBall,
    SelectBatter,
    SelectBowler,
    SetBowlingStrategy,
    SetField,
    SetMatchPlan,
    SetStrategy,
    ToolArguments,
    UpdateMatchPlan,
)
from spectator.environments.cricket.laws import LawBroken, Side
from spectator.environments.cricket.match.captain_state import (
    CaptainState,
    Orders,
    at_crease,
    overs_ahead,
    play_orders,
    rate_of,
)
from spectator.environments.cricket.match.engine import Match, analyze, usual_bowler
from spectator.environments.cricket.match.field import (
    PRESET_NAMES,
    STANDARD,
    Field,
    check_field,
    custom_field,
    preset_field,
)
from spectator.environments.cricket.match.game import Game
from spectator.environments.cricket.people import Team
from spectator.environments.cricket.scorer import may_bat, other, overs_left
from spectator.observations import Refusal
from spectator.policies.policy import Action
from spectator.text import clean_text

NAME_LIMIT: Final = 40


def chosen_field(
    preset: str | None, fielders: Sequence[PlacedFielder] | None, outside_limit: int, faced: Boundaries = ()
) -> Field:
    """Return the field of a preset or of nine placed fielders, if it is lawful.

    Args:
        preset: Name of a preset; the standard one by default.
        fielders: Nine fielders, instead of a preset.
        outside_limit: Maximum fielders outside the ring for the next ball.
        faced: The boundaries from the striker's view; empty for the neutral ground.

    Raises:
        LawBroken: Both are given, the preset is unknown, or the field would be a no-ball.
    """
    if fielders is not None:
        if preset is not None:
            raise LawBroken("arguments.set_field", "Give a preset or nine fielders, not both.")
        field = custom_field([(clean_text(one.name, NAME_LIMIT), one.x, one.y) for one in fielders], faced)
    else:
        preset = STANDARD if preset is None else preset
        if preset not in PRESET_NAMES:
            known = ", ".join(PRESET_NAMES)
            raise LawBroken(
                "arguments.preset", f"{clean_text(preset, NAME_LIMIT)!r} is not a preset; use one of {known}."
            )
        field = preset_field(preset, outside_limit)
    check_field(field, outside_limit)
    return field


NOTE_LIMIT: Final = 500


def order_batting(game: Game, side: Side, captain: CaptainState, arguments: PlayOver | PlaySession) -> None:
    """Accept the batting captain's orders.

    Raises:
        LawBroken: They name a player who cannot bat.
    """
    match = game.playing
    team, innings = match.teams[side], match.current
    waiting = [player for player in range(11) if may_bat(innings, player)]
    batters_at_crease = [player for player in (innings.striker, innings.non_striker) if player is not None]
    by_batter = {
        _named(team, one.batter, [*batters_at_crease, *waiting], "K10.batter", "bat"): one.aggression
        for one in arguments.by_batter
    }
    order = [_named(team, name, waiting, "K10.batter", "come in") for name in arguments.next_batters]
    captain.orders = {
        **_orders(match, arguments.aggression, arguments.ask.model_dump()),
        "by_batter": by_batter,
        "shot": arguments.shot,
        "next_batters": order,
    }
    captain.aggression = arguments.aggression
    plan = {"aggression": arguments.aggression, "by_batter": by_batter, "shot": arguments.shot}
    _announce(game, side, captain, "batting", {**plan, "next_batters": order}, arguments)


def order_bowling(game: Game, side: Side, captain: CaptainState, arguments: BowlOver | BowlSession) -> None:
    """Accept the fielding captain's orders.

    Raises:
        LawBroken: A named bowler may not bowl then, or the field is unlawful.
    """
    match = game.playing
    one = [] if isinstance(arguments, BowlSession) or arguments.bowler is None else [arguments.bowler]
    named = arguments.bowlers if isinstance(arguments, BowlSession) else one
    bowlers = _bowlers(game, named)
    if arguments.preset is not None or arguments.fielders is not None:
        field = chosen_field(arguments.preset, arguments.fielders, game.outside_limit, match.faced)
        if field != captain.field:
            if game.field_frozen:
                raise LawBroken("N9.field", "The field cannot change for a free hit to the same striker.")
            captain.field = field
            game.emit("field_set", {"side": side, **field.copy_shown(match.faced)})
    plan = {part: getattr(arguments, part) for part in ("length", "line", "pace")}
    captain.orders = {
        **_orders(match, arguments.attack, arguments.ask.model_dump()),
        "bowlers": [*bowlers],  # a copy: names are removed as they bowl, but not from the announced plan
        "delivery": list(plan.values()) if any(plan.values()) else None,
    }
    captain.attack = arguments.attack
    _announce(
        game, side, captain, "bowling", {"attack": arguments.attack, "bowlers": bowlers, **plan}, arguments
    )


def _orders(match: Match, intent: float, ask: dict[str, Any]) -> Orders:
    return {
        "intent": intent,
        "by_batter": {},
        "shot": None,
        "next_batters": [],
        "bowlers": [],
        "delivery": None,
        "ask": {name: ask[name] for name in ("wicket", "boundary", "new_batter", "rate_above")},  # type: ignore[typeddict-item]  # its four keys
        "seen": at_crease(match),
        "rate": rate_of(match.current),
    }


def _announce(
    game: Game, side: Side, captain: CaptainState, part: str, plan: Mapping[str, Any], arguments: Any
) -> None:
    """Announce orders to viewers like a strategy, without the parts left open."""
    ask = {name: value for name, value in arguments.ask.model_dump().items() if value not in (None, False)}
    note = clean_text(arguments.note, NOTE_LIMIT)
    captain.note(note)
    captain.retold = []
    shown = {name: value for name, value in {**plan, "ask": ask}.items() if value not in (None, [], {})}
    game.emit("plan_changed", {"side": side, "part": part, "plan": {**shown, "note": note}})


def _index(team: Team, name: str, able: Sequence[int], rule: str, verb: str) -> int:
    index = team.find(name)
    if index is None or index not in able:
        names = ", ".join(team.named(player) for player in able)
        raise LawBroken(rule, f"{clean_text(name, NAME_LIMIT)!r} cannot {verb}. These can: {names}.")
    return index


def _named(team: Team, name: str, able: Sequence[int], rule: str, verb: str) -> str:
    return team.named(_index(team, name, able, rule, verb))


def _bowlers(game: Game, names: list[str]) -> list[str]:
    """Return the names of the bowlers of the overs ahead, if each may bowl then."""
    match = game.playing
    innings, team = match.current, match.teams[match.fielding_side]
    overs = overs_ahead(match, game.decisions)
    if innings.bowler is not None:
        return _bowlers_within_over(team, innings.bowler, names, overs)
    if len(names) > len(overs):
        raise LawBroken("arguments.bowlers", f"You named {len(names)} bowlers for {len(overs)} overs.")
    eligible = match.eligible_bowlers()
    found: list[int] = []
    for number, name in enumerate(names):
        able = [
            player
            for player in range(11)
            if (player in eligible if number == 0 else player != team.keeper and player != found[-1])
            and overs_left(innings, player) > found.count(player)
            and player not in innings.barred_bowlers
        ]
        found.append(_index(team, name, able, "O3.bowler", f"bowl over {overs[number]}"))
    return [team.named(index) for index in found]


def _bowlers_within_over(team: Team, bowler: int, names: list[str], overs: list[int]) -> list[str]:
    """Return the bowlers named within an over, which its current bowler must finish."""
    if not names:
        return []
    _index(team, names[0], [bowler], "O4.bowler", f"bowl over {overs[0]}, which has begun")
    if len(names) > len(overs):
        raise LawBroken("arguments.bowlers", f"You named {len(names)} bowlers for {len(overs)} overs.")
    return [_named(team, name, range(11), "O3.bowler", "bowl") for name in names[1:]]


def carry_out(game: Game, side: Side, action: Action, legal: Sequence[str]) -> Refusal | None:
    """Make the tool call of ``side``; return why it was refused, if it was.

    Args:
        action: As the captain sent it.
        legal: Names of the tools that are legal now.
    """
    if not isinstance(action, Mapping) or not isinstance(action.get("tool"), str):
        return Refusal("action.shape", "Send {'tool': name, 'arguments': {...}}.")
    unknown = [str(key)[:40] for key in action if key not in ("tool", "arguments")]
    if unknown:
        return Refusal("action.shape", f"Unknown field {unknown[0]!r}; send tool and arguments only.")
    tool, given = action["tool"], action.get("arguments")
    if tool not in TOOLS:
        return Refusal("tool.unknown", f"No tool {tool[:40]!r}. Legal now: {', '.join(legal)}.")
    if tool not in legal:
        return Refusal(
            "tool.illegal", f"{tool} is not legal now ({game.phase}). Legal now: {', '.join(legal)}."
        )
    if given is not None and not isinstance(given, Mapping):
        return Refusal("arguments.shape", "Arguments must be an object.")
    try:
        arguments = TOOLS[tool].model_validate(dict(given) if given else {})
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = clean_text(".".join(str(part) for part in problem["loc"]), 60)
        return Refusal(f"arguments.{where}", f"{where}: {problem['msg']}.")
    try:
        use(game, side, tool, arguments)
    except LawBroken as broken:
        return Refusal(broken.rule, broken.message)
    return None


def use(game: Game, side: Side, tool: str, arguments: ToolArguments) -> None:
    """Use a legal tool for ``side``.

    Raises:
        LawBroken: The arguments break a rule; nothing was changed.
    """
    captain = game.captains[side]
    _USE[tool](game, side, captain, arguments)
    captain.calls += 1
    captain.refused_in_a_row = 0
    if tool in ADVANCING:
        captain.turn_calls = 0
        if game.decisions != "ball" and game.match is not None:
            play_orders(game)
        return
    captain.turn_calls += 1
    if tool in ONCE_A_BALL:
        captain.turn_tools = [*captain.turn_tools, tool]
    if tool in OVERHEAD and game.match is not None:
        if captain.free_calls:
            captain.free_calls -= 1
        else:
            captain.charged += 1


def _call_toss(game: Game, side: Side, captain: CaptainState, arguments: CallToss) -> None:
    if game.toss_winner is None:
        game.called = arguments.call
        won = (game.rng.random() < 0.5) == (arguments.call == "heads")
        game.toss_winner = side if won else other(side)
        if not won:
            return
    game.elected = arguments.elect
    winner = game.toss_winner
    game.announce_toss()
    game.start_match(winner if arguments.elect == "bat" else other(winner))


def _set_match_plan(game: Game, side: Side, captain: CaptainState, arguments: SetMatchPlan) -> None:
    plan = arguments.model_dump()
    plan["death_bowlers"] = _death_bowlers(game, side, arguments.death_bowlers)
    plan["summary"] = clean_text(arguments.summary, NOTE_LIMIT)
    _adopt(game, side, captain, plan)


def _update_match_plan(game: Game, side: Side, captain: CaptainState, arguments: UpdateMatchPlan) -> None:
    changes = {key: value for key, value in arguments.model_dump().items() if value is not None}
    if "death_bowlers" in changes:
        changes["death_bowlers"] = _death_bowlers(game, side, changes["death_bowlers"])
    if "summary" in changes:
        changes["summary"] = clean_text(changes["summary"], NOTE_LIMIT)
    captain.plan_changes += 1
    _adopt(game, side, captain, {**(captain.plan or {}), **changes})


def _adopt(game: Game, side: Side, captain: CaptainState, plan: dict[str, Any]) -> None:
    captain.plan = plan
    if not captain.balls:
        captain.bound = plan
    _plan_changed(game, side, "match_plan", plan)


def _death_bowlers(game: Game, side: Side, names: list[str]) -> list[str]:
    team = game.teams[side]
    found = [team.find(name) for name in names]
    for name, index in zip(names, found, strict=True):
        if index is None:
            raise LawBroken(
                "arguments.death_bowlers", f"{team.name} have no player called {clean_text(name, 40)!r}."
            )
    return [team.named(index) for index in found]


def _plan_changed(game: Game, side: Side, part: str, plan: dict[str, Any]) -> None:
    game.emit("plan_changed", {"side": side, "part": part, "plan": plan})


def _analyze(game: Game, side: Side, captain: CaptainState, arguments: AnalyzeSituation) -> None:
    captain.note(clean_text(arguments.question, NOTE_LIMIT))
    captain.analysis = analyze(game.playing, side)


def _reflect(game: Game, side: Side, captain: CaptainState, arguments: ReflectAfterBall) -> None:
    captain.reflected = True
    captain.note(clean_text(arguments.note, NOTE_LIMIT))


def _select_batter(game: Game, side: Side, captain: CaptainState, arguments: SelectBatter) -> None:
    opening = game.phase == "openers"
    if arguments.partner is not None and not opening:
        raise LawBroken("arguments.partner", "Name a partner only when choosing the openers.")
    chosen = [_batter(game, arguments.batter, None)]
    if opening:
        chosen.append(_batter(game, arguments.partner, chosen[0]))
    game.send_in(*chosen)


def _batter(game: Game, name: str | None, taken: int | None) -> int:
    match = game.playing
    team, innings = match.teams[match.batting_side], match.current
    free = [index for index in range(11) if may_bat(innings, index) and index != taken]
    return free[0] if name is None else _index(team, name, free, "K10.batter", "come in")


def _select_bowler(game: Game, side: Side, captain: CaptainState, arguments: SelectBowler) -> None:
    match = game.playing
    team = match.teams[side]
    if arguments.bowler is None:
        index = usual_bowler(match)
    else:
        found = team.find(arguments.bowler)
        if found is None:
            name = clean_text(arguments.bowler, NAME_LIMIT)
            raise LawBroken("O3.bowler", f"{team.name} have no player called {name!r}.")
        index = found
    game.begin_over(index)


def _set_strategy(game: Game, side: Side, captain: CaptainState, arguments: SetStrategy) -> None:
    captain.aggression = arguments.aggression
    note = clean_text(arguments.note, NOTE_LIMIT)
    captain.note(note)
    _plan_changed(game, side, "batting", {"aggression": arguments.aggression, "note": note})


def _plan_shot(game: Game, side: Side, captain: CaptainState, arguments: PlanShot) -> None:
    captain.shot = arguments.shot
    captain.shot_aggression = arguments.aggression


def _play_delivery(game: Game, side: Side, captain: CaptainState, arguments: ToolArguments) -> None:
    game.play_ball()


def _set_field(game: Game, side: Side, captain: CaptainState, arguments: SetField) -> None:
    field = chosen_field(arguments.preset, arguments.fielders, game.outside_limit, game.playing.faced)
    if field != captain.field:
        captain.field = field
        game.emit("field_set", {"side": side, **field.copy_shown(game.playing.faced)})


def _set_bowling_strategy(
    game: Game, side: Side, captain: CaptainState, arguments: SetBowlingStrategy
) -> None:
    captain.attack = arguments.attack
    note = clean_text(arguments.note, NOTE_LIMIT)
    captain.note(note)
    _plan_changed(game, side, "bowling", {"attack": arguments.attack, "note": note})


def _plan_delivery(game: Game, side: Side, captain: CaptainState, arguments: PlanDelivery) -> None:
    planned = arguments.model_dump()
    captain.delivery = DeliveryPlan(**planned) if any(planned.values()) else None


def _bowl_delivery(game: Game, side: Side, captain: CaptainState, arguments: ToolArguments) -> None:
    check_field(captain.field, game.outside_limit)
    game.bowler_ready = True


_USE: Final[dict[str, Callable[[Game, Side, CaptainState, Any], None]]] = {
    "call_toss": _call_toss,
    "set_match_plan": _set_match_plan,
    "update_match_plan": _update_match_plan,
    "analyze_situation": _analyze,
    "reflect_after_ball": _reflect,
    "select_batter": _select_batter,
    "set_strategy": _set_strategy,
    "plan_shot": _plan_shot,
    "play_delivery": _play_delivery,
    "select_bowler": _select_bowler,
    "set_field": _set_field,
    "set_bowling_strategy": _set_bowling_strategy,
    "plan_delivery": _plan_delivery,
    "bowl_delivery": _bowl_delivery,
    "play_over": order_batting,
    "bowl_over": order_bowling,
    "play_session": order_batting,
    "bowl_session": order_bowling,
}

assert set(_USE) == set(TOOLS)  # every tool needs arguments and a function
