"""What each of the captain's tools does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from spectator.environments.cricket.ball.vocabulary import DeliveryPlan
from spectator.environments.cricket.captaincy.arguments import (
    ONCE_A_BALL,
    OVERHEAD,
    TOOLS,
    AnalyzeSituation,
    CallToss,
    PlanDelivery,
    PlanShot,
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
from spectator.environments.cricket.captaincy.fields import chosen_field
from spectator.environments.cricket.captaincy.legal_tools import ADVANCING
from spectator.environments.cricket.captaincy.ordering import order_batting, order_bowling
from spectator.environments.cricket.laws.deliveries import Side
from spectator.environments.cricket.laws.innings import LawBroken
from spectator.environments.cricket.laws.result import other
from spectator.environments.cricket.laws.scorer import may_bat
from spectator.environments.cricket.match.advice import analyze, usual_bowler
from spectator.environments.cricket.match.captain_state import CaptainState
from spectator.environments.cricket.match.field import check_field
from spectator.environments.cricket.match.game import Game
from spectator.environments.cricket.match.orders import play_on
from spectator.text import clean_text

NOTE_LIMIT: Final = 500
NAME_LIMIT: Final = 40


def use(game: Game, side: Side, tool: str, arguments: ToolArguments) -> None:
    """Let ``side`` use a legal tool.

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
            play_on(game)
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
    game.emit(
        "toss_made",
        {
            "caller": game.caller,
            "call": game.called,
            "winner": winner,
            "elected": arguments.elect,
            "team": game.teams[winner].name,
        },
    )
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
                "arguments.death_bowlers", f"Nobody of {team.name} is called {clean_text(name, 40)!r}."
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
        raise LawBroken("arguments.partner", "A partner is named only when the openers are chosen.")
    chosen = [_batter(game, arguments.batter, None)]
    if opening:
        chosen.append(_batter(game, arguments.partner, chosen[0]))
    game.send_in(*chosen)


def _batter(game: Game, name: str | None, taken: int | None) -> int:
    match = game.playing
    team, innings = match.teams[match.batting_side], match.current
    free = [index for index in range(11) if may_bat(innings, index) and index != taken]
    if name is None:
        return free[0]
    index = team.find(name)
    if index is None or index not in free:
        names = ", ".join(team.players[index].name for index in free)
        raise LawBroken("K10.batter", f"{clean_text(name, NAME_LIMIT)!r} cannot come in. These can: {names}.")
    return index


def _select_bowler(game: Game, side: Side, captain: CaptainState, arguments: SelectBowler) -> None:
    match = game.playing
    team = match.teams[side]
    if arguments.bowler is None:
        index = usual_bowler(match)
    else:
        found = team.find(arguments.bowler)
        if found is None:
            name = clean_text(arguments.bowler, NAME_LIMIT)
            raise LawBroken("O3.bowler", f"Nobody of {team.name} is called {name!r}.")
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

assert set(_USE) == set(TOOLS)  # a tool without arguments, or the reverse, is a mistake of ours
