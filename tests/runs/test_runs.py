"""A run owes what its journal does not hold, tries again as its policy says, and plays no job twice."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ulid import ULID

from spectator.catalog import load_world
from spectator.clock import SystemClock
from spectator.core_events import OnFailure
from spectator.environments.counting.world import CarefulCounter, CountingEnvironment
from spectator.environments.world import World
from spectator.episodes.controls import Pace
from spectator.episodes.plan import EpisodeRequest, plan_episode
from spectator.evaluation.figure_store import FigureStore
from spectator.evaluation.match_player import MatchPlayer, plays_anywhere
from spectator.journal.contract import EpisodeFilter
from spectator.journal.sql_journal import SqlJournal
from spectator.observations import Observation
from spectator.policies.policy import Action, Decision, Preset
from spectator.policies.spending import Caps, SpendLedger
from spectator.runs.attempts import UNANSWERED
from spectator.runs.interactor import RunState
from spectator.runs.leased_log import LeasedLog
from spectator.runs.run_plan import FailurePolicy, Job, Progress, RunPlan, progress
from spectator.runs.scheduler import Scheduler
from tests.fakes import world_with

BEGAN_MS = 1_700_000_000_000


def job(seed: int = 1, **changes: Any) -> Job:
    request = EpisodeRequest("counting", seed=seed, pace=Pace.MAX, options={"turns": 3})
    return replace(Job.of(plan_episode(request, draw_seed=lambda: 0)), **changes)


class Playing:
    """A run in a folder of its own, played by evaluation's player.

    Args:
        folder: The folder.
        journal: Where it is recorded.
        run: The run.
        world: What every job plays.
    """

    def __init__(self, folder: Path, journal: SqlJournal, run: RunPlan, world: World) -> None:
        self.over: list[tuple[int, int]] = []
        self.halted: str | None = None
        self.journal, self.run = journal, run
        self._folder, self._world = folder, world

    async def go(self, at_once: int = 2) -> Progress:
        """Play what remains; return what then remains."""
        clock = SystemClock()
        log, ledger = LeasedLog(self.journal, clock, 0.0), SpendLedger(Caps(), Caps(), clock)
        player = MatchPlayer(self.run, self._world, log, clock, ledger, FigureStore(self._folder / "figures"))
        state = RunState(len(self.run.jobs), 0, clock.monotonic())
        scheduler = Scheduler(
            self.run, self.journal, log, player, clock, random.Random(1), concurrency=at_once, state=state
        )
        await scheduler.play(ledger)
        self.halted = player.halt.reason
        ended = [one for one in scheduler.results if one.end_reason is not None and not one.again]
        self.over += [(one.job.number, one.attempt) for one in ended if self.halted is None]
        return await progress(self.journal, self.run)

    async def reasons(self) -> Counter[str | None]:
        """How the recorded episodes ended."""
        return Counter([one.reason for one in await self.journal.episodes(EpisodeFilter())])


@asynccontextmanager
async def playing(folder: Path, run: RunPlan, world: World | None = None) -> AsyncIterator[Playing]:
    journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}", shared_as=str(ULID()))
    try:
        yield Playing(folder, journal, run, world or load_world("counting"))
    finally:
        await journal.aclose()


def test_ids_follow_from_all_that_a_job_is_and_from_nothing_else() -> None:
    run = RunPlan([job()], BEGAN_MS, "r1")
    first = run.episode_id(job(), 1)
    assert first == RunPlan([job(), job(2)], BEGAN_MS, "r1").episode_id(job(), 1), "not on the other jobs"
    others = [
        run.episode_id(job(), 2),
        run.episode_id(job(2), 1),
        run.episode_id(job(captain="random"), 1),
        run.episode_id(job(options={"turns": 4, "payload_bytes": 0}), 1),
        run.episode_id(job(version="2.0"), 1),
        run.episode_id(job(group="g1"), 1),
        run.episode_id(job(group="g2"), 1),
        run.episode_id(job(group="g1", member=1), 1),
        run.episode_id(job(member=1), 1),
        RunPlan([job()], BEGAN_MS, "r2").episode_id(job(), 1),
        RunPlan([job()], BEGAN_MS + 1, "r1").episode_id(job(), 1),
    ]
    assert len({first, *others}) == 1 + len(others)
    assert run.episode_id(job(on_failure="end"), 1) == first, "how failures are taken is no other episode"


def test_equal_jobs_are_rejected_unless_their_member_numbers_differ() -> None:
    with pytest.raises(ValueError, match="give them different member numbers"):
        RunPlan([job(), job()], BEGAN_MS)
    run = RunPlan([job(group="g", member=number) for number in range(4)], BEGAN_MS)
    assert len({run.episode_id(one, 1) for one in run.jobs}) == 4


def test_a_policy_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="env_infra cannot both be retried and halt the run"):
        FailurePolicy(retry=frozenset({"env_infra"}), halt=frozenset({"env_infra"}))
    with pytest.raises(ValueError, match="at least 1, not 0"):
        FailurePolicy(attempts=0)


def test_what_is_over_is_not_owed_and_more_jobs_owe_only_themselves(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with playing(tmp_path, RunPlan([job(1), job(2)], BEGAN_MS)) as first:
            before = await progress(first.journal, first.run)
            assert [one.number for one in before.remaining] == [0, 1] and before.over == {}
            after = await first.go()
            assert after.remaining == [] and sorted(after.over) == [0, 1]
            assert sorted(first.over) == [(0, 1), (1, 1)]
        async with playing(tmp_path, RunPlan([job(3), job(2), job(1)], BEGAN_MS)) as more:
            assert [one.number for one in (await progress(more.journal, more.run)).remaining] == [0]
            await more.go()
            assert await more.reasons() == {"finished": 3}

    asyncio.run(scenario())


def environments(fail: int) -> tuple[World, list[int]]:
    """The counting world, whose first ``fail`` environments cannot be built."""
    built: list[int] = []
    plain = load_world("counting").environment

    def build() -> Any:
        built.append(1)
        if len(built) <= fail:
            raise OSError("the data is not there")
        return plain()

    return world_with(environment=build), built


RETRY = FailurePolicy(retry=frozenset({"env_infra"}), attempts=3)


@pytest.mark.parametrize(
    ("fail", "policy", "reasons", "over"),
    [
        (2, RETRY, {"environment_error": 2, "finished": 1}, [(0, 3)]),
        (9, RETRY, {"environment_error": 3}, [(0, 3)]),
        (1, FailurePolicy(), {"environment_error": 1}, [(0, 1)]),
    ],
)
async def test_what_fails_is_tried_again_as_often_as_the_policy_says(
    tmp_path: Path, fail: int, policy: FailurePolicy, reasons: dict[str, int], over: list[tuple[int, int]]
) -> None:
    world, built = environments(fail)
    run = RunPlan([job()], BEGAN_MS, policy=policy)
    async with playing(tmp_path, run, world) as one:
        after = await one.go()
        assert await one.reasons() == reasons and one.over == over
        assert after.remaining == [] and len(built) == sum(reasons.values())
        await one.go()
        assert len(built) == sum(reasons.values()), "nothing is tried for ever"


async def test_every_attempt_is_kept_as_an_episode_of_its_own(tmp_path: Path) -> None:
    world, _ = environments(1)
    run = RunPlan([job()], BEGAN_MS, policy=RETRY)
    async with playing(tmp_path, run, world) as one:
        await one.go()
        for attempt, reason in ((1, "environment_error"), (2, "finished")):
            summary = await one.journal.episode(run.episode_id(job(), attempt))
            assert summary is not None and summary.reason == reason


async def test_a_failure_that_halts_leaves_the_job_owed_and_nothing_else_is_begun(tmp_path: Path) -> None:
    world, _ = environments(1)
    policy = FailurePolicy(halt=frozenset({"env_infra"}))
    run = RunPlan([job(seed) for seed in range(5)], BEGAN_MS, policy=policy)
    async with playing(tmp_path, run, world) as one:
        after = await one.go(at_once=1)
        assert "env_infra: OSError: the data is not there" in (one.halted or "")
        assert [(due.number, due.attempt) for due in after.remaining] == [
            (0, 2), (1, 1), (2, 1), (3, 1), (4, 1),
        ]  # fmt: skip
    async with playing(tmp_path, run, world) as again:
        after = await again.go()
        assert after.remaining == [] and await again.reasons() == {"environment_error": 1, "finished": 5}


class Offline(CarefulCounter):
    """A model that decides once and is then not reached, until ``back``."""

    back = False

    async def decide(self, observation: Observation, *, deadline: float) -> Decision:
        own = replace(self.choose(observation), source="model")
        if Offline.back or observation.content["next"] == 1:
            return own
        failure = {"kind": "unavailable", "status": None, "retry_after_s": None}
        return replace(
            own,
            source="fallback",
            fallback_reason="unavailable: no connection",
            failure_class="model_infra",
            exchanges=[{"request": "0" * 64, "failure": failure}],
        )


def offline() -> World:
    model = Preset("heuristic", "Model", "Is away.", "model", lambda seed: Offline())
    return world_with(captains={"heuristic": model})


@pytest.fixture(autouse=True)
def _away() -> None:
    Offline.back = False


@pytest.mark.parametrize("on_failure", ["suspend", "fallback", "end"])
async def test_what_a_failed_decision_does_is_the_jobs_own_say(tmp_path: Path, on_failure: OnFailure) -> None:
    run = RunPlan([job(on_failure=on_failure)], BEGAN_MS)
    async with playing(tmp_path, run, offline()) as one:
        after = await one.go()
        expected = {"suspend": None, "fallback": "finished", "end": "policy_error"}[on_failure]
        assert await one.reasons() == {expected: 1}
        left = [(due.attempt, due.begun) for due in after.remaining]
        assert left == [(1, True)] * (on_failure == "suspend")
        Offline.back = True
        after = await one.go()
        assert after.remaining == []
        if on_failure == "suspend":
            assert await one.reasons() == {"finished": 1}, "played on, not played again"


async def test_an_endpoint_that_is_given_up_halts_the_run_and_is_asked_when_it_goes_on(
    tmp_path: Path,
) -> None:
    long = {"turns": UNANSWERED + 5, "payload_bytes": 0}
    run = RunPlan([job(seed, options=long) for seed in (1, 2)], BEGAN_MS)
    async with playing(tmp_path, run, offline()) as one:
        after = await one.go(at_once=1)
        assert one.halted == "heuristic cannot be asked: unavailable: no connection"
        assert [(due.number, due.begun) for due in after.remaining] == [(0, True), (1, False)]
        events = await one.journal.read(after.remaining[0].episode_id)
        failed = [one for one in events if one.event.data.get("failure_class") == "model_infra"]
        assert len(failed) == UNANSWERED, "the last of them is the suspension, not a decision"
        assert events[-1].event.type == "episode.suspended"
    Offline.back = True
    async with playing(tmp_path, run, offline()) as again:
        assert (await again.go()).remaining == [] and await again.reasons() == {"finished": 2}


async def test_what_cannot_be_played_on_is_ended_and_tried_again_from_its_beginning(tmp_path: Path) -> None:
    run = RunPlan([job(on_failure="suspend")], BEGAN_MS)
    async with playing(tmp_path, run, offline()) as one:
        (left,) = (await one.go()).remaining
        assert left.begun
    Offline.back = True
    newer = replace(offline(), version="2.0")
    async with playing(tmp_path, run, newer) as one:
        assert (await one.go()).remaining == [] and one.over == [(0, 2)]
        assert await one.reasons() == {"interrupted": 1, "finished": 1}
        events = await one.journal.read(left.episode_id)
        assert events[-1].event.data["failure_class"] == "killed"


def with_a_guest() -> World:
    """The world with a captain that the catalogue does not have."""
    guest = Preset("guest", "Guest", "Counts.", "heuristic", lambda seed: CarefulCounter())
    return world_with(captains={**load_world("counting").captains, "guest": guest})


def test_any_process_plays_captains_of_the_catalogue_and_this_one_those_that_it_alone_has() -> None:
    world = with_a_guest()
    assert plays_anywhere(job(), world) and not plays_anywhere(job(captain="guest"), world)
    assert not plays_anywhere(job(), offline()), "a model waits: many of its matches fit in one process"
    assert not plays_anywhere(job(), world_with(environment=lambda: CountingEnvironment()))
    assert not plays_anywhere(job(environment="elsewhere"), world)


async def test_an_episode_says_its_run_its_group_and_its_attempt(tmp_path: Path) -> None:
    jobs = [job(group="g-1", member=number, captain="guest") for number in range(2)]
    async with playing(tmp_path, RunPlan(jobs, BEGAN_MS, "r-1"), with_a_guest()) as one:
        await one.go()
        found = await one.journal.episodes(EpisodeFilter(run_id="r-1", group_id="g-1", attempt=1))
        assert len(found) == 2 and {summary.captain for summary in found} == {"guest"}


class _NotesItsThread(CountingEnvironment):
    """Notes the threads that step it."""

    def __init__(self, seen: set[str]) -> None:
        super().__init__()
        self._seen = seen

    def step(self, action: Action) -> Observation:
        self._seen.add(threading.current_thread().name)
        return super().step(action)


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_world_is_stepped_in_the_loops_thread_where_it_says_that_it_steps_at_once(
    tmp_path: Path, at_once: bool
) -> None:
    seen: set[str] = set()
    asked: list[Mapping[str, Any]] = []

    def says(options: Mapping[str, Any]) -> bool:
        asked.append(options)
        return at_once

    world = replace(load_world("counting"), environment=lambda: _NotesItsThread(seen), steps_at_once=says)

    async with playing(tmp_path, RunPlan([job()], BEGAN_MS, "r1"), world) as run:
        await run.go()
        assert await run.reasons() == {"finished": 1}
    assert (seen == {threading.current_thread().name}) is at_once
    assert asked == [{"turns": 3, "payload_bytes": 0}]
