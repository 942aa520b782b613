"""Owns what any captain may ask: the side's usual choice of bowler, and the analyst's view of the situation."""

from __future__ import annotations

import csv
import math
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from spectator.environments.cricket import laws
from spectator.environments.cricket.engine import Match
from spectator.environments.cricket.laws import LawBroken
from spectator.environments.cricket.models import Side
from spectator.environments.cricket.resources import chase_chance, runs_to_come
from spectator.environments.cricket.team import Team

_DATA: Final = Path(__file__).parent / "data"

SPELL: Final = 0.35
"""Preference for the bowler of the over before last, who goes on from his end (50 % do, bowler_usage.json)."""
RESERVE: Final = 0.6
"""Reluctance to spend the last overs of the two best quick bowlers before the death."""


def usual_bowler(match: Match) -> int:
    """Index of the bowler whom a side with no particular plan would choose for the next over.

    It keeps to the real share of spin by over, prefers the better bowlers, lets a spell go on, keeps the two
    best quick bowlers for the end, and never leaves overs that nobody may bowl.

    Raises:
        LawBroken: No over is about to begin.
    """
    eligible = match.eligible_bowlers()
    if not eligible:
        raise LawBroken("O3.bowler", "No over is about to begin.")
    innings, team = match.current, match.teams[match.fielding_side]
    over, overs = innings.balls // 6, innings.format.overs
    left = [laws.overs_left(innings, player) for player in range(11)]
    wants_spin = _wants_spin(match, team, over, overs)
    death_over = over >= overs - max(1, overs // 5)
    reserved = () if death_over else _death_bowlers(team)
    last_from_this_end = innings.over_starters[-2] if len(innings.over_starters) > 1 else None
    best, best_score = eligible[0], -math.inf
    for player in eligible:
        bowler = team.bowlers[player]
        score = 2.0 * math.log(bowler.bowl_wickets / bowler.bowl_runs**2)
        if team.players[player].bowls is None:
            score -= 6.0
        if (bowler.bowls == "spin") == wants_spin:
            score += 1.0
        if player == last_from_this_end:
            score += SPELL
        if player in reserved and left[player] <= max(1, innings.format.bowler_overs // 2):
            score -= RESERVE
        if not _can_finish(team, left, player, overs - over):
            score -= 3.0
        if score > best_score:
            best, best_score = player, score
    return best


@cache
def _spin_shares() -> tuple[float, ...]:
    with (_DATA / "bowler_kind_share_by_over.csv").open(encoding="utf-8", newline="") as file:
        return tuple(float(row["spin"]) for row in csv.DictReader(file))


def _wants_spin(match: Match, team: Team, over: int, overs: int) -> bool:
    """Whether spin has bowled less so far than real sides would have, give or take the side's own habit."""
    shares = _spin_shares()
    due = sum(shares[min(len(shares) - 1, step * len(shares) // overs)] for step in range(over + 1))
    innings = match.current
    bowled = sum(line.overs_begun for line in innings.bowling.values() if team.bowlers[line.player].bowls == "spin")
    habit = zlib.crc32(f"{team.name}:{match.number}".encode()) / 2**32
    return bowled + 0.1 + 0.8 * habit <= due


@cache
def _death_bowlers(team: Team) -> tuple[int, ...]:
    quick = [player for player in range(11) if team.players[player].bowls == "pace"]
    quick.sort(key=lambda player: team.players[player].bowl_runs / team.players[player].bowl_wickets)
    return tuple(quick[:2])


def _can_finish(team: Team, left: Sequence[int], chosen: int, overs_left: int) -> bool:
    """Whether the side's own bowlers can bowl all that is left after ``chosen`` has bowled this over."""
    rest = overs_left - 1
    capacity = 0
    for player in range(11):
        if team.players[player].bowls is None:
            continue
        mine = left[player] - (player == chosen)
        capacity += min(mine, rest // 2 if player == chosen else (rest + 1) // 2)
    return capacity >= rest


def analyze(match: Match, side: Side) -> dict[str, Any]:
    """The analyst's view, plain JSON: par, projection or chance, and the overs that bowlers have left.

    Args:
        match: The match.
        side: Who asks.
    """
    innings = match.current
    balls_left, lost = innings.balls_left, innings.wickets
    to_come = runs_to_come(balls_left, lost)
    par_used = runs_to_come(innings.format.balls, 0) - to_come
    view: dict[str, Any] = {
        "resource_par_so_far": round(par_used, 1),
        "ahead_of_par": round(innings.runs - par_used, 1),
        "projected_total": round(innings.runs + to_come),
    }
    if innings.needed is not None:
        chance = chase_chance(balls_left, lost, innings.needed)
        view["chance_of_chase"] = round(chance, 3)
        view["chance_of_win"] = round(chance if side == match.batting_side else 1.0 - chance, 3)
    team = match.teams[match.fielding_side]
    view["bowlers_left"] = [
        {"name": player.name, "overs": overs}
        for index, player in enumerate(team.players)
        if player.bowls and (overs := laws.overs_left(innings, index))
    ]
    return view
