"""The headline and the progress of a match, for lists and tiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spectator.environments.cricket.forecast.resources import chase_chance


def glance(world: Mapping[str, Any]) -> dict[str, Any]:
    """The world's ``headline`` and ``glance`` (see :class:`spectator.environments.base.Projection`).

    A step is a valid ball, numbered through both innings; the figure is the runs of the innings under way.
    Suspense is how open a chase is by the fitted model of real chases (``resources.chase_chance``), the more
    the less is left of it; 0 before the chase and after the result.

    Args:
        world: The world's part of the viewers' state.
    """
    if "teams" not in world:
        return {}
    glance: dict[str, Any] = {"step": 0, "progress": 0.0, "value": 0, "unit": "runs", "suspense": 0.0}
    if "batting" in world:
        glance |= _under_way(world)
    if "result" in world:
        glance |= {"progress": 1.0, "suspense": 0.0}
    return {"headline": _headline(world), "glance": glance}


def _under_way(world: Mapping[str, Any]) -> dict[str, Any]:
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
    equation = world["equation"]
    chance = chase_chance(equation["balls"], score["wickets"], equation["need"])
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


def chances(world: Mapping[str, Any]) -> list[float]:
    """The home side's chances to win, oldest first, as the forecast told them; at the end what came of it.

    Empty in a match that is played without a forecast.

    Args:
        world: The world's part of the viewers' state.
    """
    told = world.get("chances", {})
    line = [told[innings][ball]["home"] for innings in sorted(told) for ball in sorted(told[innings])]
    if line and "result" in world:
        line.append({"home": 1.0, "away": 0.0}.get(world.get("winner", ""), 0.5))
    return line
