"""The OpenEnv stepper with the official server: any environment behind it can be played."""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from spectator.environments.base import World
from spectator.episodes.replay.verify import verify
from spectator.errors import EnvironmentFault
from spectator.policies.base import Preset
from spectator.steppers.openenv import OpenEnvStepper
from spectator.steppers.opening import on_a_thread
from spectator.steppers.remote_world import remote_world
from tests.episodes.harness import Played, drive
from tests.openenv.conftest import HERE
from tests.profiled_worlds import Same

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


def played(world: World, message: str, **options: Any) -> Played:
    captain = Preset(
        "random", "Says", "Always the same.", "heuristic", lambda seed: Same({"message": message})
    )
    world = dataclasses.replace(world, captains={"random": captain})
    return asyncio.run(drive(world, open_stepper=on_a_thread, **options))


def test_an_episode_with_step_rewards_plays_and_verifies(official: str) -> None:
    world = remote_world(official)
    assert (world.profile.actions, world.text_field) == ("text", "message")
    one = played(world, "a long message indeed", messages=4)
    assert (one.end["reason"], one.end["score"], one.end["total_reward"]) == ("finished", -1.0, -1.0)
    taken = [event.event.data["reward"] for event in one.events if event.event.type == "step.taken"]
    assert taken == [-0.25] * 4

    async def again() -> Any:
        async def events() -> Any:
            for event in one.events:
                yield event

        return await verify(events(), load=lambda name: world)

    assert asyncio.run(again()) == []


def test_what_raises_there_is_a_fault_and_what_is_malformed_is_refused(official: str) -> None:
    async def scenario() -> None:
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

    asyncio.run(scenario())
