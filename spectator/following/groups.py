"""The episodes of one prompt beside each other, wherever they are recorded, and what was forked from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from spectator.failures import FailureClass, failure_of_end, reward_of_end
from spectator.following.run_picture import group_of
from spectator.following.run_tail import FollowedEpisode, RunTail
from spectator.journal.base import EpisodeFilter, EpisodeSummary, Journal

MOST_MEMBERS: Final = 256
"""Attempts at one prompt that are read."""

MOST_BRANCHES: Final = 64
"""Forks of one group that are shown, the newest of its members, then the newest of these."""


@dataclass(frozen=True, slots=True)
class RecordedGroup:
    """The episodes of one prompt.

    Args:
        run: The run that they belong to; ``None`` for one in the server's own journal without a name.
        name: The group's name within the run.
        size: Members that it is to have.
        attempts: Every attempt that is recorded.
    """

    run: str | None
    name: str
    size: int
    attempts: Sequence[FollowedEpisode]

    async def told(self, journal: Journal) -> dict[str, Any]:
        """The group as its page shows it.

        Args:
            journal: Where forks are recorded.

        Raises:
            JournalError: It cannot be read.
        """
        first = self.attempts[0]
        group = group_of(self.attempts, self.size)
        heads = {one.episode_id: one.head_seq for one in self.attempts}
        branches = await self._branches(journal, list(group["members"]), heads)
        return {
            "run": self.run,
            "group": self.name,
            "environment": first.environment,
            "seed": first.seed,
            **group,
            "branches": branches,
            "heads": heads,
        }

    async def _branches(
        self, journal: Journal, members: Sequence[str], heads: dict[str, int]
    ) -> dict[str, Any]:
        """The forks of the members, and the forks of these; notes how far each is recorded."""
        branches: dict[str, Any] = {}
        parents = list(members)
        while parents and (room := MOST_BRANCHES - len(branches)) > 0:
            found = await journal.episodes(EpisodeFilter(parents=parents, limit=room))
            for one in reversed(found):
                branches[one.episode_id] = await _branch(journal, one)
                heads[one.episode_id] = one.head_seq
            parents = [one.episode_id for one in found]
        return branches


def group_in_run(tail: RunTail, name: str) -> RecordedGroup | None:
    """A group of a run; ``None`` where it has none of this name."""
    found = [one for one in tail.episodes.values() if one.group_id == name and one.parent is None]
    if not found:
        return None
    return RecordedGroup(tail.folder.name, name, tail.folder.group_size, found[:MOST_MEMBERS])


async def group_in_journal(journal: Journal, name: str, run: str | None) -> RecordedGroup | None:
    """A group in a journal by itself; ``None`` where it has none.

    Raises:
        JournalError: It cannot be read.
    """
    found = await journal.episodes(EpisodeFilter(group_id=name, run_id=run, limit=MOST_MEMBERS))
    members = [await _followed(journal, one) for one in reversed(found) if one.parent is None]
    return RecordedGroup(found[0].run_id, name, len(members), members) if members else None


async def _branch(journal: Journal, summary: EpisodeSummary) -> dict[str, Any]:
    (started,) = await journal.read(summary.episode_id, limit=1)
    parent = started.event.data.get("parent") or {}
    _, reward = await _verdict(journal, summary)
    return {
        "parent": summary.parent,
        "seq": parent.get("seq"),
        "captain": summary.captain_label,
        "standing": "playing" if summary.reason is None else "over",
        "reward": reward,
        "turns": summary.turns,
    }


async def _followed(journal: Journal, summary: EpisodeSummary) -> FollowedEpisode:
    failure, reward = await _verdict(journal, summary)
    return FollowedEpisode(
        episode_id=summary.episode_id,
        environment=summary.environment,
        seed=summary.seed,
        group_id=summary.group_id,
        attempt=summary.attempt or 1,
        parent=summary.parent,
        started_at=summary.started_at,
        ended_at=summary.ended_at,
        reason=summary.reason,
        result=summary.result,
        detail=summary.detail,
        turns=summary.turns or 0,
        head_seq=summary.head_seq,
        moved_at=summary.ended_at or summary.started_at,
        reward=reward,
        failure=failure,
    )


async def _verdict(journal: Journal, summary: EpisodeSummary) -> tuple[FailureClass | None, float | None]:
    """Why an episode came to no verdict, and what it counts for."""
    if summary.reason in (None, "finished"):
        return None, summary.score
    last = await journal.read(summary.episode_id, after_seq=summary.head_seq - 1, limit=1)
    if not last:
        return "unknown", None
    data = last[0].event.data
    reward = reward_of_end(data)
    return (None if reward is not None else failure_of_end(data)), reward
