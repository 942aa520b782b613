"""A fork that begins at its parent's checkpoint is, byte for byte, the one that begins at its beginning."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spectator.environments.counting import WORLD as COUNTING
from spectator.environments.world import World
from spectator.episodes import fork as copying
from spectator.episodes import supervisor as hosting
from spectator.episodes.checkpoints import Checkpointer
from spectator.episodes.controls import Pace
from spectator.episodes.fork import ForkRequest
from spectator.episodes.reader import SavedView
from spectator.errors import InvalidRequest
from spectator.events import RecordedEvent
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.policy import Preset
from tests.episodes.harness import Stage, no_environment_threads, supervising
from tests.episodes.test_checkpoints import UNFIT, Person, damage, forge, kept
from tests.episodes.test_forking import discrepancies
from tests.episodes.test_playing_on import step_ends, url_of
from tests.fakes import ManualClock
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint
from tests.policies.seats import endpoint_preset

COUNT: dict[str, Any] = {"environment": "counting", "options": {"turns": 16, "payload_bytes": 300}}
RANDOM: dict[str, Any] = {**COUNT, "captain": "random"}
MATCH: dict[str, Any] = {"environment": "cricket", "options": {"max_overs": 1}}
RIVALS: dict[str, Any] = {**MATCH, "captain": "tactician", "opponent": "random", "seed": 4}
CAMPAIGN: dict[str, Any] = {"environment": "collider", "captain": "random", "seed": 3}
PARENT = "ep-parent"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints follow one another closely."""
    monkeypatch.setattr(hosting, "Checkpointer", partial(Checkpointer, characters=9000))


@asynccontextmanager
async def house(folder: Path, world: World | None = None) -> AsyncIterator[Stage]:
    """A supervisor on the journal of ``folder``, where time stands still."""
    journal = await SqlJournal.open(url_of(folder))
    async with supervising(world, journal=journal, clock=ManualClock()) as stage:
        if world is not None:
            stage.supervisor.load = lambda name: world
        yield stage
    await journal.aclose()
    await no_environment_threads()


async def played(folder: Path, world: World | None = None, **fields: Any) -> list[RecordedEvent]:
    """A parent, played to its end in a journal of its own."""
    async with house(folder, world) as stage:
        stage.supervisor.new_id = lambda: PARENT
        await (await stage.start(**fields)).wait()
        events: list[RecordedEvent] = await stage.journal.read(PARENT)
        return events


def without_checkpoints(folder: Path) -> Path:
    """A copy of a journal that holds the record alone."""
    bare = folder.with_name(f"{folder.name}-bare")
    shutil.copytree(folder, bare)
    with closing(sqlite3.connect(bare / "journal.db")) as journal, journal:
        journal.execute("DELETE FROM checkpoints")
    return bare


async def forked(folder: Path, seq: int, world: World | None = None, **who: Any) -> list[str]:
    """What is recorded of a fork at ``seq`` that is played to its end, in a copy of the journal."""
    scratch = folder.with_name(f"{folder.name}-at-{seq}")
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(folder, scratch)
    async with house(scratch, world) as stage:
        episode = await stage.supervisor.fork(ForkRequest(PARENT, seq, **{"pace": Pace.MAX, **who}))
        await episode.wait()
        found = await stage.journal.read(episode.episode_id)
        if world is None:
            assert await discrepancies(found) == []
        return [one.text for one in found]


async def refused(folder: Path, seq: int) -> str:
    """Why a fork at ``seq`` is refused; nothing is left of it."""
    async with house(folder) as stage:
        with pytest.raises(InvalidRequest) as told:
            await stage.supervisor.fork(ForkRequest(PARENT, seq))
        assert stage.supervisor.running() == []
    return str(told.value)


def around(ends: Sequence[int], places: Sequence[int]) -> list[int]:
    """The ends of steps just before, at, and just after ``places``, and the last one."""
    chosen = {ends[-1]}
    for place in places:
        chosen.add(max((end for end in ends if end < place), default=ends[0]))
        chosen.add(place)
        chosen.add(min((end for end in ends if end > place), default=ends[-1]))
    return sorted(chosen)


