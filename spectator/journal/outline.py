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
        actor: For whom it was made.
        inherited: Whether it is the parent's: those that a fork begins with are.
        source: Who made it, as in the events.
        action: What was sent to the world.
        reasoning: The stated reason.
        legal: Names of the actions that were offered, where recorded.
        failure_class: Why somebody else had to decide; ``None`` where the captain did.
        requests: Fingerprint of each question to a model behind it, in order.
        earned: Sum of the agent's rewards from here to its next decision, whoever acted in between; 0 for
            those of others.
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
        """Whether a model's answer became the action."""
        return self.source == "model"

    def planned(self, later: OutlinedDecision) -> bool:
        """Whether ``later`` only carries on what this one's answer planned: nobody was asked for it."""
        return self.by_model and bool(self.requests) and later.by_model and not later.requests


@dataclass(slots=True)
class EpisodeOutline:
    """A recorded episode without its texts.

    Args:
        summary: Its line of the index.
        started: Data of ``episode.started``.
        ended: Data of ``episode.ended``; ``None`` while there is none.
        decisions: Every decision by the number of its event, in order.
        undecided: Likewise the decisions that failed and were not made, as far as a model was asked for them.
        credited: The agent's decision that the next rewards belong to.
        rubric: Named parts of the score, where the world gave them.
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
        """Why it did not finish; ``None`` where it did, or where it has not ended."""
        return None if self.ended is None else failure_of_end(self.ended)

    @property
    def columns(self) -> dict[str, Any]:
        """What says in every exported row which episode it belongs to."""
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
        """Whether it finished or was cut short, for an exported row; ``None`` until it ended."""
        finished = None if self.ended is None else self.ended["reason"] == "finished"
        return {"terminated": finished, "truncated": None if finished is None else not finished}

    @property
    def reward(self) -> float | None:
        """The agent's reward where there is a verdict, else ``None``, which is not 0.

        A finished episode has its score. One that was only cut short has what it had earned, where its world
        rewards every step. A failure of the endpoint, the world or the machine is no verdict.
        """
        return None if self.ended is None else reward_of_end(self.ended)

    def trainable(self, decision: OutlinedDecision) -> bool:
        """Whether a model's answer is to be trained on.

        It is where it decided for the agent, whose verdict it is, in this episode, and there is a verdict.
        """
        agents = decision.by_model and decision.actor == self.agent
        return agents and not decision.inherited and self.reward is not None

    def reward_of(self, decision: OutlinedDecision) -> float | None:
        """What ``decision`` earned, where it may be credited to a model's answer."""
        return decision.earned if self.trainable(decision) else None

    def asked(self, seq: int) -> OutlinedDecision | None:
        """The decision, made or failed, that event ``seq`` tells of; ``None`` where it tells of none."""
        return self.decisions.get(seq) or self.undecided.get(seq)

    @property
    def of_agent(self) -> list[OutlinedDecision]:
        """The agent's decisions, in order."""
        return [one for one in self.decisions.values() if one.actor == self.agent]

    @property
    def fallbacks(self) -> int:
        """Decisions of the agent that a stand-in made, those of a parent left out."""
        return sum(not one.inherited and one.source == "fallback" for one in self.of_agent)

    def take(self, event: Event) -> None:
        """Take in the next event."""
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
    """A decision that failed, as one by nobody, for the turn that it would have been."""
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
    """Read the outline of an episode, a batch of events at a time.

    Raises:
        JournalError: It cannot be read.
    """
    outline = EpisodeOutline(summary)
    async for recorded in journal.stream(summary.episode_id):
        outline.take(recorded.event)
    return outline
