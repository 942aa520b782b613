"""``/api/episodes/{id}/state`` and parts of records: what a page needs to go anywhere in a long one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from server.security.budget import Budget
from spectator.episodes.view import replay_state
from spectator.events import decode
from tests.serving import Serving, serve, test_settings


def test_the_state_at_every_event_is_what_its_patches_come_to(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving:
        episode = serving.start(options={"turns": 5})
        serving.finish(episode)
        events = [decode(json.dumps(one)) for one in serving.events(episode)]
        newest = serving.client.get(f"/api/episodes/{episode}/state").json()
        assert newest["seq"] == newest["head_seq"] == len(events)
        assert newest["epoch"] == events[0].event.epoch
        for seq in (0, 1, 7, len(events) - 1, len(events), len(events) + 50):
            told = serving.client.get(f"/api/episodes/{episode}/state?at={seq}").json()
            assert told["seq"] == min(seq, len(events)) and told["head_seq"] == len(events)
            assert told["state"] == replay_state(events[:seq])


def test_a_part_of_a_record_is_as_many_events_as_are_asked_for(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving:
        episode = serving.start(options={"turns": 5})
        serving.finish(episode)
        whole = serving.client.get(f"/api/episodes/{episode}/events").text.splitlines()
        address = f"/api/episodes/{episode}/events"
        assert serving.client.get(f"{address}?after_seq=3&limit=4").text.splitlines() == whole[3:7]
        assert serving.client.get(f"{address}?limit=10000").text.splitlines() == whole
        assert serving.client.get(f"{address}?after_seq={len(whole)}&limit=1").text == ""


def test_a_past_state_is_folded_in_the_turns_in_which_records_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or whoever asks for many would take the processor from what is played."""
    taken, take = [], Budget.reading_turn

    @asynccontextmanager
    async def counted(budget: Budget) -> AsyncIterator[None]:
        async with take(budget):
            taken.append(budget)
            yield

    monkeypatch.setattr(Budget, "reading_turn", counted)
    with serve(test_settings(tmp_path)) as serving:
        episode = serving.start(options={"turns": 300})
        head = serving.finish(episode)["head_seq"]
        assert not taken and head > 512
        assert serving.client.get(f"/api/episodes/{episode}/state?at={head - 1}").json()["seq"] == head - 1
        assert len(taken) == 2, "a piece of 512 events, and the rest"


@pytest.mark.parametrize("query", ["state?at=-1", "state?at=x", "events?limit=0", "events?limit=10001"])
def test_a_wrong_place_is_refused_by_name(serving: Serving, query: str) -> None:
    answer = serving.client.get(f"/api/episodes/none/{query}")
    assert answer.status_code == 422
    assert query.split("?")[1].split("=")[0] in answer.text


def test_the_state_of_an_episode_that_is_not_there_is_refused(serving: Serving) -> None:
    assert serving.client.get("/api/episodes/none/state").status_code == 404