@pytest.mark.parametrize(
    "fields",
    [COUNT, RANDOM, MATCH, RIVALS, CAMPAIGN],
    ids=["counting", "counting-random", "cricket", "cricket-rivals", "collider"],
)
async def test_wherever_it_begins_the_fork_is_the_same(
    tmp_path: Path, compared: list[int], monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    whole = await played(tmp_path / "whole", **fields)
    ends = step_ends(whole)[:-1]
    newest, older = kept(tmp_path / "whole")
    bare = without_checkpoints(tmp_path / "whole")
    for seq in around(ends, (older, newest)):
        if seq >= len(whole) - 2:
            continue
        stood = next((place for place in (newest, older) if place <= seq), 0)
        replayed = list(range(stood + 1, seq + 1))
        compared.clear()
        with monkeypatch.context() as small:
            small.setattr(copying, "BATCH_CHARACTERS", 4000)
            from_checkpoint = await forked(tmp_path / "whole", seq)
        assert compared[: len(replayed)] == replayed, "only what follows the checkpoint"
        assert compared[len(replayed)] == 1, "and then what was recorded is verified"
        assert await forked(bare, seq) == from_checkpoint, f"at event {seq}"


def seated_by(person: bool, base_url: str = "") -> World:
    """Counting with one more captain: a person's seat, or a model."""
    plain = COUNTING.captains["heuristic"]
    newcomer = (
        Preset("person", "P", "P", "human", lambda seed: Person())
        if person
        else replace(endpoint_preset(COUNTING, base_url, clock=ManualClock()), name="person")
    )
    return replace(COUNTING, captains={**COUNTING.captains, "person": newcomer, "heuristic": plain})


@pytest.mark.parametrize(
    ("parent", "who", "from_checkpoint"),
    [
        (RANDOM, {}, True),
        (RANDOM, {"captain": "heuristic"}, True),  # it decides afresh
        (COUNT, {"captain": "random"}, False),  # whose generator stands where so many draws left it
        (RANDOM, {"seed": 9}, False),
        (COUNT, {"seed": 9}, True),
        (MATCH, {"captain": "anchor"}, False),
        (MATCH, {"opponent": "random"}, False),
    ],
    ids=["same", "afresh", "random", "seed", "seed-afresh", "captain", "opponent"],
)
async def test_who_needs_the_past_is_shown_it(
    tmp_path: Path, compared: list[int], parent: dict[str, Any], who: dict[str, Any], from_checkpoint: bool
) -> None:
    whole = await played(tmp_path / "whole", **parent)
    newest = kept(tmp_path / "whole")[0]
    bare = without_checkpoints(tmp_path / "whole")
    seq = min(end for end in step_ends(whole) if end > newest)
    compared.clear()
    child = await forked(tmp_path / "whole", seq, **who)
    assert (compared[0] == newest + 1) is from_checkpoint
    assert child == await forked(bare, seq, **who)


def test_a_model_begins_at_the_checkpoint_whether_it_stays_or_comes(
    tmp_path: Path, compared: list[int]
) -> None:
    """Who stays is asked as if it had been there from the beginning; who comes begins where the fork does."""

    async def scenario(base_url: str) -> None:
        world = seated_by(False, base_url)
        for name, who in (("person", {}), ("random", {"captain": "person"})):
            folder = tmp_path / name
            whole = await played(folder, world, captain=name, options=COUNT["options"])
            bare = without_checkpoints(folder)
            newest = kept(folder)[0]
            for seq in around(step_ends(whole)[:-2], (newest,))[:-1]:
                compared.clear()
                child = await forked(folder, seq, world, **who)
                begun = next((place for place in kept(folder) if place <= seq), 0)
                assert compared == list(range(begun + 1, seq + 1))
                assert child == await forked(bare, seq, world, **who)
                assert calls_beside(folder, seq) == calls_beside(bare, seq)
        await no_environment_threads()

    with endpoint(counter) as fake:
        asyncio.run(scenario(fake.base_url))


def calls_beside(folder: Path, seq: int) -> list[tuple[Any, ...]]:
    """What is recorded of the model calls of a fork: all but what was measured."""
    journal = folder.with_name(f"{folder.name}-at-{seq}") / "journal.db"
    columns = "seq, place, kept, messages, tools, reply"
    with closing(sqlite3.connect(journal)) as connection:
        wanted = f"SELECT {columns} FROM calls WHERE episode_id != ? ORDER BY seq, place"
        return connection.execute(wanted, (PARENT,)).fetchall()


def test_a_model_that_is_asked_otherwise_now_takes_in_the_whole_past(
    tmp_path: Path, compared: list[int]
) -> None:
    async def scenario(base_url: str) -> None:
        world = seated_by(False, base_url)
        whole = await played(tmp_path / "whole", world, captain="person", options=COUNT["options"])
        model = world.captains["person"]
        assert model.fingerprint
        other = replace(world, captains={**world.captains, "person": replace(model, fingerprint="0" * 64)})
        seq = min(end for end in step_ends(whole) if end > kept(tmp_path / "whole")[0])
        compared.clear()
        await forked(tmp_path / "whole", seq, other)
        assert compared == list(range(1, seq + 1))

    with endpoint(counter) as fake:
        asyncio.run(scenario(fake.base_url))


async def test_a_person_begins_at_the_checkpoint(tmp_path: Path, compared: list[int]) -> None:
    world = seated_by(True)
    whole = await played(tmp_path / "whole", world, captain="random", options=COUNT["options"])
    newest = kept(tmp_path / "whole")[0]
    seq = min(end for end in step_ends(whole) if end > newest)
    compared.clear()
    child = await forked(tmp_path / "whole", seq, world, captain="person")
    assert compared == list(range(newest + 1, seq + 1))
    assert '"reason":"policy_error"' in child[-1], "nobody answers for it"


async def test_a_world_whose_snapshots_are_of_one_episode_is_played_from_the_beginning(
    tmp_path: Path, compared: list[int]
) -> None:
    world = replace(COUNTING, snapshot_for=None)
    whole = await played(tmp_path / "whole", world, options=COUNT["options"])
    assert kept(tmp_path / "whole")
    seq = step_ends(whole)[-3]
    compared.clear()
    await forked(tmp_path / "whole", seq, world)
    assert compared == list(range(1, seq + 1))


async def test_the_world_of_a_fork_is_the_fork_s(tmp_path: Path) -> None:
    await played(tmp_path / "whole", **COUNT)
    newest = kept(tmp_path / "whole")[0]
    async with house(tmp_path / "whole") as stage:
        forked_at = ForkRequest(PARENT, newest, pace=Pace.BROADCAST)
        episode = await stage.supervisor.fork(forked_at)
        await stage.supervisor.pause(episode.episode_id, by="test")
        driver: Any = episode._driver
        state = await driver._stepper.state(limit_s=None)
        assert state["episode_id"] == episode.episode_id != PARENT


@pytest.mark.parametrize("what", UNFIT)
async def test_a_damaged_checkpoint_is_set_aside_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, compared: list[int], what: str
) -> None:
    """The newest: the one before it is gone on from. Both: the whole record is."""

    whole = await played(tmp_path / "whole", **RANDOM)
    newest, older = kept(tmp_path / "whole")
    seq = min(end for end in step_ends(whole) if end > newest)
    child = await forked(without_checkpoints(tmp_path / "whole"), seq)
    for damaged, stood in (((newest,), older), ((older,), 0)):
        damage(tmp_path / "whole", damaged, UNFIT[what])
        compared.clear()
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert await forked(tmp_path / "whole", seq) == child
        replayed = list(range(stood + 1, seq + 1))
        starts = range(len(compared))
        assert any(compared[at : at + len(replayed)] == replayed for at in starts)
        assert stood == 0 or compared.count(seq - 1) == 2, "here and in the fork that is verified"
        assert f"checkpoint after event {damaged[0]} " in caplog.text


