"""What is never recorded, between two servers on one PostgreSQL: thoughts, viewers, troubles."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import SecretStr
from websockets.sync.client import ClientConnection, connect

from tests.llm.brains import Said, counter
from tests.llm.endpoints import endpoint, write_captains
from tests.llm.fake_server import Mode
from tests.postgres import Cluster
from tests.serving import PATIENCE_S, Serving, serve, test_settings

SECRET = "the-coming-ball-is-a-yorker"


def indiscreet(body: Any) -> Said:
    """Thinks aloud what its rival should not know."""
    return Said(text="", thought=f"{SECRET} " * 3)


@pytest.fixture(scope="module")
def database(postgres: Cluster) -> str:
    return postgres.make()


@pytest.fixture(scope="module")
def servers(
    postgres: Cluster, database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Serving, Serving]]:
    """One that plays with slow models, and one that only shows."""
    with (
        endpoint(counter, [Mode.SLOW], pause_s=0.2, chunk=3) as slow,
        endpoint(indiscreet, [Mode.SLOW], pause_s=0.1, chunk=12) as other,
    ):
        folders = [tmp_path_factory.mktemp(name) for name in ("plays", "shows")]
        captains = write_captains(
            folders[0] / "captains.toml",
            slow={"base_url": slow.base_url},
            indiscreet={"base_url": other.base_url},
        )
        settings = [
            test_settings(
                folder, journal_url=SecretStr(postgres.url(database)), captains_file=captains, max_episodes=4
            )
            for folder in folders
        ]
        with serve(settings[0]) as plays, serve(settings[1]) as shows:
            listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%%' AND datname = %s"
            deadline = time.monotonic() + PATIENCE_S
            while postgres.execute(database, listening, (database,)) != [(4,)]:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield plays, shows


@contextmanager
def watching(serving: Serving, episode_id: str) -> Iterator[ClientConnection]:
    with connect(f"{serving.ws_url}/live/{episode_id}", max_size=None) as socket:
        yield socket


def frames_until(socket: ClientConnection, met: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """What comes, up to the first frame that is wanted."""
    frames: list[dict[str, Any]] = []
    deadline = time.monotonic() + PATIENCE_S
    while not frames or not met(frames[-1]):
        frames.append(json.loads(socket.recv(timeout=deadline - time.monotonic())))
    return frames


def test_a_thought_forms_before_its_decision_at_the_other_server(servers: tuple[Serving, Serving]) -> None:
    plays, shows = servers
    episode_id = plays.start(captain_preset="llm:slow", options={"turns": 12})
    with watching(shows, episode_id) as socket:
        frames = frames_until(
            socket, lambda frame: frame["frame"] == "thought" and frame["part"] > 1 and frame["thought"] != ""
        )
        thought = frames[-1]
        later = frames_until(socket, lambda frame: frame.get("type") == "decision.made")
    assert "Let me see." in "".join(one["thought"] for one in frames if one["frame"] == "thought") + "".join(
        one["thought"] for one in later if one["frame"] == "thought"
    )
    assert later[-1]["turn"] == thought["turn"]
    assert not any(one.get("withheld") for one in frames)
    plays.client.post("/custom/stop_episode", json={"episode_id": episode_id})


def test_viewers_of_all_servers_are_counted(servers: tuple[Serving, Serving]) -> None:
    plays, shows = servers
    episode_id = plays.start(pace="fast", options={"turns": 400})
    with watching(plays, episode_id) as here:
        frames_until(here, lambda frame: frame["frame"] == "viewers" and frame["count"] == 1)
        with watching(shows, episode_id) as there:
            for socket in (here, there):
                frames_until(socket, lambda frame: frame["frame"] == "viewers" and frame["count"] == 2)
        frames_until(here, lambda frame: frame["frame"] == "viewers" and frame["count"] == 1)
    plays.client.post("/custom/stop_episode", json={"episode_id": episode_id})


def test_a_record_that_cannot_be_written_is_told_to_viewers_of_the_other_server(
    servers: tuple[Serving, Serving], postgres: Cluster, database: str
) -> None:
    plays, shows = servers
    episode_id = plays.start(pace="fast", options={"turns": 400})
    with watching(shows, episode_id) as socket:
        frames_until(socket, lambda frame: frame["frame"] == "viewers")
        frames_until(socket, lambda frame: frame["frame"] == "event" and frame["seq"] > 20)
        postgres.execute(database, "ALTER TABLE events RENAME TO elsewhere")
        try:
            told = frames_until(socket, lambda frame: frame["frame"] == "trouble")[-1]
        finally:
            postgres.execute(database, "ALTER TABLE elsewhere RENAME TO events")
        assert "events" in told["message"] and told["since"]
        over = frames_until(socket, lambda frame: frame["frame"] == "trouble")
        assert over[-1]["message"] is None
    plays.client.post("/custom/stop_episode", json={"episode_id": episode_id})


def test_what_is_withheld_from_viewers_is_withheld_at_the_other_server(
    servers: tuple[Serving, Serving], postgres: Cluster, database: str
) -> None:
    plays, shows = servers
    with postgres.connect(database) as listener:
        listener.autocommit = True
        listener.execute("LISTEN spectator_live")
        listener.execute("LISTEN spectator_commits")
        episode_id = plays.start(
            environment="cricket",
            max_overs=1,
            seed=5,
            captain_preset="llm:indiscreet",
            opponent_choice="human",
        )
        with watching(shows, episode_id) as socket:
            frames = frames_until(socket, lambda frame: frame["frame"] == "thought")
            assert frames[-1]["withheld"] is True
            actor = frames[-1]["actor"]
            frames += frames_until(
                socket,
                lambda frame: frame["frame"] == "thought" and (frame["done"] or frame["actor"] != actor),
            )
        plays.client.post("/custom/stop_episode", json={"episode_id": episode_id})
        heard = [notice.payload for notice in listener.notifies(timeout=1)]
    assert SECRET not in json.dumps([one for one in frames if one["frame"] == "thought"])
    assert all(one["withheld"] for one in frames if one["frame"] == "thought")
    assert any(f'"e":"{episode_id}"' in one and '"withheld":true' in one for one in heard)
    assert not any(SECRET in one for one in heard)


@pytest.mark.parametrize(
    "notice",
    ["", "nothing", "[]", "{}", '{"s":"x"}', '{"s":"x","viewers":[1]}', '{"s":"x","viewers":{"ep":"?"}}'],
)
def test_a_notice_of_strangers_changes_nothing(
    servers: tuple[Serving, Serving], postgres: Cluster, database: str, notice: str
) -> None:
    plays, shows = servers
    episode_id = plays.start(pace="fast", options={"turns": 400})
    with watching(shows, episode_id) as socket:
        frames_until(socket, lambda frame: frame["frame"] == "event")
        for told in (notice, json.dumps({"s": "x", "e": episode_id, "thought": notice, "trouble": 7})):
            postgres.execute(database, "SELECT pg_notify('spectator_live', %s)", (told,))
        postgres.execute(
            database,
            "SELECT pg_notify('spectator_live', %s)",
            (json.dumps({"s": "x", "viewers": {episode_id: 40}}),),
        )
        frames_until(socket, lambda frame: frame["frame"] == "viewers" and frame["count"] == 41)
    plays.client.post("/custom/stop_episode", json={"episode_id": episode_id})
