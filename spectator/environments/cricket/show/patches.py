"""Merge patches that the projection is made of: lines, ends, the equation, the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spectator.environments.cricket.forecast.resources import runs_to_come
from spectator.environments.cricket.match.field import standard_field

Patch = dict[str, Any]


def zero_extras() -> Patch:
    """No extras yet."""
    return {"wides": 0, "noballs": 0, "byes": 0, "legbyes": 0, "penalties": 0, "total": 0}


def replace(old: Mapping[str, Any] | None, new: Patch, *, keep: tuple[str, ...] = ()) -> Patch:
    """A patch that leaves exactly ``new`` where ``old`` was, and of ``old`` what ``keep`` names."""
    return {**{key: None for key in old or () if key not in new and key not in keep}, **new}


def equation(
    target: int | None,
    runs: int,
    balls: int,
    left: int,
    super_over: bool,
    wickets: int = 0,
    *,
    forecast: bool = False,
) -> Patch:
    """What is wanted and what is made: runs an over, and the rest by what is being played for.

    A match with a forecast takes its projection from there (see :func:`foretold`), so that there is one.
    """
    current = round(6.0 * runs / balls, 2) if balls else 0.0
    if target is None:
        if super_over or forecast:
            return {"current": current}
        return {"current": current, "projected": round(runs + runs_to_come(left, wickets))}
    need = max(0, target - runs)
    chase: Patch = {"need": need, "balls": left, "current": current}
    if left:
        chase["required"] = round(6.0 * need / left, 2)
    return chase


def foretold(world: Mapping[str, Any], data: Mapping[str, Any]) -> Patch:
    """The projection of the equation of a first innings, from the data of ``cricket.forecast``."""
    if world.get("target") or not data["futures"]:
        return {}
    return {"equation": {"projected": data["total_median"]}}


def field_patch(field: Mapping[str, Any]) -> Patch:
    """A field, its men by number."""
    return {
        "preset": field["preset"],
        "fielders": {str(number): man for number, man in enumerate(field["fielders"], 1)},
    }


def opening_field(outside_limit: int) -> Patch:
    """The field that stands before a captain sets one."""
    return {**field_patch(standard_field(outside_limit).shown), "outside_limit": outside_limit}


def batter(line: Mapping[str, Any]) -> Patch:
    """What viewers see of a batter's line."""
    return {
        "name": line["name"],
        "runs": line["runs"],
        "balls": line["balls"],
        "fours": line["fours"],
        "sixes": line["sixes"],
    }


def at_crease(world: Mapping[str, Any], ends: Mapping[str, Any], known: Mapping[str, Patch]) -> Patch:
    """Who is at which end, with the lines known best; a vacant end is removed."""
    before = {line["name"]: line for line in (world.get("batters") or {}).values()}
    return {
        end: None if ends[end] is None else known.get(ends[end]) or before[ends[end]]
        for end in ("striker", "non_striker")
    }


def bowler(line: Mapping[str, Any]) -> Patch:
    """What viewers see of a bowler's line."""
    return {
        "name": line["name"],
        "kind": line["kind"],
        "overs": line["overs"],
        "maidens": line["maidens"],
        "runs": line["runs"],
        "wickets": line["wickets"],
        "left": line["left"],
    }
