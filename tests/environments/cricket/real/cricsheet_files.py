"""Writes simulated matches as Cricsheet JSON, so that no real data is needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from spectator.environments.cricket.laws import Side
from spectator.environments.cricket.match.engine import Match, PlayedBall
from spectator.environments.cricket.simulation import open_match, play_out

Teams = Callable[[Match], None]


def simulated(seed: int, overs: int = 20, change: Teams | None = None) -> Match:
    """A match before its first ball, without super overs."""
    match = open_match(overs, seed, super_over=False)
    if change is not None:
        change(match)
    return match


def cricsheet_of(
    match: Match, *, season: str = "2024", venue: str = "Test Oval, Somewhere"
) -> dict[str, Any]:
    """Play a match out and return it as Cricsheet has it."""
    names = {side: [player.name for player in team.players] for side, team in match.teams.items()}
    teams = [match.teams[side].name for side in ("home", "away")]
    innings: list[dict[str, Any]] = []
    for played in play_out(match):
        side = match.batting[played.innings - 1]
        fielding: Side = "away" if side == "home" else "home"
        if len(innings) < played.innings:
            innings.append({"team": match.teams[side].name, "overs": []})
        overs = innings[-1]["overs"]
        if not overs or overs[-1]["over"] != played.over:
            overs.append({"over": played.over, "deliveries": []})
        overs[-1]["deliveries"].append(_delivery(played, names[side], names[fielding]))
    if len(innings) == 2:
        innings[1]["target"] = {"runs": match.innings[0].runs + 1, "overs": match.format.overs}
    result = match.result
    assert result is not None
    outcome: dict[str, Any] = {"result": "tie"}
    if result.winner is not None:
        outcome = {"winner": match.teams[result.winner].name, "by": {result.kind: result.margin}}
    return {
        "meta": {"data_version": "1.1.0", "created": "2024-05-01", "revision": 1},
        "info": {
            "balls_per_over": 6,
            "dates": ["2024-05-01"],
            "gender": "male",
            "match_type": "T20",
            "overs": match.format.overs,
            "outcome": outcome,
            "players": dict(zip(teams, (names["home"], names["away"]), strict=True)),
            "registry": {"people": {name: f"id-{name}" for eleven in names.values() for name in eleven}},
            "season": season,
            "teams": teams,
            "toss": {"winner": match.teams[match.batting[0]].name, "decision": "bat"},
            "venue": venue,
        },
        "innings": innings,
    }


def _delivery(played: PlayedBall, batters: list[str], fielders: list[str]) -> dict[str, Any]:
    ball = played.counted
    kinds = {"wides": ball.wides, "noballs": int(ball.noball), "byes": ball.byes, "legbyes": ball.legbyes}
    kinds["penalty"] = ball.penalty
    extras = {kind: runs for kind, runs in kinds.items() if runs}
    runs: dict[str, Any] = {"batter": ball.bat, "extras": sum(extras.values()), "total": ball.runs}
    if ball.bat in (4, 6) and not ball.boundary:
        runs["non_boundary"] = True
    row: dict[str, Any] = {
        "batter": batters[played.striker],
        "bowler": fielders[played.bowler],
        "non_striker": batters[played.non_striker],
        "runs": runs,
        **({"extras": extras} if extras else {}),
    }
    if ball.dismissal and played.out is not None:
        wicket: dict[str, Any] = {"kind": ball.dismissal, "player_out": batters[played.out]}
        if played.fielder is not None:
            wicket["fielders"] = [{"name": fielders[played.fielder]}]
        row["wickets"] = [wicket]
    return row


def written(folder: Path, name: str, match: Mapping[str, Any]) -> Path:
    """Write a match as a file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(match))
    return path


def deliveries(match: Mapping[str, Any], innings: int) -> Iterator[dict[str, Any]]:
    """All deliveries of an innings, from 1."""
    for over in match["innings"][innings - 1]["overs"]:
        yield from over["deliveries"]
