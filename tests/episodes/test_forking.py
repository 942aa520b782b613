"""A fork retells its parent up to where it begins, is played on by its own captains, and stands by itself."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectator.clock import SystemClock
from spectator.episodes.controls import Pace
from spectator.episodes.fork import ForkRequest
from spectator.episodes.recovery import Recovered
from spectator.episodes.replayer import verify
from spectator.errors import EpisodeBusy, EpisodeNotFound, InvalidRequest
from spectator.events import RecordedEvent, record
from spectator.journal.sql_journal import SqlJournal
from tests.episodes.harness import Stage, end_of, no_environment_threads, recover, supervising
from tests.episodes.test_playing_on import step_ends, told, url_of

COUNT: dict[str, Any] = {"environment": "counting", "options": {"turns": 6, "payload_bytes": 20}}
RANDOM: dict[str, Any] = {"environment": "counting", "captain": "random", "options": {"turns": 12}}
MATCH: dict[str, Any] = {"environment": "cricket", "options": {"max_overs": 1}, "seed": 4}


@asynccontextmanager
async def house(folder: Path, *, slots: int = 1) -> AsyncIterator[Stage]:
    journal = await SqlJournal.open(url_of(folder))
    async with supervising(journal=journal, slots=slots) as stage:
        yield stage
    await journal.aclose()
    await no_environment_threads()


async def whole(stage: Stage, **fields: Any) -> list[RecordedEvent]:
    """A parent, played to its end."""
    episode = await stage.start(**fields)
    await episode.wait()
    events: list[RecordedEvent] = await stage.journal.read(episode.episode_id)
    return events


async def forked(
    stage: Stage, parent: Sequence[RecordedEvent], seq: int, **fields: Any
) -> list[RecordedEvent]:
    """A fork of ``parent``, played to its end."""
    wanted = ForkRequest(parent[0].event.episode_id, seq, **{"pace": Pace.MAX, **fields})
    episode = await stage.supervisor.fork(wanted)
    await episode.wait()
    events: list[RecordedEvent] = await stage.journal.read(episode.episode_id)
    assert end_of(events)
    return events


async def discrepancies(events: Sequence[RecordedEvent]) -> list[Any]:
    async def stream() -> AsyncIterator[RecordedEvent]:
        for one in events:
            yield one

    return await verify(stream())


@pytest.mark.parametrize("fields", [COUNT, RANDOM, MATCH], ids=["counting", "random", "cricket"])
async def test_the_same_captains_play_on_as_they_did(tmp_path: Path, fields: dict[str, Any]) -> None:
    """Only the captains can differ between a fork and its parent, so the same ones make the same future."""

    async with house(tmp_path) as stage:
        parent = await whole(stage, **fields)
        ends = step_ends(parent)[:-1]
        for seq in {ends[1], ends[len(ends) // 2], ends[-1]}:
            child = await forked(stage, parent, seq)
            assert unnamed(told(child)[1:]) == unnamed(told(parent)[1:])
            assert await discrepancies(child) == []
            assert child[0].event.data["parent"] == {
                "episode_id": parent[0].event.episode_id,
                "seq": seq,
                "turn": parent[seq - 1].event.turn,
                "captains_seed": parent[0].event.data["seed"],
                "own_since": None,
            }


def unnamed(lines: Sequence[Any]) -> list[Any]:
    """The lines of a match without its captains' names."""
    return json.loads(re.sub(r", captained by [^,]+,", "", json.dumps(lines)))  # type: ignore[no-any-return]


