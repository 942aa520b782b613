"""What models were asked is read from the record: by a restart, a fork, and whoever wants the questions."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectator.clock import SystemClock
from spectator.environments.counting import WORLD as COUNTING
from spectator.environments.world import World
from spectator.episodes.recorded_calls import calls_of, exchanges_of
from spectator.events import RecordedEvent
from spectator.journal.sql_journal import SqlJournal
from spectator.llm.answers import Assembly
from spectator.llm.exchanges import MAX_REPLY, Playback, fingerprint
from spectator.llm.playback_server import chunks, serving_playback, tokens_of
from tests.episodes.harness import recover
from tests.episodes.test_playing_on import step_ends, url_of
from tests.episodes.test_remembering import asked_after, fork, house, whole, world_of
from tests.journal.calls import call_of, user
from tests.llm.brains import Said, counter
from tests.llm.fake_server import serving


def verbose(body: Mapping[str, Any]) -> Said:
    """Counts, and thinks for longer than an event holds."""
    return replace(counter(body), thought="Let me think. " * (MAX_REPLY // 10))


def leave(folder: Path, left: Path, seq: int) -> None:
    """A journal as a process left it that died once event ``seq`` was recorded."""
    left.mkdir()
    shutil.copy(folder / "journal.db", left / "journal.db")
    with closing(sqlite3.connect(left / "journal.db")) as connection:
        for table in ("events", "calls"):
            connection.execute(f"DELETE FROM {table} WHERE seq > ?", (seq,))
        connection.execute("UPDATE episodes SET ended_at = NULL, reason = NULL, end_seq = NULL")
        connection.commit()


async def gone_on(folder: Path, world: World) -> list[RecordedEvent]:
    async with house(folder, world) as stage:
        assert (await recover(stage.journal, SystemClock(), stage.supervisor)).playing
        episode = stage.supervisor.running()[0]
        await episode.wait()
        return list(await stage.journal.read(episode.episode_id))


@pytest.mark.parametrize("style", ["tools", "json"])
async def test_a_reply_of_any_length_is_remembered_whole_after_a_death(tmp_path: Path, style: str) -> None:
    """In the style of tools too, where a part of the reply's text would not do: its calls are needed."""

    async with serving(verbose, chunk=4_096) as fake:
        world = world_of(COUNTING, mine={"base_url": fake.base_url, "style": style})
        events = await whole(tmp_path, world, turns=4)
        undisturbed = asked_after(fake, 0)
        (first, *_) = [one.event.data for one in events if one.event.type == "decision.made"]
        assert first["exchanges"][0]["reply"] is None and first["source"] == "model"
        leave(tmp_path, tmp_path / "left", step_ends(events)[2])
        before = len(fake.received)
        await gone_on(tmp_path / "left", world)
        assert asked_after(fake, before) == undisturbed[2:]


async def test_a_fork_has_the_calls_of_its_past_and_remembers_long_replies(tmp_path: Path) -> None:
    async with serving(verbose, chunk=4_096) as fake:
        world = world_of(COUNTING, mine={"base_url": fake.base_url})
        async with house(tmp_path, world) as stage:
            episode = await stage.start(options={"turns": 4})
            await episode.wait()
            parent = await stage.journal.read(episode.episode_id)
            undisturbed = asked_after(fake, 0)
            child = await fork(stage, parent, step_ends(parent)[2])
            assert asked_after(fake, 4) == undisturbed[2:]
            calls = [one async for one in stage.journal.calls(child[0].event.episode_id)]
            assert len(calls) == 4
            for one in calls:
                asked = fingerprint(one.call.messages, one.call.tools)
                assert one.exchange["request"] == asked
                assert one.exchange["digest"] == one.call.digest(asked)


async def test_recorded_questions_are_given_as_they_were_with_whole_replies(tmp_path: Path) -> None:
    async with serving(verbose, chunk=4_096) as fake:
        world = world_of(COUNTING, mine={"base_url": fake.base_url, "style": "json"})
        events = await whole(tmp_path, world, turns=3)
        journal = await SqlJournal.open(url_of(tmp_path))
        exchanges = await exchanges_of(journal, events[0].event.episode_id)
        assert [list(one.messages) for one in exchanges] == [body["messages"] for body in fake.bodies]
        assert all(one.reply and len(one.reply["thought"]) > MAX_REPLY for one in exchanges)
        first = await calls_of(journal, events[0].event.episode_id, until=1)
        assert len(first) == 1
        await journal.aclose()


