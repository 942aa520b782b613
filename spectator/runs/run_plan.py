"""The episodes of a run, its failure policy, and what remains by its journal.

A run is a table of episodes. The id of each attempt at one follows from what it plays, so every process can
find out from the journal alone which are over, which can be resumed and which remain.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import statistics
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import Any, Final, Literal, NamedTuple, Self

from ulid import ULID

from spectator.core_events import FailedDecisions, OnFailure, View
from spectator.environments.world import World
from spectator.episodes.controls import Pace
from spectator.episodes.plan import EpisodePlan
from spectator.errors import (
    EXTERNAL_FAILURES,
    RECORDING_FAILURES,
    FailureClass,
    failure_of_end,
    reward_of_end,
)
from spectator.events import encode_json
from spectator.journal.contract import EpisodeFilter, EpisodeSummary, Journal
from spectator.journal.outline import OwnCount

Reaction = Literal["keep", "retry", "halt"]
"""What a run does after a failure.

``keep``: the episode is kept as it ended; the job is over. ``retry``: another attempt, from the beginning.
``halt``: the run stops; the job remains, and is tried again when the run is resumed.
"""


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """Which classes of failure are retried, and which halt the run; all others are kept.

    Args:
        retry: Classes of failure after which a job is tried again.
        halt: Classes after which the run stops.
        attempts: Most attempts at a job, at least 1; ``None`` for no limit. The episode of the last one is
            kept.

    Raises:
        ValueError: A class is in both, or ``attempts`` is less than 1.

    >>> policy = FailurePolicy(retry=frozenset({"env_infra"}), attempts=2)
    >>> [policy.after("env_infra", attempt) for attempt in (1, 2)]
    ['retry', 'keep']
    >>> policy.after("illegal_action", 1), policy.after(None, 1)
    ('keep', 'keep')
    """

    retry: frozenset[FailureClass] = EXTERNAL_FAILURES
    halt: frozenset[FailureClass] = RECORDING_FAILURES
    attempts: int | None = None

    def __post_init__(self) -> None:
        if both := self.retry & self.halt:
            raise ValueError(f"{', '.join(sorted(both))} cannot both be retried and halt the run")
        if self.attempts is not None and self.attempts < 1:
            raise ValueError(f"attempts must be at least 1, not {self.attempts}")

    def after(self, failure_class: FailureClass | None, attempt: int) -> Reaction:
        """Return what the run does after an attempt.

        Args:
            failure_class: How the attempt failed; ``None`` if it finished.
            attempt: Its number, from 1.
        """
        if failure_class in self.halt:
            return "halt"
        again = failure_class in self.retry and (self.attempts is None or attempt < self.attempts)
        return "retry" if again else "keep"


@dataclass(frozen=True, slots=True)
class Job:
    """One episode of a run, as plain values that can be sent to another process.

    Args:
        opponent: Preset in the other seats; ``None`` if there are none.
        seed: The world's seed, 0 .. 2**53 - 1.
        group: Name of the jobs of one task that are compared with each other; ``None`` for none.
        member: Number within the group, from 0; distinguishes otherwise equal jobs.
        on_failure: What a failed decision does to the episode.
        view: Whether the view is recorded during play, or derived by readers of the record.
        failed_decisions: What counts when a captain did not decide.
        waits_for_rest: Whether decisions of models wait for an endpoint that is paused after failures.
    """

    environment: str
    version: str
    captain: str
    opponent: str | None
    pack: str
    pack_version: str
    seed: int
    options: Mapping[str, Any]
    group: str | None = None
    member: int = 0
    on_failure: OnFailure = "fallback"
    view: View = "derived"
    failed_decisions: FailedDecisions = "fallback"
    waits_for_rest: bool = False

    @classmethod
    def of(cls, plan: EpisodePlan, *, group: str | None = None, member: int = 0) -> Self:
        """Make the job of playing ``plan``, which refers to its presets by name."""
        return cls(
            plan.world.name,
            plan.world.version,
            plan.captain.name,
            None if plan.opponent is None else plan.opponent.name,
            plan.pack.name,
            plan.pack.version,
            plan.seed,
            dict(plan.options),
            group,
            member,
            plan.on_failure,
            plan.view,
            plan.failed_decisions,
            plan.waits_for_rest,
        )


def job_plan(job: Job, world: World, attempt: int = 1, run_id: str | None = None) -> EpisodePlan:
    """Return the plan of an attempt at ``job``, at full speed.

    Args:
        world: Its world, with all its presets.
        attempt: Number of the attempt, from 1.
        run_id: Name of the run it belongs to, if any.

    Raises:
        LookupError: The world has no such captain, opponent or pack.
    """
    opponent = None if job.opponent is None else {**world.captains, **world.opponents}[job.opponent]
    return EpisodePlan(
        world,
        world.captains[job.captain],
        opponent,
        world.packs[job.pack],
        job.seed,
        Pace.MAX,
        False,
        job.options,
        on_failure=job.on_failure,
        view=job.view,
        failed_decisions=job.failed_decisions,
        waits_for_rest=job.waits_for_rest,
        run_id=run_id,
        group_id=job.group,
        attempt=attempt,
    )


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The jobs of a run, in order.

    Args:
        jobs: The jobs; no two equal.
        began_ms: When the run began, Unix time in milliseconds; ids sort by it.
        run_id: Its name, which is part of every id; ``None`` if the journal holds nothing else.
        policy: What happens to a job whose episode failed.

    Raises:
        ValueError: Two jobs are equal.
    """

    jobs: Sequence[Job]
    began_ms: int
    run_id: str | None = None
    policy: FailurePolicy = field(default_factory=FailurePolicy)
    _first_ids: dict[int, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        first = {
            id(job): self.episode_id(job, 1) for job in self.jobs
        }  # which it holds, so no id is used again
        self._first_ids.update(first)
        if len(set(first.values())) < len(self.jobs):
            raise ValueError("two jobs of a run are equal; give them different member numbers")

    def plan(self, job: Job, attempt: int, world: World) -> EpisodePlan:
        """Return the plan of an attempt at ``job``; see :func:`job_plan`."""
        return job_plan(job, world, attempt, self.run_id)

    def episode_id(self, job: Job, attempt: int) -> str:
        """Return the id of an attempt at ``job``: unique, and the same in every process.

        Args:
            attempt: Number of the attempt, from 1.
        """
        if attempt == 1 and (known := self._first_ids.get(id(job))) is not None:
            return known
        key: list[Any] = [
            job.environment, job.version, job.pack, job.pack_version, dict(job.options),
            job.seed, job.captain, job.opponent, attempt,
        ]  # fmt: skip
        if job.group is not None or job.member:
            key += [job.group, job.member]
        return derived_id(self.began_ms, key if self.run_id is None else [*key, self.run_id])


def derived_id(began_ms: int, key: Sequence[Any]) -> str:
    """Derive an episode's id from what it plays.

    Args:
        began_ms: Unix time in milliseconds, by which ids sort.
        key: What it plays, as JSON.

    >>> derived_id(1_700_000_000_000, ["counting", 7, 1])
    'ep-01HF7YAT0050NEHJA1NS53757E'
    """
    digest = hashlib.sha256(encode_json(list(key)).encode()).digest()
    return f"ep-{ULID.from_bytes(began_ms.to_bytes(6, 'big') + digest[:10])}"


PAGE = 1000
"""Episodes of the index that are read per query."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a job.

    Args:
        number: Position of the job in the run.
        attempt: Number of the attempt, from 1.
        begun: Whether the journal holds the beginning of it, to be resumed.
    """

    number: int
    attempt: int
    episode_id: str
    begun: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is.

    Args:
        remaining: Attempts still to be played, in the order of the jobs.
        over: By position of the job, the episode that counts for it.
        failed: By position of the job, why its episode has no verdict.
    """

    remaining: Sequence[Attempt]
    over: Mapping[int, str]
    failed: Mapping[int, FailureClass] = field(default_factory=dict)


async def progress(journal: Journal, run: RunPlan, *, run_id: str | None = None) -> Progress:
    """Find which episodes of ``run`` remain and which are over, by the ids in ``journal``.

    An episode without an end remains, to be resumed. One that failed remains if the run's policy retries it.

    Args:
        run_id: Look only at the episodes of this run, if the journal holds others too.

    Raises:
        JournalError: The journal cannot be read.
    """
    index = {summary.episode_id: summary async for summary in newest_first(journal, run_id)}
    remaining: list[Attempt] = []
    over: dict[int, str] = {}
    failed: dict[int, FailureClass] = {}
    for number in range(len(run.jobs)):
        last = await _last(journal, run, number, index)
        if isinstance(last, Attempt):
            remaining.append(last)
            continue
        over[number] = last.episode_id
        if not last.verdict:
            failed[number] = last.failure_class or "unknown"
    return Progress(remaining, over, failed)


def next_attempt(run: RunPlan, attempt: Attempt) -> Attempt:
    """Return the attempt at the same job that follows ``attempt``."""
    number = attempt.attempt + 1
    episode_id = run.episode_id(run.jobs[attempt.number], number)
    return Attempt(attempt.number, number, episode_id)


async def newest_first(journal: Journal, run_id: str | None = None) -> AsyncIterator[EpisodeSummary]:
    """Read the whole index, or that of one run, a page at a time.

    Raises:
        JournalError: The journal cannot be read.
    """
    before = None
    while page := await journal.episodes(EpisodeFilter(run_id=run_id, before=before, limit=PAGE)):
        for summary in page:
            yield summary
        before = page[-1].episode_id


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a recorded episode ended."""

    episode_id: str
    failure_class: FailureClass | None
    verdict: bool


async def _last(
    journal: Journal, run: RunPlan, number: int, index: Mapping[str, EpisodeSummary]
) -> Attempt | _Ended:
    """Return the next attempt at a job, or how the one that counts ended."""
    job = run.jobs[number]
    for attempt in itertools.count(1):
        episode_id = run.episode_id(job, attempt)
        summary = index.get(episode_id)
        if summary is None or summary.reason is None:
            return Attempt(number, attempt, episode_id, begun=summary is not None)
        ended = await _ended(journal, summary)
        if run.policy.after(ended.failure_class, attempt) == "keep":
            return ended
    raise AssertionError("there is always another attempt")


async def _ended(journal: Journal, summary: EpisodeSummary) -> _Ended:
    """Return how it ended; reads its last event unless it finished."""
    if summary.reason == "finished":
        return _Ended(summary.episode_id, None, summary.score is not None)
    (last,) = await journal.read(summary.episode_id, after_seq=summary.head_seq - 1, limit=1)
    data = last.event.data
    return _Ended(summary.episode_id, failure_of_end(data), reward_of_end(data) is not None)


def ended_a_second(spans: Sequence[tuple[str, str]], under_way: int) -> float | None:
    """Estimate how many episodes end per second: those in play over their median duration.

    Counting ends by the clock would mislead: episodes that begin together end together, so the first ends
    would suggest hundreds per second.

    Args:
        spans: Start and end of the newest episodes that ended, RFC 3339.

    Returns:
        The rate; ``None`` if nothing is being played, or no episode that ended took any time.

    >>> ended_a_second([("2026-11-24T12:00:00Z", "2026-11-24T12:00:40Z")], under_way=8)
    0.2
    """
    took = [
        (datetime.fromisoformat(end) - datetime.fromisoformat(begun)).total_seconds() for begun, end in spans
    ]
    usual_s = median(took) if took else 0.0
    return under_way / usual_s if under_way and usual_s > 0 else None


EPSILON: Final = 1e-4
"""Keeps the advantages of a group of nearly equal rewards finite; the same value as in TRL."""


def standard_error(values: Sequence[float]) -> float | None:
    """Return the standard error of their mean; ``None`` for fewer than two.

    >>> round(standard_error([0.0, 1.0, 1.0, 0.0]), 3)
    0.289
    >>> standard_error([1.0]) is None
    True
    """
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


class GroupShares(NamedTuple):
    """How far the model decided the episodes of a group itself, and how many of them were cut off."""

    own: float | None
    """Own decisions of those that it was asked for; ``None`` if it was asked for none."""
    refused: float | None
    """Its answers that were refused: of the wrong form, or not legal; ``None`` without answers."""
    cut: float | None
    """Episodes cut off at the length of an answer or at the step cap; ``None`` without episodes."""


def shares_of(ended: Iterable[tuple[OwnCount | None, FailureClass | None]]) -> GroupShares:
    """Return the shares of a group.

    Args:
        ended: Of each ended episode its decisions, if recorded, and why it did not finish.

    >>> shares_of([(OwnCount(asked=4, own=3, refused=3), None), (None, "truncated")])
    GroupShares(own=0.75, refused=0.5, cut=0.5)
    >>> shares_of([])
    GroupShares(own=None, refused=None, cut=None)
    """
    counts, failures = [], []
    for count, failure in ended:
        counts.append(count or OwnCount())
        failures.append(failure)
    asked, own = sum(one.asked for one in counts), sum(one.own for one in counts)
    refused = sum(one.refused for one in counts)
    return GroupShares(
        own / asked if asked else None,
        refused / (refused + own) if refused + own else None,
        failures.count("truncated") / len(failures) if failures else None,
    )


def normalised(rewards: Sequence[float]) -> list[float]:
    """Return advantages within a group: ``(reward - mean) / (sample standard deviation + 1e-4)``.

    >>> [round(one, 3) for one in normalised([0.0, 1.0, 1.0])]
    [-1.155, 0.577, 0.577]
    >>> normalised([0.5])
    [0.0]
    """
    if len(rewards) < 2:
        return [0.0] * len(rewards)
    mean, spread = statistics.fmean(rewards), statistics.stdev(rewards)
    return [(reward - mean) / (spread + EPSILON) for reward in rewards]
