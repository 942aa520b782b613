"""Grades: the reward of a match in [0, 1], its parts, and a captain's measures.

The measures are read from the record of a match; see docs/evaluation.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Final, Literal

from spectator.environments.contract import OUTCOME, Measure
from spectator.environments.cricket.decision_account import DecisionAccount
from spectator.environments.cricket.forecast.outlook import Outlook
from spectator.environments.cricket.laws import SIDES, Innings, Side
from spectator.environments.cricket.match.captain_state import CaptainState
from spectator.environments.cricket.match.engine import NEUTRAL, Match, segment_at
from spectator.environments.cricket.scorer import other
from spectator.events import Event
from spectator.observations import Profile

Reward = Literal["score", "result", "decision_value"]
"""What an episode rewards: the score at its end, the result at its end, or each decision's value."""

RESULT_SHARE: Final = 0.76
"""Weight of a win in the score: more than the rest, so that no loss scores above a win."""

QUALITY_SHARE: Final = 0.24

CHARGED_SHARE: Final = 0.4
"""Weight of a charged call relative to a refused one, in the diagnostic ``clean_calls``."""

FREE_PLAN_CHANGES: Final = 4

_BALL: Final = ("cricket.ball_bowled",)
_OVER: Final = ("cricket.over_completed", "cricket.innings_ended")
"""Events that make decisions public: the next ball or, if orders cover many balls, the end of an over."""

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
"""Timing and bounds of the reward by options; other options use `PROFILE`."""


@lru_cache(maxsize=1024)
def expected_share(rating: float) -> float:
    """Return a 0-rated captain's expected share of wins against this rating.

    >>> round(expected_share(100.0), 2)
    0.36
    """
    return float(1.0 / (1.0 + 10.0 ** (rating / 400.0)))


def rubric(
    match: Match | None, captain: CaptainState, side: Side, rating: float = 0.0, reward: Reward = "score"
) -> dict[str, float]:
    """Return the reward of ``side`` so far, its ``score``, and what it is read from, each in [0, 1].

    The score consists of ``result`` and ``quality``. ``plan_kept`` and ``clean_calls`` are diagnostics and
    weigh nothing, so that a captain who adapts loses nothing by it.

    The environment computes it again only when the key in ``CricketEnvironment._graded`` changes; a new part
    that reads anything else must add that to the key.

    Until the match is decided, ``result`` is the chance to win between average sides and ``quality`` includes
    the runs that an innings in progress is likely to add; the other two parts cover the balls so far.
    ``clean_calls`` is 1 without refused and charged calls and falls with their number per over, without a
    lower limit.

    Args:
        match: The match; ``None`` before the toss.
        rating: The other captain's rating, in Elo points above real sides.
        reward: The reward of the episode, which determines ``score``.
    """
    expected = expected_share(rating)
    overs = 1.0 if match is None else max(1.0, sum(innings.balls for innings in match.innings) / 6.0)
    wrong = captain.refusals + CHARGED_SHARE * captain.charged
    parts = {
        "result": _result(match, side, expected),
        "quality": _quality(match, side, expected),
        "plan_kept": _plan_kept(captain, overs),
        "clean_calls": 1.0 / (1.0 + wrong / overs),
    }
    score = RESULT_SHARE * parts["result"] + QUALITY_SHARE * parts["quality"]
    worth = parts["result"] if reward == "result" else min(1.0, score)
    return {**{name: round(value, 6) for name, value in parts.items()}, "score": round(worth, 6)}


def account_rubric(account: DecisionAccount, side: Side) -> dict[str, float]:
    """Return the parts of a match's change in ``side``'s chance to win.

    ``start_chance``, ``decision_value``, ``rival_value`` and ``luck`` add up to ``win_chance``.

    Args:
        side: The side whose chance is split.
    """
    own, start, now = account.decided[side], account.start, account.now
    if side != "home":
        start, now = 1.0 - start, 1.0 - now
    rival = -account.decided[other(side)]
    parts = {
        "start_chance": start,
        "decision_value": own,
        "rival_value": rival,
        "luck": now - start - own - rival,
        "win_chance": now,
        "score": own,
    }
    return {name: round(value, 6) + 0.0 for name, value in parts.items()}


