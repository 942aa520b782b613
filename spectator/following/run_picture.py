"""What a run's page shows: progress, rewards, failures, groups and the slowest, as one JSON object.

It changes only when the record does: whoever draws it counts the seconds that something has been idle.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from spectator.following.run_folder import RunFolder
from spectator.following.run_tail import FollowedEpisode
from spectator.runs.advantages import normalised
from spectator.runs.rates import ended_a_second

BINS: Final = 20
"""Columns of a distribution."""

CURVE: Final = 60
"""Points of the curve of rewards."""

SLOWEST: Final = 12
"""Episodes without an end that are shown singly, longest idle first."""

FAILED: Final = 24
"""Newest failed attempts that are shown singly."""

MOST_GROUPS: Final = 512
"""Groups that are shown, those that changed last."""

MOST_ALONE: Final = 1024
"""Episodes of no group that are shown, the newest."""

ALONE: Final = ""
"""Name under which the episodes of no group stand together."""

RECENT: Final = 64
"""Ends over which the rate is taken."""

DIGITS: Final = 6
"""Digits of a figure after the point."""


def picture_of(folder: RunFolder, found: Sequence[FollowedEpisode]) -> dict[str, Any]:
    """The run as its page shows it.

    Args:
        folder: What the run says that it is.
        found: Every attempt that is recorded; those that ended in the order in which they did.
    """
    played = [one for one in found if one.parent is None]
    ended = [one for one in played if one.reason is not None and not one.again]
    rewards = [one.reward for one in ended if one.reward is not None]
    unended = sorted((one for one in played if one.reason is None), key=lambda one: one.moved_at)
    failed = [one for one in played if one.failure is not None]
    first = played[0] if played else None
    return {
        "name": folder.name,
        "title": folder.title,
        "environment": folder.environment or ("" if first is None else first.environment),
        "model": folder.model,
        "began_at": folder.began_at or min((one.started_at for one in played), default=None),
        "episodes": folder.episodes,
        "group_size": folder.group_size,
        "begun": len(played),
        "over": len(ended),
        "playing": len(unended),
        "verdicts": len(rewards),
        "mean": _figure(statistics.fmean(rewards)) if rewards else None,
        "spread": _figure(statistics.stdev(rewards)) if len(rewards) > 1 else None,
        "ends": dict(Counter(one.reason for one in played if one.reason is not None)),
        "failures": dict(Counter(one.failure for one in failed)),
        "again": sum(one.again for one in failed),
        "a_second": _rate(ended[-RECENT:], len(unended)),
        "moved_at": max((one.moved_at for one in played), default=None),
        "usual_turn_s": _usual_turn_s(ended[-RECENT:]),
        "rewards": histogram(rewards),
        "lengths": histogram([one.turns for one in ended]),
        "curve": _curve(rewards),
        "slowest": {one.episode_id: _waiting(one) for one in unended[:SLOWEST]},
        "failed": {one.episode_id: _failed(one) for one in failed[-FAILED:]},
        "groups": _groups(folder, played),
    }


def group_of(found: Sequence[FollowedEpisode], size: int = 1) -> dict[str, Any]:
    """The episodes of one task: what each has come to, and its advantage among those that count.

    Args:
        found: Every attempt at them; of a member that was tried again only the newest is shown.
        size: Members that the group is to have.
    """
    again = sum(one.again for one in found)
    members = [one for one in found if not one.again]
    counted = [one for one in members if one.reward is not None]
    rewards = [one.reward for one in counted if one.reward is not None]
    advantages = dict(zip((one.episode_id for one in counted), normalised(rewards), strict=True))
    over = sum(one.reason is not None for one in members)
    return {
        "size": max(size, len(members)),
        "over": over,
        "usable": len(counted),
        "again": again,
        "state": _state(max(size, len(members)), over, len(counted)),
        "mean": _figure(statistics.fmean(rewards)) if rewards else None,
        "spread": _figure(statistics.stdev(rewards)) if len(rewards) > 1 else None,
        "members": {
            one.episode_id: _member(one, advantages.get(one.episode_id))
            for one in sorted(members, key=lambda one: one.episode_id)
        },
    }


def histogram(values: Sequence[float], bins: int = BINS) -> dict[str, Any] | None:
    """How often which values come; ``None`` where there are none.

    Args:
        values: Finite numbers.
        bins: Columns, unless all values are whole and fewer.

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
    return {"least": _figure(least), "most": _figure(most), "counts": counts}


