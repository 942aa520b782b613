"""What cricket's learner sees of a situation and of players: numbers that an observation shows.

The state of the match is told by bumps, so that what is linear in them may bend: by the part of the innings,
the wickets and the balls left of a first innings, and by how much of what is usual a chase still needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spectator.environments.cricket.ball.situation import SECTORS
from spectator.environments.cricket.captaincy.reasons import pressure
from spectator.environments.cricket.match.field import BOUNDARY_M

Vector = NDArray[np.float64]

PRESSURES: Final = (0.3, 0.6, 0.85, 1.1, 1.4, 1.9)
"""Where the bumps of a chase stand, in runs wanted for each that is usual."""

STATE: Final = 6 + 2 * len(PRESSURES) + 2
SITUATION: Final = STATE + 24 + len(SECTORS)
PLAYER: Final = 14
"""How many numbers it sees of the state, of a situation with its people, and of a player to choose."""

_TRAIT: Final = 6.0
"""What a batter's traits are multiplied by: they are log ratios of runs, of about 0.14 either way."""
_SKILL: Final = 5.0
"""What a player's skill beyond the usual is multiplied by: it is of about 0.1 either way."""
_FORM: Final = 10.0
"""What a form of the day is multiplied by: a log ratio of runs, of about 0.08 either way."""
_FAR: Final = 8.0
"""Metres of a boundary beyond the usual that count as one."""
_UNEVEN: Final = 100.0
"""Elo points between the squads that count as one."""
_PITCHES: Final = {"green": -1.0, "even": 0.0, "dry": 1.0}
_EVENINGS: Final = {"wearing": -1.0, "even": 0.0, "dew": 1.0}
_REPEATABLE: Final = ("yorker", "full", "back of a length", "short", "wide outside off", "leg")
"""Lengths and lines that are easier for having been bowled just before."""

NOBODY: Final = np.zeros(SITUATION)
"""What is seen where there is no score yet."""


def state(view: Mapping[str, Any]) -> list[float]:
    """The state of the match; ``STATE`` numbers."""
    score = view["score"]
    left = score["balls_left"] / (score["balls"] + score["balls_left"])
    lost, asked = score["wickets"] / 5.0, pressure(view)
    first, chase = float(asked is None), float(asked is not None)
    bumps = [0.0] * len(PRESSURES) if asked is None else _bumps(asked)
    return [
        first, first * (view["segment"] == "middle"), first * (view["segment"] == "death"),
        first * left, first * lost, first * lost * left,
        *bumps, *(left * bump for bump in bumps), chase * lost, chase * lost * left,
    ]  # fmt: skip


def _bumps(asked: float) -> list[float]:
    """Shares of the two neighbours of ``PRESSURES`` that a pressure lies between."""
    found, at = [0.0] * len(PRESSURES), min(max(asked, PRESSURES[0]), PRESSURES[-1])
    for place, (low, high) in enumerate(pairwise(PRESSURES)):
        if low <= at <= high:
            share = (at - low) / (high - low)
            found[place], found[place + 1] = 1.0 - share, share
            break
    return found


def situation(view: Mapping[str, Any], batters: Sequence[str], bowler: str | None = None) -> Vector:
    """What it sees of a situation; shape ``(SITUATION,)``.

    Args:
        view: The observation.
        batters: Whose traits it looks at, on average: those who are in, or one of them.
        bowler: Who has been chosen to bowl, if it is not who bowls already.
    """
    way = kind(view, bowler)
    spin, short, leg, runs, out, left = people(view, batters)
    balls = [view[end]["balls"] for end in ("striker", "non_striker") if view[end] is not None]
    evening = _EVENINGS[view["conditions"]["evening"]] * (view["innings"] % 2 == 0)
    runs_given, threat, form, load = thrower(view, bowler)
    fit = way * (spin + _PITCHES[view["conditions"]["pitch"]] * -0.4 + 0.3 * evening)
    chase = float(view.get("need") is not None)
    return np.array([
        *state(view), way, spin, short, leg, way * spin, fit, runs, out, left,
        min(20.0, float(np.mean(balls)) if balls else 0.0) / 20.0, evening, runs_given, threat, way * evening,
        formed(view, batters), form, load, view.get("squad_difference", 0.0) / _UNEVEN,
        *ground(view, batters),
        way * short, way * leg, way * left, way * load,
        chase * (view["segment"] == "middle"), chase * (view["segment"] == "death"),
    ], dtype=np.float64)  # fmt: skip


