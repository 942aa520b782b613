"""Alternatives over HTTP: the same for everybody, of ended episodes alone, bounded, with errors by field."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving import Serving, serve, test_settings

CRICKET = {"environment": "cricket", "options": {"max_overs": 1}, "captain_preset": "planner", "seed": 7}


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    settings = test_settings(tmp_path_factory.mktemp("alternatives"), environment="cricket", max_episodes=4)
    with serve(settings) as running:
        yield running


@pytest.fixture(scope="module")
def episode(serving: Serving) -> str:
    episode_id = serving.start(**CRICKET)
    serving.finish(episode_id)
    return episode_id


def decisions(serving: Serving, episode_id: str, *tools: str) -> list[dict[str, Any]]:
    made = [event for event in serving.events(episode_id) if event["type"] == "decision.made"]
    return [one for one in made if not tools or one["data"]["action"]["tool"] in tools]


def alternatives(serving: Serving, episode_id: str, seq: int) -> Any:
    return serving.client.get(f"/api/episodes/{episode_id}/alternatives", params={"seq": seq}, timeout=60)


def refused(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    told: dict[str, Any] = answer.json()
    return told


def test_the_best_come_first_and_what_was_decided_is_marked(serving: Serving, episode: str) -> None:
    for made in decisions(serving, episode, "play_delivery", "bowl_delivery", "select_bowler")[:4]:
        answer = alternatives(serving, episode, made["seq"])
        assert answer.status_code == 200, answer.text
        told = answer.json()
        assert told["actor"] == made["data"]["actor"]
        (played,) = [one for one in told["best"] if one["played"]]
        assert played["action"]["tool"] == made["data"]["action"]["tool"]
        assert (played["gain"], played["gain_error"]) == (0.0, 0.0)
        gains = [one["gain"] for one in told["best"]]
        assert gains == sorted(gains, reverse=True)
        assert 3 <= len(gains) <= 5
        assert told["futures"] > 10_000


def test_a_second_server_on_the_record_tells_the_same(serving: Serving, episode: str, tmp_path: Path) -> None:
    seq = decisions(serving, episode, "bowl_delivery")[2]["seq"]
    first = alternatives(serving, episode, seq).json()
    with serve(test_settings(tmp_path, environment="cricket")) as other:
        again = other.start(**CRICKET)
        other.finish(again)
        assert decisions(other, again, "bowl_delivery")[2]["seq"] == seq
        told = alternatives(other, again, seq).json()
    assert {**told, "episode_id": episode} == first


def test_what_was_weighed_is_kept(serving: Serving, episode: str) -> None:
    seq = decisions(serving, episode, "play_delivery")[-1]["seq"]
    first = alternatives(serving, episode, seq)
    held = serving.server.config.app.state.services.alternatives_process  # type: ignore[union-attr]
    process = held.process_id
    assert process is not None
    os.kill(process, signal.SIGKILL)  # whoever asks again needs no process
    assert alternatives(serving, episode, seq).json() == first.json()
    assert held.process_id == process
    other = decisions(serving, episode, "select_batter")[-1]["seq"]
    assert alternatives(serving, episode, other).status_code == 200, "another process is started"
    assert held.process_id not in (None, process)


def test_wrong_places_are_named(serving: Serving, episode: str) -> None:
    head = serving.client.get(f"/api/episodes/{episode}").json()["head_seq"]
    beyond = refused(alternatives(serving, episode, head + 1), 422)
    assert beyond["errors"] == [{"field": "seq", "rule": f"must be from 1 to {head}, the last event"}]
    first = decisions(serving, episode)[0]["seq"]
    none = refused(alternatives(serving, episode, first - 1), 422)
    assert none["errors"][0]["field"] == "seq"
    assert f"nearby ones: {first}" in none["errors"][0]["rule"]
    assert refused(alternatives(serving, episode, 0), 422)["errors"][0]["field"] == "seq"
    missing = serving.client.get(f"/api/episodes/{episode}/alternatives")
    assert refused(missing, 422)["errors"][0]["field"] == "seq"
    assert refused(alternatives(serving, "nobody", 3), 404)["type"] == "/problems/episode-not-found"


def test_a_live_episode_tells_none_and_a_world_without_an_analyst_has_none(serving: Serving) -> None:
    live = serving.start(**{**CRICKET, "pace": "broadcast"})
    try:
        told = refused(alternatives(serving, live, 5), 409)
        assert told["type"] == "/problems/episode-unended"
    finally:
        serving.client.post("/custom/stop_episode", json={"episode_id": live})
    counting = serving.start(environment="counting")
    serving.finish(counting)
    assert "does not support alternatives" in refused(alternatives(serving, counting, 2), 404)["detail"]


def test_an_address_has_so_many_seconds_a_minute(tmp_path: Path) -> None:
    settings = test_settings(tmp_path, environment="cricket", alternatives_s_per_minute=0.001)
    with serve(settings) as running:
        episode_id = running.start(**CRICKET)
        running.finish(episode_id)
        first, second = (one["seq"] for one in decisions(running, episode_id, "bowl_delivery")[:2])
        assert alternatives(running, episode_id, first).status_code == 200
        told = alternatives(running, episode_id, second)
        assert refused(told, 429)["type"] == "/problems/too-many-requests"
        assert "SPECTATOR_ALTERNATIVES_S_PER_MINUTE" in told.json()["detail"]
        assert int(told.headers["Retry-After"]) > 1
        assert alternatives(running, episode_id, first).status_code == 200, "what is known costs nothing"
