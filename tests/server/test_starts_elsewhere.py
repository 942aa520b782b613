"""Starts at a server without a free slot: another on the same PostgreSQL plays them, if it has room."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from tests.server.test_two_servers import check_record, missing_others_soon, running, start, watched
from tests.serving import PATIENCE_S, Serving, serve, serve_process, test_settings, until

LONG = {"turns": 400}
OWN = {"X-Forwarded-For": "203.0.113.9"}


@pytest.fixture(scope="module")
def roomy(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server of this process with two slots, which says soon how much room it has."""
    settings = test_settings(tmp_path_factory.mktemp("b"), journal_url=SecretStr(url), max_episodes=2)
    with missing_others_soon(), serve(settings) as serving:
        yield serving


def begin(base_url: str, **body: Any) -> httpx.Response:
    sent = {"pace": "fast", **body}
    return httpx.post(f"{base_url}/custom/start_episode", json=sent, headers=OWN, timeout=PATIENCE_S)


def stop(serving: Serving, episode_id: str) -> None:
    told = serving.client.post("/custom/stop_episode", json={"episode_id": episode_id})
    assert told.status_code == 200, told.text


def settled_room(url: str, free: int) -> None:
    """Wait until so much room is said to be there."""
    import psycopg

    def look() -> bool:
        with psycopg.connect(url) as connection:
            found = connection.execute("SELECT sum(free) FROM rooms").fetchone()
            return found is not None and found[0] == free

    until("the room", look)


def test_a_full_server_has_another_play_and_shows_it(roomy: Serving, url: str, tmp_path: Path) -> None:
    with serve_process(tmp_path / "a", variables={"SPECTATOR_JOURNAL_URL": url}) as full:
        own = start(full, options=LONG)
        settled_room(url, 2)
        told = begin(full.base_url, options={"turns": 40}, captain_preset="heuristic")
        assert told.status_code == 202, told.text
        episode_id = told.json()["episode_id"]
        assert told.headers["Location"] == f"/api/episodes/{episode_id}"
        assert told.json()["live_url"] == f"/live/{episode_id}"
        asked_at = Serving(full.base_url, roomy.server, roomy.client)
        with ThreadPoolExecutor(1) as viewer:
            seen = viewer.submit(watched, asked_at, episode_id)
            until("its player", lambda: episode_id in running(roomy.base_url))
            assert running(full.base_url) == [own]
            assert roomy.finish(episode_id)["reason"] == "finished"
            _, frames = seen.result(PATIENCE_S)
        assert (frames[-1]["frame"], frames[-1]["reason"]) == ("bye", "ended")
        types = check_record(url, episode_id)
        assert types[0] == "episode.started" and types.count("episode.recovered") == 1
        assert (types[1], types[-1]) == ("episode.recovered", "episode.ended")
        settled_room(url, 2)
        last = begin(full.base_url, options=LONG).json()["episode_id"]
        full.kill()  # right after the answer: whoever has room plays it all the same
        until("its player", lambda: last in running(roomy.base_url))
        until("the other one", lambda: own in running(roomy.base_url))
    for one in (last, own):
        stop(roomy, one)
        assert check_record(url, one).count("episode.ended") == 1


def test_no_more_is_handed_over_than_there_is_room_for(roomy: Serving, url: str, tmp_path: Path) -> None:
    public: dict[str, Any] = {
        "profile": "public",
        "trusted_hops": 1,
        "operator_token": "a-token-of-the-operator",
    }
    settings = test_settings(tmp_path / "c", journal_url=SecretStr(url), max_episodes=1, **public)
    with serve(settings) as full:
        full.client.headers["X-Forwarded-For"] = OWN["X-Forwarded-For"]
        own = full.start(pace="fast", options=LONG)
        settled_room(url, 2)
        with ThreadPoolExecutor(4) as clients:
            asked = [clients.submit(begin, full.base_url, options=LONG) for _ in range(4)]
            told = [one.result(PATIENCE_S) for one in asked]
        assert sorted(one.status_code for one in told) == [202, 202, 409, 409], [one.text for one in told]
        refused = next(one.json() for one in told if one.status_code == 409)
        assert refused["type"] == "/problems/episode-busy"
        assert [one["episode_id"] for one in refused["running"]] == [own]
        assert refused["queue"]["place"] == 1
        begun = [one.json()["episode_id"] for one in told if one.status_code == 202]
        until("their player", lambda: sorted(running(roomy.base_url)) == sorted(begun))
        settled_room(url, 0)
        assert begin(full.base_url, options=LONG).status_code == 409
        for one in (*begun, own):
            foreign = {"X-Forwarded-For": "198.51.100.7"}
            told_off = full.client.post("/custom/stop_episode", json={"episode_id": one}, headers=foreign)
            assert told_off.status_code == 403
            stop(full, one)  # as the address that started it
            assert check_record(url, one).count("episode.ended") == 1
