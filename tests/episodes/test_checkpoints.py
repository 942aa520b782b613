"""An episode goes on from a checkpoint as from its whole record, and from the record where none fits."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from spectator.clock import SystemClock
from spectator.environments.counting import WORLD as COUNTING
from spectator.environments.world import World
from spectator.episodes import supervisor as hosting
from spectator.episodes.checkpoints import Checkpointer, episode_snapshot, memories
from spectator.episodes.recovery import Recovered
from spectator.events import RecordedEvent, decode_json, encode_json
from spectator.journal.encoding import compressed, expanded
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.policy import Decision, Policy, ScriptedPolicy
from tests.episodes.harness import end_of, no_environment_threads, recover, supervising
from tests.episodes.test_playing_on import played, step_ends, told, url_of
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint
from tests.policies.seats import endpoint_preset

COUNT = {"environment": "counting", "options": {"turns": 14, "payload_bytes": 300}}


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints follow one another closely."""
    monkeypatch.setattr(hosting, "Checkpointer", partial(Checkpointer, characters=4000))


def kept(folder: Path) -> list[int]:
    """The events after which there is a checkpoint, newest first."""
    with closing(sqlite3.connect(folder / "journal.db")) as journal:
        found = journal.execute("SELECT seq FROM checkpoints ORDER BY seq DESC").fetchall()
    return [seq for (seq,) in found]


def died_after(folder: Path, seq: int) -> Path:
    """The journal of ``whole`` as a process left it that died once event ``seq`` was recorded."""
    left = folder / f"died-{seq}"
    left.mkdir()
    shutil.copy(folder / "whole" / "journal.db", left / "journal.db")
    with closing(sqlite3.connect(left / "journal.db")) as journal, journal:
        journal.execute("DELETE FROM events WHERE seq > ?", (seq,))
        journal.execute("DELETE FROM truths")
        journal.execute("DELETE FROM incarnations")  # as if it were the file itself, not a copy
        journal.execute("UPDATE episodes SET ended_at = NULL, reason = NULL, end_seq = NULL")
    return left


async def gone_on(folder: Path) -> list[RecordedEvent]:
    """The record after a recovery, played to its end."""
    journal = await SqlJournal.open(url_of(folder))
    async with supervising(journal=journal) as stage:
        recovered = await recover(journal, SystemClock(), stage.supervisor)
        assert recovered == Recovered(playing=["ep-0001"])
        await stage.supervisor.running()[0].wait()
    events = await journal.read("ep-0001")
    await journal.aclose()
    await no_environment_threads()
    return events


@pytest.mark.parametrize(
    ("fields", "every"),
    [
        (COUNT, 1),
        ({**COUNT, "captain": "random"}, 1),
        ({"environment": "cricket", "options": {"max_overs": 1}}, 6),
        ({"environment": "cricket", "captain": "random", "options": {"max_overs": 1}, "seed": 4}, 6),
        (
            {
                "environment": "cricket",
                "captain": "tactician",
                "opponent": "random",
                "options": {"max_overs": 1},
            },
            9,
        ),
    ],
    ids=["counting", "counting-random", "cricket", "cricket-random", "cricket-tactician"],
)
async def test_the_future_is_the_same_from_a_checkpoint_as_without_a_death(
    tmp_path: Path, compared: list[int], fields: dict[str, Any], every: int
) -> None:
    whole = await played(tmp_path, **fields)
    newest, older = kept(tmp_path / "whole")
    cuts = step_ends(whole)
    before = max(cut for cut in cuts if cut < older)
    for cut in [before, *(cut for cut in cuts if cut >= older)][::every]:
        compared.clear()
        events = await gone_on(died_after(tmp_path, cut))
        stood = next((seq for seq in (newest, older) if seq <= cut), 0)
        assert compared == list(range(stood + 1, cut + 1)), "only what follows the checkpoint"
        assert [one.text for one in events[:cut]] == [one.text for one in whole[:cut]]
        assert told(events) == told(whole)
        assert end_of(events)["reason"] == "finished"


def altered(row: tuple[bytes, bytes], **changes: Any) -> tuple[bytes, bytes]:
    """A checkpoint that says something else, under a digest that fits."""
    event, body = row
    text = {**decode_json(expanded(body).decode()), **changes}
    changed = compressed(encode_json(text).encode())
    return sha256(event + changed).digest(), changed


def refitted(row: tuple[bytes, bytes], body: bytes) -> tuple[bytes, bytes]:
    return sha256(row[0] + body).digest(), body


UNFIT: dict[str, Callable[[tuple[bytes, bytes]], tuple[bytes, bytes]]] = {
    "a bit of its body": lambda row: (
        sha256(row[0] + row[1]).digest(),
        row[1][:-1] + bytes([row[1][-1] ^ 1]),
    ),
    "its digest": lambda row: (bytes(32), row[1]),
    "no body": lambda row: refitted(row, b""),
    "no JSON": lambda row: refitted(row, b"{"),
    "other JSON": lambda row: refitted(row, b'{"turn":1}'),
    "another version": lambda row: altered(row, made_by=["counting", "0.1", "0"]),
    "no such version": lambda row: altered(row, made_by=None),
    "another world's snapshot": lambda row: altered(row, world="e30="),
    "no base64": lambda row: altered(row, world="?"),
    "no refusals": lambda row: altered(row, refusals=None),
    "other seats": lambda row: altered(row, memories={"home": None}),
    "another memory": lambda row: altered(row, memories={"counter": [3, [1], None]}),
    "another state": lambda row: altered(row, state={"episode": {"status": "live"}}),
}


