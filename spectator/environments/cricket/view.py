"""Owns what a captain sees: the observation's content, complete, compact, and without the rival's secrets."""

from __future__ import annotations

from functools import cache
from typing import Any

from spectator.environments.cricket.advice import usual_bowler
from spectator.environments.cricket.field import Field
from spectator.environments.cricket.formats import Format
from spectator.environments.cricket.game import Game
from spectator.environments.cricket.innings import Innings
from spectator.environments.cricket.laws import may_bat, overs_left
from spectator.environments.cricket.models import Side, overs_text
from spectator.environments.cricket.resources import runs_to_come
from spectator.environments.cricket.seats import Seat

PHASE_TASKS = {
    "toss": "Call the toss and say what you elect if you win it.",
    "elect": "You won the toss: elect to bat or to field.",
    "openers": "Choose the two openers.",
    "batter": "A wicket has fallen: choose who comes in.",
    "bowler": "Choose who bowls the next over.",
    "bowl": "Set field and bowling as you wish, then bowl the ball.",
    "bat": "Plan the stroke as you wish, then play the ball.",
    "over": "The match is over.",
}


def content(game: Game, squads: dict[Side, Any], side: Side | None) -> dict[str, Any]:
    """What ``side`` sees; the public part only when nobody must decide.

    Args:
        game: The game.
        squads: Cards of both elevens, the same object in every observation.
        side: Whose eyes.
    """
    phase = game.turn()[0]
    view: dict[str, Any] = {"phase": phase, "task": PHASE_TASKS[phase], "side": side, "squads": squads}
    view["format"] = _format(game.format)
    match = game.match
    if match is not None:
        view |= _situation(game, match.current)
        if match.result is not None:
            winner = match.result.winner
            view["result"] = match.result.words(match.teams[winner].name if winner else "")
    if side is not None:
        view["you"] = _own(game.seats[side])
        if phase == "bowl":
            view["you"]["field_frozen"] = game.field_frozen
        if phase == "bowler":
            view["choices"] = _bowling_choices(game)
        elif phase in ("batter", "openers"):
            view["choices"] = _batting_choices(game)
    return view


@cache
def _format(format: Format) -> dict[str, int]:
    return {
        "overs": format.overs,
        "powerplay_balls": format.powerplay_balls,
        "bowler_overs": format.bowler_overs,
    }


def _situation(game: Game, innings: Innings) -> dict[str, Any]:
    match = game.playing
    batting, fielding = match.teams[match.batting_side], match.teams[match.fielding_side]
    balls, left = innings.balls, innings.balls_left
    view: dict[str, Any] = {
        "innings": match.number,
        "super_over": innings.format.is_super_over,
        "batting": batting.side,
        "segment": game.segment(),
        "score": {
            "runs": innings.runs,
            "wickets": innings.wickets,
            "balls": balls,
            "overs": overs_text(balls),
            "balls_left": left,
        },
        "powerplay": innings.format.in_powerplay(balls),
        "free_hit": innings.free_hit,
        "run_rate": round(6.0 * innings.runs / balls, 2) if balls else None,
        "striker": _batter(game, innings.striker),
        "non_striker": _batter(game, innings.non_striker),
        "bowler": None,
        "partnership": innings.partner_runs,
        "recent": list(game.recent),
        "field": _shown(game.seats[fielding.side].field),
        "outside_limit": innings.format.outside_limit(balls),
    }
    if innings.target is not None:
        need = max(0, innings.target - innings.runs)
        view |= {
            "target": innings.target,
            "need": need,
            "required_rate": round(6.0 * need / left, 2) if left else None,
        }
    else:
        view["projected"] = (
            round(innings.runs + runs_to_come(left, innings.wickets))
            if not (innings.format.is_super_over)
            else None
        )
    if innings.bowler is not None:
        line = innings.bowling[innings.bowler]
        view["bowler"] = {
            "name": fielding.players[innings.bowler].name,
            "kind": fielding.kind(innings.bowler),
            "overs": overs_text(line.balls),
            "runs": line.runs,
            "wickets": line.wickets,
            "overs_left": overs_left(innings, innings.bowler),
        }
    last = game.last_ball
    if last is not None:
        view["last_ball"] = {
            "at": last["at"],
            "mark": last["mark"],
            "words": last["words"],
            "length": last["length"],
            "line": last["line"],
            "zone": last["direction"],
        }
    return view


def _shown(field: Field) -> dict[str, Any]:
    """A copy, for the field's own is shared by every match."""
    return {"preset": field.preset, "fielders": [dict(man) for man in field.shown["fielders"]]}


def _batter(game: Game, player: int | None) -> dict[str, Any] | None:
    if player is None:
        return None
    match = game.playing
    line, person = match.current.batting[player], match.teams[match.batting_side].players[player]
    return {"name": person.name, "bats": person.bats, "runs": line.runs, "balls": line.balls}


def _own(seat: Seat) -> dict[str, Any]:
    delivery = seat.delivery
    return {
        "plan": None if seat.plan is None else dict(seat.plan),
        "aggression": seat.aggression,
        "attack": seat.attack,
        "free_calls": seat.free_calls,
        "charged_calls": seat.charged,
        "notes": list(seat.notes),
        "analysis": seat.analysis,
        "shot": seat.shot,
        "shot_aggression": seat.shot_aggression,
        "delivery": None
        if delivery is None
        else {"length": delivery.length, "line": delivery.line, "pace": delivery.pace},
    }


def _bowling_choices(game: Game) -> dict[str, Any]:
    match = game.playing
    innings, team = match.current, match.teams[match.fielding_side]
    bowlers = []
    for index in match.eligible_bowlers():
        line = innings.bowling.get(index)
        bowlers.append({
            "name": team.players[index].name,
            "kind": team.kind(index),
            "overs": overs_text(line.balls) if line else "0.0",
            "runs": line.runs if line else 0,
            "wickets": line.wickets if line else 0,
            "overs_left": overs_left(innings, index),
        })  # fmt: skip
    return {"bowlers": bowlers, "usual": team.players[usual_bowler(match)].name}


def _batting_choices(game: Game) -> dict[str, Any]:
    match = game.playing
    team = match.teams[match.batting_side]
    free = [player.name for index, player in enumerate(team.players) if may_bat(match.current, index)]
    return {"batters": free, "usual": free[0]}
