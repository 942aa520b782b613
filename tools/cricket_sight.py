"""Features of situations and players for cricket's learner, from observations.

The state of the match is encoded by bumps, so that a linear function of them may bend: by the part of the
innings, the wickets and the balls left of a first innings, and by the pressure of a chase.
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
"""Centres of the bumps of a chase: runs needed over runs usual."""

STATE: Final = 6 + 2 * len(PRESSURES) + 2
SITUATION: Final = STATE + 24 + len(SECTORS)
PLAYER: Final = 14
"""Numbers of features of the state, of a situation with its players, and of a player to choose."""

_TRAIT: Final = 6.0
"""Scale of a batter's traits, which are log ratios of runs of about 0.14 either way."""
_SKILL: Final = 5.0
"""Scale of a player's skill relative to the usual, about 0.1 either way."""
_FORM: Final = 10.0
"""Scale of the form of the day, a log ratio of runs of about 0.08 either way."""
_FAR: Final = 8.0
"""Metres of a boundary beyond the usual that count as one."""
_UNEVEN: Final = 100.0
"""Elo points between the squads that count as one."""
_PITCHES: Final = {"green": -1.0, "even": 0.0, "dry": 1.0}
_EVENINGS: Final = {"wearing": -1.0, "even": 0.0, "dew": 1.0}
_REPEATABLE: Final = ("yorker", "full", "back of a length", "short", "wide outside off", "leg")
"""Lengths and lines that are easier to repeat."""

NOBODY: Final = np.zeros(SITUATION)
"""What is seen where there is no score yet."""


def state(view: Mapping[str, Any]) -> list[float]:
    """Return the ``STATE`` features of the match."""
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
    """Interpolate a pressure between the two neighbours in ``PRESSURES``."""
    found, at = [0.0] * len(PRESSURES), min(max(asked, PRESSURES[0]), PRESSURES[-1])
    for place, (low, high) in enumerate(pairwise(PRESSURES)):
        if low <= at <= high:
            share = (at - low) / (high - low)
            found[place], found[place + 1] = 1.0 - share, share
            break
    return found


def situation(view: Mapping[str, Any], batters: Sequence[str], bowler: str | None = None) -> Vector:
    """Return the features of a situation; shape ``(SITUATION,)``.

    Args:
        view: The observation.
        batters: Batters whose traits are averaged: those at the crease, or one of them.
        bowler: The chosen bowler, if not the current one.
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
    """Return the mean form of these batters; 0 in a match without form."""
    forms = [float(card(view, name).get("bat_form", 0.0)) for name in batters]
    return _FORM * sum(forms) / max(1, len(forms))


def ground(view: Mapping[str, Any], batters: Sequence[str]) -> list[float]:
    """Return the distance of the rope beyond the usual in each of the eight sectors.

    As these batters see it on average, from this end.
    """
    if not view.get("ground"):
        return [0.0] * len(SECTORS)
    right = [(metres - BOUNDARY_M) / _FAR for metres in view["ground"]["now"].values()]
    if view["striker"] is not None and view["striker"]["bats"] == "left":
        right.reverse()
    lefts = sum(card(view, name)["bats"] == "left" for name in batters) / max(1, len(batters))
    return [(1.0 - lefts) * here + lefts * there for here, there in zip(right, reversed(right), strict=True)]


def kind(view: Mapping[str, Any], bowler: str | None) -> float:
    """Return 1 for a spin bowler, -1 for pace, 0 without a bowler."""
    if bowler is None:
        bowls = None if view["bowler"] is None else view["bowler"]["kind"]
    else:
        bowls = card(view, bowler).get("bowls", "off spin")
    return 0.0 if bowls is None else -1.0 if "pace" in bowls else 1.0


def thrower(view: Mapping[str, Any], bowler: str | None) -> tuple[float, float, float, float]:
    """Return the bowler's cost, threat, form and tiredness; zeros without a bowler."""
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
    """Return how tired bowlers are, by name; empty without fatigue."""
    found: Mapping[str, float] = view.get("tired") or {}
    return found


def card(view: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the card of a player of either side."""
    for squad in view["squads"].values():
        for man in squad["players"]:
            if man["name"] == name:
                found: Mapping[str, Any] = man
                return found
    raise KeyError(name)


def batters_at_crease(view: Mapping[str, Any]) -> list[str]:
    """Return the names of the batters at the crease, the striker first."""
    return [view[end]["name"] for end in ("striker", "non_striker") if view[end] is not None]


def people(view: Mapping[str, Any], names: Sequence[str]) -> tuple[float, ...]:
    """Return the batters' mean traits, skills and left-handedness; zeros without batters.

    Traits are those against spin, short balls and the leg side; skills are runs and safety.
    """
    men = [card(view, name) for name in names]
    share = 1.0 / max(1, len(men))
    return (
        *(_TRAIT * share * sum(man[trait] for man in men) for trait in ("bat_spin", "bat_short", "bat_leg")),
        *(_SKILL * share * sum(man[skill] - 1.0 for man in men) for skill in ("bat_runs", "bat_out")),
        share * sum(man["bats"] == "left" for man in men),
    )


def candidates(view: Mapping[str, Any], names: Sequence[str], *, bowling: bool) -> Vector:
    """Return the features of players to choose from, one row each, the usual choice first."""
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
