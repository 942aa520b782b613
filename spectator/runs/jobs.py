"""The episodes of a run as plain values, and the one id of every attempt at each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from ulid import ULID

from spectator.environments.world import World
from spectator.episodes.controls import Pace
from spectator.episodes.plan import EpisodePlan
from spectator.events import FailedDecisions, OnFailure, View, encode_json
from spectator.runs.failure_policy import FailurePolicy


@dataclass(frozen=True, slots=True)
class Job:
    """One episode that a run owes: plain values, so that it can be sent to another process.

    Args:
        environment: Name of the world.
        version: Version of the world.
        captain: Preset in the agent's seat.
        opponent: Preset in the other seats; ``None`` where there are none.
        pack: Evaluation pack.
        pack_version: Version of the pack.
        seed: The world's seed, 0 .. 2**53 - 1.
        options: Complete options of the world.
        group: Name of the jobs of one task that are compared with each other; ``None`` for none.
        member: Number within the group, from 0; tells apart jobs that are alike otherwise.
        on_failure: What a decision that failed does to the episode.
        view: Whether the view is recorded while it is played, or derived by whoever reads the record.
        failed_decisions: What counts where a captain did not decide.
        waits_for_rest: Whether decisions of models wait for an endpoint that is left alone after failing.
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
        """The job of playing ``plan``; its presets are known by name from here on."""
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
    """How ``job`` is played, as fast as it goes.

    Args:
        job: The job.
        world: Its world, with everybody who plays in it.
        attempt: Number of the attempt, from 1.
        run_id: The run that it is played for, if that has a name.

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
    """Jobs that are done together, in their order.

    Args:
        jobs: The jobs; no two alike.
        began_ms: When the run began, Unix time in milliseconds; ids sort by it.
        run_id: Its name, which is part of every id; ``None`` where the journal holds nothing else.
        policy: What becomes of a job whose episode failed.

    Raises:
        ValueError: Two jobs are alike.
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
            raise ValueError("two jobs of a run are alike; number them by member")

    def plan(self, job: Job, attempt: int, world: World) -> EpisodePlan:
        """How an attempt at ``job`` is played; see :func:`job_plan`."""
        return job_plan(job, world, attempt, self.run_id)

    def episode_id(self, job: Job, attempt: int) -> str:
        """The id of an attempt at ``job``: the same in every process, and of nothing else.

        Args:
            job: One of the jobs.
            attempt: 1, and one more for each that was given up for good.
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
    """An episode's id that follows from what it is.

    Args:
        began_ms: Unix time in milliseconds, by which ids sort.
        key: What it is, as JSON.

    >>> derived_id(1_700_000_000_000, ["counting", 7, 1])
    'ep-01HF7YAT0050NEHJA1NS53757E'
    """
    digest = hashlib.sha256(encode_json(list(key)).encode()).digest()
    return f"ep-{ULID.from_bytes(began_ms.to_bytes(6, 'big') + digest[:10])}"
