"""Cricket's measures of a captain, read from the record of a match; see docs/evaluation.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spectator.environments.base import OUTCOME, Measure
from spectator.environments.cricket.laws.deliveries import SIDES, Side
from spectator.environments.cricket.laws.result import other
from spectator.environments.cricket.match.engine import NEUTRAL
from spectator.environments.cricket.match.segments import segment_at
from spectator.events import Event

DECLARED_WEIGHT: Final = 0.5
SPECIFIC_WEIGHT: Final = 0.3
PHASE_WEIGHT: Final = 0.2
"""Weights of coherence, those that CaptainRL publishes for its grader (50, 30 and 20 %)."""

WORDS_OF_A_REASON: Final = 12
"""Words from which a reason is long enough, as published there."""

TERMS_OF_A_REASON: Final = 3
"""Different terms of the game or figures from which a reason is specific enough; our choice."""

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
"""Words that say something about cricket, for how specific a reason is."""

_WORD: Final = re.compile(r"[A-Za-z]+(?:[-'’][A-Za-z]+)*|\d+(?:\.\d+)?")

MEASURES: Final = (
    Measure(
        "decision_value", "Decision value", "points", "high",
        "Sum over all balls of what this captain's decision did to the side's own chance of winning, against "
        "real sides' intent and the standard field in the same state, in hundredths; by the forecast, before "
        "the ball.",
        (None, None),
        "Who bowls and who bats in which order; what a decision sets up for later balls. Only matches with "
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
        "the plan that stood when the over began; 0 for a ball under no plan.",
        (0.0, 1.0),
        "A plan of middling levels is easily kept.",
    ),
    Measure(
        "specific_reasons", "Specific reasons", "share", "high",
        f"Mean over decisions of half min(1, words / {WORDS_OF_A_REASON}) and half min(1, different terms of "
        f"cricket and figures / {TERMS_OF_A_REASON}); 0 without a reason.",
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
        "Share of turns of the innings (a wicket, a boundary, a free hit, another phase) after which the "
        "intent or the plan of the very next ball changed, less the same share after all other balls.",
        (-1.0, 1.0),
        "Whether the change was right; a change that waits longer than a ball.",
    ),
)  # fmt: skip
"""What the meter measures, beside who won."""


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
    """What one captain has shown so far."""

    plan: Mapping[str, Any] | None = None
    bound: Mapping[str, Any] | None = None
    declared: _Mean = field(default_factory=_Mean)
    phase: _Mean = field(default_factory=_Mean)
    reasons: _Mean = field(default_factory=_Mean)
    after_turns: _Mean = field(default_factory=_Mean)
    after_others: _Mean = field(default_factory=_Mean)
    last_deed: tuple[object, ...] | None = None
    value: dict[str, float] = field(default_factory=dict)


class CricketMeter:
    """Measures both captains of one match; see :class:`spectator.environments.base.Meter`."""

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
        """Take note of the next event."""
        take = self._takes.get(event.type)
        if take is not None:
            take(event.data)

    def figures(self) -> Mapping[str, Mapping[str, float]]:
        """By side, then by measure."""
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
            side.last_deed = None

    def _over(self, data: Mapping[str, Any]) -> None:
        for side in self._sides.values():
            side.bound = side.plan

    def _ball(self, data: Mapping[str, Any]) -> None:
        phase = segment_at(6 * data["over"] + data["ball"] - 1, self._powerplay_balls, self._balls)
        turned = self._turned or (bool(self._phase) and phase != self._phase)
        batting, intents = data["side"], data["intents"]
        self._batting = batting
        deed: tuple[object, ...] = (intents["aggression"], intents["shot"])
        self._judge(self._sides[batting], f"batting_{phase}", intents["aggression"], deed, turned)
        deed = (intents["attack"], intents["length"], intents["line"], intents["pace"], intents["field"])
        self._judge(self._sides[other(batting)], f"bowling_{phase}", intents["attack"], deed, turned)
        self._phase = phase
        self._turned = bool(data["dismissal"] or data["boundary"] or data["free_hit_next"])

    def _judge(self, side: _Side, part: str, intent: float, deed: tuple[object, ...], turned: bool) -> None:
        declared = None if side.bound is None else side.bound.get(part)
        side.declared.add(0.0 if declared is None else 1.0 - abs(intent - declared))
        side.phase.add(0.0 if declared is None else 1.0 - 2.0 * abs(declared - NEUTRAL))
        if side.last_deed is not None:
            (side.after_turns if turned else side.after_others).add(float(deed != side.last_deed))
        side.last_deed = deed

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
    """How specific a stated reason is, 0 .. 1; see the measure ``specific_reasons``.

    >>> specificity("Yorkers at the stumps: he is set, and 14 off the over is too many.")
    1.0
    >>> round(specificity("Because."), 2)
    0.04
    """
    words = [word.lower() for word in _WORD.findall(reason)]
    terms = {word for word in words if word in TERMS or word[0].isdigit()}
    return 0.5 * min(1.0, len(words) / WORDS_OF_A_REASON) + 0.5 * min(1.0, len(terms) / TERMS_OF_A_REASON)