def _groups(folder: RunFolder, played: Sequence[FollowedEpisode]) -> dict[str, Any]:
    """The groups by name, and those of none together under :data:`ALONE`."""
    by_name: dict[str, list[FollowedEpisode]] = {}
    for one in played:
        by_name.setdefault(one.group_id if folder.group_size != 1 and one.group_id else ALONE, []).append(one)
    alone = by_name.pop(ALONE, [])
    if (
        folder.group_size == 0 and not folder.grouped
    ):  # nothing says how large groups are: one of its own kind is none
        single = [name for name, members in by_name.items() if len(members) == 1]
        alone = sorted([*alone, *(by_name.pop(name)[0] for name in single)], key=lambda one: one.moved_at)
    moved = {name: max(one.moved_at for one in members) for name, members in by_name.items()}
    shown = sorted(by_name, key=lambda name: moved[name])[-MOST_GROUPS:]
    groups = {name: group_of(by_name[name], folder.group_size) for name in sorted(shown)}
    if alone:
        newest = [one for one in alone if not one.again][-MOST_ALONE:]
        members = {one.episode_id: _member(one, None) for one in newest}
        groups[ALONE] = {"members": members}
    return groups


def _member(one: FollowedEpisode, advantage: float | None) -> dict[str, Any]:
    """Without ``None``, so that changes travel as merge patches."""
    told: dict[str, Any] = {"turns": one.turns, "standing": _standing(one)}
    if one.reward is not None:
        told["reward"] = _figure(one.reward)
    if advantage is not None:
        told["advantage"] = _figure(advantage)
    if one.attempt > 1:
        told["attempt"] = one.attempt
    return told


def _standing(one: FollowedEpisode) -> str:
    if one.reason is None:
        return "playing"
    if one.reward is None:
        return "over" if one.reason == "finished" else "failed"
    return "over" if one.reason == "finished" else "cut"


def _state(size: int, over: int, usable: int) -> str:
    """What a group has come to, in the words of the exports."""
    if over < size:
        return "open"
    if usable == size:
        return "complete"
    return "partial" if usable else "void"


_WAITS_FOR: Final[Mapping[str, str]] = {
    "episode.started": "its beginning",
    "decision.made": "its environment",
    "episode.suspended": "a model that answers",
    "episode.paused": "whoever paused it",
}
"""By the last event, what an episode without an end waits for; the model's answer after any other."""


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


def _curve(rewards: Sequence[float]) -> list[float]:
    """The mean reward of each stretch of the run, in the order in which episodes ended."""
    count = min(CURVE, len(rewards))
    cuts = [round(place * len(rewards) / count) for place in range(count + 1)] if count else []
    return [_figure(statistics.fmean(rewards[first:last])) for first, last in pairwise(cuts)]


def _rate(ended: Sequence[FollowedEpisode], under_way: int) -> float | None:
    spans = [(one.started_at, one.ended_at) for one in ended if one.ended_at is not None]
    rate = ended_a_second(spans, under_way)
    return None if rate is None else _figure(rate)


def _usual_turn_s(ended: Sequence[FollowedEpisode]) -> float | None:
    """Seconds that a turn takes, the median of episodes' means; ``None`` where none ended with a turn."""
    means = [
        (datetime.fromisoformat(one.ended_at) - datetime.fromisoformat(one.started_at)).total_seconds()
        / one.turns
        for one in ended
        if one.ended_at is not None and one.turns
    ]
    return _figure(statistics.median(means)) if means else None


def _figure(value: float) -> float:
    return round(value, DIGITS)
