"""The reasons that scripted captains give for their decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spectator.environments.cricket.forecast.resources import runs_to_come

HURRIED: Final = 1.1
"""Runs wanted against what sides usually make from here, from which nobody has time to wait."""
EASY: Final = 0.7
"""The same up to which nobody needs a risk."""
STEEP_RATE: Final = 12.0
"""Required runs an over that leave no time in any format."""


def pressure(view: Mapping[str, Any]) -> float | None:
    """Runs wanted against those that a side usually makes with as many balls and wickets; ``None`` without a
    target."""
    need, score = view.get("need"), view["score"]
    if not need or not score["balls_left"]:
        return None
    return float(need) / max(1.0, runs_to_come(score["balls_left"], score["wickets"]))


def hurried(view: Mapping[str, Any]) -> bool:
    """Whether the batting side must hit now."""
    return (pressure(view) or 0.0) >= HURRIED or (view.get("required_rate") or 0.0) >= STEEP_RATE


def plan_reason(summary: str) -> str:
    """Why this match plan."""
    return f"The plan: {summary[0].lower()}{summary[1:]}"


def toss_reason(elect: str) -> str:
    """Why bat or field."""
    if elect == "field":
        return "If the coin falls our way we chase: a known target is the better half of the bargain."
    return "If the coin falls our way we bat: runs on the board, and the pressure is theirs."


def batter_reason(view: Mapping[str, Any], name: str, partner: str | None = None) -> str:
    """Why this batter, or this opening pair."""
    if partner is not None:
        return f"{name} and {partner} open, as they always do."
    score = view["score"]
    return f"{score['runs']} for {score['wickets']}: {name} is next in the order, no reason to shuffle it."


def bowler_reason(view: Mapping[str, Any], name: str) -> str:
    """Why this bowler."""
    bowler = next(choice for choice in view["choices"]["bowlers"] if choice["name"] == name)
    over = view["score"]["balls"] // 6 + 1
    figures = "" if bowler["overs"] == "0.0" else f", {bowler['wickets']} for {bowler['runs']} so far"
    return f"Over {over} to {name}, {bowler['kind']}{figures}: {_bowler_why(view, bowler)}."


def _bowler_why(view: Mapping[str, Any], bowler: Mapping[str, Any]) -> str:
    pace, segment, overs = "pace" in bowler["kind"], view["segment"], int(bowler["overs"].split(".")[0])
    if "occasional" in bowler["kind"]:
        return "an over has to be found somewhere"
    if bowler["wickets"] >= 2:
        return "wickets have come from this arm"
    if overs and bowler["runs"] <= 6 * overs:
        return "hard to get away"
    if segment == "death":
        return "pace for the end" if pace else "slower through the air, let them fetch it"
    if segment == "powerplay":
        return "hard and straight while two are out" if pace else "take the pace off while two are out"
    return "a change of pace through the middle" if pace else "spin through the middle"


def field_reason(view: Mapping[str, Any], preset: str) -> str:
    """Why this field."""
    words, segment = preset.replace("_", " "), view["segment"]
    part = {"powerplay": "the powerplay", "middle": "the middle overs", "death": "the last overs"}[segment]
    return f"{words.capitalize()} field for {part}, {view['outside_limit']} may be out."


def batting_reason(view: Mapping[str, Any], aggression: float) -> str:
    """Why bat like this."""
    return f"{_situation(view)}: {_batting_word(view, aggression)} from here."


def bowling_reason(view: Mapping[str, Any], attack: float) -> str:
    """Why bowl like this."""
    return f"{_situation(view)}: {_bowling_word(view, attack)} from here."


def play_reason(view: Mapping[str, Any], level: float, *, batting: bool) -> str:
    """Why play this ball like this."""
    if view["free_hit"]:
        return (
            "Free hit: nothing to lose but the ball."
            if batting
            else "Free hit against us: make it hard to get under."
        )
    word = _batting_word(view, level) if batting else _bowling_word(view, level)
    striker = view["striker"]
    if striker["balls"] == 0:
        return f"First ball to {striker['name']}: {word}."
    if view.get("need"):
        who = "" if batting else "they need "
        return f"{who}{view['need']} from {view['score']['balls_left']}: {word}.".capitalize()
    if batting:
        settled = "is still getting started" if striker["balls"] < 8 else "is set"
        return f"{striker['name']} {settled}: {word}."
    return f"{striker['name']} on {striker['runs']} from {striker['balls']}: {word}."


def _situation(view: Mapping[str, Any]) -> str:
    score = view["score"]
    at = f"{score['runs']} for {score['wickets']}"
    if view.get("need"):
        return f"{at}, {view['need']} wanted from {score['balls_left']}"
    return f"{at} after {score['overs']}, {view['segment']}" if score["balls"] else "A fresh innings"


def _batting_word(view: Mapping[str, Any], level: float) -> str:
    asked = pressure(view)
    if hurried(view):
        hard = level >= 0.6
        return "swing, only boundaries keep up" if hard else "the rate will not wait, hit what can be hit"
    if asked is not None and asked <= EASY:
        return "finish it early" if level >= 0.6 else "no risk needed, knock it off"
    if level >= 0.6:
        return "go hard, a wicket is a price we pay"
    if level <= 0.45:
        chasing = asked is not None
        return "keep wickets, one big over will do" if chasing else "wickets first, the bad ball will come"
    return "swing as a side must at the end" if view["segment"] == "death" else "take what the ball offers"


def _bowling_word(view: Mapping[str, Any], level: float) -> str:
    asked = pressure(view)
    if hurried(view):
        return "attack and be done with it" if level >= 0.58 else "no boundaries and it is ours"
    if asked is not None and asked <= EASY:
        return "only wickets win this" if level >= 0.5 else "make them earn the last runs"
    if level >= 0.58:
        return "attack, a wicket changes it"
    if level <= 0.42:
        return "no boundaries, let the rate climb"
    return "line, length and patience"
