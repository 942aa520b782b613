"""The projection of one ball: what it changed, and the two decisions behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spectator.environments.cricket.show.innings_charts import planned_levels, wagon_wheel
from spectator.environments.cricket.show.patches import (
    Patch,
    at_crease,
    batter,
    bowler,
    equation,
    opening_field,
    replace,
)
from spectator.events import Event


def project_ball(state: Mapping[str, Any], event: Event) -> Patch:
    """Everything that a ball changes."""
    data, world = event.data, state["world"]
    side, number = data["side"], str(data["innings"])
    striker, partner, by = data["striker_line"], data["non_striker_line"], data["bowler_line"]
    lines = {striker["name"]: batter(striker), partner["name"]: batter(partner)}
    super_over = bool(world.get("super_over"))
    score = data["score"]
    return {
        "score": {side: score},
        "equation": replace(
            world.get("equation"),
            equation(
                data["target"],
                score["runs"],
                score["balls"],
                data["balls_left"],
                super_over,
                score["wickets"],
                forecast="forecast" in world,
            ),
            keep=("projected",) if "forecast" in world and not data["target"] else (),
        ),
        "badges": {"free_hit": data["free_hit_next"], "powerplay": data["powerplay_next"]},
        "batters": at_crease(world, data["ends"], lines),
        "bowler": bowler(by),
        "over": {"number": data["over"] + 1, "marks": [*world["over"]["marks"], data["mark"]]},
        "partnership": data["partnership"],
        "extras": data["extras_so_far"],
        "field": _opened_field(world, data),
        "last_ball": replace(world.get("last_ball"), _last_ball(state, event)),
        "scorecards": {
            number: {
                "batting": {
                    f"{striker['number']:02d}": batter(striker),
                    f"{partner['number']:02d}": batter(partner),
                },
                "bowling": {f"{by['number']:02d}": bowler(by)},
                "extras": data["extras_so_far"],
            }
        },
        **wagon_wheel(world, data),
    }


def _opened_field(world: Mapping[str, Any], data: Mapping[str, Any]) -> Patch:
    """The standard field opens up by itself when the powerplay ends; the limit is told whatever the field."""
    limit = data["outside_limit_next"]
    if world["field"].get("outside_limit") == limit:
        return {}
    if world["field"]["preset"] != "standard" or data["powerplay"] == data["powerplay_next"]:
        return {"outside_limit": limit}
    return opening_field(limit)


def _last_ball(state: Mapping[str, Any], event: Event) -> Patch:
    data = event.data
    ball: Patch = {
        "seq": event.seq,
        "at": data["at"],
        "innings": data["innings"],
        "mark": data["mark"],
        "kind": data["kind"],
        "words": data["words"],
        "runs": data["runs"],
        "striker": data["striker"],
        "bowler": data["bowler"],
        "length": data["length"],
        "line": data["line"],
        "speed_kmh": data["speed_kmh"],
        "shot": data["shot"],
        "free_hit": data["free_hit"],
        "aerial": data["aerial"],
        "intents": {key: value for key, value in data["intents"].items() if value is not None},
        **planned_levels(state["world"], data),
    }
    if data["zone"] is not None:
        ball["zone"] = data["zone"]
        ball["direction"] = data["direction"]
    batting = data["side"]
    decisions = {}
    for role, actor in (("batting", batting), ("bowling", "away" if batting == "home" else "home")):
        made = (state.get("decisions") or {}).get(actor)
        if made is not None:
            decisions[role] = {
                "actor": actor,
                "tool": made["action"].get("tool", ""),
                "arguments": _without_null(made["action"].get("arguments") or {}),
                "reasoning": made.get("reasoning", ""),
                "source": made["source"],
            }
    if decisions:
        ball["decisions"] = decisions
    return ball


def _without_null(value: Any) -> Any:
    """Arguments as a state may hold them; a stranger's action may be any JSON."""
    if isinstance(value, Mapping):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    return value
