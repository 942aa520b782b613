"""Advice open to any captain: the usual choice of bowler, and the analyst's view of the situation."""

from __future__ import annotations

from typing import Any

from spectator.environments.cricket.forecast.bowling_plan import (
    BowlingAttack,
    choose_bowler,
    spin_habit,
)
from spectator.environments.cricket.forecast.resources import chase_chance, runs_to_come
from spectator.environments.cricket.laws import scorer as laws
from spectator.environments.cricket.laws.deliveries import Side
from spectator.environments.cricket.laws.innings import LawBroken
from spectator.environments.cricket.match.engine import Match


def usual_bowler(match: Match) -> int:
    """Index of the bowler whom a side with no particular plan would choose for the next over.

    See :func:`..forecast.bowling_plan.choose_bowler`; the forecast expects the same.

    Raises:
        LawBroken: No over is about to begin.
    """
    eligible = match.eligible_bowlers()
    if not eligible:
        raise LawBroken("O3.bowler", "No over is about to begin.")
    return choose_bowler(bowling_attack(match), eligible)


def bowling_attack(match: Match) -> BowlingAttack:
    """The fielding side's bowling in the innings in progress."""
    innings, team = match.current, match.teams[match.fielding_side]
    return BowlingAttack(
        innings.format.overs,
        innings.format.bowler_overs,
        innings.format.extra_overs,
        innings.over_starters,
        laws.overs_left_of_all(innings),
        team.bowling_worth,
        team.bowls,
        team.bowls_spin,
        team.death_bowlers,
        spin_habit(team.name, match.number),
    )


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
