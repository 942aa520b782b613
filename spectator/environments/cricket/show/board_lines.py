"""A match in a few lines of plain text, for terminals: score, who is in, who bowls, the over, the chances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

BAR: Final = 20
"""Characters of the bar of chances."""


def board_lines(world: Mapping[str, Any]) -> Sequence[str]:
    """The lines; none before the sides are named.

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
    told = [
        f"{'*' if end == 'striker' else ''}{at[end]['name']} {at[end]['runs']} ({at[end]['balls']})"
        for end in ("striker", "non_striker")
        if end in at
    ]
    stand = world.get("partnership")
    if told and stand:
        told.append(f"stand {stand['runs']} off {stand['balls']}")
    return "  ".join(["Batting", *told]) if told else ""


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
    told = world.get("forecast")
    if not told:
        return ""
    full = round(BAR * told["home"])
    bar = "█" * full + "░" * (BAR - full)
    home = round(100 * told["home"])
    return f"Chances  {_name(world, 'home')} {home} % {bar} {100 - home} % {_name(world, 'away')}"


def _name(world: Mapping[str, Any], side: str) -> str:
    name: str = world["teams"][side]["name"]
    return name