def rival_reward(options: Mapping[str, Any], parts: Mapping[str, float]) -> float:
    """Return the away captain's reward for a match whose parts are graded for the home captain.

    It is the value of its own decisions where these are rewarded, else what the home captain's reward leaves
    of 1.

    >>> rival_reward({"reward": "result"}, {"result": 1.0, "score": 1.0})
    0.0
    >>> rival_reward({"reward": "score"}, {"result": 0.0, "score": 0.06})
    0.94
    >>> rival_reward({"reward": "decision_value"}, {"rival_value": -0.125})
    0.125
    """
    if options.get("reward", "score") == "decision_value":
        return 0.0 - parts["rival_value"]
    return round(1.0 - parts["score"], 6)


def _result(match: Match | None, side: Side, expected: float) -> float:
    if match is None:
        return expected
    if match.result is not None:
        return 0.5 if match.result.winner is None else float(match.result.winner == side)
    chance = _chance(match)
    return chance if match.batting_side == side else 1.0 - chance


def _chance(match: Match) -> float:
    """Return the batting side's chance between average sides; 0.5 in a super over."""
    innings = match.current
    if match.number > 2:
        return 0.5
    return match.outlook().chance(innings.balls, innings.wickets, innings.runs, innings.target)


def _below(deviations: float) -> float:
    return 0.5 * (1.0 + math.erf(deviations / math.sqrt(2.0)))


def _quality(match: Match | None, side: Side, expected: float = 0.5) -> float:
    """Rate runs scored and conceded against par, on a normal curve.

    0.5 is what an even captain is expected to reach against this opponent: the same runs are worth more
    against a stronger one.
    """
    if match is None:
        return 0.5
    easier = -NormalDist().inv_cdf(min(max(expected, 1e-6), 1.0 - 1e-6)) / math.sqrt(2.0)
    scores = []
    for innings, batting in zip(match.innings[:2], match.batting[:2], strict=False):
        ahead = _deviations(innings, match.outlook(innings.format))
        scores.append(_below((ahead if batting == side else -ahead) + easier))
    return sum(scores) / len(scores)


def _deviations(innings: Innings, outlook: Outlook) -> float:
    """Return an innings' standard deviations above the par of average sides.

    A chase is measured by what it made with the resources that it used: an early success keeps the value of
    the resources left, and a failure gets none. An innings in progress is measured by the runs made and
    likely to be made.
    """
    ahead = innings.runs - outlook.par
    if innings.closed == "target" or innings.closed is None:
        ahead += outlook.runs_to_come(innings.balls, innings.wickets)
    return ahead / outlook.spread


def _plan_kept(captain: CaptainState, overs: float) -> float:
    """Rate how close intents were to the plan in force at each over's start.

    Frequent changes of plan lower the rating.
    """
    if not captain.balls:
        return 0.0
    changes = max(0, captain.plan_changes - FREE_PLAN_CHANGES) / overs
    return captain.closeness / captain.balls / (1.0 + changes)


DECLARED_WEIGHT: Final = 0.5
SPECIFIC_WEIGHT: Final = 0.3
PHASE_WEIGHT: Final = 0.2
"""Weights of coherence, as CaptainRL publishes them for its grader (50, 30 and 20 %)."""

WORDS_PER_REASON: Final = 12
"""Words from which a reason counts as long enough, also as CaptainRL publishes it."""

TERMS_PER_REASON: Final = 3
"""Distinct cricket terms or figures from which a reason counts as specific; our choice."""

TERMS: Final = frozenset(
    """
    aggression anchor attack ball balls bat batter batters batting blade bouncer boundaries boundary
    bowl bowled bowler bowlers bowling catch catcher catchers caught century chase chasing circle
    collapse cover covers crease cut death defence defend defensive deliveries delivery dot dots drive
    economy edge end extras field fielder fielders finisher flick four fours full googly gully hook
    innings keeper lbw leg length line loft lofted long maiden matchup middle midwicket mishit new
    no-ball off over overs pace par partnership pitch point powerplay pull quick rate required ring rope
    run runs scoreboard seam set short single singles six sixes slip slog slot slower spell spin spinner
    spinners square strike striker stump stumps sweep swing target third toss total turn wicket wickets
    wide wides yorker yorkers
    """.split()
)
"""Cricket words that count towards the specificity of a reason."""

