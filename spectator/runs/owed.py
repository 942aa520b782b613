"""What a run still owes, found out from the journal alone."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from spectator.errors import FailureClass, failure_of_end, reward_of_end
from spectator.journal.contract import EpisodeFilter, EpisodeSummary, Journal
from spectator.runs.jobs import RunPlan

PAGE = 1000
"""Episodes of the index that are read at once."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a job.

    Args:
        number: Position of the job in the run.
        attempt: 1, and one more for each that was given up for good.
        episode_id: The id of its episode.
        begun: Whether the journal holds a beginning of it, to be played on.
    """

    number: int
    attempt: int
    episode_id: str
    begun: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is.

    Args:
        owed: Attempts that are due, in the order of the jobs.
        over: By position of the job, the episode that counts for it.
        failed: By position of those of them that came to no verdict, why.
    """

    owed: Sequence[Attempt]
    over: Mapping[int, str]
    failed: Mapping[int, FailureClass] = field(default_factory=dict)


async def progress(journal: Journal, run: RunPlan, *, run_id: str | None = None) -> Progress:
    """What is owed of ``run``, and what is over, by the ids of the episodes in ``journal``.

    An episode without an end is owed, to be played on. One that failed is owed once more where the run's
    policy says so.

    Args:
        journal: Where the episodes are.
        run: The run.
        run_id: Look only at the episodes of this run, where the journal holds others too.

    Raises:
        JournalError: The journal cannot be read.
    """
    index = {summary.episode_id: summary async for summary in newest_first(journal, run_id)}
    owed: list[Attempt] = []
    over: dict[int, str] = {}
    failed: dict[int, FailureClass] = {}
    for number in range(len(run.jobs)):
        last = await _last(journal, run, number, index)
        if isinstance(last, Attempt):
            owed.append(last)
            continue
        over[number] = last.episode_id
        if not last.verdict:
            failed[number] = last.failure_class or "unknown"
    return Progress(owed, over, failed)


def next_attempt(run: RunPlan, attempt: Attempt) -> Attempt:
    """The attempt at the same job after ``attempt``, which was given up for good."""
    number = attempt.attempt + 1
    episode_id = run.episode_id(run.jobs[attempt.number], number)
    return Attempt(attempt.number, number, episode_id)


async def newest_first(journal: Journal, run_id: str | None = None) -> AsyncIterator[EpisodeSummary]:
    """Every line of the index, or of one run, a page at a time.

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
    """The attempt that is due at a job, or the one that counts."""
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
    """How it ended; reads its last event where it did not finish."""
    if summary.reason == "finished":
        return _Ended(summary.episode_id, None, summary.score is not None)
    (last,) = await journal.read(summary.episode_id, after_seq=summary.head_seq - 1, limit=1)
    data = last.event.data
    return _Ended(summary.episode_id, failure_of_end(data), reward_of_end(data) is not None)
