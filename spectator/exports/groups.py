"""Groups of episodes of one task, as group-relative methods (GRPO) train on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

from spectator.errors import RETRIED_FAILURES, FailureClass
from spectator.exports.transcript import Transcript, transcript_of
from spectator.journal.contract import EpisodeSummary, Journal
from spectator.journal.encoding import tools_by_name
from spectator.journal.outline import EpisodeOutline, outline_of
from spectator.runs.run_folder import MANIFEST, read_folder
from spectator.runs.run_plan import normalised

COLUMNS: Final[Mapping[str, str]] = {
    "run_id": "string",
    "group_id": "string",
    "environment": "string",
    "seed": "int64",
    "options": "string",
    "size": "int64",
    "usable": "int64",
    "state": "string",
    "prompt": "string",
    "same_prompt": "bool",
    "tools": "string",
    "completions": "string",
    "rewards": "list<double>",
    "advantages": "list<double>",
    "episode_ids": "list<string>",
    "attempts": "list<int64>",
    "truncated": "list<bool>",
    "fallbacks": "list<int64>",
    "failures": "string",
    "own_share": "list<double>",
    "refusals": "list<int64>",
    "penalised": "list<bool>",
    "seat": "string",
}
"""Name and Arrow type of every column; new ones come at the end."""

JSON_COLUMNS: Final = ("options", "prompt", "tools", "completions", "failures")
"""Columns with JSON instead of text or numbers."""

GroupState = Literal["complete", "partial", "open", "void"]
"""``complete``: every member is usable. ``open``: some are still to come. ``partial``: some will never be.
``void``: none is, and none is to come."""


@dataclass(frozen=True, slots=True)
class GroupRule:
    """Counts and rewards of a run's groups.

    Args:
        size: Members that a group has; ``None`` counts those that were begun.
        attempts: Most attempts at a member.
        retried: Failures after which another attempt follows.
        min_own_share: Episodes of which a fallback decided more than the rest of this are not usable.
    """

    size: int | None = None
    attempts: int = 1
    retried: frozenset[FailureClass] = frozenset()
    min_own_share: float = 0.0

    @classmethod
    def of_folder(cls, folder: Path) -> Self | None:
        """Return the rule of the run of rollouts in a folder; ``None`` if it holds none.

        Raises:
            RunNotFound: Its description cannot be read, or is of another version.
        """
        if not (folder / MANIFEST).is_file():
            return None
        run = read_folder(folder)
        return cls(run.group_size, run.attempts, RETRIED_FAILURES)

    def pending(self, outlines: Sequence[EpisodeOutline]) -> int:
        """Members of which a verdict may still come: they are played, or another attempt is due."""
        begun = Counter(_attempt(outline) for outline in outlines)
        failed = Counter(
            _attempt(outline)
            for outline in outlines
            if outline.failure in self.retried and _attempt(outline) < self.attempts
        )
        due = sum(max(0, failed[attempt] - begun[attempt + 1]) for attempt in failed)
        return due + sum(outline.ended is None for outline in outlines)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """An episode with a verdict, and the conversation that led to it."""

    outline: EpisodeOutline
    transcript: Transcript

    @property
    def reward(self) -> float:
        """The episode's reward."""
        reward = self.outline.reward
        assert reward is not None
        return reward


async def rows_of_group(
    journal: Journal, attempts: Sequence[EpisodeSummary], rule: GroupRule, *, advantages: bool = False
) -> list[dict[str, Any]]:
    """The groups of one task as plain JSON: that of the agent, then those of other trained seats.

    Only members with a verdict and at least one decision of the model itself are in ``completions`` and
    ``rewards``; the others are counted, by failure, and have no reward of 0.

    Args:
        attempts: All attempts at all members; forks are not members.
        rule: What is known of the group.
        advantages: Whether to state ``(reward - mean) / (sample standard deviation + 1e-4)`` of each.

    Raises:
        JournalError: An episode cannot be read.
        ValueError: There is no attempt.
    """
    outlines = [await outline_of(journal, one) for one in attempts if one.parent is None]
    if not outlines:
        raise ValueError("a group has at least one episode")
    seats: dict[str | None, list[EpisodeOutline]] = {None: outlines}
    for one in outlines:
        for other in one.of_seats()[1:]:
            seats.setdefault(other.seat, []).append(other)
    return [await _row_of_seat(journal, of_seat, rule, advantages) for of_seat in seats.values()]


async def _row_of_seat(
    journal: Journal, outlines: Sequence[EpisodeOutline], rule: GroupRule, advantages: bool
) -> dict[str, Any]:
    members = [
        GroupMember(outline, await transcript_of(journal, outline))
        for outline in outlines
        if outline.reward is not None
        and outline.mostly_own(rule.min_own_share)
        and any(one.credited for one in outline.of_agent)
    ]
    answered = [one for one in members if one.transcript.answers]
    return _row(outlines, answered, rule, advantages)


def _row(
    outlines: Sequence[EpisodeOutline], members: Sequence[GroupMember], rule: GroupRule, advantages: bool
) -> dict[str, Any]:
    first, usable = outlines[0], len(members)
    begun = sum(_attempt(outline) == 1 for outline in outlines)
    size = rule.size or max(begun, usable)
    rewards = [member.reward for member in members]
    prompts = [member.transcript.prompt for member in members]
    return {
        "run_id": first.summary.run_id,
        "group_id": first.group_id,
        "environment": first.summary.environment,
        "seed": first.summary.seed,
        "options": dict(first.started.get("options") or {}),
        "size": size,
        "usable": usable,
        "state": _state(size, usable, size - begun + rule.pending(outlines)),
        "prompt": prompts[0] if prompts else [],
        "same_prompt": all(prompt == prompts[0] for prompt in prompts),
        "tools": tools_by_name(member.transcript.tools for member in members),
        "completions": [member.transcript.completion for member in members],
        "rewards": rewards,
        "advantages": normalised(rewards) if advantages else None,
        "episode_ids": [member.outline.summary.episode_id for member in members],
        "attempts": [_attempt(member.outline) for member in members],
        "truncated": [member.outline.failure == "truncated" for member in members],
        "fallbacks": [member.outline.fallbacks for member in members],
        "failures": _failures(outlines, members),
        "own_share": [member.outline.own.share for member in members],
        "refusals": [member.outline.own.refused for member in members],
        "penalised": [member.outline.penalised for member in members],
        "seat": first.agent,
    }


def _attempt(outline: EpisodeOutline) -> int:
    return outline.summary.attempt or 1


def _state(size: int, usable: int, to_come: int) -> GroupState:
    if usable == size:
        return "complete"
    if to_come > 0:
        return "open"
    return "partial" if usable else "void"


def _failures(outlines: Iterable[EpisodeOutline], members: Sequence[GroupMember]) -> dict[str, int]:
    """Count the attempts without a usable end, by failure class."""
    usable = {member.outline.summary.episode_id for member in members}
    classes = [
        outline.failure or ("unended" if outline.ended is None else "too_few_own_decisions")
        for outline in outlines
        if outline.summary.episode_id not in usable
    ]
    return dict(sorted(Counter(classes).items()))


def by_group(found: Iterable[EpisodeSummary]) -> dict[tuple[str | None, str], list[EpisodeSummary]]:
    """Group episodes by run and group, sorted by these names; omits episodes without a group."""
    groups: dict[tuple[str | None, str], list[EpisodeSummary]] = {}
    for summary in found:
        if summary.group_id is not None:
            groups.setdefault((summary.run_id, summary.group_id), []).append(summary)
    return dict(sorted(groups.items(), key=lambda one: (one[0][0] or "", one[0][1])))