@pytest.mark.parametrize("stream", [True, False])
async def test_tokens_are_recorded_as_the_server_gave_them(tmp_path: Path, stream: bool) -> None:
    async with serving(counter) as fake:
        table = {"base_url": fake.base_url, "tokens": True, "stream": stream}
        await whole(tmp_path, world_of(COUNTING, mine=table), turns=2)
    journal = await SqlJournal.open(url_of(tmp_path))
    calls = [one.call async for one in journal.calls("ep-0001")]
    await journal.aclose()
    assert len(calls) == len(fake.bodies) == 2
    for call, body in zip(calls, fake.bodies, strict=True):
        assert list(call.messages) == body["messages"] and list(call.tools) == body["tools"]
        assert list(call.prompt_token_ids or ()) == [1, 2, 3]
        assert call.token_ids is not None and call.logprobs is not None
        count = len(call.token_ids)
        assert call.token_ids.tolist() == list(range(100, 100 + count))
        assert call.logprobs.tolist() == [-0.5 * n for n in range(count)]
        assert list(call.weight_versions) == [("w7", count)]
        assert call.about["model"] == body["model"] and call.about["seed"] == body["seed"]
        assert call.measured["attempts"] == 1 and call.measured["latency_s"] >= 0


async def test_no_key_is_ever_in_a_call(tmp_path: Path) -> None:
    """Not in a prompt, not in how it was asked, and not where the endpoint repeats it."""
    key = "sk-1234567890-very-secret"

    def telling(body: Mapping[str, Any]) -> Said:
        return replace(counter(body), thought=f"My key is {key}.")

    async with serving(telling) as fake:
        table = {"base_url": fake.base_url, "key": key, "extra": {"user": "ops-4711"}}
        await whole(tmp_path, world_of(COUNTING, mine=table), turns=1)
        assert fake.received[0].headers["authorization"] == f"Bearer {key}"
    journal = await SqlJournal.open(url_of(tmp_path))
    (call,) = [one.call async for one in journal.calls("ep-0001")]
    await journal.aclose()
    assert call.reply is not None and "[key]" in call.reply["thought"]
    assert key not in repr(call) and "ops-4711" not in repr(call)


@pytest.mark.parametrize("stream", [True, False])
async def test_played_against_its_record_an_episode_has_the_same_calls_tokens_and_all(
    tmp_path: Path, stream: bool
) -> None:
    table: dict[str, Any] = {"tokens": True, "stream": stream}
    async with serving(counter) as fake:
        world = world_of(COUNTING, mine={"base_url": fake.base_url, **table})
        first = await whole(tmp_path / "first", world, turns=3)
    journal = await SqlJournal.open(url_of(tmp_path / "first"))
    exchanges = await exchanges_of(journal, "ep-0001")
    await journal.aclose()
    async with serving_playback(Playback(exchanges), "127.0.0.1", 0) as base_url:
        again = world_of(COUNTING, mine={"base_url": base_url, **table})
        second = await whole(tmp_path / "second", again, turns=3)
    assert digests(second) == digests(first) and len(digests(first)) == 3


def digests(events: Sequence[RecordedEvent]) -> list[str]:
    made = [one.event.data for one in events if one.event.type == "decision.made"]
    return [exchange["digest"] for data in made for exchange in data["exchanges"]]


def test_each_version_of_the_weights_is_played_back_with_its_tokens() -> None:
    call = call_of(
        [user("?")], tokens=[7, 8, 9], logprobs=[-1, -2, -3], prompt=[1], weight_versions=[("1", 2), ("2", 1)]
    )
    asked = {"return_token_ids": True, "logprobs": True}
    assembly = Assembly()
    assembly.feed_all(chunks(call.reply or {}, {}, tokens_of(call, asked), with_usage=False))
    answer = assembly.answer(latency_s=0.0, first_token_s=None, attempts=1)
    assert (answer.token_ids, answer.logprobs) == (call.token_ids, call.logprobs)
    assert answer.prompt_token_ids == call.prompt_token_ids
    assert list(answer.weight_versions) == list(call.weight_versions)
    (one, other) = tokens_of(call, {})
    assert one["choice"] == other["choice"] == {} and "prompt_token_ids" not in one