@pytest.mark.parametrize("what", UNFIT)
async def test_a_checkpoint_that_is_damaged_or_does_not_fit_is_ignored_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, compared: list[int], what: str
) -> None:
    """The newest: the one before it is gone on from. Both: the record is."""

    whole = await played(tmp_path, **COUNT, captain="random")
    newest, older = kept(tmp_path / "whole")
    cut = max(cut for cut in step_ends(whole) if cut > newest)
    for damaged, stood in (((newest,), older), ((newest, older), 0)):
        shutil.rmtree(tmp_path / f"died-{cut}", ignore_errors=True)
        left = died_after(tmp_path, cut)
        damage(left, damaged, UNFIT[what])
        compared.clear()
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            events = await gone_on(left)
        assert told(events) == told(whole)
        replayed = list(range(stood + 1, cut + 1))
        assert compared[-len(replayed) :] == replayed
        for seq in damaged:
            assert f"checkpoint after event {seq} " in caplog.text


def damage(
    folder: Path, seqs: tuple[int, ...], change: Callable[[tuple[bytes, bytes]], tuple[bytes, bytes]]
) -> None:
    with closing(sqlite3.connect(folder / "journal.db")) as journal, journal:
        for seq in seqs:
            (event,) = journal.execute("SELECT digest FROM events WHERE seq = ?", (seq,)).fetchone()
            (body,) = journal.execute("SELECT body FROM checkpoints WHERE seq = ?", (seq,)).fetchone()
            digest, changed = change((event, body))
            journal.execute(
                "UPDATE checkpoints SET digest = ?, body = ? WHERE seq = ?", (digest, changed, seq)
            )


async def test_a_tail_that_is_forged_is_found_out_from_a_checkpoint_too(tmp_path: Path) -> None:
    """The record after it is compared; its digests are made to fit, as a forger would."""

    whole = await played(tmp_path, **COUNT)
    newest, older = kept(tmp_path / "whole")
    cut = max(cut for cut in step_ends(whole) if cut < newest)
    left = died_after(tmp_path, cut)
    with closing(sqlite3.connect(left / "journal.db")) as connection, connection:
        forge(connection, older + 1)
    journal = await SqlJournal.open(url_of(left))
    async with supervising(journal=journal) as stage:
        recovered = await recover(journal, SystemClock(), stage.supervisor)
    assert recovered == Recovered(interrupted=["ep-0001"])
    await journal.aclose()


def forge(journal: sqlite3.Connection, seq: int) -> None:
    """Change the first event from ``seq`` on that holds a payload, and every digest from there on."""
    wanted = "SELECT seq, text, digest FROM events WHERE seq >= ? ORDER BY seq"
    rows = journal.execute(wanted, (seq - 1,)).fetchall()
    digest = rows[0][2]
    for number, text, _ in rows[1:]:
        forged = text.replace('"correct":true', '"correct":false')
        digest = sha256(digest + forged.encode()).digest()
        journal.execute("UPDATE events SET text = ?, digest = ? WHERE seq = ?", (forged, digest, number))


class Forgetful(ScriptedPolicy):
    """Counts, and does not say what it remembers."""

    def choose(self, observation: Any) -> Decision:
        """Say what comes next."""
        return Decision({"text": f"ACTION: {observation.content['next']}"}, "heuristic", "next")


class Person:
    """Neither scripted nor one that remembers."""

    async def decide(self, observation: Any, *, deadline: float) -> Decision:
        raise AssertionError("nobody asks")

    async def aclose(self) -> None:
        """Nothing is held."""


def test_whose_past_is_needed_and_whose_is_not() -> None:
    careful: Policy = COUNTING.captains["heuristic"].build(1)
    person: Policy = Person()
    assert memories({"a": careful, "b": person}) == {"a": None, "b": None}
    assert memories({"a": careful, "b": Forgetful()}) is None


async def test_an_episode_whose_captain_needs_its_past_has_no_checkpoints(tmp_path: Path) -> None:
    preset = COUNTING.captains["heuristic"]
    forgetful = type(preset)("heuristic", "F", "F", "heuristic", lambda seed: Forgetful())
    world = World(
        **{**{n: getattr(COUNTING, n) for n in COUNTING.__slots__}, "captains": {"heuristic": forgetful}}
    )
    journal = await SqlJournal.open(url_of(tmp_path))
    async with supervising(world, journal=journal) as stage:
        await (await stage.start(options=COUNT["options"])).wait()
    await journal.aclose()
    assert kept(tmp_path) == []


