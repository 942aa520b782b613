"""Owns the words in which scripted captains state their reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def plan_reason(summary: str) -> str:
    """Why this match plan."""
    return f"Say it before doing it. {summary}"


def toss_reason(elect: str) -> str:
    """Why bat or field."""
    if elect == "field":
        return "If the coin falls our way we chase: a known target is the better half of the bargain."
    return "If the coin falls our way we bat: runs on the board, and the pressure is theirs."


def batter_reason(view: Mapping[str, Any], name: str) -> str:
    """Why this batter."""
    if view["phase"] == "openers":
        return f"{name} and partner open, as they always do."
    score = view["score"]
    return f"{score['runs']} for {score['wickets']}: {name} is next in the order, no reason to shuffle it."


def bowler_reason(view: Mapping[str, Any], name: str) -> str:
    """Why this bowler."""
    bowler = next(choice for choice in view["choices"]["bowlers"] if choice["name"] == name)
    over = view["score"]["balls"] // 6 + 1
    figures = "" if bowler["overs"] == "0.0" else f", {bowler['wickets']} for {bowler['runs']} so far"
    why = {
        "powerplay": "two outside the ring: wickets are on offer",
        "middle": "squeeze the middle",
        "death": "kept for the end",
    }[view["segment"]]
    return f"Over {over} to {name}, {bowler['kind']}{figures}: {why}."


def field_reason(view: Mapping[str, Any], preset: str) -> str:
    """Why this field."""
    words = preset.replace("_", " ")
    return f"{words.capitalize()} field for the {view['segment']}, {view['outside_limit']} may be out."


def batting_reason(view: Mapping[str, Any], aggression: float) -> str:
    """Why bat like this."""
    return f"{_situation(view)}: {_batting_word(aggression)} from here."


def bowling_reason(view: Mapping[str, Any], attack: float) -> str:
    """Why bowl like this."""
    return f"{_situation(view)}: {_bowling_word(attack)} from here."


def play_reason(view: Mapping[str, Any], level: float, *, batting: bool) -> str:
    """Why play this ball like this."""
    if view["free_hit"]:
        return (
            "Free hit: nothing to lose but the ball."
            if batting
            else "Free hit against us: make it hard to get under."
        )
    if view.get("need") and batting:
        balls = view["score"]["balls_left"]
        return f"{view['need']} from {balls} at {view['required_rate']}: {_batting_word(level)}."
    striker = view["striker"]
    if batting:
        settled = "is still playing himself in" if striker["balls"] < 8 else "is set"
        return f"{striker['name']} {settled}: {_batting_word(level)}."
    if striker["balls"] == 0:
        return f"First ball to {striker['name']}: {_bowling_word(level)}."
    return f"{striker['name']} on {striker['runs']} from {striker['balls']}: {_bowling_word(level)}."


def _situation(view: Mapping[str, Any]) -> str:
    score = view["score"]
    return f"{score['runs']} for {score['wickets']} after {score['overs']}, {view['segment']}"


def _batting_word(level: float) -> str:
    if level >= 0.6:
        return "go hard, a wicket is a price we pay"
    if level <= 0.45:
        return "wickets first, the bad ball will come"
    return "take what the ball offers"


def _bowling_word(level: float) -> str:
    if level >= 0.58:
        return "attack, a wicket changes it"
    if level <= 0.42:
        return "no boundaries, let the rate climb"
    return "line, length and patience"
