"""Milestones: fifties, hundreds, partnerships, team totals and five-wicket hauls that a ball brought up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from spectator.environments.cricket.laws.deliveries import BOWLERS_DISMISSALS
from spectator.environments.cricket.laws.innings import Innings
from spectator.environments.cricket.match.engine import Match, PlayedBall

BATTER: Final = (50, 100, 150, 200, 250, 300)
PARTNERSHIP: Final = (50, 100, 150, 200)
TEAM: Final = (50, 100, 150, 200, 250, 300, 350, 400, 450, 500)
WICKETS: Final = 5


def milestones(match: Match, played: PlayedBall) -> list[dict[str, Any]]:
    """Data of each ``cricket.milestone_reached`` that the ball brought; a super over has none."""
    innings = match.innings[played.innings - 1]
    if innings.format.is_super_over:
        return []
    side = match.batting[played.innings - 1]
    team, rivals = match.teams[side], match.teams["away" if side == "home" else "home"]
    found = [
        {"side": side, "kind": kind, "name": team.named(who) or team.name, "value": value, "balls": balls}
        for kind, who, value, balls in _of_runs(innings, played)
    ]
    bowler = innings.bowling[played.bowler]
    if bowler.wickets == WICKETS and played.counted.dismissal in BOWLERS_DISMISSALS:
        name = rivals.players[played.bowler].name
        found.append(
            {"side": rivals.side, "kind": "wickets", "name": name, "value": WICKETS, "balls": bowler.balls}
        )
    return [{"innings": played.innings, **one} for one in found]


def _of_runs(innings: Innings, played: PlayedBall) -> Iterator[tuple[str, int | None, int, int]]:
    """Kind, player (``None`` for the side), round figure and balls of each passed by the ball's runs."""
    runs, ball, striker = innings.runs, played.counted, innings.batting[played.striker]
    stand, stand_balls = innings.partner_runs, innings.partner_balls
    if played.out is not None:
        before = innings.fall[-2][3] if len(innings.fall) > 1 else 0
        stand, stand_balls = innings.partnerships[-1], innings.balls - before
    for kind, who, after, gained, figures, balls in (
        ("batter", played.striker, striker.runs, ball.bat, BATTER, striker.balls),
        ("partnership", None, stand, ball.runs, PARTNERSHIP, stand_balls),
        ("team", None, runs, ball.runs, TEAM, innings.balls),
    ):
        for value in figures if gained else ():
            if after - gained < value <= after:
                yield kind, who, value, balls
