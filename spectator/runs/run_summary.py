"""What a run's page shows: progress, rewards, failures, groups, slowest episodes.

One JSON object that changes only when the record does: the page itself counts idle times.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from spectator.errors import FailureClass, failure_of_end, reward_of_end
from spectator.journal.contract import EpisodeFilter, EpisodeSummary, Journal
from spectator.journal.outline import OwnCount
from spectator.runs.run_folder import RunFolder
from spectator.runs.run_plan import ended_a_second, normalised, shares_of, standard_error
from spectator.runs.run_records import FollowedEpisode, RunTail
from spectator.runs.run_series import figure, own_of, series_of, totals_of

BINS: Final = 20
"""Columns of a distribution."""

SLOWEST: Final = 12
"""Unfinished episodes that are listed, longest idle first."""

FAILED: Final = 24
"""Newest failed attempts that are listed."""

MAX_GROUPS: Final = 512
"""Groups that are listed: those that changed last."""

MAX_UNGROUPED: Final = 1024
"""Episodes without a group that are listed: the newest."""

ALONE: Final = ""
"""Key of the episodes without a group."""

RECENT: Final = 64
"""Newest ends from which the rate is computed."""


def summarize_run(
    folder: RunFolder,
    found: Sequence[FollowedEpisode],
    played_with: Mapping[str, Any] | None = None,
    uncounted: int = 0,
) -> dict[str, Any]:
    """Summarize a run for its page, as JSON.

    Args:
        found: Every recorded attempt; ended ones in the order in which they ended.
        played_with: Configuration found in the record, if the folder states none.
        uncounted: Ended episodes whose model calls are not in ``found`` yet.
    """
    played = [one for one in found if one.parent is None]
    ended = [one for one in played if one.reason is not None and not one.again]
    rewards = [one.reward for one in ended if one.reward is not None]
    unended = sorted((one for one in played if one.reason is None), key=lambda one: one.moved_at)
    failed = [one for one in played if one.failure is not None]
    calls, _ = totals_of([one for one in played if one.reason is not None])
    written = [one.calls.tokens_out for one in ended if one.calls and one.calls.tokens_out is not None]
    first = played[0] if played else None
    configuration = folder.configuration or played_with or {}
    return {
        "name": folder.name,
        "title": folder.title,
        "environment": folder.environment or ("" if first is None else first.environment),
        "model": folder.model or configuration.get("sampling", {}).get("model", ""),
        "began_at": folder.began_at or min((one.started_at for one in played), default=None),
        "episodes": folder.episodes,
        "group_size": folder.group_size,
        "begun": len(played),
        "over": len(ended),
        "playing": len(unended),
        "verdicts": len(rewards),
        "mean": figure(statistics.fmean(rewards)) if rewards else None,
        "error": _error(rewards),
        **own_of(ended),
        "ends": dict(Counter(one.reason for one in played if one.reason is not None)),
        "failures": dict(Counter(one.failure for one in failed)),
        "again": sum(one.again for one in failed),
        "a_second": _rate(ended[-RECENT:], len(unended)),
        "moved_at": max((one.moved_at for one in played), default=None),
        "usual_turn_s": _typical_turn_s(ended[-RECENT:]),
        "rewards": histogram(rewards),
        "lengths": histogram([one.turns for one in ended]),
        "tokens": histogram(written),
        "tokens_in": calls.tokens_in,
        "tokens_out": calls.tokens_out,
        "tokens_estimated": calls.estimated,
        "entropy": None if calls.entropy is None else figure(calls.entropy),
        "cost": None if calls.cost is None else figure(calls.cost),
        "uncounted": uncounted,
        "series": series_of(ended, folder.group_size),
        "configuration": configuration,
        "slowest": {one.episode_id: _waiting(one) for one in unended[:SLOWEST]},
        "failed": {one.episode_id: _failed(one) for one in failed[-FAILED:]},
        "groups": _groups(folder, played),
    }


def group_of(found: Sequence[FollowedEpisode], size: int = 1) -> dict[str, Any]:
    """Summarize the episodes of one task: the result of each, and its advantage within the group.

    Args:
        found: Every attempt at them; of a retried member only the newest is shown.
    """
    again = sum(one.again for one in found)
    members = [one for one in found if not one.again]
    counted = [one for one in members if one.reward is not None]
    rewards = [one.reward for one in counted if one.reward is not None]
    advantages = dict(zip((one.episode_id for one in counted), normalised(rewards), strict=True))
    ended = [one for one in members if one.reason is not None]
    shares, over = shares_of((one.own, one.unfinished) for one in ended), len(ended)
    return {
        "size": max(size, len(members)),
        "over": over,
        "usable": len(counted),
        "again": again,
        "state": _state(max(size, len(members)), over, len(counted)),
        "mean": figure(statistics.fmean(rewards)) if rewards else None,
        "spread": figure(statistics.stdev(rewards)) if len(rewards) > 1 else None,
        "error": _error(rewards),
        **own_of(ended),
        "refused_share": None if shares.refused is None else figure(shares.refused),
        "cut_share": None if shares.cut is None else figure(shares.cut),
        "members": {
            one.episode_id: _member(one, advantages.get(one.episode_id))
            for one in sorted(members, key=lambda one: one.episode_id)
        },
    }


def _error(rewards: Sequence[float]) -> float | None:
    error = standard_error(rewards)
    return None if error is None else figure(error)


def histogram(values: Sequence[float], bins: int = BINS) -> dict[str, Any] | None:
    """Count values in equal bins; ``None`` without values.

    Args:
        bins: Number of bins, unless all values are whole numbers with fewer steps.

    >>> histogram([0, 1, 1, 3])
    {'least': 0, 'most': 3, 'counts': [1, 2, 0, 1], 'whole': True}
    >>> histogram([]) is None
    True
    """
    if not values:
        return None
    least, most = min(values), max(values)
    if all(float(one).is_integer() for one in values) and most - least < bins:
        counts = [0] * int(most - least + 1)
        for one in values:
            counts[int(one - least)] += 1
        return {"least": least, "most": most, "counts": counts, "whole": True}
    counts = [0] * bins
    width = (most - least) / bins or 1.0
    for one in values:
        counts[min(bins - 1, int((one - least) / width))] += 1
    return {"least": figure(least), "most": figure(most), "counts": counts}


def _groups(folder: RunFolder, played: Sequence[FollowedEpisode]) -> dict[str, Any]:
    """Return the groups by name, and the other episodes under :data:`ALONE`."""
    by_name: dict[str, list[FollowedEpisode]] = {}
    for one in played:
        by_name.setdefault(one.group_id if folder.group_size != 1 and one.group_id else ALONE, []).append(one)
    alone = by_name.pop(ALONE, [])
    if folder.group_size == 0 and not folder.grouped:  # size unknown: one episode is not a group
        single = [name for name, members in by_name.items() if len(members) == 1]
        alone = sorted([*alone, *(by_name.pop(name)[0] for name in single)], key=lambda one: one.moved_at)
    moved = {name: max(one.moved_at for one in members) for name, members in by_name.items()}
    shown = sorted(by_name, key=lambda name: moved[name])[-MAX_GROUPS:]
    groups = {name: group_of(by_name[name], folder.group_size) for name in sorted(shown)}
    if alone:
        newest = [one for one in alone if not one.again][-MAX_UNGROUPED:]
        members = {one.episode_id: _member(one, None) for one in newest}
        groups[ALONE] = {"members": members}
    return groups


def _member(one: FollowedEpisode, advantage: float | None) -> dict[str, Any]:
    """Describe a member without ``None``, so that changes can be sent as merge patches."""
    member: dict[str, Any] = {"turns": one.turns, "standing": _standing(one)}
    if one.reward is not None:
        member["reward"] = figure(one.reward)
    if advantage is not None:
        member["advantage"] = figure(advantage)
    if one.own is not None and one.own.share is not None:
        member |= {"own_share": figure(one.own.share), "refusals": one.own.refused}
    if one.penalised:
        member["penalised"] = True
    if one.attempt > 1:
        member["attempt"] = one.attempt
    if one.calls is not None and one.calls.versions:
        member["weights"] = one.calls.versions[-1]
    return member


def _standing(one: FollowedEpisode) -> str:
    if one.reason is None:
        return "playing"
    if one.reward is None:
        return "over" if one.reason == "finished" else "failed"
    return "over" if one.reason == "finished" else "cut"


def _state(size: int, over: int, usable: int) -> str:
    """Return the state of a group, in the terms of the exports."""
    if over < size:
        return "open"
    if usable == size:
        return "complete"
    return "partial" if usable else "void"


_WAITS_FOR: Final[Mapping[str, str]] = {
    "episode.started": "its beginning",
    "decision.made": "its environment",
    "episode.suspended": "a model that answers",
    "episode.paused": "the viewer who paused it",
}
"""What an unfinished episode waits for, by its last event; after any other, the model's answer."""


