"""The outline of a recorded episode: who decided what, what each decision earned, how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spectator.errors import FailureClass, failure_of_end, reward_of_end
from spectator.events import UNDECIDED_IN, Event, Parent
from spectator.journal.contract import EpisodeSummary, Journal

EPISODE_COLUMNS: Final[Mapping[str, str]] = {
    "episode_id": "string",
    "environment": "string",
    "run_id": "string",
    "group_id": "string",
    "attempt": "int64",
}
"""Name and Arrow type of :attr:`EpisodeOutline.columns`."""

END_COLUMNS: Final[Mapping[str, str]] = {"terminated": "bool", "truncated": "bool"}
"""The same of :attr:`EpisodeOutline.end_columns`."""


@dataclass(slots=True)
class OutlinedDecision:
    """A decision without its texts.

    Args:
        seq: Number of its event.
        turn: Its turn.
        actor: Who had to decide.
        inherited: Whether a fork copied it from its parent.
        source: Who made it, as in the events.
        action: The action sent to the world.
        reasoning: The stated reasoning.
        legal: Names of the legal actions, if recorded.
        failure_class: Why a fallback decided; ``None`` if the captain did.
        requests: Fingerprint of each request to a model behind it, in order.
        earned: Sum of the agent's rewards from here to its next decision, including those for actions of
            other actors; 0 for decisions of others.
        refused: The rule by which the world refused it.
    """

    seq: int
    turn: int
    actor: str
    inherited: bool
    source: str
    action: Mapping[str, Any]
    reasoning: str
    legal: list[str] | None
    failure_class: FailureClass | None
    requests: list[str]
    earned: float = 0.0
    refused: str | None = None

    @property
    def by_model(self) -> bool:
        """Whether a model's reply became the action."""
        return self.source == "model"

    def planned(self, later: OutlinedDecision) -> bool:
        """Return whether ``later`` only continues the plan of this decision's reply, without a request."""
        return self.by_model and bool(self.requests) and later.by_model and not later.requests


@dataclass(slots=True)
class EpisodeOutline:
    """A recorded episode without its texts.

    Args:
        summary: Its index entry.
        started: Data of ``episode.started``.
        ended: Data of ``episode.ended``; ``None`` before.
        decisions: Every decision by the number of its event, in order.
        undecided: Failed decisions for which a model was asked, by the number of their event.
        credited: The agent's decision that the next rewards are credited to.
        rubric: Named parts of the score, if the world gives them.
    """

    summary: EpisodeSummary
    started: Mapping[str, Any] = field(default_factory=dict)
    ended: Mapping[str, Any] | None = None
    decisions: dict[int, OutlinedDecision] = field(default_factory=dict)
    undecided: dict[int, OutlinedDecision] = field(default_factory=dict)
    credited: OutlinedDecision | None = None
    rubric: Mapping[str, float] = field(default_factory=dict)

    @property
    def agent(self) -> str:
        """The actor whose score is the episode's."""
        agent: str = self.started["agent"]
        return agent

    @property
    def parent(self) -> Parent | None:
        """What it was forked from."""
        parent = self.started.get("parent")
        return None if parent is None else Parent.model_validate(parent)

    @property
    def failure(self) -> FailureClass | None:
        """Why it did not finish; ``None`` if it did or has not ended."""
        return None if self.ended is None else failure_of_end(self.ended)

    @property
    def columns(self) -> dict[str, Any]:
        """The columns that identify the episode in every exported row."""
        summary = self.summary
        return {
            "episode_id": summary.episode_id,
            "environment": summary.environment,
            "run_id": summary.run_id,
            "group_id": summary.group_id,
            "attempt": summary.attempt,
        }

    @property
    def end_columns(self) -> dict[str, bool | None]:
        """Whether it was terminated and truncated, for an exported row; ``None`` until it has ended."""
        finished = None if self.ended is None else self.ended["reason"] == "finished"
        return {"terminated": finished, "truncated": None if finished is None else not finished}

    @property
    def reward(self) -> float | None:
        """The agent's reward if there is a verdict, else ``None``, which is not 0.

        A finished episode has its score. An episode cut off at its step cap has the sum of its rewards if the
        world rewards steps. A failure of the endpoint, the world or the machine is not a verdict.
        """
        return None if self.ended is None else reward_of_end(self.ended)

    def trainable(self, decision: OutlinedDecision) -> bool:
        """Return whether a model's reply can be trained on.

        That is so if it decided for the agent in this episode (not in a parent) and there is a verdict.
        """
        agents = decision.by_model and decision.actor == self.agent
        return agents and not decision.inherited and self.reward is not None

    def reward_of(self, decision: OutlinedDecision) -> float | None:
        """Return what a trainable decision earned; ``None`` for others."""
        return decision.earned if self.trainable(decision) else None

    def asked(self, seq: int) -> OutlinedDecision | None:
        """Return the decision, made or failed, of event ``seq``; ``None`` if there is none."""
        return self.decisions.get(seq) or self.undecided.get(seq)

    @property
    def of_agent(self) -> list[OutlinedDecision]:
        """The agent's decisions, in order."""
        return [one for one in self.decisions.values() if one.actor == self.agent]

    @property
    def fallbacks(self) -> int:
        """Number of the agent's decisions made by a fallback, excluding a parent's."""
        return sum(not one.inherited and one.source == "fallback" for one in self.of_agent)

    def take(self, event: Event) -> None:
        """Take the next event."""
        data = event.data
        if event.type in UNDECIDED_IN and "undecided" in data:
            self.undecided[event.seq] = _undecided(event)
        if event.type == "episode.started":
            self.started = data
        elif event.type == "episode.ended":
            self.ended = data
        elif event.type == "decision.made":
            self._decided(event)
        elif event.type == "action.refused" and self.decisions:
            next(reversed(self.decisions.values())).refused = data["rule"]
        elif event.type == "step.taken":
            self.rubric = data.get("rubric") or self.rubric
            if self.credited is not None:
                self.credited.earned += data["reward"]

    def _decided(self, event: Event) -> None:
        data, parent = event.data, self.parent
        made = self.decisions[event.seq] = OutlinedDecision(
            seq=event.seq,
            turn=event.turn,
            actor=data["actor"],
            inherited=parent is not None and event.turn <= parent.turn,
            source=data["source"],
            action=data["action"],
            reasoning=data.get("reasoning") or "",
            legal=data.get("legal"),
            failure_class=data.get("failure_class"),
            requests=[exchange["request"] for exchange in data.get("exchanges") or ()],
        )
        if made.actor == self.agent and not (self.credited and self.credited.planned(made)):
            self.credited = made


def _undecided(event: Event) -> OutlinedDecision:
    """Make the outline of a failed decision, for the turn that it would have been."""
    asked = event.data["undecided"]
    return OutlinedDecision(
        seq=event.seq,
        turn=event.turn + 1,
        actor=asked["actor"],
        inherited=False,
        source="fallback",
        action={},
        reasoning="",
        legal=None,
        failure_class=event.data["failure_class"],
        requests=[exchange["request"] for exchange in asked["exchanges"]],
    )


async def outline_of(journal: Journal, summary: EpisodeSummary) -> EpisodeOutline:
    """Read the outline of an episode, in batches of events.

    Raises:
        JournalError: It cannot be read.
    """
    outline = EpisodeOutline(summary)
    async for recorded in journal.stream(summary.episode_id):
        outline.take(recorded.event)
    return outline
