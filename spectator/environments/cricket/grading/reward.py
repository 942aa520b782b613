"""The reward: the score of a match in [0, 1], its named parts so far, and what each step is rewarded with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Final, Literal

from spectator.environments.cricket.forecast.resources import chase_chance, runs_to_come
from spectator.environments.cricket.grading.decision_account import DecisionAccount
from spectator.environments.cricket.laws.deliveries import Side
from spectator.environments.cricket.laws.innings import Innings
from spectator.environments.cricket.laws.result import other
from spectator.environments.cricket.match.captain_state import CaptainState
from spectator.environments.cricket.match.engine import Match
from spectator.profile import Profile

Reward = Literal["score", "result", "decision_value"]
"""What an episode is rewarded with: the score at its end, the result at its end, or each decision's value."""

RESULT_SHARE: Final = 0.52
"""What a win is worth: more than all other parts together, so that no loss scores above a win."""

QUALITY_SHARE: Final = 0.16
COHERENCE_SHARE: Final = 0.20
VALIDITY_SHARE: Final = 0.12

RUNS_SD_PER_ROOT_BALL: Final = 2.95
"""Spread of a total by the root of its balls: 33 runs over 120 (innings_summary.json), 16 over 30."""

CHARGED_SHARE: Final = 0.4
"""What a charged call weighs against a refused one."""

FREE_PLAN_CHANGES: Final = 4

_BALL: Final = ("cricket.ball_bowled",)
_OVER: Final = ("cricket.over_completed", "cricket.innings_ended")
"""What makes decisions public: the next ball, or where orders stand for many, the end of an over."""

_OF_ONE_BALL: Final = Profile(
    rewards="step", reward_min=-1.0, reward_max=1.0, score_min=None, score_max=None, withheld_until=_BALL
)
_OF_MANY: Final = _OF_ONE_BALL.model_copy(
    update={"reward_min": None, "reward_max": None, "withheld_until": _OVER}
)

PROFILE: Final = Profile(withheld_until=_BALL)
"""The score at the end, for decisions of one ball."""

PROFILES: Final[tuple[tuple[Mapping[str, Any], Profile], ...]] = (
    ({"reward": "decision_value", "decisions": "ball"}, _OF_ONE_BALL),
    ({"reward": "decision_value"}, _OF_MANY),
    ({"decisions": "over"}, PROFILE.model_copy(update={"withheld_until": _OVER})),
    ({"decisions": "session"}, PROFILE.model_copy(update={"withheld_until": _OVER})),
)
"""When an episode is rewarded, and within which bounds, by its options; else the score at its end."""


@lru_cache(maxsize=1024)
def expected_share(rating: float) -> float:
    """Share of matches that a captain rated 0 is expected to win against one with this rating.

    >>> round(expected_share(100.0), 2)
    0.36
    """
    return float(1.0 / (1.0 + 10.0 ** (rating / 400.0)))


def rubric(
    match: Match | None, captain: CaptainState, side: Side, rating: float = 0.0, reward: Reward = "score"
) -> dict[str, float]:
    """The parts of ``side``'s score so far, each in [0, 1], and what they come to under ``score``.

    Until the match is decided ``result`` is the chance to win by the resource table, ``quality`` counts what
    an innings in progress is likely to make, and the other two are those of the balls so far. Of these
    ``tool_validity`` is 1 without refusals and charged calls; each more of them an over costs, however many
    there were.

    Args:
        match: The match; ``None`` before the toss.
        captain: The captain's record.
        side: Whose score.
        rating: The other captain's, in Elo points above real sides'.
        reward: What the episode is rewarded with, which decides what ``score`` is.
    """
    expected = expected_share(rating)
    overs = 1.0 if match is None else max(1.0, sum(innings.balls for innings in match.innings) / 6.0)
    wrong = captain.refusals + CHARGED_SHARE * captain.charged
    parts = {
        "result": _result(match, side, expected),
        "quality": _quality(match, side, expected),
        "coherence": _coherence(captain, overs),
        "tool_validity": 1.0 / (1.0 + wrong / overs),
    }
    score = (
        RESULT_SHARE * parts["result"]
        + QUALITY_SHARE * parts["quality"]
        + COHERENCE_SHARE * parts["coherence"]
        + VALIDITY_SHARE * parts["tool_validity"]
    )
    worth = parts["result"] if reward == "result" else min(1.0, score)
    return {**{name: round(value, 6) for name, value in parts.items()}, "score": round(worth, 6)}


