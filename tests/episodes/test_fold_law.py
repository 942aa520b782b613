"""A snapshot and the patches after it are the whole, whoever joins whenever; a seed is a whole episode."""

from __future__ import annotations

import asyncio
import json
import textwrap
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectator.bus import MemoryBus, Overflow
from spectator.catalog import load_world, world_names
from spectator.core_events import (
    CORE_EVENTS,
    ActionRefused,
    DecisionMade,
    EpisodeEnded,
    EpisodePaused,
    ModelExchange,
    NarrationLine,
    Warned,
    core_fact,
)
from spectator.environments.world import World
from spectator.episodes.view import FEED_LENGTH, replay_state, with_patch, without_nulls
from spectator.errors import EpisodeNotFound, EpisodeOver
from spectator.events import Fact, RecordedEvent, decode, encode_json
from spectator.json_values import apply_patch
from spectator.narration.commentary import Line
from tests.episodes.harness import drive, plan_of, stream_of, types
from tests.fakes import RecordingJournal, world_with
from tests.hash_seeds import printed

SHORT: Mapping[str, Mapping[str, Any]] = {"counting": {"turns": 40}, "cricket": {"max_overs": 2}}
"""Options that make an episode of a world short."""


def canonical(value: Any) -> str:
    """Unlike ``==``, tells ``true`` from ``1``; the order of members is free."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


@pytest.fixture(scope="module", params=[(name, seed) for name in world_names() for seed in (1, 2)], ids=str)
def recorded(request: pytest.FixtureRequest) -> tuple[World, list[RecordedEvent]]:
    name, seed = request.param
    world = load_world(name)
    played = asyncio.run(_with_seed(world, seed, SHORT.get(name, {})))
    return world, played


async def _with_seed(world: World, seed: int, options: Mapping[str, Any]) -> list[RecordedEvent]:
    played = await drive(world, seed=seed, **options)
    assert played.end["reason"] == "finished"
    return played.events


def test_for_every_k_snapshot_and_later_patches_make_the_whole(
    recorded: tuple[World, list[RecordedEvent]],
) -> None:
    _, events = recorded
    whole = canonical(replay_state(events))
    state: Mapping[str, Any] = {}
    checked = range(0, len(events), max(1, len(events) // 200))
    for k, one in enumerate(events):
        if k in checked or k > len(events) - 20:
            snapshot = json.loads(encode_json(state))  # as it travels
            assert canonical(replay_state(events[k:], snapshot)) == whole, f"joined after event {k}"
        state = apply_patch(state, one.event.patch)
    assert canonical(state) == whole


def test_the_recorded_patches_are_those_of_the_projection(
    recorded: tuple[World, list[RecordedEvent]],
) -> None:
    world, events = recorded
    state: Mapping[str, Any] = {}
    for one in events:
        bare = decode(encode_json({**json.loads(one.text), "patch": {}})).event
        again = with_patch(state, bare, world.projection)
        state = apply_patch(state, again.patch)
        assert canonical(again.patch) == canonical(one.event.patch), f"event {one.event.seq}"


def test_the_state_is_plain_and_small_and_holds_no_null(recorded: tuple[World, list[RecordedEvent]]) -> None:
    _, events = recorded
    state = replay_state(events)
    assert json.loads(encode_json(state)) == state

    def nulls(value: Any) -> bool:
        if isinstance(value, dict):
            return any(item is None or nulls(item) for item in value.values())
        return isinstance(value, list) and any(map(nulls, value))

    assert not nulls(state)
    assert len(state["feed"]) <= FEED_LENGTH
    assert list(state["feed"]) == sorted(state["feed"])
    assert len(encode_json(state)) < 256 * 1024
    assert set(state["episode"]) >= {"id", "environment", "status", "reason", "score", "ended_at"}


def test_every_event_is_of_a_declared_type_and_fits_its_model(
    recorded: tuple[World, list[RecordedEvent]],
) -> None:
    world, events = recorded
    models = {**CORE_EVENTS, **world.events}
    for one in events:
        models[one.event.type].model_validate(one.event.data)


# joining

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("emit"), st.integers(1, 3)),
        st.tuples(st.just("join"), st.integers(0, 3)),
        st.tuples(st.just("yield"), st.integers(1, 4)),
    ),
    max_size=30,
)


@given(OPERATIONS)
@settings(deadline=None, max_examples=60)
def test_whoever_joins_at_any_moment_misses_nothing_and_sees_nothing_twice(
    operations: list[tuple[str, int]],
) -> None:
    async def scenario() -> None:
        world = world_with(
            commentator=lambda event, state: [Line(f"{event.seq}")] if event.type == "warning" else ()
        )
        journal, bus = RecordingJournal(), MemoryBus()
        stream = stream_of(world, journal, bus)
        await stream.emit(0, [core_fact(plan_of(world).started())])
        viewers: list[asyncio.Task[None]] = []

        async def view(yields: int) -> None:
            for _ in range(yields):
                await asyncio.sleep(0)
            subscription = bus.subscribe("ep-test", Overflow.CLOSE, capacity=1000)
            head, state = stream.head_seq, stream.state
            assert canonical(state) == canonical(replay_state(journal.events[:head]))
            async for batch in subscription:
                for one in batch:
                    head += 1
                    assert one.event.seq == head, "a gap, or one event twice"
                    state = apply_patch(state, one.event.patch)
            assert head == stream.head_seq
            assert canonical(state) == canonical(stream.state)

        async with asyncio.TaskGroup() as tasks:
            emitting: list[asyncio.Task[int]] = []
            for operation, count in operations:
                if operation == "emit":
                    facts = [core_fact(Warned(message=f"{number}")) for number in range(count)]
                    emitting.append(tasks.create_task(stream.emit(1, facts)))
                elif operation == "join":
                    viewers.append(tasks.create_task(view(count)))
                else:
                    for _ in range(count):
                        await asyncio.sleep(0)
            await asyncio.gather(*emitting)
            for _ in range(5):
                await asyncio.sleep(0)
            bus.finish("ep-test")
        assert [one.event.seq for one in journal.events] == list(range(1, stream.head_seq + 1))

    asyncio.run(scenario())


async def test_emissions_at_once_are_numbered_in_the_order_they_were_asked_for() -> None:
    journal = RecordingJournal()
    stream = stream_of(world_with(), journal, MemoryBus())
    await stream.emit(0, [core_fact(plan_of(world_with()).started())])
    await asyncio.gather(*(stream.emit(n, [core_fact(Warned(message=str(n)))]) for n in range(30)))
    assert [one.event.turn for one in journal.events[1:]] == list(range(30))
    assert [one.event.seq for one in journal.events] == list(range(1, 32))


async def test_a_stream_has_a_first_event_and_a_last_one() -> None:
    world, journal = world_with(), RecordingJournal()
    stream = stream_of(world, journal, MemoryBus())
    warning = core_fact(Warned(message="x"))
    with pytest.raises(EpisodeNotFound):
        await stream.emit(0, [warning])
    await stream.emit(0, [core_fact(plan_of(world).started())])
    await stream.emit(0, [])
    end = EpisodeEnded(reason="stopped", score=None, result=None, turns=0, terminated=False, truncated=True)
    answers = await asyncio.gather(
        stream.emit(0, [warning]),
        stream.emit(0, [core_fact(end)]),
        stream.emit(0, [warning]),
        stream.emit(0, [core_fact(end)]),
        return_exceptions=True,
    )
    assert [type(answer) for answer in answers] == [int, int, EpisodeOver, EpisodeOver]
    assert types(journal.events) == ["episode.started", "warning", "episode.ended"]


# what the core shows


def shown(*facts: Fact) -> Mapping[str, Any]:
    async def scenario() -> Mapping[str, Any]:
        world = world_with(projection=lambda state, event: {})
        stream = stream_of(world, RecordingJournal(), MemoryBus())
        await stream.emit(0, [core_fact(plan_of(world).started())])
        for fact in facts:
            await stream.emit(1, [fact])
        return stream.state

    return asyncio.run(scenario())


def decision(action: dict[str, Any], **fields: Any) -> Fact:
    return core_fact(
        DecisionMade(actor="counter", source="model", action=action, reasoning="r", latency_s=0.1, **fields)
    )


def test_a_decision_replaces_the_one_before_wholly() -> None:
    refused = ActionRefused(actor="counter", action={}, rule="r", message="m", refusals=1)
    first = shown(decision({"a": {"x": 1}, "flag": 1}, model="m", raw_text="t"), core_fact(refused))
    assert first["decisions"]["counter"]["refused"] == {"rule": "r", "message": "m"}
    assert first["refusals"] == {"counter": 1}
    second = shown(
        decision({"a": {"x": 1}, "flag": 1}, model="m", raw_text="t"),
        core_fact(refused),
        decision({"a": {"y": [None, 2]}, "flag": True, "n": None}),
    )["decisions"]["counter"]
    assert second["action"] == {"a": {"y": [None, 2]}, "flag": True}
    assert second["action"]["flag"] is True
    assert not {"refused", "model", "raw_text"} & set(second)


def test_the_exchanges_behind_a_decision_are_kept_but_not_shown() -> None:
    fact = decision({}, exchanges=[ModelExchange(request="0" * 64)])
    assert fact.data["exchanges"] and "exchanges" not in shown(fact)["decisions"]["counter"]


def test_the_feed_keeps_the_newest_lines() -> None:
    lines = [
        core_fact(NarrationLine(text=f"line {n}", for_seq=1, priority=3)) for n in range(FEED_LENGTH + 7)
    ]
    feed = shown(*lines)["feed"]
    assert len(feed) == FEED_LENGTH
    assert next(iter(feed.values()))["text"] == "line 7"
    assert all(int(key) == line["seq"] for key, line in feed.items())


def test_a_pause_and_a_warning_are_shown() -> None:
    state = shown(core_fact(EpisodePaused(by="x")), core_fact(Warned(message="late")))
    assert state["episode"]["status"] == "paused"
    assert state["warning"] == {"seq": 3, "message": "late"}


def test_nulls_of_objects_go_and_items_of_lists_keep_their_places() -> None:
    assert without_nulls({"a": None, "b": [None, {"c": None, "d": 1}]}) == {"b": [None, {"d": 1}]}


# determinism

PLAY = """
    import asyncio, json, sys
    from spectator.catalog import load_world
    from tests.episodes.harness import drive
    name, options = sys.argv[1], json.loads(sys.argv[2])
    played = asyncio.run(drive(load_world(name), seed=11, **options))
    for recorded in played.events:
        print(recorded.text)
"""
MEASURED = ("latency_s", "duration_s", "at", "started_at", "ended_at")


def without_measures(value: Any) -> Any:
    """The value without what a clock says."""
    if isinstance(value, dict):
        return {
            name: without_measures(item)
            for name, item in value.items()
            if not (name in MEASURED and isinstance(item, (float, str)) and _is_measure(name, item))
        }
    return [without_measures(item) for item in value] if isinstance(value, list) else value


def _is_measure(name: str, value: float | str) -> bool:
    return isinstance(value, float) if name.endswith("_s") else str(value).endswith("Z")


@pytest.mark.parametrize("name", world_names())
def test_the_same_seed_gives_the_same_events_in_every_process(name: str) -> None:
    outputs = []
    for hash_seed in (1, 4242):
        told = printed(textwrap.dedent(PLAY), hash_seed, name, json.dumps(SHORT.get(name, {})))
        outputs.append([encode_json(without_measures(json.loads(line))) for line in told.split("\n")[:-1]])
    assert len(outputs[0]) > 20
    assert outputs[0] == outputs[1]
