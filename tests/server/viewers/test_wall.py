"""The wall: every running episode in one frame, its changes as merge patches, the same bytes for all."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from server.viewers.boards import BoardFeed
from server.viewers.viewer import Viewer
from server.viewers.wall import INTERVAL_S, RESULT_S, Wall
from server.viewers.wire import Frame
from spectator.episodes.controls import Pace
from spectator.journal.sql_journal import SqlJournal
from spectator.json_values import apply_patch
from tests.episodes.harness import supervising
from tests.fakes import ManualClock, until
from tests.server.playing import Names, Seat, unframed
from tests.serving import Serving, serve, test_settings

LONG: dict[str, Any] = {"pace": "broadcast", "options": {"turns": 1000}}


def next_frame(socket: ClientConnection) -> dict[str, Any]:
    frame: dict[str, Any] = json.loads(socket.recv(timeout=30))
    return frame


def test_every_running_episode_is_a_tile(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, max_episodes=3)) as serving:
        first = serving.start(**LONG, seed=5)
        with connect(f"{serving.ws_url}/live/wall") as socket:
            whole = next_frame(socket)
            assert whole["frame"] == "wall" and list(whole["tiles"]) == [first]
            tile = whole["tiles"][first]
            assert (tile["environment"], tile["seed"], tile["status"]) == ("counting", 5, "live")
            assert tile["seats"] == ["Careful counter"]
            second = serving.start(**LONG)
            tiles, version = whole["tiles"], whole["version"]
            while second not in tiles:
                changed = next_frame(socket)
                assert (changed["frame"], changed["version"]) == ("wall.changed", version + 1)
                tiles, version = apply_patch(tiles, changed["tiles"]), changed["version"]
            serving.client.post("/custom/pause", json={"episode_id": second})
            while tiles[second]["status"] != "paused":
                tiles = apply_patch(tiles, next_frame(socket)["tiles"])
            serving.client.post("/custom/stop_episode", json={"episode_id": first})
            while tiles[first]["status"] != "ended":
                tiles = apply_patch(tiles, next_frame(socket)["tiles"])
            assert tiles[first]["reason"] == "stopped"


async def test_the_tile_of_an_episode_that_records_no_view_follows_it_too(tmp_path: Path) -> None:
    clock = ManualClock()
    journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}")
    async with supervising(journal=journal) as stage:
        wall = Wall(stage.supervisor, clock, stage.supervisor._tasks, Names())
        episode = await stage.start(pace=Pace.BROADCAST, view="derived", options={"turns": 1000})
        looker = Looker(wall)
        (whole,) = await looker.catch_up()
        tiles = whole["tiles"]

        async def shows(status: str) -> None:
            nonlocal tiles
            while tiles[episode.episode_id]["status"] != status:
                await until(lambda: clock.sleepers > 0)
                clock.advance(INTERVAL_S)
                await asyncio.sleep(0)
                for frame in await looker.catch_up():
                    tiles = apply_patch(tiles, frame["tiles"])

        for change, status in ((episode.pause, "paused"), (episode.resume, "live")):
            await change("test")
            await asyncio.wait_for(shows(status), 20)
        await stage.supervisor.stop(None, by="test")
        await asyncio.wait_for(shows("ended"), 20)
        assert tiles[episode.episode_id]["reason"] == "stopped"
        looker.show.leave()
    await journal.aclose()


def test_a_tile_tells_chances_and_what_is_drawn_where_the_world_does(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, max_episodes=2)) as serving:
        other = serving.start(**LONG)
        match = serving.start(environment="cricket", pace="fast", options={"forecast_futures": 100})
        while "chance" not in (tiles := serving.client.get("/live/wall").json()["tiles"]).get(match, {}):
            assert tiles.get(match, {}).get("status") != "ended"
        tile = tiles[match]
        assert 0 <= tile["chance"] <= 1
        assert tile["chances"]["count"] == sum(len(part) for part in tile["chances"]["percent"].values())
        assert len(tile["picture"]["rope"]) == 8
        assert not {"chance", "chances", "picture"} & tiles[other].keys()


def test_the_same_can_be_polled(serving: Serving) -> None:
    assert serving.client.get("/live/wall").json()["tiles"] == {}
    episode_id = serving.start(**LONG)
    answer = serving.client.get("/live/wall")
    assert list(answer.json()["tiles"]) == [episode_id]
    assert answer.headers["cache-control"] == "no-store"


def test_whoever_speaks_or_is_too_many_is_shown_the_door(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, max_viewers=1)) as serving:
        with connect(f"{serving.ws_url}/live/wall") as socket:
            next_frame(socket)
            with connect(f"{serving.ws_url}/live/wall") as other:
                assert next_frame(other)["code"] == 4029
            socket.send("hello")
            assert next_frame(socket)["code"] == 4400
            with pytest.raises(ConnectionClosed):
                socket.recv(timeout=30)
        deadline = time.monotonic() + 30
        while len(serving.server.config.app.state.services.audience) and time.monotonic() < deadline:  # type: ignore[union-attr]
            time.sleep(0.01)
        with connect(f"{serving.ws_url}/live/wall") as again:
            assert next_frame(again)["frame"] == "wall"


def test_the_server_sends_the_wall_away_when_it_goes(tmp_path: Path) -> None:
    with ExitStack() as sockets:
        with serve(test_settings(tmp_path)) as serving:
            socket = sockets.enter_context(connect(f"{serving.ws_url}/live/wall"))
            next_frame(socket)
        assert next_frame(socket)["code"] == 1012


def test_a_ping_is_answered_and_who_asks_again_is_given_the_whole(serving: Serving) -> None:
    with connect(f"{serving.ws_url}/live/wall") as socket:
        assert next_frame(socket)["frame"] == "wall"
        socket.send('{"frame":"ping","t":7}')
        assert next_frame(socket) == {"frame": "pong", "t": 7}
        socket.send('{"frame":"resume","epoch":"none","seq":3}')
        assert next_frame(socket)["frame"] == "wall"


def test_nobody_is_looked_after_once_nobody_looks(serving: Serving) -> None:
    services = serving.server.config.app.state.services  # type: ignore[union-attr]
    for _ in range(3):
        with connect(f"{serving.ws_url}/live/wall") as socket:
            next_frame(socket)
            assert services.wall._viewers
        deadline = time.monotonic() + 30
        while services.wall._viewers and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not services.wall._viewers and not len(services.audience)


class Looker:
    """One who looks at a wall and whose connection may hold bytes back."""

    def __init__(self, wall: Wall) -> None:
        self.seat = Seat()
        self.told: list[str] = []
        self.viewer = Viewer(self.seat, 65_536)
        self.show = BoardFeed(wall, self.viewer, self._tell)

    async def _tell(self, frames: Sequence[Frame]) -> None:
        self.told += [frame.text for frame in frames]

    async def catch_up(self) -> list[dict[str, Any]]:
        """Take what waits, by whichever way it comes; gives the frames since the last time."""
        self.seat.free_now = True
        straight = list(self.seat.written)
        self.seat.written.clear()
        await self.show.drain()
        slow, self.told = self.told, []
        return [json.loads(text) for data in straight for text in unframed(data)] + [
            json.loads(text) for text in slow
        ]

    def stall(self) -> None:
        """Take nothing more."""
        self.seat.free_now = False
        self.viewer.hold()


async def test_who_falls_behind_is_given_the_whole_and_the_end_glows_for_a_while() -> None:
    clock = ManualClock()
    async with supervising(slots=2) as stage:
        wall = Wall(stage.supervisor, clock, stage.supervisor._tasks, Names())
        episode = await stage.start(pace=Pace.BROADCAST, options={"turns": 1000})
        quick, slow = Looker(wall), Looker(wall)
        for looker in (quick, slow):
            assert [frame["frame"] for frame in await looker.catch_up()] == ["wall"]

        async def tick() -> None:
            await until(lambda: clock.sleepers > 0)
            clock.advance(INTERVAL_S)
            for _ in range(20):
                await asyncio.sleep(0)

        slow.stall()
        await episode.pause("test")
        await tick()
        assert quick.viewer.caught_up and [frame["frame"] for frame in await quick.catch_up()] == [
            "wall.changed"
        ]
        await episode.resume("test")
        await tick()
        assert [frame["frame"] for frame in await quick.catch_up()] == ["wall.changed"]
        (whole,) = await slow.catch_up()
        assert (whole["frame"], whole["version"]) == ("wall", wall.version)
        assert wall.now() is wall.now(), "encoded once"
        await tick()
        assert await quick.catch_up() == await slow.catch_up() == [], "nothing has changed"
        await stage.supervisor.stop(None, by="test")
        await tick()
        for looker in (quick, slow):
            (change,) = await looker.catch_up()
            assert change["tiles"][episode.episode_id]["reason"] == "stopped"
        clock.advance(RESULT_S)
        await tick()
        assert json.loads(wall.now().text)["tiles"] == {}
        for looker in (quick, slow):
            looker.show.leave()
        assert not wall._viewers