_WORD: Final = re.compile(r"[A-Za-z]+(?:[-'’][A-Za-z]+)*|\d+(?:\.\d+)?")

MEASURES: Final = (
    Measure(
        "decision_value", "Decision value", "points", "high",
        "Sum over all balls of the decision's effect on the side's own chance of winning, against real "
        "sides' intent and the standard field in the same state, in hundredths; by the forecast before the "
        "ball.",
        (None, None),
        "Choice of bowlers and batting order; the effect of a decision on later balls. Only matches with "
        "forecasts.",
    ),
    Measure(
        "decision_value_batting", "Decision value, batting", "points", "high",
        "The same, balls on which the side bats.", (None, None), "See decision value.",
    ),
    Measure(
        "decision_value_bowling", "Decision value, bowling", "points", "high",
        "The same, balls on which the side fields: bowling strategy, planned delivery and field.",
        (None, None), "See decision value.",
    ),
    Measure(
        "coherence", "Coherence", "share", "high",
        "0.5 of declared against shown, 0.3 of how specific the reasons are, 0.2 of the fit to the phase.",
        (0.0, 1.0),
        "Whether the plan was any good, or the reason true.",
    ),
    Measure(
        "declared_shown", "Declared against shown", "share", "high",
        "Mean over balls of 1 - |intent of the ball - level declared for that phase in the plan in force|, "
        "the plan in force when the over began; 0 for a ball under no plan.",
        (0.0, 1.0),
        "A plan of middling levels is easily kept.",
    ),
    Measure(
        "specific_reasons", "Specific reasons", "share", "high",
        f"Mean over decisions of half min(1, words / {WORDS_PER_REASON}) and half min(1, different terms of "
        f"cricket and figures / {TERMS_PER_REASON}); 0 without a reason.",
        (0.0, 1.0),
        "Words are counted, not understood: a list of terms scores.",
    ),
    Measure(
        "phase_fit", "Fit to the phase", "share", "high",
        "Mean over balls of 1 - 2 |declared level - 0.5|, 0.5 being what real sides do in that situation; 0 "
        "under no plan.",
        (0.0, 1.0),
        "Rewards the usual; a captain may be right to depart from it.",
    ),
    Measure(
        "adaptation", "Adaptation", "share", None,
        "Share of turning points (a wicket, a boundary, a free hit, another phase) after which the intent or "
        "the plan of the very next ball changed, minus the same share after all other balls.",
        (-1.0, 1.0),
        "Whether the change was right; a change that waits longer than a ball.",
    ),
)  # fmt: skip
"""Measures of the meter in addition to the winner."""


@dataclass(slots=True)
class _Mean:
    total: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        self.total += value
        self.count += 1

    def value(self) -> float | None:
        return self.total / self.count if self.count else None


@dataclass(slots=True)
class _Side:
    """What one captain has done so far."""

    plan: Mapping[str, Any] | None = None
    bound: Mapping[str, Any] | None = None
    declared: _Mean = field(default_factory=_Mean)
    phase: _Mean = field(default_factory=_Mean)
    reasons: _Mean = field(default_factory=_Mean)
    after_turns: _Mean = field(default_factory=_Mean)
    after_others: _Mean = field(default_factory=_Mean)
    last_choice: tuple[object, ...] | None = None
    value: dict[str, float] = field(default_factory=dict)


