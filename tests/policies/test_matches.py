"""Whole matches between models on real sockets, under the supervisor."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from spectator.catalog import load_world
from spectator.environments.counting import WORLD as COUNTING
from spectator.environments.world import World
from spectator.events import Event
from tests.episodes.harness import Stage, supervising
from tests.fakes import until
from tests.llm.brains import batsman, obedient
from tests.llm.fake_server import FakeModelServer, Mode, serving
from tests.policies.seats import counting_led_by, endpoint_preset, led_by


def decisions(stage: Stage) -> list[Event]:
    return [recorded.event for recorded in stage.journal.events if recorded.event.type == "decision.made"]


@pytest.fixture(scope="module")
def cricket() -> World:
    return load_world("cricket")


async def play_match(world: World, stage: Stage, **options: Any) -> Any:
    episode = await stage.start(environment=world.name, options=options)
    async with asyncio.timeout(100):
        return await episode.wait()


@pytest.mark.parametrize("style", ["tools", "json", "xml"])
async def test_two_models_play_a_match_against_each_other(cricket: World, style: str) -> None:
    async with serving(batsman, chunk=32) as home, serving(obedient, chunk=32) as away:
        world = led_by(
            cricket,
            endpoint_preset(cricket, home.base_url, style=style, model="home-1"),
            endpoint_preset(cricket, away.base_url, style="json", model="away-1"),
        )
        async with supervising(world) as stage:
            ended = await play_match(world, stage, max_overs=5)
    assert ended.reason == "finished"
    made = decisions(stage)
    by_model = Counter((event.data["source"], event.data["actor"], event.data["model"]) for event in made)
    assert by_model.keys() == {("model", "home", "home-1"), ("model", "away", "away-1")}
    assert {event.data["parse"] for event in made} == {"ok"}
    assert len(home.received) + len(away.received) == len(made)
    assert "action.refused" not in [recorded.event.type for recorded in stage.journal.events]
    shots = [event for event in made if event.data["action"].get("tool") == "plan_shot"]
    assert shots and all("an over to get" in event.data["reasoning"] for event in shots)
    check_bodies(home)


def check_bodies(fake: FakeModelServer) -> None:
    """What every request must hold: the task first, one question at the end, and a bounded prompt."""
    for body in fake.bodies:
        assert body["messages"][0]["role"] == "system"
        assert "Situation now:" in body["messages"][1]["content"]
        assert body["messages"][-1]["role"] in ("user", "tool")
        assert len(str(body["messages"])) < 4 * 16_384


async def test_a_model_and_a_broken_rival_finish_their_match(cricket: World) -> None:
    """The rival's endpoint fails in a different way each time; its captain is relieved when it must be."""
    modes = [
        Mode.OK,
        Mode.BROKEN,
        Mode.GARBAGE,
        Mode.WRONG_TOOL,
        Mode.CUT,
        Mode.REFUSAL,
        Mode.EMPTY,
        Mode.BUSY,
    ] * 40

    async with serving(batsman) as home, serving(obedient, modes) as away:
        world = led_by(
            cricket, endpoint_preset(cricket, home.base_url), endpoint_preset(cricket, away.base_url)
        )
        async with supervising(world) as stage:
            ended = await play_match(world, stage, max_overs=1)
    assert ended.reason == "finished"
    sources = Counter((event.data["actor"], event.data["source"]) for event in decisions(stage))
    assert sources["home", "fallback"] == 0 and sources["home", "model"] > 5
    assert sources["away", "model"] > 0 and sources["away", "fallback"] > 0


def test_stopping_a_match_closes_the_request_to_the_model_within_a_tenth_of_a_second() -> None:
    async def run() -> float:
        async with serving(obedient, [Mode.NEVER_ENDING]) as fake:
            world = counting_led_by(endpoint_preset(COUNTING, fake.base_url))
            async with supervising(world) as stage:
                episode = await stage.start()
                await until(lambda: len(fake.received) == 1, what="the request")
                asked_at = asyncio.get_running_loop().time()
                await stage.supervisor.stop(episode.episode_id, by="test")
                await until(lambda: fake.received[0].left_at is not None, what="the end of the connection")
                left_at = fake.received[0].left_at
                assert left_at is not None
                assert (await episode.wait()).reason == "stopped"
                return left_at - asked_at

    assert asyncio.run(run()) < 0.1


async def test_no_connection_is_left_when_a_match_is_over() -> None:
    async with serving(obedient) as fake:
        world = counting_led_by(endpoint_preset(COUNTING, fake.base_url))
        async with supervising(world) as stage:
            for _ in range(3):
                await (await stage.start(options={"turns": 3})).wait()
            await until(lambda: fake.open_connections == 0, what="the end of every connection")
        assert fake.connections == 3
