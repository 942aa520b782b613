"""Owns what a viewer of a match sees: the fold of its events into the cockpit's state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from spectator.environments.cricket.field import standard_field
from spectator.environments.cricket.glance import glance
from spectator.environments.cricket.measures import par_line, plan_of, standing, strokes
from spectator.environments.cricket.resources import runs_to_come
from spectator.events import Event
from spectator.merge_patch import apply_patch, make_patch

Patch = dict[str, Any]


def project(state: Mapping[str, Any], event: Event) -> Mapping[str, Any]:
    """Merge patch of the world's part of the viewer's state."""
    fold = _FOLDS.get(event.type)
    if fold is None:
        return {}
    patch = fold(state, event)
    return patch | _from_afar(state.get("world", {}), patch) if event.type in _SEEN_FROM_AFAR else patch


def _from_afar(world: Mapping[str, Any], patch: Patch) -> Patch:
    """A patch of what lists and tiles show, after ``patch``."""
    seen = glance(apply_patch(world, patch))
    patched: Patch = make_patch({name: world[name] for name in seen if name in world}, seen)
    return patched


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
        "extras": _zero_extras(),
        "equation": _replace(
            world.get("equation"), _equation(data["target"], 0, 0, data["balls"], data["super_over"])
        ),
        "field": _standard_field(2 if data["powerplay_balls"] else 5),
        "scorecards": {
            str(data["innings"]): {
                "side": side,
                "name": world["teams"][side]["name"],
                "batting": {},
                "bowling": {},
                "extras": _zero_extras(),
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
    lines = {now[end]["name"]: _batter(now[end]) for end in ends if now[end]}
    return patch | {
        "innings": now["innings"],
        "batting": now["batting"],
        "bowling": now["bowling"],
        "target": now["target"],
        "badges": {"free_hit": False, "powerplay": now["powerplay"], "super_over": False},
        "batters": _at_crease({}, ends, lines),
        "over": {"number": len(card["overs"]) + 1, "marks": []},
        "partnership": now["partnership"],
        "extras": card["extras"],
        "equation": _equation(
            now["target"], score["runs"], score["balls"], now["balls_left"], False, score["wickets"]
        ),
        "field": _standard_field(now["outside_limit"]),
    }


def _zero_extras() -> Patch:
    return {"wides": 0, "noballs": 0, "byes": 0, "legbyes": 0, "penalties": 0, "total": 0}


def _replace(old: Mapping[str, Any] | None, new: Patch) -> Patch:
    """A patch that leaves exactly ``new`` where ``old`` was."""
    return {**{key: None for key in old or () if key not in new}, **new}


def _equation(
    target: int | None, runs: int, balls: int, left: int, super_over: bool, wickets: int = 0
) -> Patch:
    current = round(6.0 * runs / balls, 2) if balls else 0.0
    if target is None:
        if super_over:
            return {"current": current}
        return {"current": current, "projected": round(runs + runs_to_come(left, wickets))}
    need = max(0, target - runs)
    equation: Patch = {"need": need, "balls": left, "current": current}
    if left:
        equation["required"] = round(6.0 * need / left, 2)
    return equation


def _field_patch(field: Mapping[str, Any]) -> Patch:
    return {
        "preset": field["preset"],
        "fielders": {str(number): man for number, man in enumerate(field["fielders"], 1)},
    }


def _standard_field(outside_limit: int) -> Patch:
    return {**_field_patch(standard_field(outside_limit).shown), "outside_limit": outside_limit}


def _batter_in(state: Mapping[str, Any], event: Event) -> Patch:
    data = event.data
    line = data["player"]
    batters = _at_crease(state["world"], data, {line["name"]: _batter(line)})
    card = {f"{line['number']:02d}": {"how_out": "not out", **_batter(line)}}
    return {"batters": batters, "scorecards": {str(data["innings"]): {"batting": card}}}


def _batter(line: Mapping[str, Any]) -> Patch:
    return {
        "name": line["name"],
        "runs": line["runs"],
        "balls": line["balls"],
        "fours": line["fours"],
        "sixes": line["sixes"],
    }


def _at_crease(world: Mapping[str, Any], ends: Mapping[str, Any], known: Mapping[str, Patch]) -> Patch:
    """Who is at which end, with the lines known best; a vacant end is removed."""
    before = {line["name"]: line for line in (world.get("batters") or {}).values()}
    return {
        end: None if ends[end] is None else known.get(ends[end]) or before[ends[end]]
        for end in ("striker", "non_striker")
    }


def _bowler(line: Mapping[str, Any]) -> Patch:
    return {
        "name": line["name"],
        "kind": line["kind"],
        "overs": line["overs"],
        "maidens": line["maidens"],
        "runs": line["runs"],
        "wickets": line["wickets"],
        "left": line["left"],
    }


def _bowler_chosen(state: Mapping[str, Any], event: Event) -> Patch:
    line = event.data["bowler"]
    card = {f"{line['number']:02d}": _bowler(line)}
    return {"bowler": _bowler(line), "scorecards": {str(event.data["innings"]): {"bowling": card}}}


def _over_started(state: Mapping[str, Any], event: Event) -> Patch:
    data = event.data
    return {"over": {"number": data["over"] + 1, "marks": []}, "badges": {"powerplay": data["powerplay"]}}


def _field_set(state: Mapping[str, Any], event: Event) -> Patch:
    return {"field": _field_patch(event.data)}


def _plan_changed(state: Mapping[str, Any], event: Event) -> Patch:
    data = event.data
    plan = {key: value for key, value in data["plan"].items() if value is not None}
    return {"plans": {data["side"]: {data["part"]: plan}}}


def _ball(state: Mapping[str, Any], event: Event) -> Patch:
    data, world = event.data, state["world"]
    side, number = data["side"], str(data["innings"])
    striker, partner, bowler = data["striker_line"], data["non_striker_line"], data["bowler_line"]
    lines = {striker["name"]: _batter(striker), partner["name"]: _batter(partner)}
    super_over = bool(world.get("super_over"))
    score = data["score"]
    return {
        "score": {side: score},
        "equation": _replace(
            world.get("equation"),
            _equation(
                data["target"],
                score["runs"],
                score["balls"],
                data["balls_left"],
                super_over,
                score["wickets"],
            ),
        ),
        "badges": {"free_hit": data["free_hit_next"], "powerplay": data["powerplay_next"]},
        "batters": _at_crease(world, data["ends"], lines),
        "bowler": _bowler(bowler),
        "over": {"number": data["over"] + 1, "marks": [*world["over"]["marks"], data["mark"]]},
        "partnership": data["partnership"],
        "extras": data["extras_so_far"],
        "field": _opened_field(world, data),
        "last_ball": _replace(world.get("last_ball"), _last_ball(state, event)),
        "scorecards": {
            number: {
                "batting": {
                    f"{striker['number']:02d}": _batter(striker),
                    f"{partner['number']:02d}": _batter(partner),
                },
                "bowling": {f"{bowler['number']:02d}": _bowler(bowler)},
                "extras": data["extras_so_far"],
            }
        },
        **strokes(world, data),
    }


def _opened_field(world: Mapping[str, Any], data: Mapping[str, Any]) -> Patch:
    """The standard field opens up by itself when the powerplay ends; the limit is told whatever the field."""
    limit = data["outside_limit_next"]
    if world["field"].get("outside_limit") == limit:
        return {}
    if world["field"]["preset"] != "standard" or data["powerplay"] == data["powerplay_next"]:
        return {"outside_limit": limit}
    return _standard_field(limit)


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
        **plan_of(state["world"], data),
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


_FORECAST: Final = (
    "home", "away", "se", "tie", "total_low", "total_median", "total_high", "over_runs", "over_wicket",
    "futures",
)  # fmt: skip


def _forecast(state: Mapping[str, Any], event: Event) -> Patch:
    data = event.data
    ball = state["world"].get("last_ball", {})
    chance = {"home": data["home"], **{key: ball[key] for key in ("at", "mark") if key in ball}}
    patch: Patch = {
        "forecast": {key: data[key] for key in _FORECAST},
        "chances": {str(data["innings"]): {f"{data['delivery']:03d}": chance}},
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
        "batters": _at_crease(state["world"], data, {}),
        "bowler": _bowler(data["bowler"]),
        "scorecards": {
            str(data["innings"]): {
                "overs": {str(data["over"]): over},
                "bowling": {f"{data['bowler']['number']:02d}": _bowler(data["bowler"])},
            }
        },
        **standing(state["world"], data),
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
    "cricket.ball_bowled": _ball,
    "cricket.forecast": _forecast,
    "cricket.wicket_fell": _wicket,
    "cricket.over_completed": _over_completed,
    "cricket.innings_ended": _innings_ended,
    "cricket.match_ended": _match_ended,
}
