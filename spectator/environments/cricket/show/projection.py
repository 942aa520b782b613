"""The projection of a match: folds its events into the viewers' state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from spectator.environments.cricket.show.ball_projection import project_ball
from spectator.environments.cricket.show.glance import glance
from spectator.environments.cricket.show.innings_charts import par_line, par_percentile
from spectator.environments.cricket.show.patches import (
    Patch,
    at_crease,
    batter,
    bowler,
    equation,
    field_patch,
    foretold,
    opening_field,
    replace,
    zero_extras,
)
from spectator.events import Event
from spectator.merge_patch import apply_patch, make_patch


def project(state: Mapping[str, Any], event: Event) -> Mapping[str, Any]:
    """Merge patch of the world's part of the viewer's state."""
    fold = _FOLDS.get(event.type)
    if fold is None:
        return {}
    patch = fold(state, event)
    if event.type not in _SEEN_FROM_AFAR:
        return patch
    world = state.get("world", {})
    seen = glance(apply_patch(world, patch))
    from_afar: Patch = make_patch({name: world[name] for name in seen if name in world}, seen)
    return patch | from_afar


def _arranged(state: Mapping[str, Any], event: Event) -> Patch:
    data = event.data
    return {
        "format": {
            "overs": data["overs"],
            "balls": data["balls"],
            "powerplay_balls": data["powerplay_balls"],
            "bowler_limit_overs": data["bowler_overs"],
        },
        "teams": {"home": data["home"], "away": data["away"]},
        "score": {side: {"runs": 0, "wickets": 0, "balls": 0, "overs": "0.0"} for side in ("home", "away")},
        "badges": {"free_hit": False, "powerplay": False, "super_over": False},
        **({"ground": data["ground"]} if "ground" in data else {}),
    }


def _tossed(state: Mapping[str, Any], event: Event) -> Patch:
    return {"toss": {"winner": event.data["winner"], "elected": event.data["elected"]}}


def _innings_started(state: Mapping[str, Any], event: Event) -> Patch:
    data, world = event.data, state["world"]
    side = data["batting"]
    zero = {"runs": 0, "wickets": 0, "balls": 0, "overs": "0.0"}
    patch: Patch = {
        "innings": data["innings"],
        "batting": side,
        "bowling": data["bowling"],
        "super_over": data["super_over"] or None,
        "score": {side: zero},
        "target": data["target"],
        "badges": {
            "free_hit": False,
            "powerplay": data["powerplay_balls"] > 0,
            "super_over": data["super_over"],
        },
        "batters": None,
        "bowler": None,
        "over": {"number": 1, "marks": []},
        "partnership": {"runs": 0, "balls": 0},
        "extras": zero_extras(),
        "equation": replace(
            world.get("equation"),
            equation(data["target"], 0, 0, data["balls"], data["super_over"], forecast="forecast" in world),
        ),
        "field": opening_field(2 if data["powerplay_balls"] else 5),
        "scorecards": {
            str(data["innings"]): {
                "side": side,
                "name": world["teams"][side]["name"],
                "batting": {},
                "bowling": {},
                "extras": zero_extras(),
                "fall": {},
                "overs": {},
                "balls": data["balls"],
            }
        },
        **par_line(world, data["innings"]),
    }
    if data["super_over"] and data["innings"] % 2:
        patch["score"] = {"home": zero, "away": zero}
    return patch


def _position_set(state: Mapping[str, Any], event: Event) -> Patch:
    data = event.data
    patch: Patch = {"scorecards": data["scorecards"], "score": data["scores"]}
    now = data["now"]
    if now is None:
        return patch
    card = data["scorecards"][str(now["innings"])]
    score = now["score"]
    ends = {end: now[end] and now[end]["name"] for end in ("striker", "non_striker")}
    lines = {now[end]["name"]: batter(now[end]) for end in ends if now[end]}
    return patch | {
        "innings": now["innings"],
        "batting": now["batting"],
        "bowling": now["bowling"],
        "target": now["target"],
        "badges": {"free_hit": False, "powerplay": now["powerplay"], "super_over": False},
        "batters": at_crease({}, ends, lines),
        "over": {"number": len(card["overs"]) + 1, "marks": []},
        "partnership": now["partnership"],
        "extras": card["extras"],
        "equation": equation(
            now["target"], score["runs"], score["balls"], now["balls_left"], False, score["wickets"]
        ),
        "field": opening_field(now["outside_limit"]),
    }


def _batter_in(state: Mapping[str, Any], event: Event) -> Patch:
    data = event.data
    line = data["player"]
    batters = at_crease(state["world"], data, {line["name"]: batter(line)})
    card = {f"{line['number']:02d}": {"how_out": "not out", **batter(line)}}
    return {"batters": batters, "scorecards": {str(data["innings"]): {"batting": card}}}


def _bowler_chosen(state: Mapping[str, Any], event: Event) -> Patch:
    line = event.data["bowler"]
    card = {f"{line['number']:02d}": bowler(line)}
    return {"bowler": bowler(line), "scorecards": {str(event.data["innings"]): {"bowling": card}}}


def _over_started(state: Mapping[str, Any], event: Event) -> Patch:
    data = event.data
    return {"over": {"number": data["over"] + 1, "marks": []}, "badges": {"powerplay": data["powerplay"]}}


def _field_set(state: Mapping[str, Any], event: Event) -> Patch:
    return {"field": field_patch(event.data)}


def _plan_changed(state: Mapping[str, Any], event: Event) -> Patch:
    data = event.data
    side, part = data["side"], data["part"]
    plan = {key: value for key, value in data["plan"].items() if value is not None}
    told = state.get("world", {}).get("plans", {}).get(side, {}).get(part)
    patch: Patch = make_patch(told or {}, plan)
    return {"plans": {side: {part: patch}}}


_FORECAST: Final = (
    "home", "away", "se", "tie", "total_low", "total_median", "total_high", "over_runs", "over_wicket",
    "futures",
)  # fmt: skip


def _forecast(state: Mapping[str, Any], event: Event) -> Patch:
    data = event.data
    ball = state["world"].get("last_ball", {})
    chance = {
        "home": data["home"],
        "se": data["se"],
        **{key: ball[key] for key in ("at", "mark") if key in ball},
    }
    patch: Patch = {
        "forecast": {key: data[key] for key in _FORECAST},
        "chances": {str(data["innings"]): {f"{data['delivery']:03d}": chance}},
        **foretold(state["world"], data),
    }
    if ball:
        patch["last_ball"] = {"values": {"batting": data["batting_value"], "bowling": data["bowling_value"]}}
    return patch


def _wicket(state: Mapping[str, Any], event: Event) -> Patch:
    data = event.data
    line = data["player"]
    return {
        "last_wicket": {
            "name": line["name"],
            "how_out": data["how_out"],
            "runs": line["runs"],
            "balls": line["balls"],
        },
        "scorecards": {
            str(data["innings"]): {
                "batting": {f"{line['number']:02d}": {"how_out": data["how_out"]}},
                "fall": {
                    str(data["wicket"]): {
                        "score": data["score"],
                        "wicket": data["wicket"],
                        "name": line["name"],
                        "at": data["overs"],
                    }
                },
            }
        },
    }


def _over_completed(state: Mapping[str, Any], event: Event) -> Patch:
    data = event.data
    over = {
        "runs": data["runs"],
        "wickets": data["wickets"],
        "score": data["score"]["runs"],
        "bowler": data["bowler"]["name"],
    }
    return {
        "batters": at_crease(state["world"], data, {}),
        "bowler": bowler(data["bowler"]),
        "scorecards": {
            str(data["innings"]): {
                "overs": {str(data["over"]): over},
                "bowling": {f"{data['bowler']['number']:02d}": bowler(data["bowler"])},
            }
        },
        **par_percentile(state["world"], data),
    }


def _innings_ended(state: Mapping[str, Any], event: Event) -> Patch:
    data = event.data
    card: Patch = {"closed": data["reason"], "total": data["score"]}
    return {"scorecards": {str(data["innings"]): card}, "badges": {"free_hit": False, "powerplay": False}}


def _match_ended(state: Mapping[str, Any], event: Event) -> Patch:
    winner = event.data["winner"]
    return {"result": event.data["result"], **({"winner": winner} if winner else {})}


_SEEN_FROM_AFAR: Final = frozenset(
    {
        "cricket.match_arranged",
        "cricket.position_set",
        "cricket.innings_started",
        "cricket.ball_bowled",
        "cricket.match_ended",
    }
)
_FOLDS: Final[dict[str, Callable[[Mapping[str, Any], Event], Patch]]] = {
    "cricket.match_arranged": _arranged,
    "cricket.toss_made": _tossed,
    "cricket.position_set": _position_set,
    "cricket.innings_started": _innings_started,
    "cricket.batter_selected": _batter_in,
    "cricket.bowler_selected": _bowler_chosen,
    "cricket.over_started": _over_started,
    "cricket.field_set": _field_set,
    "cricket.plan_changed": _plan_changed,
    "cricket.ball_bowled": project_ball,
    "cricket.forecast": _forecast,
    "cricket.wicket_fell": _wicket,
    "cricket.over_completed": _over_completed,
    "cricket.innings_ended": _innings_ended,
    "cricket.match_ended": _match_ended,
}
