"""A match in brief: headline, progress, chances, par, and lines for terminals.

Par of a men's match of 20 overs at the usual scoring level comes from ``data/cumulative_by_over.csv``:
complete men's T20 matches, 2018-2024, first and second innings separately, counting innings with play in the
over. Par of any other match is what average sides make of a first innings (`Outlook`).
"""

from __future__ import annotations

import csv
import functools
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from spectator.environments.cricket.forecast.outlook import Outlook, Par, outlook_of
from spectator.environments.cricket.laws import format_of
from spectator.environments.cricket.match.engine import load_model
from spectator.events import Event

TABLE: Final = Path(__file__).parent.parent / "data" / "cumulative_by_over.csv"
_OVERS: Final = 20
"""The only length of match in the table."""

_EXTRAS: Final = {
    "wide": "WIDE", "noball": "NO-BALL", "bye": "BYE", "legbye": "LEG-BYE", "penalty": "PENALTY", None: "",
}  # fmt: skip
"""What extras are called."""

_LEVELS: Final = (5, 10, 25, 50, 75, 90, 95)


def outlook(world: Mapping[str, Any]) -> Outlook:
    """Return what average sides make of a match.

    Args:
        world: The world's part of the viewers' state, once the match is arranged.
    """
    format = world["format"]
    model = load_model(format.get("profile", "men"), format.get("level", "all"))
    boundaries = tuple(world.get("ground", {}).get("boundaries", ()))
    return outlook_of(model, format_of(format["overs"]), "even", boundaries, format.get("fatigue", False))


def _is_real(world: Mapping[str, Any]) -> bool:
    """Check whether the table's innings are of this kind of match."""
    format = world["format"]
    return format["overs"] == _OVERS and "profile" not in format and "level" not in format


def par_lines(world: Mapping[str, Any], innings: int) -> dict[int, Par]:
    """Return par after each over of an innings; empty in a super over."""
    if innings > 2:
        return {}
    overs = range(1, world["format"]["overs"] + 1)
    if not _is_real(world):
        return {over: outlook(world).par_after(over) for over in overs}
    return {over: line for over in overs if (line := par(innings, over)) is not None}


def share_below(world: Mapping[str, Any], innings: int, over: int, runs: int) -> int | None:
    """Return the percentage of innings of this kind with at most ``runs`` after ``over``.

    It is limited to 5 and 95; ``None`` in a super over.
    """
    if innings > 2:
        return None
    return percentile(innings, over, runs) if _is_real(world) else outlook(world).percentile(over, runs)


@functools.cache
def _table() -> dict[tuple[int, int], tuple[float, ...]]:
    with TABLE.open(encoding="utf-8", newline="") as lines:
        return {
            (int(row["innings"]), int(row["after_over"])): tuple(
                float(row[f"score_p{level}"]) for level in _LEVELS
            )
            for row in csv.DictReader(lines)
            if row["cohort"] == "all"
        }


def par(innings: int, over: int) -> Par | None:
    """Return par after this over of a 20-over innings; ``None`` outside the table."""
    scores = _table().get((innings, over))
    if scores is None:
        return None
    return Par(scores[_LEVELS.index(10)], scores[_LEVELS.index(50)], scores[_LEVELS.index(90)])


def percentile(innings: int, over: int, runs: int) -> int | None:
    """Return the percentage of real innings with at most ``runs`` after ``over``.

    It is interpolated between the table's percentiles and limited to its ends, 5 and 95; ``None`` outside the
    table.

    >>> percentile(innings=1, over=10, runs=85)
    68
    """
    scores = _table().get((innings, over))
    if scores is None:
        return None
    above = bisect_left(scores, runs)
    if above == 0:
        return _LEVELS[0]
    if above == len(scores):
        return _LEVELS[-1]
    low, high = scores[above - 1], scores[above]
    return round(_LEVELS[above - 1] + (_LEVELS[above] - _LEVELS[above - 1]) * (runs - low) / (high - low))


def glance(world: Mapping[str, Any]) -> dict[str, Any]:
    """Return the world's ``headline`` and ``glance``.

    See :class:`spectator.environments.contract.Projection`. A step is a valid ball, numbered through both
    innings; the value is the runs of the current innings. Suspense is how open a chase
    is between average sides (`Outlook.chance`), more so near its end; it is 0 before the chase and after the
    result.

    Args:
        world: The world's part of the viewers' state.
    """
    if "teams" not in world:
        return {}
    glance: dict[str, Any] = {"step": 0, "progress": 0.0, "value": 0, "unit": "runs", "suspense": 0.0}
    if "batting" in world:
        glance |= _in_progress(world)
    if "result" in world:
        glance |= {"progress": 1.0, "suspense": 0.0}
    return {"headline": _headline(world), "glance": glance}


def _in_progress(world: Mapping[str, Any]) -> dict[str, Any]:
    score, balls = world["score"][world["batting"]], world["format"]["balls"]
    innings, chasing = world["innings"], "need" in world.get("equation", {})
    before = min(innings - 1, 2) * balls
    progress = 1.0 if innings > 2 else (before + score["balls"]) / (2 * balls)
    return {
        "step": before + score["balls"] + 6 * max(0, innings - 3),
        "at": f"{'super over' if world.get('super_over') else f'innings {innings}'}, {score['overs']}",
        "progress": round(progress, 4),
        "value": score["runs"],
        "suspense": round(_suspense(world, score, progress), 3) if chasing else 0.0,
    }


