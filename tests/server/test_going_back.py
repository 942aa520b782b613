"""A database that goes back in time beneath a server: nothing that was shown is lost silently."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from server.background import recovery
from spectator.journal import incarnation
from tests.postgres import Cluster
from tests.serving import Serving, serve, test_settings, until

UNDO = """
BEGIN; LOCK TABLE leases; DELETE FROM events WHERE txid > (SELECT txid FROM events WHERE seq = 9);
DELETE FROM checkpoints; DELETE FROM leases; COMMIT
"""
"""Undoes whole commits, as a rollback does; none is in progress meanwhile."""


def watch(serving: Serving, episode_id: str, query: str = "") -> list[dict[str, object]]:
    """Return all frames of a viewer until it is closed."""
    frames = []
    with connect(f"{serving.ws_url}/live/{episode_id}{query}") as socket:
        try:
            while True:
                frames.append(json.loads(socket.recv(timeout=20)))
        except ConnectionClosed:
            return frames


@pytest.mark.parametrize("kept", [512, 0], ids=["kept", "lost"])
def test_an_episode_goes_on_from_what_the_database_has_and_viewers_are_told(
    kept: int, postgres: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incarnation, "KEPT_APPENDS", kept)
    monkeypatch.setattr(recovery, "INTERVAL_S", 0.1)
    database = postgres.make()
    settings = test_settings(tmp_path, journal_url=SecretStr(postgres.url(database)))
    with serve(settings) as serving:
        episode_id = serving.start(pace="fast", options={"turns": 30})
        until("ten turns", lambda: len(serving.events(episode_id)) > 20)
        before = serving.events(episode_id)
        postgres.execute(database, UNDO)
        assert serving.finish(episode_id)["reason"] == "finished"
        events = serving.events(episode_id)
        assert [one["seq"] for one in events] == list(range(1, len(events) + 1))
        position = f"?epoch={before[0]['epoch']}&seq={len(before)}"
        hello, second, *_ = watch(serving, episode_id, position)
        epochs = list(dict.fromkeys(one["epoch"] for one in events))
        (warning,) = [one["data"]["message"] for one in events if one["type"] == "warning"] or [""]
        if kept:
            assert events[: len(before)] == before, "what was shown is recorded again"
            assert (len(epochs), warning, second["frame"]) == (1, "", "event")
        else:
            assert (len(epochs), second["frame"], second["epoch"]) == (2, "snapshot", epochs[1])
            at = [one["type"] for one in events].index("episode.recovered")
            assert (hello["epoch"], events[at]["epoch"], events[at + 1]["type"]) == (
                *epochs[1:] * 2,
                "warning",
            )
            assert warning.startswith(f"The database went back in time: events {at + 1} to ")
        status = httpx.get(f"{serving.base_url}/custom/status", timeout=30).json()
        assert status["running"] == []


def test_an_episode_that_nobody_plays_is_named(
    postgres: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "UNPLAYED_INTERVAL_S", 0.05)
    database = postgres.make()
    settings = test_settings(tmp_path, journal_url=SecretStr(postgres.url(database)), max_episodes=1)
    with serve(settings) as serving:
        left = serving.start(options={"turns": 30}, pace="fast")
        postgres.execute(database, "UPDATE leases SET owner = 'gone'")
        until("its loss", lambda: not serving.client.get("/custom/status").json()["running"])
        serving.start(options={"turns": 30}, captain_preset="human")
        postgres.execute(database, "DELETE FROM leases WHERE owner = 'gone'")
        until("its name", lambda: serving.client.get("/readyz").json().get("unplayed") == [left])
        assert "spectator_episodes_unplayed 1.0" in serving.client.get("/metrics").text
        assert serving.client.get("/operator/status").json()["unplayed"] == [left]


def test_a_server_that_holds_a_lease_without_playing_gives_it_back(
    postgres: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "INTERVAL_S", 0.1)
    database = postgres.make()
    with serve(test_settings(tmp_path, journal_url=SecretStr(postgres.url(database)))) as serving:
        episode_id = serving.start(options={"turns": 20}, pace="fast")
        postgres.execute(database, "UPDATE leases SET owner = 'gone'")
        until("its loss", lambda: not serving.client.get("/custom/status").json()["running"])
        postgres.execute(database, "UPDATE leases SET owner = (SELECT name FROM owners)")
        assert serving.finish(episode_id)["reason"] == "finished"
        assert "episode.recovered" in {one["type"] for one in serving.events(episode_id)}
