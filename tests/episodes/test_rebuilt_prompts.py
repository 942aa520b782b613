"""A recorded episode answers its models' questions from the record, and plays again byte for byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectator.catalog import load_world
from spectator.clock import SystemClock
from spectator.environments.counting import WORLD as COUNTING
from spectator.environments.world import World
from spectator.episodes.host.recovery import recover
from spectator.episodes.replay import restore as rebuilding
from spectator.episodes.replay.prompts import EpisodePrompts, rebuild_prompts
from spectator.events import RecordedEvent
from spectator.journal.stores.sqlite import SqlJournal
from spectator.llm.playback import Playback
from spectator.llm.playback_server import serving_playback
from tests.episodes.harness import supervising
from tests.llm.brains import Said, batsman, obedient, read_situation, say
from tests.llm.fake_server import FakeModelServer, Mode, serving
from tests.policies.seats import counting_led_by, endpoint_preset, led_by

MEASURED = {"at", "latency_s", "duration_s", "started_at", "ended_at", "hash", "chain", "prev", "digest"}
ELSEWHERE = {"fingerprint"}
"""What differs where another endpoint is asked."""


def comparable(recorded: list[RecordedEvent]) -> list[str]:
    """The events without what is measured and who was asked."""

    def bare(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: bare(item) for name, item in value.items() if name not in MEASURED | ELSEWHERE}
        return [bare(item) for item in value] if isinstance(value, list) else value

    return [json.dumps(bare(json.loads(one.text))) for one in recorded]


async def play(world: World, seed: int, **options: Any) -> list[RecordedEvent]:
    async with supervising(world) as stage:
        live = await stage.start(environment=world.name, seed=seed, options=options)
        async with asyncio.timeout(100):
            await live.wait()
        return list(stage.journal.events)


def thoughtful(body: Mapping[str, Any]) -> Said:
    """Counts, thinking in every form; its third answer names no action at first."""
    following = read_situation(body)["next"]
    if following == 3 and "cannot be carried out" not in str(body["messages"][-1]["content"]):
        return Said(text="<think>Three?</think>I would rather not.")
    said = say(body, "say", {"text": f"ACTION: {following}"}, f"{following}, says “é\u2028” the counter")
    return Said(said.text, f"After {following - 1}.", said.calls, finish=said.finish)


@pytest.mark.parametrize("style", ["tools", "json", "xml"])
@pytest.mark.parametrize("stream", [True, False])
def test_an_episode_played_against_its_own_record_is_the_same(style: str, stream: bool) -> None:
    """Repairs, thoughts, refusals by status and what follows from them, in every style, streamed or not."""
    modes = [Mode.OK, Mode.OK, Mode.OK, Mode.OK, Mode.BROKEN, Mode.OK]

    async def run() -> None:
        table: dict[str, Any] = {"style": style, "stream": stream, "retries": 0}
        async with serving(thoughtful, modes) as fake:
            world = counting_led_by(endpoint_preset(COUNTING, fake.base_url, **table))
            first = await play(world, 11, turns=6)
        rebuilt = await rebuild_prompts(first, lambda name: world)
        assert rebuilt.gaps == []
        assert len(rebuilt.exchanges) == len(fake.received)
        assert [list(one.messages or ()) for one in rebuilt.exchanges] == [
            body["messages"] for body in fake.bodies
        ]
        async with serving_playback(Playback(rebuilt.exchanges), "127.0.0.1", 0) as base_url:
            again = counting_led_by(endpoint_preset(COUNTING, base_url, **table))
            assert comparable(await play(again, 11, turns=6)) == comparable(first)
            assert comparable(await play(again, 11, turns=6)) == comparable(first)
        made = [one.event.data for one in first if one.event.type == "decision.made"]
        assert [one["source"] for one in made].count("fallback") >= 1
        assert "repaired" in [one["parse"] for one in made]

    asyncio.run(run())


def test_a_match_between_two_models_is_played_again_from_one_record() -> None:
    async def run() -> None:
        cricket = load_world("cricket")
        async with serving(batsman) as home, serving(obedient) as away:
            world = led_by(
                cricket,
                endpoint_preset(cricket, home.base_url, model="home-1"),
                endpoint_preset(cricket, away.base_url, style="json", model="away-1"),
            )
            first = await play(world, 4, max_overs=1)
        rebuilt = await rebuild_prompts(first, lambda name: world)
        assert rebuilt.gaps == [] and {one.actor for one in rebuilt.exchanges} == {"home", "away"}
        async with serving_playback(Playback(rebuilt.exchanges), "127.0.0.1", 0) as base_url:
            again = led_by(
                cricket,
                endpoint_preset(cricket, base_url, model="home-1"),
                endpoint_preset(cricket, base_url, style="json", model="away-1"),
            )
            assert comparable(await play(again, 4, max_overs=1)) == comparable(first)

    asyncio.run(run())


async def rebuild_with(
    world_then: World, world_now: World, fake: FakeModelServer, turns: int = 3
) -> EpisodePrompts:
    return await rebuild_prompts(await play(world_then, 1, turns=turns), lambda name: world_now)


def test_questions_that_are_asked_otherwise_now_are_known_by_their_fingerprints_only() -> None:
    """A captain that changed, and one that is gone, are told as gaps; the replies are served all the same."""

    async def run() -> None:
        async with serving(thoughtful) as fake:
            then = counting_led_by(endpoint_preset(COUNTING, fake.base_url, style="json"))
            changed = counting_led_by(endpoint_preset(COUNTING, fake.base_url, style="xml"))
            for now, why in ((changed, "asks otherwise"), (COUNTING, "no model captain")):
                rebuilt = await rebuild_with(then, now, fake)
                assert len(rebuilt.gaps) == 1 and why in rebuilt.gaps[0]
                assert len(rebuilt.exchanges) == 4 and all(one.messages is None for one in rebuilt.exchanges)

    asyncio.run(run())


def test_an_older_record_has_decisions_and_no_exchanges() -> None:
    async def run() -> None:
        async with serving(obedient) as fake:
            world = counting_led_by(endpoint_preset(COUNTING, fake.base_url))
            first = await play(world, 1, turns=2)
        for one in first:
            if one.event.type == "decision.made":
                del one.event.data["exchanges"]  # type: ignore[attr-defined]
        rebuilt = await rebuild_prompts(first, lambda name: world)
        assert rebuilt.exchanges == [] and len(rebuilt.decisions) >= 2

    asyncio.run(run())


def test_a_model_that_was_asked_across_a_restart_is_asked_again_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It remembered then, and so it does when it is asked again."""

    async def run() -> None:
        async with serving(thoughtful) as fake:
            model = endpoint_preset(COUNTING, fake.base_url)
            captains = {**COUNTING.captains, model.name: model, COUNTING.default_captain: model}
            world = replace(COUNTING, captains=captains)
            whole = await play(world, 1, turns=5)
            monkeypatch.setattr(rebuilding, "load_world", lambda name: world)
            journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}")
            await journal.append([one for one in whole if one.event.turn <= 2])
            async with supervising(world, journal=journal) as stage:
                await recover(journal, SystemClock(), stage.supervisor)
                await stage.supervisor.running()[0].wait()
            recorded = await journal.read(whole[0].event.episode_id)
            await journal.aclose()
        rebuilt = await rebuild_prompts(recorded, lambda name: world)
        assert rebuilt.gaps == [] and all(one.same for one in rebuilt.decisions)
        lengths = [len(one.messages or ()) for one in rebuilt.exchanges]
        assert lengths == [2, 4, *(6, 8), 8, 10], "turn 3 is asked twice"

    asyncio.run(run())