def _suspense(world: Mapping[str, Any], score: Mapping[str, Any], progress: float) -> float:
    if world.get("super_over"):
        return 1.0
    chance = outlook(world).chance(score["balls"], score["wickets"], score["runs"], world["target"])
    return (1.0 - abs(2.0 * chance - 1.0)) * progress


def _headline(world: Mapping[str, Any]) -> str:
    teams, batting = world["teams"], world.get("batting")
    if "result" in world:
        return str(world["result"])
    if batting is None:
        return f"{teams['home']['name']} v {teams['away']['name']}"
    score, equation = world["score"][batting], world.get("equation", {})
    line = f"{teams[batting]['name']} {score['runs']}/{score['wickets']} ({score['overs']})"
    if "need" in equation:
        return f"{line}, need {equation['need']} off {equation['balls']}"
    return f"{line} v {teams['away' if batting == 'home' else 'home']['name']}"


def sides(world: Mapping[str, Any]) -> Sequence[str]:
    """Return the names of the teams, home first; empty before they are known.

    Args:
        world: The world's part of the viewers' state.
    """
    return [str(world["teams"][side]["name"]) for side in ("home", "away")] if "teams" in world else []


def moment_name(event: Event, world: Mapping[str, Any]) -> str:
    """Return what people call a ball; empty for any other event, and for a wicket, which is ``OUT``.

    Args:
        world: The world's part of the viewers' state after the ball.
    """
    ball = event.data
    if event.type != "cricket.ball_bowled":
        return ""
    if "hat-trick" in world.get("ledger", {}).get("facts", {}):
        return "HAT-TRICK"
    named = {
        "six": "SIX",
        "four": "FOUR",
        "dot": "DOT BALL",
        "run": f"{ball['bat']} RUN{'S' * (ball['bat'] != 1)}",
    }
    return _EXTRAS[ball["extra_kind"]] if ball["kind"] == "extra" else named.get(ball["kind"], "")


def chances(world: Mapping[str, Any]) -> list[float]:
    """Return the home side's forecast chances, oldest first, then the result.

    The list is empty for a match without forecasts.

    Args:
        world: The world's part of the viewers' state.
    """
    by_innings = world.get("chances", {})
    line = [balls[ball]["home"] for _, balls in sorted(by_innings.items()) for ball in sorted(balls)]
    if line and "result" in world:
        line.append({"home": 1.0, "away": 0.0}.get(world.get("winner", ""), 0.5))
    return line


BAR: Final = 20
"""Width of the bar of chances in characters."""


def board_lines(world: Mapping[str, Any]) -> Sequence[str]:
    """Return lines for a terminal; none before the sides are named.

    Args:
        world: The world's part of the viewers' state.

    >>> board_lines({})
    []
    """
    if "teams" not in world:
        return []
    lines = [_score(world), _batters(world), _bowler(world), _over(world), _chances(world)]
    return [line for line in lines if line]


def _score(world: Mapping[str, Any]) -> str:
    batting = world.get("batting")
    if batting is None:
        return ""
    score, equation = world["score"][batting], world.get("equation", {})
    line = f"{_name(world, batting)} {score['runs']}/{score['wickets']} ({score['overs']})"
    if "need" in equation and "result" not in world:
        rate = f", {equation['required']:.1f} an over" if "required" in equation else ""
        return f"{line}, need {equation['need']} off {equation['balls']}{rate}"
    return f"{line}, {equation['current']:.1f} an over" if "current" in equation else line


def _batters(world: Mapping[str, Any]) -> str:
    at = world.get("batters") or {}
    parts = [
        f"{'*' if end == 'striker' else ''}{at[end]['name']} {at[end]['runs']} ({at[end]['balls']})"
        for end in ("striker", "non_striker")
        if end in at
    ]
    stand = world.get("partnership")
    if parts and stand:
        parts.append(f"stand {stand['runs']} off {stand['balls']}")
    return "  ".join(["Batting", *parts]) if parts else ""


def _bowler(world: Mapping[str, Any]) -> str:
    line = world.get("bowler")
    if not line:
        return ""
    figures = f"{line['overs']}-{line['maidens']}-{line['runs']}-{line['wickets']}"
    return f"Bowling  {line['name']} {figures}, {line['left']} left"


def _over(world: Mapping[str, Any]) -> str:
    over = world.get("over")
    return f"Over {over['number']}  {' '.join(over['marks']) or '-'}" if over else ""


def _chances(world: Mapping[str, Any]) -> str:
    forecast = world.get("forecast")
    if not forecast:
        return ""
    full = round(BAR * forecast["home"])
    bar = "█" * full + "░" * (BAR - full)
    home = round(100 * forecast["home"])
    return f"Chances  {_name(world, 'home')} {home} % {bar} {100 - home} % {_name(world, 'away')}"


def _name(world: Mapping[str, Any], side: str) -> str:
    name: str = world["teams"][side]["name"]
    return name


def call_values(event: Event) -> dict[str, float]:
    """Return what the newest decisions of both sides were worth, from a forecast after a ball."""
    if event.type != "cricket.forecast" or not event.data["delivery"]:
        return {}
    batting, data = event.data["batting"], event.data
    fielding = "away" if batting == "home" else "home"
    return {batting: 100 * data["batting_value"], fielding: 100 * data["bowling_value"]}


def reported_win_chance(event: Event) -> float | None:
    """Return the home side's chance from a forecast; ``None`` for other events."""
    if event.type != "cricket.forecast" or not event.data["futures"]:
        return None
    chance: float = event.data["home"]
    return chance
