"""A captain's observation: complete, compact, and without the other side's plans."""

from __future__ import annotations

from typing import Any

from spectator.environments.cricket.ball.situation import LENGTHS, LINES
from spectator.environments.cricket.captaincy.arguments import batters
from spectator.environments.cricket.laws import Innings, Side, overs_text
from spectator.environments.cricket.match.captain_state import CaptainState, overs_ahead
from spectator.environments.cricket.match.engine import Match, segment_of, usual_bowler
from spectator.environments.cricket.match.event_data import dismissal_text, extras
from spectator.environments.cricket.match.game import Game, Phase
from spectator.environments.cricket.match.starts import shown_circumstances
from spectator.environments.cricket.people import Team
from spectator.environments.cricket.scorer import overs_left


class CaptainsCard:
    """The scorecard of one match, rebuilt at each wicket, over, extra and innings.

    It omits the batters at the crease and the current bowler: an observation has their latest figures under
    ``striker``, ``non_striker`` and ``bowler``.
    """

    def __init__(self, match: Match) -> None:
        self._match = match
        self._made_at: tuple[int | None, ...] = ()
        self._shown: dict[str, Any] = {}

    def shown(self) -> dict[str, Any]:
        """Return the card; the same object until it changes.

        Its keys are ``out``, ``bowling``, ``maidens``, ``extras`` and ``earlier``.
        """
        innings = self._match.innings[-1]
        score_of_extras = innings.wides + innings.noballs + innings.byes + innings.legbyes
        at = (
            len(self._match.innings), innings.wickets, len(innings.overs), innings.bowler, score_of_extras,
        )  # fmt: skip
        if at != self._made_at:
            earlier = self._shown.get("earlier", [])
            if len(earlier) != len(self._match.innings) - 1:
                earlier = [_closed(self._match, number) for number in range(len(self._match.innings) - 1)]
            self._made_at, self._shown = at, {**_card(self._match, innings.bowler), "earlier": earlier}
        return self._shown


def _card(match: Match, bowling_now: int | None) -> dict[str, Any]:
    number = len(match.innings) - 1
    kinds = {kind: runs for kind, runs in extras(match.innings[-1]).items() if runs}
    present = None if bowling_now is None else match.innings[-1].bowling[bowling_now]
    return {
        "out": _out(match, number),
        "bowling": _bowling(match, number, bowling_now, left=True),
        "maidens": 0 if present is None else present.maidens,
        "extras": kinds,
    }


def _closed(match: Match, number: int) -> dict[str, Any]:
    """Return the card of a closed innings."""
    innings, team = match.innings[number], match.teams[match.batting[number]]
    return {
        "batting": match.batting[number],
        "runs": innings.runs,
        "wickets": innings.wickets,
        "overs": overs_text(innings.balls),
        "out": _out(match, number),
        "not_out": [
            {"name": team.players[player].name, "runs": line.runs, "balls": line.balls}
            for player, line in innings.batting.items()
            if line.how is None
        ],
        "bowling": _bowling(match, number, None, left=False),
    }


def _out(match: Match, number: int) -> list[dict[str, Any]]:
    innings, side = match.innings[number], match.batting[number]
    team, rivals = match.teams[side], match.teams["away" if side == "home" else "home"]
    score_at = {player: (runs, overs_text(balls)) for runs, _, player, balls in innings.fall}
    fell = {player: wicket for _, wicket, player, _ in innings.fall}
    return [
        {
            "name": team.players[player].name,
            "runs": line.runs,
            "balls": line.balls,
            "how": dismissal_text(line, team, rivals),
            "score": score_at.get(player, (None, None))[0],
            "at": score_at.get(player, (None, None))[1],
        }
        for player, line in sorted(innings.batting.items(), key=lambda one: fell.get(one[0], 99))
        if line.how is not None
    ]


def _bowling(match: Match, number: int, without: int | None, *, left: bool) -> list[dict[str, Any]]:
    innings = match.innings[number]
    team = match.teams["away" if match.batting[number] == "home" else "home"]
    shown = []
    for player, line in innings.bowling.items():
        if player != without:
            figures = {
                "name": team.players[player].name,
                "overs": overs_text(line.balls),
                "maidens": line.maidens,
                "runs": line.runs,
                "wickets": line.wickets,
            }
            shown.append({**figures, "overs_left": overs_left(innings, player)} if left else figures)
    return shown


PHASE_TASKS = {
    "toss": "Call the toss and say what you elect if you win it.",
    "elect": "You won the toss: elect to bat or to field.",
    "openers": "Choose the two openers.",
    "batter": "A wicket has fallen: choose who comes in.",
    "bowler": "Choose who bowls the next over.",
    "bowl": "Set field and bowling as you wish, then bowl the ball.",
    "bat": "Plan the stroke as you wish, then play the ball.",
    "bowling_plan": "Order how the overs in `choices.overs` are bowled, and when to be asked sooner.",
    "batting_plan": "Order how the side bats in `choices.overs`, and when to be asked sooner.",
    "over": "The match is over.",
}


LAST_BALL = {
    "at": "at", "mark": "mark", "words": "words", "length": "length", "line": "line", "zone": "direction",
}  # fmt: skip
"""Fields of the last ball in an observation, with their names in ``cricket.ball_bowled``."""


