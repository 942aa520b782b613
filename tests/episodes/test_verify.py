"""A recorded episode can be played again; a forged one cannot."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectator.environments.counting import WORLD as COUNTING
from spectator.episodes.replayer import Discrepancy, verify
from spectator.events import RecordedEvent, decode, record
from tests.commands import spectator
from tests.episodes.harness import drive

Forge = Callable[[list[RecordedEvent]], list[RecordedEvent]]


@pytest.fixture(
    scope="module",
    params=[["counting", "--option", "payload_bytes=8"], ["cricket"]],
    ids=["counting", "cricket"],
)
def episode(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[RecordedEvent]:
    folder = str(tmp_path_factory.mktemp("journal"))
    played = spectator("play", *request.param, "--seed", "11", "--data-dir", folder)
    assert played.exit_code == 0, played.output
    return [decode(line) for line in played.stdout.splitlines()]


def check(events: list[RecordedEvent]) -> list[Discrepancy]:
    async def stream() -> AsyncIterator[RecordedEvent]:
        for one in events:
            yield one

    return asyncio.run(verify(stream()))


def with_data(one: RecordedEvent, **changes: Any) -> RecordedEvent:
    return record(replace(one.event, data={**one.event.data, **changes}))


def first(events: list[RecordedEvent], kind: str) -> int:
    return next(index for index, one in enumerate(events) if one.event.type == kind)


def test_a_true_record_has_no_discrepancy(episode: list[RecordedEvent]) -> None:
    assert check(episode) == []


def other_seed(events: list[RecordedEvent]) -> list[RecordedEvent]:
    return [with_data(events[0], seed=12), *events[1:]]


def missing_event(events: list[RecordedEvent]) -> list[RecordedEvent]:
    return events[:5] + events[6:]


def no_end(events: list[RecordedEvent]) -> list[RecordedEvent]:
    return events[:-1]


def better_score(events: list[RecordedEvent]) -> list[RecordedEvent]:
    return [*events[:-1], with_data(events[-1], score=0.123456)]


def other_result(events: list[RecordedEvent]) -> list[RecordedEvent]:
    return [*events[:-1], with_data(events[-1], result="the visitors won")]


def other_version(events: list[RecordedEvent]) -> list[RecordedEvent]:
    return [with_data(events[0], environment_version="0.0"), *events[1:]]


def other_words(events: list[RecordedEvent]) -> list[RecordedEvent]:
    at = first(events, "narration.line")
    return [*events[:at], with_data(events[at], text="Nothing happened."), *events[at + 1 :]]


def other_patch(events: list[RecordedEvent]) -> list[RecordedEvent]:
    at = first(events, "decision.made")
    forged = record(replace(events[at].event, patch={"episode": {"turn": 99}}))
    return [*events[:at], forged, *events[at + 1 :]]


def refused_action(events: list[RecordedEvent]) -> list[RecordedEvent]:
    at = first(events, "decision.made")
    return [*events[:at], with_data(events[at], action={"nonsense": 1}), *events[at + 1 :]]


def early_end(events: list[RecordedEvent]) -> list[RecordedEvent]:
    ended = replace(events[-1].event, seq=7)
    return [*events[:6], record(ended)]


@pytest.mark.parametrize(
    "forge",
    [
        other_seed,
        missing_event,
        no_end,
        better_score,
        other_result,
        other_version,
        other_words,
        other_patch,
        refused_action,
        early_end,
    ],
)
def test_a_forged_record_is_found_out(episode: list[RecordedEvent], forge: Forge) -> None:
    assert check(forge(episode))


def test_the_command_says_so_and_exits_with_1_on_a_forgery(tmp_path: Path) -> None:
    folder = str(tmp_path)
    played = spectator("play", "counting", "--data-dir", folder)
    episode_id = json.loads(played.stdout.splitlines()[0])["episode_id"]
    true = spectator("verify", episode_id, "--data-dir", folder)
    assert true.exit_code == 0
    assert "every event" in true.output
    assert spectator("verify", "nobody", "--data-dir", folder).exit_code == 1


async def test_a_world_that_fails_when_it_is_played_again_is_a_discrepancy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = await drive(COUNTING, turns=3)

    def fail(self: Any, action: Any) -> Any:
        raise OSError("gone")

    monkeypatch.setattr(COUNTING.environment, "step", fail)

    async def events() -> Any:
        for one in played.events:
            yield one

    (found,) = await verify(events())
    assert found.message == "the world failed: OSError: gone"