class CricketMeter:
    """The meter of one match: it measures both captains.

    It implements :class:`spectator.environments.contract.Meter`.
    """

    def __init__(self) -> None:
        self._sides: dict[Side, _Side] = {side: _Side() for side in SIDES}
        self._balls = self._powerplay_balls = 0
        self._phase = ""
        self._turned = False
        self._batting: Side | None = None
        self._outcome: dict[str, float] = {}
        self._takes: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "decision.made": self._decided,
            "cricket.plan_changed": self._planned,
            "cricket.innings_started": self._innings,
            "cricket.over_started": self._over,
            "cricket.match_arranged": self._arranged,
            "cricket.ball_bowled": self._ball,
            "cricket.forecast": self._forecast,
            "cricket.match_ended": self._ended,
        }

    def take(self, event: Event) -> None:
        """Process the next event."""
        take = self._takes.get(event.type)
        if take is not None:
            take(event.data)

    def figures(self) -> Mapping[str, Mapping[str, float]]:
        """Return the figures by side, then by measure."""
        return {side: self._figures(side) for side in SIDES}

    def _decided(self, data: Mapping[str, Any]) -> None:
        if data["source"] != "fallback":
            self._sides[data["actor"]].reasons.add(specificity(data["reasoning"]))

    def _planned(self, data: Mapping[str, Any]) -> None:
        if data["part"] == "match_plan":
            self._sides[data["side"]].plan = data["plan"]

    def _arranged(self, data: Mapping[str, Any]) -> None:
        self._balls, self._powerplay_balls = data["balls"], data["powerplay_balls"]

    def _innings(self, data: Mapping[str, Any]) -> None:
        self._arranged(data)
        self._phase, self._turned = "", False
        for side in self._sides.values():
            side.last_choice = None

    def _over(self, data: Mapping[str, Any]) -> None:
        for side in self._sides.values():
            side.bound = side.plan

    def _ball(self, data: Mapping[str, Any]) -> None:
        phase = segment_at(6 * data["over"] + data["ball"] - 1, self._powerplay_balls, self._balls)
        turned = self._turned or (bool(self._phase) and phase != self._phase)
        batting, intents = data["side"], data["intents"]
        self._batting = batting
        choice: tuple[object, ...] = (intents["aggression"], intents["shot"])
        self._judge(self._sides[batting], f"batting_{phase}", intents["aggression"], choice, turned)
        choice = (intents["attack"], intents["length"], intents["line"], intents["pace"], intents["field"])
        self._judge(self._sides[other(batting)], f"bowling_{phase}", intents["attack"], choice, turned)
        self._phase = phase
        self._turned = bool(data["dismissal"] or data["boundary"] or data["free_hit_next"])

    def _judge(self, side: _Side, part: str, intent: float, choice: tuple[object, ...], turned: bool) -> None:
        declared = None if side.bound is None else side.bound.get(part)
        side.declared.add(0.0 if declared is None else 1.0 - abs(intent - declared))
        side.phase.add(0.0 if declared is None else 1.0 - 2.0 * abs(declared - NEUTRAL))
        if side.last_choice is not None:
            (side.after_turns if turned else side.after_others).add(float(choice != side.last_choice))
        side.last_choice = choice

    def _forecast(self, data: Mapping[str, Any]) -> None:
        if self._batting is None:
            return
        for side, role in ((self._batting, "batting"), (other(self._batting), "bowling")):
            value = self._sides[side].value
            value[role] = value.get(role, 0.0) + 100.0 * data[f"{role}_value"]

    def _ended(self, data: Mapping[str, Any]) -> None:
        winner = data["winner"]
        self._outcome = {side: 0.5 if winner is None else float(side == winner) for side in SIDES}

    def _figures(self, name: Side) -> dict[str, float]:
        side = self._sides[name]
        parts = {
            "declared_shown": side.declared.value(),
            "specific_reasons": side.reasons.value(),
            "phase_fit": side.phase.value(),
        }
        found = {part: value for part, value in parts.items() if value is not None}
        if len(found) == len(parts):
            found["coherence"] = (
                DECLARED_WEIGHT * found["declared_shown"]
                + SPECIFIC_WEIGHT * found["specific_reasons"]
                + PHASE_WEIGHT * found["phase_fit"]
            )
        turns, others = side.after_turns.value(), side.after_others.value()
        if turns is not None and others is not None:
            found["adaptation"] = turns - others
        if side.value:
            found["decision_value"] = sum(side.value.values())
            found |= {f"decision_value_{role}": value for role, value in side.value.items()}
        if self._outcome:
            found[OUTCOME] = self._outcome[name]
        return found


def specificity(reason: str) -> float:
    """Rate how specific a stated reason is, 0 to 1.

    See the measure ``specific_reasons``.

    >>> specificity("Yorkers at the stumps: he is set, and 14 off the over is too many.")
    1.0
    >>> round(specificity("Because."), 2)
    0.04
    """
    words = [word.lower() for word in _WORD.findall(reason)]
    terms = {word for word in words if word in TERMS or word[0].isdigit()}
    return 0.5 * min(1.0, len(words) / WORDS_PER_REASON) + 0.5 * min(1.0, len(terms) / TERMS_PER_REASON)
