"""Plain descriptions of a ball and of a dismissal, as a scorer would put them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

ZONE_WORDS: Final[tuple[str, ...]] = (
    "fine on the leg side", "behind square on the leg side", "through midwicket",
    "straight on the leg side", "straight on the off side", "through the covers",
    "behind point", "fine on the off side",
)  # fmt: skip
"""Where a ball went, by sector 1 .. 8."""

_NUMBERS: Final = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
)


def number_word(number: int) -> str:
    """A small number in words, a large one in figures."""
    return _NUMBERS[number] if 0 <= number < len(_NUMBERS) else str(number)


def plural(number: int, noun: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def surname(name: str) -> str:
    """What a player is called on air."""
    return name.partition(" ")[2] or name


def how_out(kind: str, bowler: str, fielder: str, keeper: str) -> str:
    """A dismissal as scorecards write it, such as ``c Rahil Colvane b Omar Pendarro``.

    Args:
        kind: One of the scorer's dismissals.
        bowler: Name of the bowler.
        fielder: Name of the fielder; empty when none took part.
        keeper: Name of the wicket-keeper, marked with a dagger.

    >>> how_out("caught", "Omar Pendarro", "Rahil Colvane", keeper="Wes Bexhorn")
    'c Rahil Colvane b Omar Pendarro'
    """
    caught = f"†{fielder}" if fielder == keeper else fielder
    if kind == "caught":
        return f"c {caught} b {bowler}"
    if kind == "caught and bowled":
        return f"c & b {bowler}"
    if kind == "stumped":
        return f"st †{fielder} b {bowler}"
    if kind == "run out":
        return f"run out ({caught})" if fielder else "run out"
    short = {"bowled": "b", "lbw": "lbw b", "hit wicket": "hit wicket b"}.get(kind)
    return f"{short} {bowler}" if short else kind


def describe(ball: Mapping[str, Any]) -> str:
    """One short sentence on a ball, from the data of ``cricket.ball_bowled``."""
    return f"{surname(ball['bowler'])} to {surname(ball['striker'])}: {_outcome(ball)}"


def _outcome(ball: Mapping[str, Any]) -> str:
    if ball["dismissal"]:
        return _dismissal(ball)
    if ball["wides"]:
        return "wide" if ball["wides"] == 1 else f"wide, {number_word(ball['wides'])} in all"
    call = "no-ball, " if ball["noball"] else ""
    if ball["byes"]:
        return f"{call}{plural(ball['byes'], 'bye')}"
    if ball["legbyes"]:
        return f"{call}{plural(ball['legbyes'], 'leg-bye')}"
    return call + _off_the_bat(ball)


def _off_the_bat(ball: Mapping[str, Any]) -> str:
    bat, where = ball["bat"], f" {ZONE_WORDS[ball['zone'] - 1]}" if ball["zone"] else ""
    if not bat:
        return "no run"
    if ball["boundary"] and not ball["ran"]:
        return f"{'SIX' if bat == 6 else 'FOUR'}{where}"
    if ball["boundary"]:
        return f"{number_word(bat)}, with overthrows"
    return f"{plural(bat, 'run')}{where}"


def _dismissal(ball: Mapping[str, Any]) -> str:
    out, kind = surname(ball["out"]), ball["dismissal"]
    fielder = (
        f" by {surname(ball['fielder'])}"
        if ball["fielder"] and kind in ("caught", "stumped", "run out")
        else ""
    )
    call = "off a wide, " if ball["wides"] else "off a no-ball, " if ball["noball"] else ""
    runs = ball["runs"] - (1 if call else 0)
    made = f" after {plural(runs, 'run')}" if runs else ""
    return f"OUT, {call}{out} {kind}{fielder}{made}"
