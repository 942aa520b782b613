"""The reward: the score of a finished match in [0, 1] and its named parts."""

from __future__ import annotations

import math
from typing import Final

from spectator.environments.cricket.forecast.resources import runs_to_come
from spectator.environments.cricket.laws.deliveries import Side
from spectator.environments.cricket.laws.innings import Innings
from spectator.environments.cricket.match.captain_state import CaptainState
from spectator.environments.cricket.match.engine import Match

RESULT_SHARE: Final = 0.52
"""What a win is worth: more than all other parts together, so that no loss scores above a win."""

QUALITY_SHARE: Final = 0.16
COHERENCE_SHARE: Final = 0.20
VALIDITY_SHARE: Final = 0.12

RUNS_SD_PER_ROOT_BALL: Final = 2.95
"""Spread of a total by the root of its balls: 33 runs over 120 (innings_summary.json), 16 over 30."""

REFUSAL_COST: Final = 0.10
CHARGED_COST: Final = 0.04
FREE_PLAN_CHANGES: Final = 4
PLAN_CHANGE_COST: Final = 0.10


def rubric(match: Match, captain: CaptainState, side: Side) -> dict[str, float]:
    """The parts of ``side``'s score, each in [0, 1], and their weighted sum under ``score``.

    Args:
        match: A finished match.
        captain: The captain's record.
        side: Whose score.
    """
    parts = {
        "result": _result(match, side),
        "quality": _quality(match, side),
        "coherence": _coherence(captain),
        "tool_validity": _validity(captain),
    }
    score = (
        RESULT_SHARE * parts["result"]
        + QUALITY_SHARE * parts["quality"]
        + COHERENCE_SHARE * parts["coherence"]
        + VALIDITY_SHARE * parts["tool_validity"]
    )
    return {**{name: round(value, 6) for name, value in parts.items()}, "score": round(min(1.0, score), 6)}


def _result(match: Match, side: Side) -> float:
    if match.result is None or match.result.winner is None:
        return 0.5
    return 1.0 if match.result.winner == side else 0.0


def _quality(match: Match, side: Side) -> float:
    """Runs against the resource par, batting and bowling alike, each through a normal curve."""
    scores = []
    for innings, batting in zip(match.innings[:2], match.batting[:2], strict=False):
        standing = _standing(innings)
        scores.append(standing if batting == side else 1.0 - standing)
    return sum(scores) / len(scores)


def _standing(innings: Innings) -> float:
    """Where an innings stands among those of average sides: 0.5 is par.

    A chase is measured by what it made with the resources that it used, so that a target reached early is
    worth what it was worth, and one that was missed no more than it was.
    """
    par = runs_to_come(innings.format.balls, 0)
    if innings.closed == "target":
        par -= runs_to_come(innings.balls_left, innings.wickets)
    spread = RUNS_SD_PER_ROOT_BALL * math.sqrt(innings.format.balls)
    return 0.5 * (1.0 + math.erf((innings.runs - par) / spread / math.sqrt(2.0)))


def _coherence(captain: CaptainState) -> float:
    """How near deeds were to the plan in force when each over began and to real sides' deeds.

    Changing the plan all the time costs.
    """
    if not captain.balls:
        return 0.0
    changes = max(0, captain.plan_changes - FREE_PLAN_CHANGES)
    return max(0.0, captain.closeness / captain.balls - PLAN_CHANGE_COST * changes)


def _validity(captain: CaptainState) -> float:
    return max(0.0, 1.0 - REFUSAL_COST * captain.refusals - CHARGED_COST * captain.charged)
