"""Advice open to any captain: the usual choice of bowler, and the analyst's view of the situation."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from spectator.environments.cricket.forecast.resources import chase_chance, runs_to_come
from spectator.environments.cricket.laws import scorer as laws
from spectator.environments.cricket.laws.deliveries import Side
from spectator.environments.cricket.laws.innings import LawBroken
from spectator.environments.cricket.match.engine import Match
from spectator.environments.cricket.people.team import Team

_DATA: Final = Path(__file__).parent.parent / "data"

SPELL: Final = 0.35
"""Preference for the bowler of the over before last, who goes on from his end (bowler_usage.json)."""
RESERVE: Final = 0.6
"""Reluctance to spend the last overs of the best quick bowlers before the death, as many as it can use."""
FRESH_AT_DEATH: Final = 0.8
"""Reluctance to begin a bowler's work in the last fifth of an innings."""
FEW_OVERS: Final = 10
"""Innings of fewer overs end with pace; in longer ones it depends on who has overs left."""
SECOND_OVER: Final = 0.5
"""Preference for those who have one over left of two: five overs are usually bowled 2-2-1, eight 2-2-2-2. Few
such innings are known, so the figure is chosen by hand."""


def usual_bowler(match: Match) -> int:
    """Index of the bowler whom a side with no particular plan would choose for the next over.

    It keeps to the real share of spin by over, prefers the better bowlers, lets a spell go on, keeps its best
    quick bowlers for the end, and never leaves overs that nobody may bowl.

    Raises:
        LawBroken: No over is about to begin.
    """
    eligible = match.eligible_bowlers()
    if not eligible:
        raise LawBroken("O3.bowler", "No over is about to begin.")
    innings, team = match.current, match.teams[match.fielding_side]
    left = laws.overs_left_of_all(innings)
    over, overs = innings.balls // 6, innings.format.overs
    limit, starters = innings.format.bowler_overs, innings.over_starters
    death = max(1, overs // 5)
    pace_to_end = overs < FEW_OVERS and over == overs - 1
    wants_spin = not pace_to_end and _wants_spin(match, team, over, overs)
    late = over >= overs - death
    reserved = () if late else team.death_bowlers[: max(1, 2 * death // limit)]
    from_this_end = starters[-2] if len(starters) > 1 else None
    scores: list[tuple[float, int]] = []
    for player in eligible:
        score = team.bowling_worth[player]
        if team.bowls_spin[player] == wants_spin:
            score += 1.0
        if player == from_this_end:
            score += SPELL
        if limit == 2 and left[player] == 1:
            score += SECOND_OVER
        if late and player not in innings.bowling:
            score -= FRESH_AT_DEATH
        if player in reserved and 2 * left[player] <= limit:
            score -= RESERVE
        scores.append((score, -player))
    scores.sort(reverse=True)
    own = [overs if bowls else 0 for overs, bowls in zip(left, team.bowls, strict=True)]
    for _, player in scores:
        if _can_finish(own, -player, overs - over - 1):
            return -player
    return -scores[0][1]


@cache
def _spin_shares() -> tuple[float, ...]:
    with (_DATA / "bowler_kind_share_by_over.csv").open(encoding="utf-8", newline="") as file:
        return tuple(float(row["spin"]) for row in csv.DictReader(file))


@cache
def _spin_due(overs: int) -> tuple[float, ...]:
    """Overs of spin that real sides have bowled after each over of an innings of ``overs``, in proportion."""
    shares = _spin_shares()
    return tuple(accumulate(shares[over * len(shares) // overs] for over in range(overs)))


def _wants_spin(match: Match, team: Team, over: int, overs: int) -> bool:
    """Whether spin has bowled less so far than real sides would have, give or take its habit."""
    due = _spin_due(overs)[over]
    innings = match.current
    spins = team.bowls_spin
    lines = innings.bowling.values()
    bowled = sum([line.overs_begun for line in lines if spins[line.player]])
    return bool(bowled + 0.1 + 0.8 * _habit(team.name, match.number) <= due)


@lru_cache(maxsize=1024)
def _habit(name: str, innings: int) -> float:
    """How late a side turns to spin, from 0 to 1: its own, yet never the same in two innings of a match."""
    return zlib.crc32(f"{name}:{innings}".encode()) / 2**32


def _can_finish(left: Sequence[int], chosen: int, rest: int) -> bool:
    """Whether the side's own bowlers can bowl the ``rest`` of the overs once ``chosen`` has bowled one."""
    half = (rest + 1) // 2
    capacity = min(max(0, left[chosen] - 1), rest // 2) - min(left[chosen], half)
    for overs in left:
        capacity += overs if overs < half else half
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
