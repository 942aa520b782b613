"""The outline of a recorded episode: who decided what, what each decision earned, how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from spectator.core_events import UNDECIDED_IN, Parent
from spectator.errors import INVALID_ANSWERS, FailureClass, failure_of_end, reward_of_end
from spectator.events import Event
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

OWN_COLUMNS: Final[Mapping[str, str]] = {"own_share": "double", "refusals": "int64", "penalised": "bool"}
"""The same of :attr:`EpisodeOutline.own_columns`."""


@dataclass(slots=True)
class OwnCount:
    """Counts how far the agent's captain decides itself.

    Args:
        asked: Decisions that it was asked for.
        own: How many of them it made itself.
        refused: Its answers that were refused: not in the form asked for, or not legal.

    >>> count = OwnCount()
    >>> count.take("model", [{"request": "..."}, {"request": "..."}])
    >>> count.take("fallback", [{"request": "..."}])
    >>> count.share, count.refused
    (0.5, 2)
    """

    asked: int = 0
    own: int = 0
    refused: int = 0

    @property
    def share(self) -> float | None:
        """The share of the decisions that are its own, 0 to 1; ``None`` where it was asked for none."""
        return self.own / self.asked if self.asked else None

    def take(self, source: str, exchanges: Iterable[Mapping[str, Any]] | None) -> None:
        """Count a decision, made or failed.

        Args:
            exchanges: The questions to a model behind it.
        """
        own = source != "fallback"
        answers = sum(not one.get("failure") for one in exchanges or ())
        self.asked += 1
        self.own += own
        self.refused += max(0, answers - own)

    @classmethod
    def of(cls, events: Iterable[Event]) -> OwnCount:
        """Count what is recorded of an episode, from its beginning."""
        count, agent = cls(), None
        for event in events:
            data = event.data
            if event.type == "episode.started":
                agent = data["agent"]
            elif event.type == "decision.made" and data["actor"] == agent:
                count.take(data["source"], data.get("exchanges"))
            elif event.type == "action.refused" and data["actor"] == agent:
                count.refused += 1
            elif event.type == "episode.ended" and (failed := data.get("undecided")):
                if failed["actor"] == agent and data.get("failure_class") in INVALID_ANSWERS:
                    count.take("fallback", failed["exchanges"])
        return count


@dataclass(slots=True)
class OutlinedDecision:
    """A decision without its texts.

    Args:
        inherited: Whether a fork copied it from its parent.
        source: Who made it, as in the events.
        action: The action sent to the world.
        legal: Names of the legal actions, if recorded.
        failure_class: Why a fallback decided; ``None`` if the captain did.
        requests: Fingerprint of each request to a model behind it, in order.
        answers: How many of them were answered.
        earned: Sum of the agent's rewards from here to its next decision, including those for actions of
            other actors; 0 for decisions of others.
        refused: The rule by which the world refused it.
        penalised: Whether it is an answer that was not an action, for which the episode has its reward.
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
    answers: int = 0
    penalised: bool = False

    @property
    def by_model(self) -> bool:
        """Whether a model's reply became the action."""
        return self.source == "model"

    @property
    def credited(self) -> bool:
        """Whether what it earned is that of a model's answer, carried out or penalised."""
        return self.by_model or self.penalised

    def planned(self, later: OutlinedDecision) -> bool:
        """Return whether ``later`` only continues the plan of this decision's reply, without a request."""
        return self.by_model and bool(self.requests) and later.by_model and not later.requests


