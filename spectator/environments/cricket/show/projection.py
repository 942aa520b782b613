"""The projection of a match: folds its events into the viewers' state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from spectator.environments.cricket.forecast.outlook import Outlook
from spectator.environments.cricket.match.engine import segment_at
from spectator.environments.cricket.match.field import is_outside, standard_field
from spectator.environments.cricket.show.drawing import drawing, pitched
from spectator.environments.cricket.show.ledger import noted
from spectator.environments.cricket.show.summary import glance, outlook, par_lines, share_below
from spectator.events import Event
from spectator.json_values import apply_patch, make_patch, without_null

Patch = dict[str, Any]


def zero_extras() -> Patch:
    """Return extras of 0 for every kind."""
    return {"wides": 0, "noballs": 0, "byes": 0, "legbyes": 0, "penalties": 0, "total": 0}


def replace(old: Mapping[str, Any] | None, new: Patch, *, keep: tuple[str, ...] = ()) -> Patch:
    """Return a patch that replaces ``old`` by ``new`` except for the keys in ``keep``."""
    return {**{key: None for key in old or () if key not in new and key not in keep}, **new}


def equation(
    target: int | None,
    runs: int,
    balls: int,
    left: int,
    super_over: bool,
    wickets: int = 0,
    *,
    usual: Outlook | None = None,
) -> Patch:
    """Return the run rates, with either the projection or the equation of a chase.

    Args:
        usual: What average sides make of the match; ``None`` for a match with a forecast, which has its own
            projection (see :func:`forecast_projection`).
    """
    current = round(6.0 * runs / balls, 2) if balls else 0.0
    if target is None:
        if super_over or usual is None:
            return {"current": current}
        return {"current": current, "projected": round(usual.total(balls, wickets, runs))}
    need = max(0, target - runs)
    chase: Patch = {"need": need, "balls": left, "current": current}
    if left:
        chase["required"] = round(6.0 * need / left, 2)
    return chase


def _usual(world: Mapping[str, Any]) -> Outlook | None:
    return None if "forecast" in world else outlook(world)


def forecast_projection(world: Mapping[str, Any], data: Mapping[str, Any]) -> Patch:
    """Return a first innings' projection from the data of ``cricket.forecast``."""
    if world.get("target") or not data["futures"]:
        return {}
    return {"equation": {"projected": data["total_median"]}}


def field_patch(field: Mapping[str, Any]) -> Patch:
    """Return a field with its fielders by number, and how many are outside the ring."""
    return {
        "preset": field["preset"],
        "outside": sum(is_outside(one["x"], one["y"]) for one in field["fielders"]),
        "fielders": {str(number): fielder for number, fielder in enumerate(field["fielders"], 1)},
    }


def opening_field(outside_limit: int) -> Patch:
    """Return the field in force before a captain sets one."""
    return {**field_patch(standard_field(outside_limit).shown), "outside_limit": outside_limit}


def batter(line: Mapping[str, Any]) -> Patch:
    """Return what viewers see of a batter's line."""
    return {key: line[key] for key in ("name", "runs", "balls", "fours", "sixes")}


def at_crease(world: Mapping[str, Any], ends: Mapping[str, Any], known: Mapping[str, Patch]) -> Patch:
    """Return both ends' batters with their latest lines, removing vacant ends."""
    before = {line["name"]: line for line in (world.get("batters") or {}).values()}
    return {
        end: None if ends[end] is None else known.get(ends[end]) or before[ends[end]]
        for end in ("striker", "non_striker")
    }


def bowler(line: Mapping[str, Any]) -> Patch:
    """Return what viewers see of a bowler's line."""
    return {key: line[key] for key in ("name", "kind", "overs", "maidens", "runs", "wickets", "left")}


def par_line(world: Mapping[str, Any], innings: int) -> Patch:
    """Return the usual scores after each over of an innings."""
    lines = {str(over): line._asdict() for over, line in par_lines(world, innings).items()}
    return {"par": {str(innings): lines}} if lines else {}


def par_percentile(world: Mapping[str, Any], data: Mapping[str, Any]) -> Patch:
    """Return the innings' percentile among those of its kind."""
    share = share_below(world, data["innings"], data["over"], data["score"]["runs"])
    return {} if share is None else {"standing": {str(data["innings"]): {str(data["over"]): share}}}


def wagon_wheel(world: Mapping[str, Any], data: Mapping[str, Any]) -> Patch:
    """Return the added scoring stroke by innings, batter, sector and runs off the bat."""
    if data["zone"] is None or not data["bat"]:
        return {}
    number, batter = str(data["innings"]), f"{data['striker_line']['number']:02d}"
    sector, runs = str(data["zone"]), str(data["bat"])
    strokes = world.get("wheel", {}).get(number, {}).get(batter, {}).get(sector, {}).get(runs, 0)
    return {"wheel": {number: {batter: {sector: {runs: strokes + 1}}}}}


