"""The OpenEnv stepper with the official server: any environment behind it can be played."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spectator.environments.world import World
from spectator.episodes.replayer import verify
from spectator.errors import EnvironmentFault
from spectator.policies.policy import Preset
from spectator.rollouts.fleet_plan import Deadlines
from spectator.steppers.local import on_a_thread
from spectator.steppers.openenv import OpenEnvStepper
from spectator.steppers.remote_world import remote_world
from tests.episodes.harness import Played, drive
from tests.llm.brains import Said
from tests.llm.endpoints import endpoint
from tests.openenv.conftest import HERE
from tests.profiled_worlds import Same
from tests.rollouts.test_fleet import request, run

pytestmark = pytest.mark.openenv


@pytest.fixture(scope="module")
def official(openenv_python: str) -> Iterator[str]:
    """The address of the official server."""
    process = subprocess.Popen(
        [openenv_python, str(HERE / "peer_server.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        port = process.stdout.readline().strip()
        assert port, process.stderr.read()[-4000:]
        yield f"http://127.0.0.1:{port}"
    finally:
        process.communicate(timeout=30)


async def played(world: World, message: str, **options: Any) -> Played:
    captain = Preset(
        "random", "Says", "Always the same.", "heuristic", lambda seed: Same({"message": message})
    )
    world = dataclasses.replace(world, captains={"random": captain})
    return await drive(world, open_stepper=on_a_thread, **options)


async def test_an_episode_with_step_rewards_plays_and_verifies(official: str) -> None:
    world = remote_world(official)
    assert (world.profile.actions, world.briefing.text_field) == ("text", "message")
    one = await played(world, "a long message indeed", messages=4)
    assert (one.end["reason"], one.end["score"], one.end["total_reward"]) == ("finished", -1.0, -1.0)
    taken = [event.event.data["reward"] for event in one.events if event.event.type == "step.taken"]
    assert taken == [-0.25] * 4

    async def events() -> Any:
        for event in one.events:
            yield event

    assert (await verify(events(), load=lambda name: world)) == []


async def test_what_raises_there_is_a_fault_and_what_is_malformed_is_refused(official: str) -> None:
    stepper = OpenEnvStepper(official)
    begun = await stepper.reset(seed=7, episode_id="ep-7", options={"messages": 2}, limit_s=20)
    assert begun.observation.content["echoed"] == "seed 7"
    assert (await stepper.state(limit_s=20))["episode_id"] == "ep-7"
    refused = (await stepper.step({"mesage": "typo"}, limit_s=20)).observation.refused
    assert refused is not None and refused.rule == "action.shape"
    assert (await stepper.step({"message": "short"}, limit_s=20)).observation.reward == 0.5
    with pytest.raises(EnvironmentFault, match="EXECUTION_ERROR"):
        await stepper.step({"message": "raise"}, limit_s=20)
    await stepper.aclose()


def test_a_whole_fleet_plays_there_and_leaks_none_of_its_four_places(official: str, tmp_path: Path) -> None:
    """More episodes at once than the server has room for: those that find none wait, and none is lost."""
    url = official.replace("http://", "openenv+ws://")
    soon = Deadlines(startup_jitter_s=0.0, env_wait_s=30.0)
    with endpoint(lambda body: Said(text="short")) as fake:
        asked = request(fake, environment=url, options={"messages": 3}, episodes=24, group_size=4)
        for name in ("first", "second"):
            report = run(asked, tmp_path / name, concurrency=8, deadlines=soon)
            assert (report.over, report.halted, report.report.succeeded) == (24, None, True)
            assert {(one.total_reward, one.attempt) for one in report.report.results} == {(1.5, 1)}
        raising = endpoint(lambda body: Said(text="raise"))
        with raising as cruel:
            told = {"label": "m", "model": "m-1", "base_url": cruel.base_url, "stream": False}
            report = run(
                asked.model_copy(
                    update={"episodes": 8, "attempts": 2, "model": asked.model.model_validate(told)}
                ),
                tmp_path / "raises",
                concurrency=8,
                deadlines=soon,
            )
        assert {(one.failure_class, one.total_reward) for one in report.report.last} == {("env_infra", None)}
        assert len(report.report.results) == 16
        assert run(asked, tmp_path / "after", concurrency=8, deadlines=soon).report.succeeded
