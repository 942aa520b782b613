"""A recorded episode answers its models' questions from the record, and plays again byte for byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from spectator.catalog import load_world
from spectator.environments.counting import WORLD as COUNTING
from spectator.environments.world import World
from spectator.episodes.recorded_calls import exchanges_of
from spectator.events import RecordedEvent
from spectator.journal.sql_journal import SqlJournal
from spectator.llm.exchanges import Playback, RecordedExchange
from spectator.llm.playback_server import serving_playback
from tests.episodes.harness import supervising
from tests.llm.brains import Said, batsman, obedient, read_situation, say
from tests.llm.fake_server import Mode, serving
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


async def play(
    folder: Path, world: World, seed: int, **options: Any
) -> tuple[list[RecordedEvent], list[RecordedExchange]]:
    """Play an episode; returns its events and the questions that were asked."""
    journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}")
    async with supervising(world, journal=journal) as stage:
        live = await stage.start(environment=world.name, seed=seed, options=options)
        async with asyncio.timeout(100):
            await live.wait()
    found = await journal.read(live.episode_id), await exchanges_of(journal, live.episode_id)
    await journal.aclose()
    return found


def thoughtful(body: Mapping[str, Any]) -> Said:
    """Counts, thinking in every form; its third answer names no action at first."""
    following = read_situation(body)["next"]
    if following == 3 and "cannot be carried out" not in str(body["messages"][-1]["content"]):
        return Said(text="<think>Three?</think>I would rather not.")
    said = say(body, "say", {"text": f"ACTION: {following}"}, f"{following}, says “é\u2028” the counter")
    return Said(said.text, f"After {following - 1}.", said.calls, finish=said.finish)


@pytest.mark.parametrize("style", ["tools", "json", "xml"])
@pytest.mark.parametrize("stream", [True, False])
async def test_an_episode_played_against_its_own_record_is_the_same(
    tmp_path: Path, style: str, stream: bool
) -> None:
    """Repairs, thoughts, refusals by status and what follows from them, in every style, streamed or not."""
    modes = [Mode.OK, Mode.OK, Mode.OK, Mode.OK, Mode.BROKEN, Mode.OK]

    table: dict[str, Any] = {"style": style, "stream": stream, "retries": 0}
    async with serving(thoughtful, modes) as fake:
        world = counting_led_by(endpoint_preset(COUNTING, fake.base_url, **table))
        first, exchanges = await play(tmp_path, world, 11, turns=6)
    assert [list(one.messages) for one in exchanges] == [body["messages"] for body in fake.bodies]
    async with serving_playback(Playback(exchanges), "127.0.0.1", 0) as base_url:
        again = counting_led_by(endpoint_preset(COUNTING, base_url, **table))
        for folder in (tmp_path / "second", tmp_path / "third"):
            folder.mkdir()
            second, _ = await play(folder, again, 11, turns=6)
            assert comparable(second) == comparable(first)
    made = [one.event.data for one in first if one.event.type == "decision.made"]
    assert [one["source"] for one in made].count("fallback") >= 1
    assert "repaired" in [one["parse"] for one in made]


async def test_a_match_between_two_models_is_played_again_from_one_record(tmp_path: Path) -> None:
    cricket = load_world("cricket")
    async with serving(batsman) as home, serving(obedient) as away:
        world = led_by(
            cricket,
            endpoint_preset(cricket, home.base_url, model="home-1"),
            endpoint_preset(cricket, away.base_url, style="json", model="away-1"),
        )
        first, exchanges = await play(tmp_path, world, 4, max_overs=1)
    assert {one.actor for one in exchanges} == {"home", "away"}
    async with serving_playback(Playback(exchanges), "127.0.0.1", 0) as base_url:
        again = led_by(
            cricket,
            endpoint_preset(cricket, base_url, model="home-1"),
            endpoint_preset(cricket, base_url, style="json", model="away-1"),
        )
        (tmp_path / "again").mkdir()
        second, _ = await play(tmp_path / "again", again, 4, max_overs=1)
        assert comparable(second) == comparable(first)