async def test_another_captain_has_another_future_and_the_same_past(tmp_path: Path) -> None:
    async with house(tmp_path) as stage:
        parent = await whole(stage, **MATCH)
        seq = step_ends(parent)[len(step_ends(parent)) // 2]
        child = await forked(stage, parent, seq, captain="aggressive", opponent="random")
        turn = parent[seq - 1].event.turn
        past = [line for line in told(parent)[1:] if line[0] <= turn]
        assert unnamed(told(child)[1 : len(past) + 1]) == unnamed(past)
        assert "captained by" in str(past)
        assert "captained by" not in str(told(child)[1 : len(past) + 1]), "others played it"
        assert told(child)[1:] != told(parent)[1:]
        seats = child[0].event.data["seats"]
        assert [seats[actor]["policy"] for actor in ("home", "away")] == ["aggressive", "random"]
        sources = {line[2]["source"] for line in told(child) if line[1] == "decision.made" and line[0] > turn}
        assert sources == {"heuristic", "random"}
        assert await discrepancies(child) == []


async def test_another_seed_is_the_captains_alone(tmp_path: Path) -> None:
    """The world keeps its luck: an integer said in the fork is answered as it would have been."""

    async with house(tmp_path) as stage:
        parent = await whole(stage, **RANDOM)
        child = await forked(stage, parent, step_ends(parent)[3], seed=99)
        assert told(child)[1:] != told(parent)[1:]
        assert child[0].event.data["seed"] == parent[0].event.data["seed"]
        assert child[0].event.data["parent"]["captains_seed"] == 99
        assert await discrepancies(child) == []
        again = await forked(stage, child, step_ends(child)[5])
        assert told(again)[1:] == told(child)[1:], "a fork of a fork inherits its captains' seed"


@pytest.mark.parametrize("fields", [RANDOM, MATCH], ids=["random", "cricket"])
async def test_a_fork_whose_process_died_is_played_on_without_its_parent(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    async with house(tmp_path) as stage:
        parent = await whole(stage, **fields)
        seq = step_ends(parent)[4]
        child = await forked(stage, parent, seq, captain="random", seed=5)
    cuts = [cut for cut in step_ends(child) if child[cut - 1].event.turn >= parent[seq - 1].event.turn]
    for number, cut in enumerate(cuts[:: max(1, len(cuts) // 3)]):
        async with house(tmp_path / str(number)) as stage:
            await stage.journal.append(child[:cut])
            found = await recover(stage.journal, SystemClock(), stage.supervisor)
            assert found == Recovered(playing=[child[0].event.episode_id])
            for episode in stage.supervisor.running():
                await episode.wait()
            again = await stage.journal.read(child[0].event.episode_id)
            assert told(again) == told(child)
            assert await discrepancies(again) == []


async def test_a_stopped_episode_can_be_played_on(tmp_path: Path) -> None:
    async with house(tmp_path) as stage:
        episode = await stage.start(options={"turns": 1000}, pace=Pace.BROADCAST)
        await stage.supervisor.pause(None, by="test")
        await stage.supervisor.stop(None, by="test")
        parent = await stage.journal.read(episode.episode_id)
        wanted = ForkRequest(episode.episode_id, len(parent), pace=Pace.FAST)
        fork = await stage.supervisor.fork(wanted)
        assert fork.turn == parent[-1].event.turn
        assert fork.state["episode"]["status"] == "live"
        assert not fork.paused


def inside_a_step(events: Sequence[RecordedEvent]) -> int:
    return next(one.event.seq for one in events if one.event.type == "decision.made")


@pytest.mark.parametrize(
    ("place", "fields", "field", "rule"),
    [
        (lambda events: len(events) + 1, {}, "seq", "must be from 1 to"),
        (inside_a_step, {}, "seq", "inside the step of turn 1"),
        (lambda events: len(events), {}, "seq", "nothing left to play"),
        (lambda events: 1, {"captain": "nobody"}, "captain_preset", "unknown 'nobody'"),
        (lambda events: 1, {"opponent": "heuristc"}, "opponent_choice", "without an opponent"),
    ],
    ids=["beyond", "inside", "after", "captain", "opponent"],
)
async def test_what_cannot_be_forked_is_refused_and_leaves_nothing(
    tmp_path: Path, place: Callable[[Any], int], fields: dict[str, Any], field: str, rule: str
) -> None:
    async with house(tmp_path) as stage:
        parent = await whole(stage, **COUNT)
        with pytest.raises(InvalidRequest) as refused:
            await forked(stage, parent, place(parent), **fields)
        assert [wrong.field for wrong in refused.value.fields] == [field]
        assert rule in refused.value.fields[0].rule
        assert stage.supervisor.running() == []


async def test_a_parent_of_another_version_or_a_forged_one_is_refused(tmp_path: Path) -> None:
    async with house(tmp_path) as stage:
        parent = await whole(stage, **COUNT)
        first = parent[0].event
        older = {**first.data, "environment_version": "0.9"}
        lying = {**first.data, "seed": 77}
        for name, data, rule in (("ep-old", older, "version 0.9"), ("ep-lie", lying, "cannot be reproduced")):
            events = [record(replace(one.event, episode_id=name)) for one in parent]
            events[0] = record(replace(first, episode_id=name, data=data))
            await stage.journal.append(events)
            with pytest.raises(InvalidRequest, match=rule):
                await forked(stage, events, step_ends(events)[2])


async def test_an_unknown_parent_and_a_full_house(tmp_path: Path) -> None:
    async with house(tmp_path) as stage:
        with pytest.raises(EpisodeNotFound):
            await stage.supervisor.fork(ForkRequest("ep-nowhere", 1))
        parent = await whole(stage, **COUNT)
        await stage.start(options={"turns": 1000}, pace=Pace.BROADCAST)
        with pytest.raises(EpisodeBusy):
            await stage.supervisor.fork(ForkRequest(parent[0].event.episode_id, 1))
