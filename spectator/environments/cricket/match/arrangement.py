"""What is told of a match before its toss: its format, and what is out of the ordinary about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spectator.environments.cricket.ball.vocabulary import SECTORS
from spectator.environments.cricket.laws.deliveries import SIDES, Side
from spectator.environments.cricket.match.circumstances import Circumstances
from spectator.environments.cricket.match.engine import Match
from spectator.environments.cricket.match.game import Game
from spectator.environments.cricket.people.team import Team


def match_arranged(game: Game) -> dict[str, Any]:
    """Data of ``cricket.match_arranged``."""
    format, teams = game.format, game.teams
    return {
        **{side: {"name": teams[side].name, "short": teams[side].short} for side in SIDES},
        "overs": format.overs,
        "balls": format.balls,
        "powerplay_balls": format.powerplay_balls,
        "bowler_overs": format.bowler_overs,
        "caller": game.caller,
        **_told(game.circumstances, teams),
    }


def _told(circumstances: Circumstances, teams: Mapping[Side, Team]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    ground = circumstances.ground
    if ground.boundaries:
        left = [player.name for side in SIDES for player in teams[side].players if player.bats == "left"]
        told["ground"] = {
            "name": ground.name,
            "boundaries": list(ground.boundaries),
            "left_handers": left,
        }
    if circumstances.fatigue:
        told["fatigue"] = True
    if circumstances.formed:
        told["form"] = {
            side: [
                {
                    "name": player.name,
                    "bat": player.bat_form,
                    "bowl": player.bowl_form if player.bowls else None,
                }
                for player in teams[side].players
            ]
            for side in SIDES
        }
    if circumstances.difference is not None:
        told["squad_difference"] = circumstances.difference
    return told


def shown_circumstances(circumstances: Circumstances, match: Match | None) -> dict[str, Any]:
    """What captains are told of them in an observation, beside pitch, evening and the cards."""
    told: dict[str, Any] = {}
    boundaries = circumstances.ground.boundaries
    if boundaries:
        faced = boundaries if match is None else match.faced
        told["ground"] = {
            "name": circumstances.ground.name,
            "metres": dict(zip(SECTORS, boundaries, strict=True)),
            "now": dict(zip(SECTORS, faced, strict=True)),
        }
    if circumstances.fatigue and match is not None:
        team = match.teams[match.fielding_side]
        told["tired"] = {team.players[player].name: load for player, load in enumerate(match.loads()) if load}
    if circumstances.difference is not None:
        told["squad_difference"] = circumstances.difference
    return told