def formed(view: Mapping[str, Any], batters: Sequence[str]) -> float:
    """The form of the day of these batters, on average; 0 where a match has none."""
    forms = [float(card(view, name).get("bat_form", 0.0)) for name in batters]
    return _FORM * sum(forms) / max(1, len(forms))


def ground(view: Mapping[str, Any], batters: Sequence[str]) -> list[float]:
    """How far the rope is beyond the usual in each of the eight sectors, as these batters see it on average
    from this end."""
    if not view.get("ground"):
        return [0.0] * len(SECTORS)
    right = [(metres - BOUNDARY_M) / _FAR for metres in view["ground"]["now"].values()]
    if view["striker"] is not None and view["striker"]["bats"] == "left":
        right.reverse()
    lefts = sum(card(view, name)["bats"] == "left" for name in batters) / max(1, len(batters))
    return [(1.0 - lefts) * here + lefts * there for here, there in zip(right, reversed(right), strict=True)]


def kind(view: Mapping[str, Any], bowler: str | None) -> float:
    """Whether spin (1) or pace (-1) bowls; 0 where nobody does yet."""
    if bowler is None:
        told = None if view["bowler"] is None else view["bowler"]["kind"]
    else:
        told = card(view, bowler).get("bowls", "off spin")
    return 0.0 if told is None else -1.0 if "pace" in told else 1.0


def thrower(view: Mapping[str, Any], bowler: str | None) -> tuple[float, float, float, float]:
    """How dear and how dangerous the bowler is, his form and how tired he is; 0 where nobody bowls yet."""
    if bowler is None:
        if view["bowler"] is None:
            return 0.0, 0.0, 0.0, 0.0
        bowler = view["bowler"]["name"]
    man = card(view, bowler)
    return (
        _SKILL * (man.get("bowl_runs", 1.3) - 1.0),
        _SKILL * (man.get("bowl_wickets", 0.6) - 1.0),
        _FORM * man.get("bowl_form", 0.0),
        tired(view).get(bowler, 0.0),
    )


def tired(view: Mapping[str, Any]) -> Mapping[str, float]:
    """How tired bowlers are, by name; empty where nobody tires."""
    found: Mapping[str, float] = view.get("tired") or {}
    return found


def card(view: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The card of a player of either side."""
    for squad in view["squads"].values():
        for man in squad["players"]:
            if man["name"] == name:
                found: Mapping[str, Any] = man
                return found
    raise KeyError(name)


def batters_at_crease(view: Mapping[str, Any]) -> list[str]:
    """Names of those who are in, the striker first."""
    return [view[end]["name"] for end in ("striker", "non_striker") if view[end] is not None]


def people(view: Mapping[str, Any], names: Sequence[str]) -> tuple[float, ...]:
    """What suits these batters, on average: spin, short balls, the leg side, their skill and safety, and
    whether they bat left-handed; 0 where there are none."""
    men = [card(view, name) for name in names]
    share = 1.0 / max(1, len(men))
    return (
        *(_TRAIT * share * sum(man[trait] for man in men) for trait in ("bat_spin", "bat_short", "bat_leg")),
        *(_SKILL * share * sum(man[skill] - 1.0 for man in men) for skill in ("bat_runs", "bat_out")),
        share * sum(man["bats"] == "left" for man in men),
    )


def candidates(view: Mapping[str, Any], names: Sequence[str], *, bowling: bool) -> Vector:
    """What it sees of players to choose from, a row each, the one that the side would usually take first."""
    liked = people(view, batters_at_crease(view))[0]
    pitch = _PITCHES[view["conditions"]["pitch"]]
    evening = _EVENINGS[view["conditions"]["evening"]] * (view["innings"] % 2 == 0)
    first, middle = float(view.get("need") is None), view["segment"] == "middle"
    rows, loads = [], tired(view)
    for place, name in enumerate(names):
        man = card(view, name)
        runs = _SKILL * ((man.get("bowl_runs", 1.3) if bowling else man["bat_runs"]) - 1.0)
        wickets = _SKILL * ((man.get("bowl_wickets", 0.6) if bowling else man["bat_out"]) - 1.0)
        spins = float(bowling and "pace" not in man.get("bowls", "off spin"))
        rows.append([
            place == 0, runs, wickets, spins * middle, place / 10.0, spins * liked, spins * pitch,
            spins * evening, first * runs, first * wickets, spins,
            _FORM * man.get("bowl_form" if bowling else "bat_form", 0.0),
            loads.get(name, 0.0), (1.0 - spins) * loads.get(name, 0.0),
        ])  # fmt: skip
    return np.array(rows, dtype=np.float64)
