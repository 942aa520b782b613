"""What a run still owes, found out from the journal alone."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from spectator.failures import FailureClass, failure_of_end
from spectator.journal.base import EpisodeFilter, EpisodeSummary, Journal
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
    """

    owed: Sequence[Attempt]
    over: Mapping[int, str]


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
    for number in range(len(run.jobs)):
        last = await _last(journal, run, number, index)
        if isinstance(last, Attempt):
            owed.append(last)
        else:
            over[number] = last
    return Progress(owed, over)


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


async def _last(
    journal: Journal, run: RunPlan, number: int, index: Mapping[str, EpisodeSummary]
) -> Attempt | str:
    """The attempt that is due at a job, or the id of the one that counts."""
    job = run.jobs[number]
    for attempt in itertools.count(1):
        episode_id = run.episode_id(job, attempt)
        summary = index.get(episode_id)
        if summary is None or summary.reason is None:
            return Attempt(number, attempt, episode_id, begun=summary is not None)
        if run.policy.after(await _failure(journal, summary), attempt) == "keep":
            return episode_id
    raise AssertionError("there is always another attempt")


async def _failure(journal: Journal, summary: EpisodeSummary) -> FailureClass | None:
    """How a recorded episode failed; reads its last event where it did not finish."""
    if summary.reason == "finished":
        return None
    (last,) = await journal.read(summary.episode_id, after_seq=summary.head_seq - 1, limit=1)
    return failure_of_end(last.event.data)
