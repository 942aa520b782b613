"""Data of the charts of an innings: par line, wagon wheel, and the levels that the plans announced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spectator.environments.cricket.forecast.par import OVERS, par, percentile
from spectator.environments.cricket.match.segments import segment_at

Patch = dict[str, Any]


def par_line(world: Mapping[str, Any], innings: int) -> Patch:
    """What real innings had after each over; only a match of their length has any."""
    if world["format"]["overs"] != OVERS:
        return {}
    known = ((over, par(innings, over)) for over in range(1, OVERS + 1))
    lines = {str(over): line._asdict() for over, line in known if line is not None}
    return {"par": {str(innings): lines}} if lines else {}


def par_percentile(world: Mapping[str, Any], data: Mapping[str, Any]) -> Patch:
    """Where the innings stands among real ones of its length, as a percentile."""
    if world["format"]["overs"] != OVERS:
        return {}
    share = percentile(data["innings"], data["over"], data["score"]["runs"])
    return {} if share is None else {"standing": {str(data["innings"]): {str(data["over"]): share}}}


def wagon_wheel(world: Mapping[str, Any], data: Mapping[str, Any]) -> Patch:
    """Scoring strokes by innings, batter, sector and runs off the bat, of the balls that were played here."""
    if data["zone"] is None or not data["bat"]:
        return {}
    number, batter = str(data["innings"]), f"{data['striker_line']['number']:02d}"
    sector, runs = str(data["zone"]), str(data["bat"])
    strokes = world.get("wheel", {}).get(number, {}).get(batter, {}).get(sector, {}).get(runs, 0)
    return {"wheel": {number: {batter: {sector: {runs: strokes + 1}}}}}


def planned_levels(world: Mapping[str, Any], data: Mapping[str, Any]) -> Patch:
    """What both match plans had in store for the part of the innings that a ball was bowled in.

    ``batting`` is the aggression and ``bowling`` the attack that was announced, both in [0, 1].
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
