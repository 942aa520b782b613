"""The series of a run's charts: rewards, shares, tokens by finished episodes and by weight version.

Points are merged in pairs when there are too many, so that a series is bounded and its old points stay equal.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import Any, Final

from spectator.journal.call_totals import CallTotals
from spectator.runs.run_plan import standard_error
from spectator.runs.run_records import FollowedEpisode

MAX_POINTS: Final = 60
"""Points of a series at most."""

LEAST: Final = 4
"""Episodes of a point at least, so that most have a standard error."""

DIGITS: Final = 6
"""Decimal places of figures."""

_NUMBERED: Final = re.compile(r"(.*?)(\d{1,15})")


def figure(value: float) -> float:
    """Round a figure for viewers."""
    return round(value, DIGITS)


def series_of(ended: Sequence[FollowedEpisode], group_size: int = 1) -> dict[str, Any]:
    """Summarize finished episodes along two axes.

    Args:
        ended: The episodes, in the order in which they ended.
        group_size: Episodes of a group; points consist of whole groups.

    Returns:
        ``episodes`` and, if versions of the weights are known, ``weight_version``. ``points`` are keyed by
        their place; ``at`` is their place on the axis, ``first`` and ``last`` are what they cover.
    """
    return {"episodes": _by_episodes(ended, max(1, group_size)), **_by_version(ended)}


def _by_episodes(ended: Sequence[FollowedEpisode], size: int) -> dict[str, Any]:
    while size < LEAST or len(ended) > size * MAX_POINTS:
        size *= 2
    points = {}
    for place, first in enumerate(range(0, len(ended), size)):
        part = ended[first : first + size]
        last = first + len(part)
        points[str(place)] = {"at": last, "first": str(first + 1), "last": str(last), **point_of(part)}
    return {"step": size, "points": points}


def _by_version(ended: Sequence[FollowedEpisode]) -> dict[str, Any]:
    """Summarize episodes by the version of the weights that wrote their last reply."""
    by_version: dict[str, list[FollowedEpisode]] = {}
    for one in ended:
        if one.calls is not None and one.calls.versions:
            by_version.setdefault(one.calls.versions[-1], []).append(one)
    if not by_version:
        return {}
    numbers = version_numbers(list(by_version))
    names = list(by_version) if numbers is None else sorted(by_version, key=lambda one: numbers[one])
    size = 1
    while len(names) > size * MAX_POINTS:
        size *= 2
    points = {}
    for place, first in enumerate(range(0, len(names), size)):
        some = names[first : first + size]
        part = [one for name in some for one in by_version[name]]
        at = first + len(some) if numbers is None else numbers[some[-1]]
        points[str(place)] = {"at": at, "first": some[0], "last": some[-1], **point_of(part)}
    known = sum(map(len, by_version.values()))
    shown = {"step": size, "numbered": numbers is not None, "points": points}
    return {"weight_version": {**shown, "unversioned": len(ended) - known}}


def version_numbers(versions: Sequence[str]) -> dict[str, int] | None:
    """Return the number at the end of each version; ``None`` unless all begin alike and differ in it.

    >>> version_numbers(["step-20", "step-100"])
    {'step-20': 20, 'step-100': 100}
    >>> version_numbers(["main", "step-1"]) is None
    True
    """
    found = {one: _NUMBERED.fullmatch(one) for one in versions}
    parts = {one: (match[1], int(match[2])) for one, match in found.items() if match is not None}
    alike = len(parts) == len(found) and len({name for name, _ in parts.values()}) == 1
    if not alike or len({number for _, number in parts.values()}) < len(parts):
        return None
    return {one: number for one, (_, number) in parts.items()}


def point_of(part: Sequence[FollowedEpisode]) -> dict[str, Any]:
    """Summarize some finished episodes, without ``None``, so that changes can be sent as merge patches."""
    rewards = [one.reward for one in part if one.reward is not None]
    truncated = [one for one in part if one.reason != "finished"]
    calls, counted = totals_of(part)
    written = [one.tokens_out for one in counted if one.tokens_out is not None]
    shown = {
        "over": len(part),
        "verdicts": len(rewards),
        "mean": statistics.fmean(rewards) if rewards else None,
        "error": standard_error(rewards),
        **own_of(part),
        "cut": sum(one.reward is not None and not one.penalised for one in truncated),
        "failed": sum(one.reward is None for one in truncated),
        "mixed": sum(len(one.versions) > 1 for one in counted),
        "replies": calls.replies,
        "cut_replies": calls.cut_replies,
        "tokens_in": calls.tokens_in,
        "tokens_out": calls.tokens_out,
        "tokens_mean": statistics.fmean(written) if written else None,
        "tokens_error": standard_error(written),
        "tokens_of": len(written),
        "entropy": calls.entropy,
        "logprob_tokens": calls.logprob_tokens,
        "cost": calls.cost,
    }
    return {
        name: figure(value) if isinstance(value, float) else value
        for name, value in shown.items()
        if value is not None
    }


def totals_of(part: Sequence[FollowedEpisode]) -> tuple[CallTotals, list[CallTotals]]:
    """Add up the model calls of some episodes; return the sum and the totals of each that has some."""
    counted = [one.calls for one in part if one.calls is not None]
    total = CallTotals()
    for one in counted:
        total.add(one)
    return total, counted


def own_of(ended: Sequence[FollowedEpisode]) -> dict[str, Any]:
    """Return the share of decisions that captains made themselves; ``None`` if not recorded."""
    counts = [one.own for one in ended if one.own is not None]
    asked, own = sum(one.asked for one in counts), sum(one.own for one in counts)
    return {
        "own_share": figure(own / asked) if asked else None,
        "decisions": asked,
        "refusals": sum(one.refused for one in counts),
        "penalised": sum(one.penalised for one in ended),
    }
