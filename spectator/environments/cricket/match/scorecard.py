"""The scorecard: all innings as objects keyed by number, in the shape that viewers see."""

from __future__ import annotations

from typing import Any

from spectator.environments.cricket.laws.deliveries import overs_text
from spectator.environments.cricket.match import event_data
from spectator.environments.cricket.match.engine import Match


def scorecards(match: Match) -> dict[str, Any]:
    """Every innings so far, by its number as text."""
    return {str(number): scorecard(match, number) for number in range(1, match.number + 1)}


def scorecard(match: Match, number: int) -> dict[str, Any]:
    """One innings: batting and bowling cards, extras, fall of wickets and overs.

    Args:
        match: The match.
        number: 1, 2, then 3, 4, ... in super overs.
    """
    innings, side = match.innings[number - 1], match.batting[number - 1]
    team, rivals = match.teams[side], match.teams["away" if side == "home" else "home"]
    batting, total = {}, 0
    for player, line in innings.batting.items():
        figures = event_data.batter_line(innings, team, player)
        key = f"{figures.pop('number'):02d}"
        batting[key] = {"how_out": event_data.dismissal_text(line, team, rivals), **figures}
    bowling = {}
    for player in innings.bowling:
        figures = event_data.bowler_line(innings, rivals, player)
        key = f"{figures.pop('number'):02d}"
        del figures["balls"]
        bowling[key] = figures
    overs = {}
    for over, (runs, wickets, _) in enumerate(innings.overs, 1):
        total += runs
        bowler = rivals.players[innings.over_starters[over - 1]].name
        overs[str(over)] = {"runs": runs, "wickets": wickets, "score": total, "bowler": bowler}
    card: dict[str, Any] = {
        "side": side,
        "name": team.name,
        "balls": innings.format.balls,
        "batting": batting,
        "bowling": bowling,
        "extras": event_data.extras(innings),
        "fall": {
            str(wicket): {
                "score": runs,
                "wicket": wicket,
                "name": team.players[player].name,
                "at": overs_text(balls),
            }
            for runs, wicket, player, balls in innings.fall
        },
        "overs": overs,
    }
    if innings.closed:
        card |= {"closed": innings.closed, "total": event_data.score(innings)}
    return card