def planned_levels(world: Mapping[str, Any], data: Mapping[str, Any]) -> Patch:
    """Return the levels of both match plans for the part of the innings of a ball.

    ``batting`` is the declared aggression and ``bowling`` the declared attack, both in [0, 1].
    """
    format = world["format"]
    bowled = 6 * data["over"] + data["ball"] - 1
    segment = segment_at(bowled, format["powerplay_balls"], format["balls"])
    fielding = "away" if data["side"] == "home" else "home"
    plans = world.get("plans", {})
    announced = {
        role: plans.get(side, {}).get("match_plan", {}).get(f"{role}_{segment}")
        for role, side in (("batting", data["side"]), ("bowling", fielding))
    }
    planned = {role: level for role, level in announced.items() if level is not None}
    return {"planned": {"segment": segment, **planned}} if planned else {}


def project_ball(state: Mapping[str, Any], event: Event) -> Patch:
    """Return everything that a ball changes."""
    data, world = event.data, state["world"]
    side, number = data["side"], str(data["innings"])
    striker, partner, by = data["striker_line"], data["non_striker_line"], data["bowler_line"]
    lines = {striker["name"]: batter(striker), partner["name"]: batter(partner)}
    super_over, score = bool(world.get("super_over")), data["score"]
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
                usual=_usual(world),
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
        **pitched(data),
    }


def _opened_field(world: Mapping[str, Any], data: Mapping[str, Any]) -> Patch:
    """Adjust the standard field to another limit outside the ring; update the limit for any field."""
    limit = data["outside_limit_next"]
    if world["field"].get("outside_limit") == limit:
        return {}
    return opening_field(limit) if world["field"]["preset"] == "standard" else {"outside_limit": limit}


_SHOWN_OF_BALL: Final = (
    "at", "innings", "mark", "kind", "words", "runs", "striker", "bowler", "length", "line", "speed_kmh",
    "shot", "free_hit", "aerial",
)  # fmt: skip


def _last_ball(state: Mapping[str, Any], event: Event) -> Patch:
    data = event.data
    ball: Patch = {
        "seq": event.seq,
        **{key: data[key] for key in _SHOWN_OF_BALL},
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
                "arguments": without_null(made["action"].get("arguments") or {}),
                "reasoning": made.get("reasoning", ""),
                "source": made["source"],
            }
    if decisions:
        ball["decisions"] = decisions
    return ball


def project(state: Mapping[str, Any], event: Event) -> Mapping[str, Any]:
    """Return the merge patch of the world's part of the viewers' state."""
    fold = _FOLDS.get(event.type)
    world = state.get("world", {})
    kept = noted(world.get("ledger", {}), world, event)
    noting = {} if kept is None else {"ledger": make_patch(world.get("ledger", {}), kept)}
    if fold is None:
        return noting
    patch = fold(state, event)
    after = apply_patch(world, patch)
    if (drawn := drawing(world, after, event)) is not None:
        patch |= {"drawing": make_patch(world.get("drawing", {}), drawn)}
    patch |= noting
    if event.type not in _SUMMARY_EVENTS:
        return patch
    summary = glance(after)
    changed: Patch = make_patch({name: world[name] for name in summary if name in world}, summary)
    return patch | changed


def _arranged(state: Mapping[str, Any], event: Event) -> Patch:
    data = event.data
    return {
        "format": {
            "overs": data["overs"],
            "balls": data["balls"],
            "powerplay_balls": data["powerplay_balls"],
            "bowler_limit_overs": data["bowler_overs"],
            **{name: data[name] for name in ("profile", "level", "fatigue") if name in data},
        },
        "teams": {"home": data["home"], "away": data["away"]},
        "score": {side: {"runs": 0, "wickets": 0, "balls": 0, "overs": "0.0"} for side in ("home", "away")},
        "badges": {"free_hit": False, "powerplay": False, "super_over": False},
        **{name: data[name] for name in ("ground", "real") if name in data},
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
            equation(data["target"], 0, 0, data["balls"], data["super_over"], usual=_usual(world)),
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
        "badges": {
            "free_hit": now.get("free_hit", False),
            "powerplay": now["powerplay"],
            "super_over": False,
        },
        "batters": at_crease({}, ends, lines),
        **({"bowler": bowler(now["bowler"])} if "bowler" in now else {}),
        "over": {"number": len(card["overs"]) + 1, "marks": now.get("marks", [])},
        "partnership": now["partnership"],
        "extras": card["extras"],
        "equation": equation(
            now["target"],
            score["runs"],
            score["balls"],
            now["balls_left"],
            False,
            score["wickets"],
            usual=outlook(state["world"]),
        ),
        "field": opening_field(now["outside_limit"]),
    }


def _batter_in(state: Mapping[str, Any], event: Event) -> Patch:
    data = event.data
    line = data["player"]
    batters = at_crease(state["world"], data, {line["name"]: batter(line)})
    card = {f"{line['number']:02d}": {"how_out": "not out", **batter(line)}}
    left = {"left_handers": {line["name"]: True}} if data["bats"] == "left" else {}
    return {"batters": batters, "scorecards": {str(data["innings"]): {"batting": card}}, **left}


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
    declared = state.get("world", {}).get("plans", {}).get(side, {}).get(part)
    patch: Patch = make_patch(declared or {}, plan)
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
        **forecast_projection(state["world"], data),
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


_SUMMARY_EVENTS: Final = frozenset(
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