async def test_a_checkpoint_that_holds_a_view_alone_is_passed_over_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = await played(tmp_path / "whole", **COUNT)
    bare = without_checkpoints(tmp_path / "whole")
    seq = step_ends(whole)[-3]
    journal = await SqlJournal.open(url_of(bare))
    await journal.keep_checkpoint(SavedView("e", seq, seq, {}).checkpoint(PARENT))
    await journal.aclose()
    with caplog.at_level(logging.WARNING):
        assert await forked(bare, seq) == await forked(tmp_path / "whole", seq)
    assert "checkpoint" not in caplog.text


async def test_a_forged_tail_is_refused_from_a_checkpoint_too(tmp_path: Path) -> None:
    whole = await played(tmp_path / "whole", **COUNT)
    newest = kept(tmp_path / "whole")[0]
    seq = min(end for end in step_ends(whole) if end > newest)
    with closing(sqlite3.connect(tmp_path / "whole" / "journal.db")) as journal, journal:
        forge(journal, newest + 1)
    assert "cannot be reproduced from its seed and decisions" in await refused(tmp_path / "whole", seq)


async def test_a_place_inside_a_step_is_refused_and_its_neighbours_are_named(
    tmp_path: Path, compared: list[int]
) -> None:
    whole = await played(tmp_path / "whole", **COUNT)
    newest = kept(tmp_path / "whole")[0]
    for seq, before in ((newest + 1, newest), (newest + 4, newest + 3)):
        assert whole[seq - 1].event.type == "decision.made"
        compared.clear()
        assert f"use {before}, the one before it" in await refused(tmp_path / "whole", seq)
        assert compared == list(range(newest + 1, seq + 1)), "once, and not again from the beginning"
