"""The OpenEnv stepper plays through a real socket, with our own server and with servers that misbehave."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection

from spectator.environments.world import World
from spectator.episodes.single_agent import SingleAgent
from spectator.errors import (
    ConfigurationError,
    EnvironmentFault,
    EnvironmentMalformed,
    EnvironmentUnavailable,
    StepTimeout,
)
from spectator.policies.policy import Preset, ScriptedPolicy
from spectator.steppers.http import HttpEnvironment
from spectator.steppers.local import on_a_thread
from spectator.steppers.openenv import OpenEnvStepper
from spectator.steppers.remote_world import http_world, remote_world
from tests.episodes.harness import Played, drive
from tests.fakes import counted, until
from tests.profiled_worlds import ESSAY, ORDERING, TRADING, Same
from tests.serving import Serving
from tests.steppers.conftest import socket_server

BEGUN: dict[str, Any] = {
    "type": "observation",
    "data": {"observation": {"round": 0}, "reward": None, "done": False},
}


async def begun(stepper: OpenEnvStepper, **options: Any) -> Any:
    return await stepper.reset(seed=1, episode_id="ep-1", options=options, limit_s=20)


async def test_an_episode_of_our_own_server(ours: Serving) -> None:
    stepper = OpenEnvStepper(f"{ours.base_url}/envs/counting")
    first = await begun(stepper, turns=2)
    assert (first.observation.actor, first.observation.content["next"]) == ("agent", 1)
    assert [one["tool"] for one in first.observation.legal_actions] == ["say"]
    assert [fact.type for fact in first.facts] == ["remote.observed"]
    wrong = await stepper.step({"text": "nothing"}, limit_s=20)
    assert wrong.observation.refused is not None and wrong.observation.refused.rule == "action.text"
    assert wrong.facts == []
    await stepper.step({"text": "ACTION: 1"}, limit_s=20)
    assert (await stepper.state(limit_s=20))["turn"] == 1
    last = await stepper.step({"text": "ACTION: 2"}, limit_s=20)
    assert (last.observation.done, last.observation.reward) == (True, 1.0)
    assert last.state["result"] == "2 of 2 right"
    assert json.loads(last.facts[0].data["text"])["turn"] == 2
    await stepper.aclose()
    await stepper.aclose()
    with pytest.raises(EnvironmentFault, match="closed or abandoned"):
        await stepper.step({"text": "ACTION: 3"}, limit_s=20)


async def test_a_malformed_action_is_refused_and_nothing_is_done(ours: Serving) -> None:
    stepper = OpenEnvStepper(f"{ours.base_url}/envs/counting")
    await begun(stepper, turns=2)
    answer = await stepper.step({"nonsense": 1}, limit_s=20)
    assert answer.observation.refused is not None
    assert answer.observation.refused.rule == "action.shape"
    assert answer.observation.content["next"] == 1
    assert (await stepper.step({"text": "ACTION: 1"}, limit_s=20)).observation.content["next"] == 2
    await stepper.aclose()


async def test_options_that_the_server_does_not_take_are_a_fault(ours: Serving) -> None:
    stepper = OpenEnvStepper(f"{ours.base_url}/envs/counting")
    with pytest.raises(EnvironmentFault, match=r"rejects these options: .*tern"):
        await begun(stepper, terns=2)
    await stepper.aclose()


class Follows(ScriptedPolicy):
    """Plays the remote count as the careful counter does."""

    def choose(self, observation: Any) -> Any:
        return counted(observation)


def played(world: World, policy: Any = None, **options: Any) -> Played:
    if policy is not None:
        preset = Preset("random", "Fake", "As told.", "heuristic", lambda seed: policy)
        world = dataclasses.replace(world, captains={"random": preset})
    return asyncio.run(drive(world, open_stepper=on_a_thread, **options))


def test_a_driver_plays_a_remote_world_to_its_end(ours: Serving) -> None:
    world = remote_world(f"{ours.base_url}/envs/counting")
    assert (world.title, world.profile.actions, world.profile.rewards) == ("counting", "tools", "end")
    one = played(world, Follows(), turns=3)
    assert (one.end["reason"], one.end["score"], one.end["result"]) == ("finished", 1.0, "3 of 3 right")
    assert one.types.count("remote.observed") == 4
    assert one.events[0].event.data["options"] == {"turns": 3}


@pytest.mark.parametrize("world", [TRADING, ESSAY, ORDERING], ids=lambda world: world.name)
def test_a_world_of_any_profile_goes_over_the_wire(ours: Serving, world: World) -> None:
    remote = remote_world(f"{ours.base_url}/envs/{world.name}")
    told = remote.profile
    assert (told.rewards, told.actions) == (world.profile.rewards, world.profile.actions)
    assert told.reward_min == (None if len(world.actors) > 1 else world.profile.reward_min)
    one = played(remote, world.captains["heuristic"].build(1), rounds=4)
    assert one.end["reason"] == "finished", one.end
    agent = SingleAgent(world.name)
    seen, rewards = agent.reset(seed=1, options={"rounds": 4}), 0.0
    captain = world.captains["heuristic"].build(1)
    assert isinstance(captain, ScriptedPolicy)
    while not seen.done:
        seen = agent.step(captain.choose(seen).action)
        rewards += seen.reward
    assert one.end["score"] == pytest.approx(rewards)
    if world.profile.rewards == "step":
        assert one.end["total_reward"] == pytest.approx(rewards)


@pytest.mark.parametrize("world", [TRADING, ESSAY, ORDERING], ids=lambda world: world.name)
def test_anybody_can_play_a_remote_world_by_its_schema(ours: Serving, world: World) -> None:
    one = played(remote_world(f"{ours.base_url}/envs/{world.name}"), rounds=4)
    assert one.end["reason"] == "finished", one.end


def test_an_oversized_fleet_is_told_that_there_is_no_room(ours: Serving) -> None:
    async def answer(connection: ServerConnection, message: dict[str, Any]) -> None:
        error = {"code": "CAPACITY_REACHED", "message": "full", "active_sessions": 1, "max_sessions": 1}
        await connection.send(json.dumps({"type": "error", "data": error}))

    async def scenario(url: str) -> None:
        stepper = OpenEnvStepper(url)
        with pytest.raises(EnvironmentUnavailable, match="CAPACITY_REACHED: full"):
            await begun(stepper)
        await stepper.aclose()

    with socket_server(answer) as url:
        asyncio.run(scenario(url))


async def test_nobody_at_the_address() -> None:
    with pytest.raises(EnvironmentUnavailable, match="cannot be reached"):
        await begun(OpenEnvStepper("http://127.0.0.1:1"))
    with pytest.raises(ConfigurationError, match="cannot read"):
        remote_world("http://127.0.0.1:1")
    with pytest.raises(ConfigurationError, match="is not a URL of a server"):
        OpenEnvStepper("localhost:8000")


def after_the_beginning(then: Callable[[ServerConnection], Awaitable[None]]) -> Any:
    """A server that begins an episode, and does this at its first step."""

    async def answer(connection: ServerConnection, message: dict[str, Any]) -> None:
        if message["type"] == "reset":
            await connection.send(json.dumps(BEGUN))
        elif message["type"] == "step":
            await then(connection)
        else:
            await connection.send('{"type": "error", "data": {"code": "UNKNOWN_TYPE"}}')

    return answer


@asynccontextmanager
async def begun_on(then: Callable[[ServerConnection], Awaitable[None]]) -> AsyncIterator[OpenEnvStepper]:
    """A stepper that began an episode on a server that does this at its first step."""
    with socket_server(after_the_beginning(then)) as url:
        stepper = OpenEnvStepper(url)
        await begun(stepper)
        yield stepper
        await stepper.aclose()


def sending(text: str) -> Any:
    async def send(connection: ServerConnection) -> None:
        await connection.send(text)

    return send


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no json", "its answer is not JSON"),
        ("[1, 2]", "is list, not a JSON object"),
        ("{}", "its answer has no data"),
        ('{"type": "state", "data": {}}', "answered 'state' instead of 'observation'"),
        ('{"type": "observation", "data": {"reward": 1, "done": false}}', "has no observation"),
        ('{"type": "observation", "data": {"observation": {}, "reward": NaN}}', "NaN is not JSON"),
        ('{"type": "observation", "data": {"observation": {}, "reward": "much"}}', "not a finite number"),
        ('{"type": "observation", "data": {"observation": {}, "done": "maybe"}}', "neither true nor false"),
        (
            '{"type": "observation", "data": {"observation": {"legal_actions": [7]}}}',
            "a legal action must have the form",
        ),
        ('{"type": "observation", "data": {"observation": {"x": "\\ud800"}}}', "not plain finite JSON"),
        ("[" * 100_000, "its answer is not JSON"),
    ],
)
async def test_garbage_is_a_fault_of_its_own(text: str, said: str) -> None:
    async with begun_on(sending(text)) as stepper:
        with pytest.raises(EnvironmentMalformed, match=re.escape(said)) as caught:
            await stepper.step({"x": 1}, limit_s=20)
        assert caught.value.failure_class == "env_infra"


async def test_an_environment_that_raises_there_is_a_fault() -> None:
    error = json.dumps({"type": "error", "data": {"code": "EXECUTION_ERROR", "message": "KeyError: 'x'"}})

    async with begun_on(sending(error)) as stepper:
        with pytest.raises(EnvironmentFault, match="EXECUTION_ERROR: KeyError"):
            await stepper.step({"x": 1}, limit_s=20)


FULL = {"type": "error", "data": {"code": "CAPACITY_REACHED", "message": "all taken"}}


@pytest.mark.parametrize(
    ("second", "error", "said"),
    [
        (BEGUN, EnvironmentMalformed, "unsolicited message"),
        (
            {"type": "error", "data": {"code": "VALIDATION_ERROR"}},
            EnvironmentMalformed,
            "unsolicited message",
        ),
        ({"type": "error"}, EnvironmentMalformed, "unsolicited message"),
        (FULL, EnvironmentUnavailable, "no free environment: CAPACITY_REACHED: all taken"),
    ],
)
async def test_a_second_answer_to_a_step_is_never_taken_for_that_of_the_next(
    second: Any, error: type[EnvironmentFault], said: str
) -> None:
    steps: list[int] = []

    async def twice(connection: ServerConnection) -> None:
        steps.append(1)
        await connection.send(json.dumps(BEGUN))
        await connection.send(json.dumps(second))

    async with begun_on(twice) as stepper:
        await stepper.step({"x": 1}, limit_s=20)
        socket = stepper._socket
        assert socket is not None
        await until(lambda: bool(socket.recv_messages.frames))
        with pytest.raises(error, match=said):
            await stepper.step({"x": 2}, limit_s=20)
    assert steps == [1]


async def test_a_socket_that_dies_in_a_step_is_unavailable_and_the_step_is_not_sent_again() -> None:
    steps: list[int] = []

    async def die(connection: ServerConnection) -> None:
        steps.append(1)
        connection.transport.abort()

    async with begun_on(die) as stepper:
        with pytest.raises(EnvironmentUnavailable, match="the connection was lost"):
            await stepper.step({"x": 1}, limit_s=20)
        with pytest.raises(EnvironmentUnavailable):
            await stepper.step({"x": 1}, limit_s=20)
    assert steps == [1]


async def test_an_answer_after_its_deadline_is_never_taken_for_the_next() -> None:
    gate, sent = threading.Event(), threading.Event()

    async def late(connection: ServerConnection) -> None:
        await asyncio.to_thread(gate.wait, 20)
        sent.set()
        await connection.send(json.dumps(BEGUN))

    async with begun_on(late) as stepper:
        with pytest.raises(StepTimeout, match=r"within 0\.05 s"):
            await stepper.step({"x": 1}, limit_s=0.05)
        gate.set()
        await until(sent.is_set)
        assert stepper.given_up
        with pytest.raises(EnvironmentFault, match="closed or abandoned"):
            await stepper.step({"x": 2}, limit_s=20)


def test_garbage_in_the_middle_is_the_end_of_the_episode() -> None:
    with socket_server(after_the_beginning(sending("no json"))) as url:
        one = played(remote_at(url), Same({"x": 1}))
    assert one.end["reason"] == "environment_error"
    assert one.end["detail"].startswith("its answer is not JSON")
    assert one.end["failure_class"] == "env_infra"


def test_a_remote_environment_that_cuts_an_episode_short_says_why() -> None:
    data = {"observation": {"round": 1, "metadata": {"truncated": "enough"}}, "reward": 0.5, "done": True}
    cut = json.dumps({"type": "observation", "data": data})
    with socket_server(after_the_beginning(sending(cut))) as url:
        end = played(remote_at(url), Same({"x": 1})).end
    assert (end["reason"], end["detail"], end["score"]) == ("step_cap", "enough", None)
    assert end["total_reward"] == 0.5


def remote_at(url: str) -> World:
    """A world at an address that tells nothing of itself."""
    remote = http_world(HttpEnvironment(url, "none", "0", text_field=None))
    return dataclasses.replace(remote, remote=lambda episode_id: OpenEnvStepper(url))


async def test_after_a_call_that_was_cancelled_nothing_more_is_asked() -> None:
    asked = threading.Event()

    async def never(connection: ServerConnection) -> None:
        asked.set()

    async with begun_on(never) as stepper:
        step = asyncio.get_running_loop().create_task(stepper.step({"x": 1}, limit_s=20))
        await until(asked.is_set)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        with pytest.raises(EnvironmentFault, match="closed or abandoned"):
            await stepper.step({"x": 2}, limit_s=20)