def _waiting(one: FollowedEpisode) -> dict[str, Any]:
    return {
        "turns": one.turns,
        "moved_at": one.moved_at,
        "attempt": one.attempt,
        "group": one.group_id or "",
        "waits_for": _WAITS_FOR.get(one.last, "an answer of the model"),
    }


def _failed(one: FollowedEpisode) -> dict[str, Any]:
    return {
        "class": one.failure,
        "detail": (one.detail or one.reason or "")[:300],
        "attempt": one.attempt,
        "again": one.again,
        "group": one.group_id or "",
    }


def _rate(ended: Sequence[FollowedEpisode], under_way: int) -> float | None:
    spans = [(one.started_at, one.ended_at) for one in ended if one.ended_at is not None]
    rate = ended_a_second(spans, under_way)
    return None if rate is None else figure(rate)


def _typical_turn_s(ended: Sequence[FollowedEpisode]) -> float | None:
    """Return the median over episodes of seconds per turn; ``None`` without turns."""
    means = [
        (datetime.fromisoformat(one.ended_at) - datetime.fromisoformat(one.started_at)).total_seconds()
        / one.turns
        for one in ended
        if one.ended_at is not None and one.turns
    ]
    return figure(statistics.median(means)) if means else None


MAX_MEMBERS: Final = 256
"""Attempts at one prompt that are read at most."""

