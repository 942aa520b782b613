"""The figures that every world has, whatever is played; docs/evaluation.md explains each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from spectator.environments.contract import OUTCOME, Measure
from spectator.environments.world import World
from spectator.events import Event

MEASURES: Final = (
    Measure(
        OUTCOME, "Win share", "share", "high",
        "1 for a win, 0.5 for a tie, 0 for a loss, as the world decides it.", (0.0, 1.0),
        "By how much; and against whom, which is told beside it.",
    ),
    Measure(
        "score", "Score", "share", "high",
        "The sum of the episode's rewards. Only for whoever took the agent's own seat.", (0.0, 1.0),
        "Anything that the world's rubric does not score; scores of two worlds do not compare.",
    ),
    Measure(
        "tool_validity", "Tool validity", "share", "high",
        "Of the captain's own decisions, those that the world carried out.", (0.0, 1.0),
        "Whether what was legal was wise; how many were its own: see own_share.",
    ),
    Measure(
        "own_share", "Own decisions", "share", "high",
        "Decisions that whoever took the seat made itself, among all.", (0.0, 1.0),
        "Why the others were not: docs/failures.md lists the classes, and each decision carries its own.",
    ),
    Measure(
        "fallbacks", "Fallbacks", "share", "low",
        "Decisions that somebody else had to make, among all.", (0.0, 1.0),
        "Why: docs/captains.md lists the reasons, and each decision carries its own.",
    ),
    Measure(
        "clean_answers", "Clean answers", "share", "high",
        "Answers that needed neither repair nor fallback, among those that were parsed.", (0.0, 1.0),
        "Whether the captain answered at all; see fallbacks.",
    ),
    Measure(
        "latency_s", "Time to decide", "s", "low",
        "Mean time that a decision took, waiting for the endpoint included.", (0.0, None),
        "Thought, a slow network, a busy machine: they look alike. Does not compare between machines.",
    ),
    Measure(
        "tokens", "Tokens an episode", "tokens", None,
        "Prompt and answer tokens of all decisions, counted by the endpoint, else estimated.", (0.0, None),
        "Models count with different tokenizers; each decision says whether its tokens are estimated.",
    ),
    Measure(
        "cost", "Cost an episode", "money", "low",
        "Money for these tokens at the catalogue's prices.", (0.0, None),
        "Discounts, and prices that are not in the catalogue.",
    ),
)  # fmt: skip
"""What :class:`Gauge` measures in every world."""

RANKED_SHARE: Final = 0.98
"""Share of its decisions that a captain must have made itself to be ranked: a fallback earns no rank."""


def measures_of(
    world: World | None, options: Mapping[str, Any] = MappingProxyType({})
) -> tuple[Measure, ...]:
    """Every measure of a world, those of all worlds first; those alone when the world is not here.

    Args:
        world: The world.
        options: The episodes' options; by them a world may reward otherwise than usual, so that the score is
            no share.
    """
    if world is None:
        return MEASURES
    profile = world.profile_of(options)
    bounds = profile.score_min, profile.score_max
    if bounds == (0.0, 1.0):  # a share, as the table says
        return (*MEASURES, *world.measures)
    core = [replace(one, unit="", range=bounds) if one.name == "score" else one for one in MEASURES]
    return (*core, *world.measures)


@dataclass(slots=True)
class Gauge:
    """Counts one actor's decisions."""

    decisions: int = 0
    refused: int = 0
    own_last: bool = True
    reasons: Counter[str] = field(default_factory=Counter)
    parsed: int = 0
    clean: int = 0
    latency_s: float = 0.0
    tokens: int | None = None
    cost: float | None = None
    models: set[str] = field(default_factory=set)
    prompts: set[int] = field(default_factory=set)

    def take(self, event: Event) -> None:
        """Take note of one of this actor's ``decision.made`` or ``action.refused``."""
        data = event.data
        if event.type == "action.refused":
            self.refused += self.own_last
            return
        self.decisions += 1
        self.own_last = data["source"] != "fallback"
        if not self.own_last:
            self.reasons[data.get("failure_class") or "unknown"] += 1
        for exchange in data.get("exchanges") or ():
            if (model := (exchange.get("reply") or {}).get("model")) is not None:
                self.models.add(model)
                self.prompts.add(data.get("prompt") or 1)
        self.parsed += data["parse"] is not None
        self.clean += data["parse"] == "ok"
        self.latency_s += data["latency_s"]
        for tokens in (data["tokens_in"], data["tokens_out"]):
            if tokens is not None:
                self.tokens = (self.tokens or 0) + tokens
        if data.get("cost") is not None:
            self.cost = (self.cost or 0.0) + data["cost"]

    @property
    def own(self) -> int:
        """Decisions that whoever took the seat made itself."""
        return self.decisions - self.reasons.total()

    def figures(self) -> dict[str, float]:
        """By measure; what could not be measured is left out."""
        found: dict[str, float] = {}
        if self.own:
            found["tool_validity"] = 1.0 - self.refused / self.own
        if self.decisions:
            found["own_share"] = self.own / self.decisions
            found["fallbacks"] = self.reasons.total() / self.decisions
            found["latency_s"] = self.latency_s / self.decisions
        if self.parsed:
            found["clean_answers"] = self.clean / self.parsed
        if self.tokens is not None:
            found["tokens"] = float(self.tokens)
        if self.cost is not None:
            found["cost"] = self.cost
        return found
