"""An evaluation that several commands play together, in one journal, is that of one command."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from spectator.clock import SystemClock
from spectator.errors import InvalidRequest
from spectator.evaluation.evaluation_run import Played, SharedRun, play_as_worker, run_evaluation
from spectator.evaluation.results import results_of
from spectator.evaluation.schedule import EvaluationRequest, Schedule, plan_evaluation
from spectator.journal.contract import EpisodeFilter
from spectator.journal.sql_journal import SqlJournal
from tests.postgres import Cluster

SCRIPTED = EvaluationRequest("counting", ("heuristic", "random"), matches=12)


async def run(schedule: Schedule, folder: Path, shared: SharedRun | None, **changes: Any) -> Played:
    settings: dict[str, Any] = {"jobs": 1, "clock": SystemClock(), "report": lambda over, of: None, **changes}
    return await run_evaluation(schedule, folder, shared=shared, **settings)


def found(schedule: Schedule, played: Played) -> Any:
    """What was found, but for ids and times."""
    assert played.cut_short is None
    kept = results_of(schedule, played.found).model_dump(mode="json")
    for match in kept["matches"]:
        del match["episode_id"]
    for captain in kept["captains"]:
        captain["measures"].pop("latency_s", None)
    return kept


@pytest.fixture(params=["postgresql", "sqlite"])
def shared(request: pytest.FixtureRequest) -> SharedRun | None:
    """Where the commands meet: in a database, or in a folder."""
    if request.param == "sqlite":
        return None
    postgres: Cluster = request.getfixturevalue("postgres")
    return SharedRun(postgres.url(postgres.make()), "first")


@pytest.mark.parametrize("captains", [("slow", "steady"), ("heuristic", "random")])
def test_two_commands_play_an_evaluation_together_and_no_match_twice(
    shared: SharedRun | None, waiting: str, captains: tuple[str, ...], tmp_path: Path
) -> None:
    schedule = plan_evaluation(EvaluationRequest(waiting, captains, matches=12))
    folders = [tmp_path / name for name in (("one", "two") if shared else ("both", "both"))]

    async def together() -> list[Played]:
        return list(await asyncio.gather(*(run(schedule, one, shared) for one in folders)))

    one, two = asyncio.run(together())
    alone = asyncio.run(run(schedule, tmp_path / "alone", None))
    assert found(schedule, one) == found(schedule, two) == found(schedule, alone)

    async def recorded() -> Counter[str | None]:
        url = shared.url if shared else f"sqlite:///{folders[0]}/journal.db"
        journal = await SqlJournal.open(url, writable=False)
        try:
            run_id = next(iter(one.found.values())).run_id
            return Counter([ep.reason for ep in await journal.episodes(EpisodeFilter(run_id=run_id))])
        finally:
            await journal.aclose()

    assert asyncio.run(recorded()) == {"finished": len(schedule.matches)}


async def test_a_worker_plays_what_is_kept_in_the_journal(shared: SharedRun | None, tmp_path: Path) -> None:
    """It is given the folder and a name, and finds the matches in the journal."""
    few = plan_evaluation(EvaluationRequest("counting", ("heuristic", "random"), matches=2))
    more, heard = plan_evaluation(SCRIPTED), []

    def report(over: int, of: int) -> None:
        heard.append((over, of))
        if len(heard) == 1:
            raise asyncio.CancelledError  # the command dies once its run is kept

    await run(few, tmp_path, shared)
    with pytest.raises(asyncio.CancelledError):
        await run(more, tmp_path, shared, report=report)
    clock, rng = SystemClock(), random.Random(1)
    assert await play_as_worker(tmp_path, "w-1", clock=clock, rng=rng, shared=shared) is None
    await run(more, tmp_path, shared, report=lambda over, of: heard.append((over, of)))
    assert heard == [(2, 12), (12, 12)]


def test_a_run_in_a_database_is_of_one_evaluation(postgres: Cluster, tmp_path: Path) -> None:
    shared = SharedRun(postgres.url(postgres.make()), "first")
    asyncio.run(run(plan_evaluation(SCRIPTED), tmp_path / "one", shared))
    other = EvaluationRequest("counting", ("heuristic", "random"), matches=4, options={"turns": 20})
    with pytest.raises(InvalidRequest, match=r"run: .*first is another evaluation .*options"):
        asyncio.run(run(plan_evaluation(other), tmp_path / "two", shared))