MAX_BRANCHES: Final = 64
"""Forks of one group that are shown: the newest of its members, then the newest of those."""


@dataclass(frozen=True, slots=True)
class RecordedGroup:
    """The episodes of one prompt.

    Args:
        run: The run that they belong to; ``None`` for an unnamed run in the server's journal.
        name: The group's name within the run.
        configuration: The run's, as far as known.
    """

    run: str | None
    name: str
    size: int
    attempts: Sequence[FollowedEpisode]
    configuration: Mapping[str, Any] = field(default_factory=dict)

    async def state_json(self, journal: Journal) -> dict[str, Any]:
        """Summarize the group for its page, as JSON.

        Raises:
            JournalError: It cannot be read.
        """
        first = self.attempts[0]
        group = group_of(self.attempts, self.size)
        heads = {one.episode_id: one.head_seq for one in self.attempts}
        ended = [one for one in self.attempts if one.reason is not None]
        calls, _ = totals_of(ended)
        branches = await self._branches(journal, list(group["members"]), heads)
        return {
            "run": self.run,
            "group": self.name,
            "environment": first.environment,
            "seed": first.seed,
            **group,
            "tokens_in": calls.tokens_in,
            "tokens_out": calls.tokens_out,
            "cost": None if calls.cost is None else figure(calls.cost),
            "uncounted": sum(one.calls is None for one in ended),
            "configuration": self.configuration,
            "branches": branches,
            "heads": heads,
        }

    async def _branches(
        self, journal: Journal, members: Sequence[str], heads: dict[str, int]
    ) -> dict[str, Any]:
        """Return the forks of the members, and forks of those; adds their last events to ``heads``."""
        branches: dict[str, Any] = {}
        parents = list(members)
        while parents and (room := MAX_BRANCHES - len(branches)) > 0:
            found = await journal.episodes(EpisodeFilter(parents=parents, limit=room))
            for one in reversed(found):
                branches[one.episode_id] = await _branch(journal, one)
                heads[one.episode_id] = one.head_seq
            parents = [one.episode_id for one in found]
        return branches


def group_in_run(tail: RunTail, name: str) -> RecordedGroup | None:
    """Find a group of a run by name; ``None`` if it does not exist."""
    found = [one for one in tail.episodes.values() if one.group_id == name and one.parent is None]
    if not found:
        return None
    configuration = tail.folder.configuration or tail.played_with
    return RecordedGroup(tail.folder.name, name, tail.folder.group_size, found[:MAX_MEMBERS], configuration)


async def group_in_journal(journal: Journal, name: str, run: str | None) -> RecordedGroup | None:
    """Find a group in the server's journal; ``None`` if it does not exist.

    Raises:
        JournalError: It cannot be read.
    """
    found = await journal.episodes(EpisodeFilter(group_id=name, run_id=run, limit=MAX_MEMBERS))
    members = [await _followed(journal, one) for one in reversed(found) if one.parent is None]
    return RecordedGroup(found[0].run_id, name, len(members), members) if members else None


async def _branch(journal: Journal, summary: EpisodeSummary) -> dict[str, Any]:
    (started,) = await journal.read(summary.episode_id, limit=1)
    parent = started.event.data.get("parent") or {}
    _, reward, _ = await _verdict(journal, summary)
    return {
        "parent": summary.parent,
        "seq": parent.get("seq"),
        "captain": summary.captain_label,
        "standing": "playing" if summary.reason is None else "over",
        "reward": reward,
        "turns": summary.turns,
    }


async def _followed(journal: Journal, summary: EpisodeSummary) -> FollowedEpisode:
    failure, reward, data = await _verdict(journal, summary)
    own = data.get("own_decisions")
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
        unfinished=failure_of_end(data) if data else failure,
        own=OwnCount(**own) if own else None,
        penalised=data.get("penalty") is not None,
    )


async def _verdict(
    journal: Journal, summary: EpisodeSummary
) -> tuple[FailureClass | None, float | None, Mapping[str, Any]]:
    """Return an episode's failure class, its reward, and the data of its end."""
    if summary.reason is None:
        return None, None, {}
    last = await journal.read(summary.episode_id, after_seq=summary.head_seq - 1, limit=1)
    if not last:
        return "unknown", None, {}
    data = last[0].event.data
    reward = reward_of_end(data)
    return (None if reward is not None else failure_of_end(data)), reward, data