def observation_content(
    game: Game, squads: dict[Side, Any], phase: Phase, side: Side | None, card: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return what ``side`` sees; only the public part if ``side`` is ``None``.

    Args:
        squads: Cards of both elevens, the same object in every observation.
        card: The scorecard; see :class:`CaptainsCard`.
    """
    view: dict[str, Any] = {
        "phase": phase,
        "task": PHASE_TASKS[phase],
        "side": side,
        "squads": squads,
        "format": _format(game),
        "conditions": game.circumstances.conditions._asdict(),
    }
    match = game.match
    if game.circumstances.unusual:
        view |= shown_circumstances(game.circumstances, match)
    if match is not None:
        view.update(_situation(game, match))
        view.update(equation(match))
        if card is not None:
            view["card"] = card
        if game.last_ball is not None:
            view["last_ball"] = {name: game.last_ball[key] for name, key in LAST_BALL.items()}
        if match.result is not None:
            winner = match.result.winner
            view["result"] = match.result.words(match.teams[winner].name if winner else "")
    if side is not None:
        view["you"] = _own(game.captains[side])
        if phase == "bowl":
            view["you"]["field_frozen"] = game.field_frozen
        elif phase == "bowler":
            view["choices"] = _bowling_choices(game)
        elif phase in ("batter", "openers"):
            view["choices"] = _batting_choices(game)
        elif phase in ("bowling_plan", "batting_plan"):
            view["you"] |= {"asked": game.captains[side].asked, "since": [*game.captains[side].retold]}
            view["choices"] = _choices_ahead(game, phase)
    return view


def _format(game: Game) -> dict[str, Any]:
    format = game.format
    return {
        "overs": format.overs,
        "powerplay_balls": format.powerplay_balls,
        "bowler_overs": format.bowler_overs,
        "profile": game.model.tables.profile,
        "level": game.model.mean_total,
    }


def _situation(game: Game, match: Match) -> dict[str, Any]:
    """Return the score, the batters in, the bowler and the field."""
    innings = match.innings[-1]
    format, balls = innings.format, innings.balls
    batting, fielding = match.teams[match.batting_side], match.teams[match.fielding_side]
    return {
        "innings": len(match.innings),
        "super_over": format.is_super_over,
        "batting": batting.side,
        "segment": segment_of(innings),
        "score": {
            "runs": innings.runs,
            "wickets": innings.wickets,
            "balls": balls,
            "overs": overs_text(balls),
            "balls_left": format.balls - balls,
        },
        "powerplay": balls < format.powerplay_balls,
        "free_hit": innings.free_hit,
        "run_rate": round(6.0 * innings.runs / balls, 2) if balls else None,
        "striker": _batter(match, batting, innings.striker),
        "non_striker": _batter(match, batting, innings.non_striker),
        "bowler": _bowler(innings, fielding, innings.bowler),
        "partnership": innings.partner_runs,
        "recent": game.recent.copy(),
        "field": game.shown_field(fielding.side),
        "outside_limit": format.outside_limit(balls),
    }


def equation(match: Match) -> dict[str, Any]:
    """Return what a chase still needs, or what a first innings is likely to make."""
    innings = match.current
    left = innings.balls_left
    if innings.target is None:
        if innings.format.is_super_over:
            return {"projected": None}
        return {"projected": round(match.outlook().total(innings.balls, innings.wickets, innings.runs))}
    need = max(0, innings.target - innings.runs)
    return {
        "target": innings.target,
        "need": need,
        "required_rate": round(6.0 * need / left, 2) if left else None,
    }


def _batter(match: Match, team: Team, player: int | None) -> dict[str, Any] | None:
    if player is None:
        return None
    line, person = match.current.batting[player], team.players[player]
    return {
        "name": person.name,
        "bats": person.bats,
        "runs": line.runs,
        "balls": line.balls,
        "faced": [
            [LENGTHS[pair // len(LINES)], LINES[pair % len(LINES)]] for pair in match.seen.get(player, ())
        ],
    }


def _bowler(innings: Innings, team: Team, player: int | None) -> dict[str, Any] | None:
    if player is None:
        return None
    line = innings.bowling[player]
    return {
        "name": team.players[player].name,
        "kind": team.kinds[player],
        "overs": overs_text(line.balls),
        "runs": line.runs,
        "wickets": line.wickets,
        "overs_left": overs_left(innings, player),
    }


def _own(captain: CaptainState) -> dict[str, Any]:
    delivery = captain.delivery
    return {
        "plan": None if captain.plan is None else dict(captain.plan),
        "aggression": captain.aggression,
        "attack": captain.attack,
        "free_calls": captain.free_calls,
        "charged_calls": captain.charged,
        "notes": list(captain.notes),
        "analysis": captain.analysis,
        "shot": captain.shot,
        "shot_aggression": captain.shot_aggression,
        "delivery": None
        if delivery is None
        else {"length": delivery.length, "line": delivery.line, "pace": delivery.pace},
    }


def _choices_ahead(game: Game, phase: Phase) -> dict[str, Any]:
    """Return what orders may name: overs covered, next bowlers, batters to come."""
    match = game.playing
    found: dict[str, Any] = {"overs": overs_ahead(match, game.decisions)}
    if phase == "batting_plan":
        return {**found, "batters": batters(game)}
    return found if match.current.bowler is not None else {**found, **_bowling_choices(game)}


def _bowling_choices(game: Game) -> dict[str, Any]:
    match = game.playing
    innings, team = match.current, match.teams[match.fielding_side]
    bowlers = []
    for index in match.eligible_bowlers():
        line = innings.bowling.get(index)
        bowlers.append({
            "name": team.players[index].name,
            "kind": team.kinds[index],
            "overs": overs_text(line.balls) if line else "0.0",
            "runs": line.runs if line else 0,
            "wickets": line.wickets if line else 0,
            "overs_left": overs_left(innings, index),
        })  # fmt: skip
    return {"bowlers": bowlers, "usual": team.players[usual_bowler(match)].name}


def _batting_choices(game: Game) -> dict[str, Any]:
    free = batters(game)
    return {"batters": free, "usual": free[0]}