def account_rubric(account: DecisionAccount, side: Side) -> dict[str, float]:
    """The parts of a match's change of the chance to win, for ``side``: they add up to ``win_chance``.

    Args:
        account: The account of the match.
        side: Whose chance.
    """
    mine, start, now = account.decided[side], account.start, account.now
    if side != "home":
        start, now = 1.0 - start, 1.0 - now
    rival = -account.decided[other(side)]
    parts = {
        "start_chance": start,
        "decision_value": mine,
        "rival_value": rival,
        "luck": now - start - mine - rival,
        "win_chance": now,
        "score": mine,
    }
    return {name: round(value, 6) + 0.0 for name, value in parts.items()}


def _result(match: Match | None, side: Side, expected: float) -> float:
    if match is None:
        return expected
    if match.result is not None:
        return 0.5 if match.result.winner is None else float(match.result.winner == side)
    chance = _chance(match)
    return chance if match.batting_side == side else 1.0 - chance


def _chance(match: Match) -> float:
    """Chance of the batting side by the resource table, about; 0.5 in a super over."""
    innings = match.current
    if match.number > 2:
        return 0.5
    left = innings.balls_left
    if innings.target is not None:
        return chase_chance(left, innings.wickets, innings.target - innings.runs)
    balls = innings.format.balls
    ahead = innings.runs + runs_to_come(left, innings.wickets) - runs_to_come(balls, 0)
    return _below(ahead / (RUNS_SD_PER_ROOT_BALL * math.sqrt(left + balls)))


def _below(deviations: float) -> float:
    return 0.5 * (1.0 + math.erf(deviations / math.sqrt(2.0)))


def _quality(match: Match | None, side: Side, expected: float = 0.5) -> float:
    """Runs against the resource par, batting and bowling alike, each through a normal curve.

    0.5 is what is expected of an even captain against this opponent: the same runs are worth more against a
    stronger one.
    """
    if match is None:
        return 0.5
    easier = -NormalDist().inv_cdf(min(max(expected, 1e-6), 1.0 - 1e-6)) / math.sqrt(2.0)
    scores = []
    for innings, batting in zip(match.innings[:2], match.batting[:2], strict=False):
        ahead = _deviations(innings)
        scores.append(_below((ahead if batting == side else -ahead) + easier))
    return sum(scores) / len(scores)


def _standing(innings: Innings) -> float:
    """Where an innings stands among those of average sides: 0.5 is par."""
    return _below(_deviations(innings))


def _deviations(innings: Innings) -> float:
    """Standard deviations above the par of average sides.

    A chase is measured by what it made with the resources that it used, so that a target reached early is
    worth what it was worth, and one that was missed no more than it was; an innings in progress by what it
    has made and is likely to make.
    """
    balls = innings.format.balls
    par, to_come = runs_to_come(balls, 0), runs_to_come(innings.balls_left, innings.wickets)
    ahead = innings.runs - par
    if innings.closed == "target" or innings.closed is None:
        ahead += to_come
    return ahead / (RUNS_SD_PER_ROOT_BALL * math.sqrt(balls))


def _coherence(captain: CaptainState, overs: float) -> float:
    """How near deeds were to the plan in force when each over began; changing it all the time costs."""
    if not captain.balls:
        return 0.0
    changes = max(0, captain.plan_changes - FREE_PLAN_CHANGES) / overs
    return captain.closeness / captain.balls / (1.0 + changes)
