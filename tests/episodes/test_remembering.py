"""A model remembers across a restart and in a fork: it is asked, byte for byte, what it would have been."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectator.catalog import load_world
from spectator.clock import SystemClock
from spectator.environments.counting import WORLD as COUNTING
from spectator.environments.world import World
from spectator.episodes.controls import Pace
from spectator.episodes.fork import ForkRequest
from spectator.events import RecordedEvent
from spectator.journal.sql_journal import SqlJournal
from tests.episodes.harness import Stage, recover, supervising
from tests.episodes.test_playing_on import step_ends, url_of
from tests.episodes.test_recorded_questions import thoughtful
from tests.llm.brains import Said, batsman, counter, obedient, read_situation
from tests.llm.fake_server import FakeModelServer, Mode, serving
from tests.policies.seats import endpoint_preset

FLAWED = [Mode.OK, Mode.OK, Mode.BROKEN, Mode.OK, Mode.OK, Mode.OK, Mode.WRONG_TOOL, Mode.WRONG_TOOL, Mode.OK]
"""Failures, repairs and fallbacks, all of which leave traces in later questions."""


def world_of(plain: World, **models: Mapping[str, Any]) -> World:
    """The world with model captains ``llm:NAME``, the first of them its default, as captain and opponent."""
    presets = {}
    for name, table in models.items():
        made = endpoint_preset(plain, **{"retries": 0, **table})
        presets[f"llm:{name}"] = replace(made, name=f"llm:{name}")
    captains = {**plain.captains, **presets}
    opponents = {**plain.opponents, **presets} if plain.opponents else {}
    return replace(
        plain,
        captains=captains,
        opponents=opponents,
        default_captain=next(iter(presets)),
        default_opponent=list(presets)[-1] if opponents else plain.default_opponent,
    )


@asynccontextmanager
async def house(folder: Path, world: World) -> AsyncIterator[Stage]:
    journal = await SqlJournal.open(url_of(folder))
    async with supervising(world, journal=journal) as stage:
        stage.supervisor.load = lambda name: world
        yield stage
    await journal.aclose()


async def whole(folder: Path, world: World, **options: Any) -> list[RecordedEvent]:
    async with house(folder, world) as stage:
        episode = await stage.start(environment=world.name, options=options)
        await episode.wait()
        events: list[RecordedEvent] = await stage.journal.read(episode.episode_id)
        return events


async def played_on(folder: Path, world: World, left: Sequence[RecordedEvent]) -> list[RecordedEvent]:
    """What becomes of a record that a dead process left."""
    async with house(folder, world) as stage:
        await stage.journal.append(left)
        assert (await recover(stage.journal, SystemClock(), stage.supervisor)).playing
        for episode in stage.supervisor.running():  # none where it has come to its end already
            await episode.wait()
        events: list[RecordedEvent] = await stage.journal.read(left[0].event.episode_id)
        return events


def asked_in(events: Sequence[RecordedEvent]) -> int:
    """How often an endpoint was asked, by the record."""
    made = [one.event.data for one in events if one.event.type == "decision.made"]
    return sum(len(one.get("exchanges") or ()) for one in made)


def flawed_from(first: int) -> Callable[[int], Mode]:
    return lambda number: FLAWED[(number - first) % len(FLAWED)]


def asked_after(fake: FakeModelServer, before: int) -> list[bytes]:
    return [one.raw for one in fake.received[before:]]


@pytest.mark.parametrize("style", ["tools", "json", "xml"])
async def test_whenever_it_died_the_next_questions_are_those_of_an_undisturbed_run(
    tmp_path: Path, style: str
) -> None:
    async with serving(thoughtful, [*FLAWED * 4]) as fake:
        world = world_of(COUNTING, mine={"base_url": fake.base_url, "style": style})
        events = await whole(tmp_path, world, turns=8)
        undisturbed = asked_after(fake, 0)
        made = [one.event.data for one in events if one.event.type == "decision.made"]
        assert {one["source"] for one in made} == {"model", "fallback"}
        for number, cut in enumerate(step_ends(events)[:-1]):
            before, asked = len(fake.received), asked_in(events[:cut])
            fake.mode = flawed_from(before - asked)
            again = await played_on(tmp_path / f"{number}", world, events[:cut])
            assert asked_after(fake, before) == undisturbed[asked:], f"after event {cut}"
            assert asked_in(again) == len(undisturbed)


def planner(body: Mapping[str, Any]) -> Said:
    """Counts two numbers at once."""
    following = read_situation(body)["next"]
    actions = [
        {"reason": "on", "tool": "say", "arguments": {"text": f"ACTION: {number}"}}
        for number in (following, following + 1)
    ]
    return Said(text=json.dumps({"actions": actions}))


async def test_a_plan_that_was_half_carried_out_is_remembered(tmp_path: Path) -> None:
    async with serving(planner) as fake:
        table = {"base_url": fake.base_url, "style": "json", "actions_per_answer": 2}
        world = world_of(COUNTING, mine=table)
        events = await whole(tmp_path, world, turns=6)
        undisturbed = asked_after(fake, 0)
        assert len(undisturbed) == 3
        for number, cut in enumerate(step_ends(events)[:-1]):
            before = len(fake.received)
            await played_on(tmp_path / f"{number}", world, events[:cut])
            assert asked_after(fake, before) == undisturbed[asked_in(events[:cut]) :]


async def test_two_models_of_cricket_with_little_room_are_asked_as_if_nothing_had_happened(
    tmp_path: Path,
) -> None:
    """Past turns were left out, and tokens estimated by what the endpoint counted: both are remembered."""

    async with serving(batsman) as home, serving(obedient) as away:
        small = {"context_tokens": 4_000, "max_tokens": 200}
        world = world_of(
            load_world("cricket"),
            home={"base_url": home.base_url, "actions_per_answer": 2, "style": "json", **small},
            away={"base_url": away.base_url, **small},
        )
        events = await whole(tmp_path, world, max_overs=1)
        wholes = asked_after(home, 0), asked_after(away, 0)
        assert any(b"Your last decisions, of" in body for body in (*wholes[0], *wholes[1]))
        ends = step_ends(events)
        for number, cut in enumerate([ends[len(ends) // 3], ends[-3]]):
            before = len(home.received), len(away.received)
            await played_on(tmp_path / f"{number}", world, events[:cut])
            for fake, first, undisturbed in zip((home, away), before, wholes, strict=True):
                since = asked_after(fake, first)
                assert since == undisturbed[len(undisturbed) - len(since) :]
            assert 0 < len(home.received) + len(away.received) - sum(before) < sum(map(len, wholes))


async def fork(stage: Stage, parent: Sequence[RecordedEvent], seq: int, **who: Any) -> list[RecordedEvent]:
    wanted = ForkRequest(parent[0].event.episode_id, seq, pace=Pace.MAX, **who)
    episode = await stage.supervisor.fork(wanted)
    await episode.wait()
    events: list[RecordedEvent] = await stage.journal.read(episode.episode_id)
    return events


async def test_in_a_fork_who_stays_remembers_and_who_comes_does_not(tmp_path: Path) -> None:
    async with serving(counter) as mine, serving(counter) as other:
        world = world_of(COUNTING, mine={"base_url": mine.base_url}, other={"base_url": other.base_url})
        async with house(tmp_path, world) as stage:
            episode = await stage.start(options={"turns": 6})
            await episode.wait()
            parent = await stage.journal.read(episode.episode_id)
            undisturbed = asked_after(mine, 0)
            third = step_ends(parent)[3]
            child = await fork(stage, parent, third)
            assert asked_after(mine, 6) == undisturbed[3:]
            assert child[0].event.data["parent"]["own_since"] == {"counter": 0}
            await fork(stage, child, step_ends(child)[4])
            assert asked_after(mine, 9) == undisturbed[4:]
            before = len(mine.received)
            taken = await fork(stage, parent, third, captain="llm:other")
            assert taken[0].event.data["parent"]["own_since"] is None
            assert [len(body["messages"]) for body in other.bodies] == [2, 4, 6]
            back = await fork(stage, taken, step_ends(taken)[4], captain="llm:other")
            assert back[0].event.data["parent"]["own_since"] == {"counter": 3}
            assert [len(body["messages"]) for body in other.bodies[3:]] == [4, 6]
            assert len(mine.received) == before
        left = child[: step_ends(child)[4]]
        before = len(mine.received)
        await played_on(tmp_path / "fork", world, left)
        assert asked_after(mine, before) == undisturbed[4:]
        before = len(other.received)
        await played_on(tmp_path / "taken", world, taken[: step_ends(taken)[4]])
        assert asked_after(other, before) == [one.raw for one in other.received[1:3]]


async def test_of_a_reply_too_long_to_be_kept_the_text_is_remembered(tmp_path: Path) -> None:
    """In a style of text the questions are even the same: of an earlier answer the beginning is shown."""

    def verbose(body: Mapping[str, Any]) -> Said:
        said = counter(body)
        return replace(said, text=f"{'Let me think. ' * 4_000}\n{said.text}")

    async with serving(verbose, chunk=4_096) as fake:
        table = {"base_url": fake.base_url, "style": "json", "send_back": False}
        world = world_of(COUNTING, mine=table)
        events = await whole(tmp_path, world, turns=3)
        undisturbed = asked_after(fake, 0)
        (first, *_) = [one.event.data for one in events if one.event.type == "decision.made"]
        assert first["exchanges"][0]["reply"] is None and first["source"] == "model"
        before = len(fake.received)
        await played_on(tmp_path / "again", world, events[: step_ends(events)[2]])
        assert [json.loads(one)["messages"] for one in asked_after(fake, before)] == [
            json.loads(one)["messages"] for one in undisturbed[2:]
        ]
