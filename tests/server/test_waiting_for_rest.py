"""Whether decisions wait for a resting endpoint is part of the plan, kept by restarts and forks."""

from __future__ import annotations

import asyncio
from pathlib import Path

from spectator.cast import DEFAULT_LIVE, Cast
from spectator.clock import SystemClock
from spectator.episodes.plan import EpisodePlan
from spectator.episodes.restore import UnfinishedRecord, rebuild
from spectator.evaluation.schedule import EvaluationRequest, plan_evaluation
from spectator.events import RecordedEvent
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.model_presets import ModelBuild
from spectator.runs.run_plan import job_plan
from tests.commands import spectator
from tests.fakes import NO_JOURNAL
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint, write_captains
from tests.serving import serve, test_settings


def waits(plan: EpisodePlan) -> bool:
    """Whether the model in the agent's seat waits."""
    build, _ = plan.making(plan.agent)
    assert isinstance(build, ModelBuild)
    return build.captain.waits_for_rest


async def recorded(folder: Path, episode_id: str) -> list[RecordedEvent]:
    journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}", writable=False)
    try:
        return list(await journal.read(episode_id))
    finally:
        await journal.aclose()


async def planned_again(events: list[RecordedEvent], cast: Cast) -> EpisodePlan:
    """The plan with which an episode is played on that stopped after its first step."""
    step = next(one.event.seq for one in events if one.event.type == "step.taken")
    rebuilt = await rebuild(
        UnfinishedRecord.of(events[:step], NO_JOURNAL), limit_s=60, load=cast.load, attempts=3
    )
    await rebuilt.stepper.aclose()
    return rebuilt.plan


def test_what_is_asked_for_is_recorded_and_holds_after_a_restart_and_in_a_fork(tmp_path: Path) -> None:
    match = {"environment": "counting", "captain_preset": "llm:mine", "options": {"turns": 3}}
    with endpoint(counter) as fake:
        captains = write_captains(tmp_path / "captains.toml", mine={"base_url": fake.base_url})
        cast = Cast.from_file(captains, live=DEFAULT_LIVE, variables={}, clock=SystemClock())
        with serve(test_settings(tmp_path, captains_file=captains, max_episodes=4)) as app:
            plain = app.start(**match)
            asked = app.start(**match, waits_for_rest=True)
            for episode_id in (plain, asked):
                assert app.finish(episode_id)["score"] == 1.0
            events = app.events(asked)
            step = next(event["seq"] for event in events if event["type"] == "step.taken")
            fork = app.client.post("/custom/fork", json={"episode_id": asked, "seq": step}).json()[
                "episode_id"
            ]
            app.finish(fork)
            told = [app.events(one)[0]["data"].get("waits_for_rest") for one in (plain, asked, fork)]
            assert told == [None, True, True]
            wrong = app.client.post("/custom/start_episode", json={**match, "waits_for_rest": "maybe"})
            assert wrong.status_code == 422 and wrong.json()["errors"][0]["field"] == "waits_for_rest"
        again = [
            asyncio.run(planned_again(asyncio.run(recorded(tmp_path, one)), cast)) for one in (plain, asked)
        ]
    assert [waits(plan) for plan in again] == [False, True]


def test_an_evaluation_and_the_command_line_ask_for_it(tmp_path: Path) -> None:
    captains = write_captains(tmp_path / "captains.toml", mine={"base_url": "http://127.0.0.1:9/v1"})
    cast = Cast.from_file(captains, live=DEFAULT_LIVE, variables={}, clock=SystemClock())
    for wanted in (False, True):
        request = EvaluationRequest("counting", ("llm:mine", "random"), matches=2, waits_for_rest=wanted)
        schedule = plan_evaluation(request, load=cast.load)
        plans = [job_plan(job, schedule.world) for job in schedule.run(0).jobs]
        assert waits(plans[0]) is wanted and {plan.waits_for_rest for plan in plans} == {wanted}
    arguments = ["play", "counting", "--option", "turns=1", "--waits-for-rest"]
    played = spectator(*arguments)
    assert played.exit_code == 0 and '"waits_for_rest":true' in played.stdout.partition("\n")[0]
