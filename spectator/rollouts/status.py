"""Read the progress of a run of rollouts from its journal, even while it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from spectator.errors import FailureClass, failure_of_end, reward_of_end
from spectator.exports.groups import GroupState
from spectator.journal.contract import EpisodeSummary, Journal
from spectator.journal.coordination import Lease
from spectator.journal.outline import OwnCount
from spectator.journal.sql_journal import SqlJournal
from spectator.rollouts.request import RolloutRequest, open_record
from spectator.runs.run_plan import FailurePolicy, ended_a_second, newest_first
from spectator.runs.run_records import data_of_end

RECENT: Final = 256
"""Newest episodes from whose median time the rate is computed."""


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt without a verdict.

    Args:
        again: Whether the run tries its episode again.
    """

    summary: EpisodeSummary
    failure_class: FailureClass
    again: bool


@dataclass(frozen=True, slots=True)
class Unended:
    """An unfinished episode.

    Args:
        idle_s: Seconds since its last event.
        worker: The live worker process that holds its lease, if any.
    """

    summary: EpisodeSummary
    turn: int
    idle_s: float
    worker: str | None = None


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The episodes of one task.

    Args:
        over: How many of them are done.
        usable: How many of these have a reward.
    """

    group_id: str
    size: int
    over: int
    usable: int

    @property
    def state(self) -> GroupState:
        """Its state, in the terms of the exports."""
        if self.over < self.size:
            return "open"
        if self.usable == self.size:
            return "complete"
        return "partial" if self.usable else "void"


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The status of a run.

    Args:
        ends: Number of attempts by end reason.
        over: Episodes that are done.
        rewards: Rewards of the episodes that have one.
        own: How many decisions of finished episodes the model made itself.
        penalised: How many rewards are the penalty for an answer that was not an action.
        failed: Attempts without a verdict, oldest first.
        unended: Episodes without an end, longest idle first.
        groups: The groups that were begun, by name.
        a_second: Episodes finished per second; ``None`` if none is in play, or none has ended.
        idle_s: Seconds since the newest event; ``None`` if there is none.
    """

    request: RolloutRequest
    ends: Mapping[str, int]
    over: int
    rewards: Sequence[float]
    own: OwnCount
    penalised: int
    failed: Sequence[Failed]
    unended: Sequence[Unended]
    groups: Mapping[str, GroupStatus]
    a_second: float | None
    idle_s: float | None

    @property
    def verdicts(self) -> int:
        """How many episodes have a reward."""
        return len(self.rewards)

    @property
    def left_s(self) -> float | None:
        """Seconds until the run is over at that rate; ``None`` if unknown."""
        left = self.request.episodes - self.over
        return left / self.a_second if self.a_second and left else None


async def read_status(folder: Path, now: datetime) -> RunStatus:
    """Read the status of the run in ``folder``.

    Args:
        now: The wall clock, aware.

    Raises:
        InvalidRequest: There is no run, or it is of another version.
        JournalError: Its journal cannot be read.
    """
    async with open_record(folder) as (request, journal):
        return await status_of(request, journal, now)


async def status_of(
    request: RolloutRequest, journal: SqlJournal, now: datetime, run_id: str | None = None
) -> RunStatus:
    """Read the status of a run.

    Args:
        now: The wall clock, aware.
        run_id: Its name there, where the journal holds other episodes too.

    Raises:
        JournalError: The journal cannot be read.
    """
    found = [summary async for summary in newest_first(journal, run_id)][::-1]
    ends = await _ends(journal, run_id)
    rewards = {one: reward for one, data in ends.items() if (reward := reward_of_end(data)) is not None}
    failed = list(_failed(request.failure_policy, found, ends))
    leases = [one for one in await journal.leases() if _is_held(one, now)]
    owners = {lease.episode_id: lease.owner for lease in leases}
    unended = [await _unended(journal, one, now, owners) for one in found if one.reason is None]
    again = {one.summary.episode_id for one in failed if one.again}
    over = [one for one in found if one.reason is not None and one.episode_id not in again]
    spans = sorted(
        ((one.started_at, one.ended_at) for one in over if one.ended_at is not None), key=lambda one: one[1]
    )
    times = [(now - datetime.fromisoformat(spans[-1][1])).total_seconds()] if spans else []
    times += [one.idle_s for one in unended]
    return RunStatus(
        request,
        Counter(one.reason or "under way" for one in found),
        len(over),
        list(rewards.values()),
        _own([ends[one.episode_id] for one in over if one.episode_id in ends]),
        sum(data.get("penalty") is not None for data in ends.values()),
        failed,
        sorted(unended, key=lambda one: -one.idle_s),
        _groups(request, over, rewards),
        ended_a_second(spans[-RECENT:], len(unended)),
        min(times) if times else None,
    )


def _is_held(lease: Lease, now: datetime) -> bool:
    """Whether its owner is alive; a database server removes leases of dead owners."""
    return lease.expires_ms == 0 or lease.expires_ms > 1000 * now.timestamp()


async def _ends(journal: SqlJournal, run_id: str | None) -> dict[str, Mapping[str, Any]]:
    """Read the data of each ``episode.ended``, by episode."""
    ends: dict[str, Mapping[str, Any]] = {}
    mark, more = None, True
    while more:
        news = await journal.news(mark, run_id)
        mark, more = news.mark, news.more
        for one in news.episodes:
            if one.row["reason"] is not None and (data := data_of_end(one.head)) is not None:
                ends[one.row["episode_id"]] = data
    return ends


def _failed(
    policy: FailurePolicy, found: Sequence[EpisodeSummary], ends: Mapping[str, Mapping[str, Any]]
) -> Iterator[Failed]:
    """Find the attempts without a verdict."""
    for summary in found:
        data = ends.get(summary.episode_id)
        if data is None or data["reason"] == "finished" or reward_of_end(data) is not None:
            continue
        failure = failure_of_end(data) or "unknown"
        yield Failed(summary, failure, policy.after(failure, summary.attempt or 1) != "keep")


def _own(ends: Iterable[Mapping[str, Any]]) -> OwnCount:
    total = OwnCount()
    for stated in (data.get("own_decisions") for data in ends):
        if stated:
            total.asked += stated["asked"]
            total.own += stated["own"]
            total.refused += stated["refused"]
    return total


async def _unended(
    journal: Journal, summary: EpisodeSummary, now: datetime, owners: Mapping[str, str]
) -> Unended:
    (last,) = await journal.read(summary.episode_id, after_seq=summary.head_seq - 1, limit=1)
    idle = now - datetime.fromisoformat(last.event.at)
    worker = owners.get(summary.episode_id)
    return Unended(summary, last.event.turn, max(0.0, idle.total_seconds()), worker)


def _groups(
    request: RolloutRequest, over: Sequence[EpisodeSummary], rewards: Mapping[str, float]
) -> dict[str, GroupStatus]:
    counts = Counter(one.group_id for one in over if one.group_id is not None)
    usable = Counter(one.group_id for one in over if one.group_id is not None and one.episode_id in rewards)
    return {
        name: GroupStatus(name, request.group_size, counts[name], usable[name]) for name in sorted(counts)
    }