@dataclass(slots=True)
class EpisodeOutline:
    """A recorded episode without its texts.

    Args:
        started: Data of ``episode.started``.
        ended: Data of ``episode.ended``; ``None`` before.
        decisions: Every decision by the number of its event, in order.
        undecided: Failed decisions for which a model was asked, by the number of their event.
        credited: The agent's decision that the next rewards are credited to.
        rubric: Named parts of the score, if the world gives them.
        seat: The actor to whom it belongs, if that is not the agent; see :meth:`of_seats`.
    """

    summary: EpisodeSummary
    started: Mapping[str, Any] = field(default_factory=dict)
    ended: Mapping[str, Any] | None = None
    decisions: dict[int, OutlinedDecision] = field(default_factory=dict)
    undecided: dict[int, OutlinedDecision] = field(default_factory=dict)
    credited: OutlinedDecision | None = None
    rubric: Mapping[str, float] = field(default_factory=dict)
    seat: str | None = None

    @property
    def agent(self) -> str:
        """The actor whose score is the episode's."""
        agent: str = self.seat or self.started["agent"]
        return agent

    def of_seats(self) -> list[EpisodeOutline]:
        """Return it as the episode of each seat that the model of its run played and that has a reward.

        The agent's comes first. The reward of another seat is credited to its last decision.
        """
        seats = [self]
        for actor, earned in ((self.ended or {}).get("seat_rewards") or {}).items():
            last = max((seq for seq, one in self.decisions.items() if one.actor == actor), default=None)
            decisions = dict(self.decisions)
            if last is not None:
                decisions[last] = replace(decisions[last], earned=earned)
            seats.append(replace(self, seat=actor, decisions=decisions, undecided={}))
        return seats

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
            "group_id": self.group_id,
            "attempt": summary.attempt,
        }

    @property
    def group_id(self) -> str | None:
        """Name of its group; each seat of a task has one of its own, since it has its own rewards."""
        group_id = self.summary.group_id
        return group_id if self.seat is None or group_id is None else f"{group_id}:{self.seat}"

    @property
    def end_columns(self) -> dict[str, bool | None]:
        """Whether it was terminated and truncated, for an exported row; ``None`` until it has ended."""
        finished = None if self.ended is None else self.ended["reason"] == "finished"
        return {"terminated": finished, "truncated": None if finished is None else not finished}

    @property
    def own_columns(self) -> dict[str, Any]:
        """How far the model decided the episode itself, for an exported row."""
        own = self.own
        return {"own_share": own.share, "refusals": own.refused, "penalised": self.penalised}

    @property
    def reward(self) -> float | None:
        """The agent's reward if there is a verdict, else ``None``, which is not 0.

        A finished episode has its score. An episode cut off at its step cap has the sum of its rewards if the
        world rewards steps. A failure of the endpoint, the world or the machine is not a verdict.
        """
        if self.ended is None or self.seat is None:
            return None if self.ended is None else reward_of_end(self.ended)
        return self.ended["seat_rewards"][self.seat] if self.own.own else None

    def trainable(self, decision: OutlinedDecision) -> bool:
        """Return whether a model's reply can be trained on.

        That is so if it decided for the agent, or was penalised, in this episode (not in a parent) and there
        is a verdict.
        """
        agents = decision.credited and decision.actor == self.agent
        return agents and not decision.inherited and self.reward is not None

    def reward_of(self, decision: OutlinedDecision) -> float | None:
        """Return what a trainable decision earned; ``None`` for others."""
        return decision.earned if self.trainable(decision) else None

    def answer_columns(self, seq: int) -> dict[str, Any]:
        """The turn of the decision of event ``seq``, made or penalised, and what its answer earned."""
        decision = self.asked(seq)
        assert decision is not None, "a transcript holds only answers that were outlined"
        return {"turn": decision.turn, "reward": self.reward_of(decision)}

    def asked(self, seq: int) -> OutlinedDecision | None:
        """Return the decision, made or failed, of event ``seq``; ``None`` if there is none."""
        return self.decisions.get(seq) or self.undecided.get(seq)

    @property
    def of_agent(self) -> list[OutlinedDecision]:
        """The agent's decisions, in order, and last an answer that was penalised in place of one."""
        made = [one for one in self.decisions.values() if one.actor == self.agent]
        return made + [one for one in self.undecided.values() if one.penalised]

    @property
    def penalised(self) -> bool:
        """Whether its reward is that of an answer that was not an action."""
        return self.seat is None and self.ended is not None and self.ended.get("penalty") is not None

    @property
    def own(self) -> OwnCount:
        """How far the agent's captain decided itself; what it inherited from a parent is left out."""
        stated = None if self.ended is None or self.seat is not None else self.ended.get("own_decisions")
        if stated:
            return OwnCount(**stated)
        made = [one for one in self.of_agent if not one.inherited]
        own = sum(one.source != "fallback" for one in made)
        refused = sum(one.refused is not None for one in made)
        refused += sum(max(0, one.answers - (one.source != "fallback")) for one in made)
        return OwnCount(len(made), own, refused)

    @property
    def fallbacks(self) -> int:
        """Number of the agent's decisions made by a fallback, excluding a parent's."""
        return sum(
            one.source == "fallback" and one.actor == self.agent and not one.inherited
            for one in self.decisions.values()
        )

    def mostly_own(self, least: float) -> bool:
        """Return whether a fallback made at most a share of ``1 - least`` of the decisions.

        A failed answer that was penalised or masked is not a fallback's.
        """
        made = sum(one.actor == self.agent and not one.inherited for one in self.decisions.values())
        return self.fallbacks <= (1 - least) * made

    def take(self, event: Event) -> None:
        """Take the next event."""
        data = event.data
        if event.type in UNDECIDED_IN and "undecided" in data:
            self.undecided[event.seq] = _undecided(event)
            self.undecided[event.seq].penalised = data.get("penalty") is not None
        if event.type == "episode.started":
            self.started = data
        elif event.type == "episode.ended":
            self.ended = data
            if (penalty := data.get("penalty")) is not None:  # the rewards add up to it
                answer = self.undecided.get(event.seq) or self.credited
                if answer is not None:
                    answer.earned += penalty - (data.get("total_reward") or 0.0)
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
            answers=sum(not exchange.get("failure") for exchange in data.get("exchanges") or ()),
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
        answers=sum(not exchange.get("failure") for exchange in asked["exchanges"]),
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
