"""Preference pairs: two answers at the same step of the same task, of which one led to a higher reward.

Members of a group, and forks with their parents, are compared where they were asked the same question and
acted differently. The first decision of a fork answers the question that its parent was asked there, no
matter who made it. If another actor acts first, the situation may differ.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from spectator.events import encode_json
from spectator.exports.transcript import calls_by_decision
from spectator.journal.contract import EpisodeSummary, Journal
from spectator.journal.encoding import ChatMessage, chat_message, reply_message, tool_call
from spectator.journal.outline import OWN_COLUMNS, EpisodeOutline, OutlinedDecision, outline_of

COLUMNS: Final[Mapping[str, str]] = {
    "run_id": "string",
    "group_id": "string",
    "environment": "string",
    "seed": "int64",
    "turn": "int64",
    "kind": "string",
    "prompt": "string",
    "tools": "string",
    "chosen": "string",
    "rejected": "string",
    "margin": "double",
    "chosen_reward": "double",
    "rejected_reward": "double",
    "chosen_count": "int64",
    "rejected_count": "int64",
    "chosen_episode_id": "string",
    "rejected_episode_id": "string",
    "chosen_source": "string",
    "rejected_source": "string",
    **{f"{side}_{name}": kind for side in ("chosen", "rejected") for name, kind in OWN_COLUMNS.items()},
}
"""Name and Arrow type of every column; new ones come at the end."""

JSON_COLUMNS: Final = ("prompt", "tools", "chosen", "rejected")
"""Columns with JSON instead of text or numbers."""

Question = tuple[str, str]
"""Identity of a question: ``asked`` and a fingerprint, or ``fork`` and its parent and turn."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One answer to a question, and the episode's reward."""

    outline: EpisodeOutline
    decision: OutlinedDecision
    reward: float
    forked: bool


@dataclass(slots=True)
class AskedOnce:
    """A question and all the answers to it."""

    branches: list[Branch] = field(default_factory=list)

    def parted(self) -> tuple[list[Branch], list[Branch]] | None:
        """Return the branches with the best and the worst action by mean reward; ``None`` if all agree."""
        by_action: dict[str, list[Branch]] = {}
        for branch in self.branches:
            by_action.setdefault(encode_json(branch.decision.action), []).append(branch)
        if len(by_action) < 2:
            return None
        ranked = sorted(by_action.values(), key=_mean)
        return ranked[-1], ranked[0]


def _mean(branches: Sequence[Branch]) -> float:
    return statistics.fmean(branch.reward for branch in branches)


Verdicts = Mapping[tuple[str, int | None], float]
"""People's preferences by episode and turn; the turn is ``None`` for the whole episode."""


async def pairs_of(
    journal: Journal, compared: Sequence[EpisodeSummary], *, verdicts: Verdicts | None = None
) -> list[dict[str, Any]]:
    """Return the preference pairs among episodes of one task, as plain JSON, ordered by turn.

    At each question with different answers, the action with the highest mean reward is preferred to the one
    with the lowest. Decisions of a fallback and episodes without a verdict are excluded.

    Args:
        compared: Members of one group and their forks, or an episode and its forks.
        verdicts: Replaces all rewards: a decision has the verdict of its turn, else of its episode, else it
            is excluded.

    Raises:
        JournalError: An episode cannot be read.
    """
    outlines = {one.episode_id: await outline_of(journal, one) for one in compared}
    questions: dict[Question, AskedOnce] = {}
    for outline in outlines.values():
        for question, branch in answers_of(outline, outlines, verdicts):
            questions.setdefault(question, AskedOnce()).branches.append(branch)
    pairs = []
    for asked in questions.values():
        parted = asked.parted()
        if parted is not None and _mean(parted[0]) - _mean(parted[1]) > 0:
            pair = await _pair(journal, asked, *parted)
            if pair is not None:
                pairs.append(pair)
    return sorted(pairs, key=lambda pair: pair["turn"])


def answers_of(
    outline: EpisodeOutline, outlines: Mapping[str, EpisodeOutline], verdicts: Verdicts | None = None
) -> Iterator[tuple[Question, Branch]]:
    """Yield an episode's own decisions, each with its question."""
    parent, episode_id = outline.parent, outline.summary.episode_id
    own = [one for one in outline.of_agent if not one.inherited]
    for decision in own:
        forked = parent is not None and decision.turn == parent.turn + 1
        question = _forked_from(outline, decision, outlines) if forked else _asked(decision)
        reward = outline.reward
        if verdicts is not None:
            reward = verdicts.get((episode_id, decision.turn), verdicts.get((episode_id, None)))
        if (
            question is not None
            and (decision.source != "fallback" or decision.penalised)
            and reward is not None
        ):
            yield question, Branch(outline, decision, reward, forked)


def _asked(decision: OutlinedDecision) -> Question | None:
    """Return the question of the accepted answer."""
    return ("asked", decision.requests[-1]) if decision.credited and decision.requests else None