class Stubborn(ScriptedPolicy):
    """Says what is no integer whenever it has not just been refused, and remembers nothing."""

    def choose(self, observation: Any) -> Decision:
        """Say what comes next, if the world has just refused something."""
        said = observation.content["next"] if observation.refused is not None else "?"
        return Decision({"text": f"ACTION: {said}"}, "heuristic", "again")

    def snapshot(self) -> Any:
        """Nothing."""

    def restore(self, snapshot: Any) -> None:
        """Nothing."""


async def test_none_is_made_right_after_a_refusal_which_whoever_is_asked_next_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot does not hold what was refused: who went on from it would be asked another question."""
    monkeypatch.setattr(hosting, "Checkpointer", partial(Checkpointer, characters=1))

    stubborn = replace(COUNTING.captains["heuristic"], build=lambda seed: Stubborn())
    world = replace(COUNTING, captains={**COUNTING.captains, "heuristic": stubborn})
    (tmp_path / "whole").mkdir()
    journal = await SqlJournal.open(url_of(tmp_path / "whole"))
    async with supervising(world, journal=journal) as stage:
        await (await stage.start(options=COUNT["options"])).wait()
    whole = await journal.read("ep-0001")
    await journal.aclose()
    steps = {one.event.turn: one.event.type for one in whole if one.event.type != "step.taken"}
    assert "action.refused" in steps.values()
    for seq in kept(tmp_path / "whole"):
        assert steps[whole[seq - 1].event.turn] != "action.refused"
        cut = min(one for one in step_ends(whole) if one >= seq)
        journal = await SqlJournal.open(url_of(died_after(tmp_path, cut)))
        async with supervising(world, journal=journal) as stage:
            stage.supervisor.load = lambda name: world
            await recover(journal, SystemClock(), stage.supervisor)
            await stage.supervisor.running()[0].wait()
        assert told(await journal.read("ep-0001")) == told(whole)
        await journal.aclose()
    await no_environment_threads()


def test_a_checkpoint_that_cannot_be_kept_costs_the_episode_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        whole = await played(tmp_path, **COUNT)
        monkeypatch.setattr(
            SqlJournal,
            "keep_checkpoint",
            lambda journal, checkpoint: journal.checkpoints(checkpoint.nonsense),
        )
        again = await played(tmp_path / "again", **COUNT)
        assert told(again) == told(whole)
        assert kept(tmp_path / "again" / "whole") == []

    with caplog.at_level(logging.INFO):
        asyncio.run(scenario())
    assert "has no checkpoints" in caplog.text


async def test_of_an_ended_episode_the_newest_alone_is_kept(tmp_path: Path) -> None:
    await played(tmp_path, **COUNT)
    assert len(kept(tmp_path / "whole")) == 2
    left = died_after(tmp_path, kept(tmp_path / "whole")[0])
    for folder, there in ((left, 2), (tmp_path / "whole", 1)):
        journal = await SqlJournal.open(url_of(folder))
        await journal.tidy()
        await journal.aclose()
        assert len(kept(folder)) == there


async def test_what_a_checkpoint_says_is_what_was_there(tmp_path: Path) -> None:
    whole = await played(tmp_path, **COUNT)
    left = died_after(tmp_path, kept(tmp_path / "whole")[0])
    journal = await SqlJournal.open(url_of(left))
    newest, _ = await journal.checkpoints("ep-0001")
    stood = episode_snapshot(newest.body, COUNTING)
    assert stood.turn == whole[newest.seq - 1].event.turn
    assert stood.state["episode"]["turn"] == stood.turn
    await journal.aclose()


def test_a_model_goes_on_from_a_checkpoint_and_is_asked_as_without_a_death(
    tmp_path: Path, compared: list[int]
) -> None:
    async def scenario(base_url: str) -> None:
        model = endpoint_preset(COUNTING, base_url)
        world = replace(COUNTING, captains={**COUNTING.captains, model.name: model})
        (tmp_path / "whole").mkdir()
        journal = await SqlJournal.open(url_of(tmp_path / "whole"))
        async with supervising(world, journal=journal) as stage:
            await (await stage.start(captain=model.name, options=COUNT["options"])).wait()
        whole = await journal.read("ep-0001")
        await journal.aclose()
        newest, older = kept(tmp_path / "whole")
        for cut in (older, newest, len(whole) - 1):
            compared.clear()
            cut = max(one for one in step_ends(whole) if one <= cut)
            stood = next((seq for seq in (newest, older) if seq <= cut), 0)
            journal = await SqlJournal.open(url_of(died_after(tmp_path, cut)))
            async with supervising(world, journal=journal) as stage:
                stage.supervisor.load = lambda name: world
                assert await recover(journal, SystemClock(), stage.supervisor) == Recovered(
                    playing=["ep-0001"]
                )
                await stage.supervisor.running()[0].wait()
            events = await journal.read("ep-0001")
            await journal.aclose()
            assert stood and compared == list(range(stood + 1, cut + 1)), "only what follows the checkpoint"
            assert told(events) == told(whole), "prompts are told by their fingerprints"
        await no_environment_threads()

    with endpoint(counter) as fake:
        asyncio.run(scenario(fake.base_url))