def _forked_from(
    outline: EpisodeOutline, decision: OutlinedDecision, outlines: Mapping[str, EpisodeOutline]
) -> Question | None:
    """Return the question of a fork's first decision: the one that its parent was asked there."""
    parent = outline.parent
    assert parent is not None
    there = outlines.get(parent.episode_id)
    for other in () if there is None else there.of_agent:
        if other.turn == decision.turn and (asked := _asked(other)) is not None:
            return asked
    return "fork", f"{parent.episode_id} {decision.turn}"


async def _pair(
    journal: Journal, asked: AskedOnce, best: Sequence[Branch], worst: Sequence[Branch]
) -> dict[str, Any] | None:
    """Make the row of a pair; ``None`` if no model was asked, so that there is no prompt."""
    chosen = max(best, key=lambda branch: (branch.decision.by_model, branch.reward))
    rejected = min(worst, key=lambda branch: (not branch.decision.by_model, branch.reward))
    question = None
    for branch in (rejected, chosen, *asked.branches):
        question = question or await _question(journal, branch)
    if question is None:
        return None
    prompt, tools, in_calls = question
    chosen_reward, rejected_reward = _mean(best), _mean(worst)
    outline = chosen.outline
    kind: Literal["fork", "group"] = "fork" if chosen.forked or rejected.forked else "group"
    return {
        "run_id": outline.summary.run_id,
        "group_id": outline.summary.group_id,
        "environment": outline.summary.environment,
        "seed": outline.summary.seed,
        "turn": chosen.decision.turn,
        "kind": kind,
        "prompt": prompt,
        "tools": tools,
        "chosen": [await _answer(journal, chosen, in_calls)],
        "rejected": [await _answer(journal, rejected, in_calls)],
        "margin": chosen_reward - rejected_reward,
        "chosen_reward": chosen_reward,
        "rejected_reward": rejected_reward,
        "chosen_count": len(best),
        "rejected_count": len(worst),
        "chosen_episode_id": outline.summary.episode_id,
        "rejected_episode_id": rejected.outline.summary.episode_id,
        "chosen_source": chosen.decision.source,
        "rejected_source": rejected.decision.source,
        **{f"chosen_{name}": value for name, value in outline.own_columns.items()},
        **{f"rejected_{name}": value for name, value in rejected.outline.own_columns.items()},
    }


async def _question(journal: Journal, branch: Branch) -> tuple[list[ChatMessage], list[Any], bool] | None:
    """Return the messages and tools of a question, and whether it was answered with tool calls."""
    async for decision, behind in calls_by_decision(journal, branch.outline):
        if decision.seq == branch.decision.seq and behind[-1].call.reply is not None:
            call, reply = behind[-1].call, behind[-1].call.reply
            prompt = [chat_message(message) for message in call.messages]
            return prompt, [dict(tool) for tool in call.tools], bool(reply["tool_calls"])
    return None


async def _answer(journal: Journal, branch: Branch, in_calls: bool) -> ChatMessage:
    """Return the model's reply, or the action of another policy in the form of a model's reply."""
    if branch.decision.credited:
        async for decision, behind in calls_by_decision(journal, branch.outline):
            if decision.seq == branch.decision.seq and behind[-1].call.reply is not None:
                return reply_message(behind[-1].call.reply)
    return action_message(branch.decision, in_calls=in_calls)


def action_message(decision: OutlinedDecision, *, in_calls: bool) -> ChatMessage:
    """Convert an action to the form of a model's reply.

    Args:
        in_calls: As a tool call; otherwise as JSON text.
    """
    tool, arguments = _tool_of(decision)
    if in_calls:
        calls = [tool_call("call_0", tool, dict(arguments))]
        return {"role": "assistant", "content": decision.reasoning, "tool_calls": calls}
    said = {"reason": decision.reasoning, "tool": tool, "arguments": dict(arguments)}
    return {"role": "assistant", "content": encode_json(said)}


def _tool_of(decision: OutlinedDecision) -> tuple[str, Mapping[str, Any]]:
    action = decision.action
    if isinstance(action.get("tool"), str) and isinstance(action.get("arguments", {}), Mapping):
        return action["tool"], action.get("arguments") or {}
    return (decision.legal or ["act"])[0], action


def comparison_sets(found: Iterable[EpisodeSummary]) -> list[list[EpisodeSummary]]:
    """Episodes that can be compared with each other: groups with their forks, and episodes with theirs."""
    episodes = {one.episode_id: one for one in found}
    sets: dict[tuple[str | None, str | None, str | None], list[EpisodeSummary]] = {}
    for summary in episodes.values():
        root = summary
        while root.parent is not None and root.parent in episodes:
            root = episodes[root.parent]
        alone = root.parent or root.episode_id  # forks of an episode that is not among them are siblings
        key = (root.run_id, root.group_id, None if root.group_id is not None else alone)
        sets.setdefault(key, []).append(summary)
    return [one for one in sets.values() if len(one) > 1]
