"""A relay shows what another server shows, in the same bytes; whoever dies, each event is seen once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.settings import Settings
from spectator.errors import ConfigurationError
from tests.coming_back import watch as watch_to_the_end
from tests.server.test_two_servers import until
from tests.server.watching import Watcher, watch
from tests.serving import (
    PATIENCE_S,
    ServerProcess,
    Serving,
    free_port,
    serve,
    serve_process,
    test_settings,
)

TURNS = 60


@pytest.fixture
def player(tmp_path: Path) -> Iterator[Serving]:
    with serve(test_settings(tmp_path / "player", max_episodes=4)) as serving:
        yield serving


def relay_of(upstream: str, folder: Path, **changes: Any) -> Any:
    """A relay in this process."""
    return serve(test_settings(folder, upstream_url=upstream, **changes))


def relay_process(upstream: str, folder: Path, port: int = 0) -> Any:
    """A relay that can be killed."""
    return serve_process(folder, port=port, variables={"SPECTATOR_UPSTREAM_URL": upstream})


def texts(watcher: Watcher) -> list[str]:
    """The events that a viewer was sent, as they came."""
    return [text for text in watcher.texts if text.startswith('{"frame":"event"')]


def begin(base_url: str, **body: Any) -> str:
    body = {"pace": "fast", "options": {"turns": TURNS}, **body}
    told = httpx.post(f"{base_url}/custom/start_episode", json=body, timeout=PATIENCE_S)
    assert told.status_code == 202, told.text
    return str(told.json()["episode_id"])


def test_a_relay_and_a_relay_of_it_show_the_same_bytes(player: Serving, tmp_path: Path) -> None:
    with (
        relay_of(player.base_url, tmp_path / "near") as near,
        relay_of(near.base_url, tmp_path / "far") as far,
        ExitStack() as stack,
    ):
        episode_id = player.start(pace="fast", options={"turns": 20})
        watchers = [
            stack.enter_context(watch(f"{one.ws_url}/live/{episode_id}")) for one in (player, near, far)
        ]
        for one in watchers:
            one.until("snapshot")
        closed = [one.to_the_end() for one in watchers]
        assert [(code, last["reason"]) for code, last in closed] == [(1000, "ended")] * 3
        direct = texts(watchers[0])
        for one in watchers[1:]:
            common = texts(one)
            assert len(common) > 10
            assert common == direct[-len(common) :]
            assert one.state == watchers[0].state
        counts = [frame["count"] for frame in watchers[2].frames if frame["frame"] == "viewers"]
        assert max(counts) == 3, "those at the servers above are counted, and no relay is"
        health = far.client.get("/health").json()
        assert (health["status"], health["followed"]) == ("healthy", 1)


def test_what_has_ended_is_shown_and_what_is_unknown_is_not(player: Serving, tmp_path: Path) -> None:
    with relay_of(player.base_url, tmp_path / "relay") as relay:
        episode_id = player.start(options={"turns": 3})
        head = player.finish(episode_id)["head_seq"]
        with watch(f"{relay.ws_url}/live/{episode_id}") as late:
            code, last = late.to_the_end()
        assert (code, last["reason"], late.seq) == (1000, "ended", head)
        epoch = late.frames[0]["epoch"]
        with watch(f"{relay.ws_url}/live/{episode_id}?epoch={epoch}&seq={head - 4}") as back:
            back.seq = head - 4
            assert back.to_the_end()[0] == 1000
        assert back.events() == list(range(head - 3, head + 1))
        assert "snapshot" not in back.kinds()
        with watch(f"{relay.ws_url}/live/ep-{'0' * 26}") as unknown:
            assert unknown.to_the_end()[0] == 4001
        assert relay.client.get(f"/live/ep-{'0' * 26}/events").status_code == 404
        streamed = relay.client.get(f"/live/{episode_id}/events").text
        assert '"frame":"snapshot"' in streamed
        done = relay.client.get(f"/live/{episode_id}/events", headers={"Last-Event-ID": f"{epoch}:{head}"})
        assert done.status_code == 204
        for elsewhere in ("/", "/api/episodes", f"/watch/{episode_id}"):
            refused = relay.client.get(elsewhere)
            assert (refused.status_code, refused.json()["type"]) == (404, "/problems/not-found")
            assert "at the server that it follows" in refused.json()["detail"]


def test_a_name_that_is_hidden_there_is_hidden_here(player: Serving, tmp_path: Path) -> None:
    with relay_of(player.base_url, tmp_path / "relay") as relay:
        episode_id = player.start(pace="broadcast", options={"turns": 50})
        with watch(f"{relay.ws_url}/live/{episode_id}") as watcher:
            watcher.until("snapshot")
            label = next(iter(watcher.state["episode"]["seats"].values()))["label"]
            assert player.client.post("/operator/hide", json={"name": label}).status_code == 200
            watcher.until("snapshot")
            assert label not in json.dumps(watcher.state["episode"]["seats"])
            epoch, seq = watcher.frames[0]["epoch"], watcher.seq
            with watch(f"{relay.ws_url}/live/{episode_id}?epoch={epoch}&seq=1") as back:
                back.seq = 1
                while back.next()["frame"] in ("hello", "viewers", "trouble"):
                    pass
                assert back.events()[0] == 2
                assert not any(label in text for text in back.texts), "nor in what came before"
        assert seq > 0


def test_who_comes_back_to_another_relay_sees_each_event_once(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path / "player")) as player, ExitStack() as stack:
        dying = stack.enter_context(relay_process(player.base_url, tmp_path / "a"))
        other = stack.enter_context(relay_process(player.base_url, tmp_path / "b"))
        episode_id = begin(player.base_url)
        with ThreadPoolExecutor(4) as viewers:
            places = [dying.base_url, other.base_url]
            seen = [viewers.submit(watch_to_the_end, places, episode_id) for _ in range(4)]
            until("some turns", lambda: turns(player.base_url, episode_id) > 10)
            dying.kill()
            found = [one.result(PATIENCE_S) for one in seen]
        for one in found:
            assert one.connections > 1
            one.check(player.events(episode_id))


def test_the_death_and_return_of_who_plays_is_not_seen(tmp_path: Path) -> None:
    port, folder, life = free_port(), tmp_path / "player", ExitStack()

    def play() -> ServerProcess:
        return life.enter_context(serve_process(folder, port=port))

    player = play()
    with (
        life,
        relay_of(player.base_url, tmp_path / "near") as near,
        relay_of(near.base_url, tmp_path / "far") as far,
        ThreadPoolExecutor(2) as viewers,
    ):
        episode_id = begin(player.base_url)
        seen = [viewers.submit(watch_to_the_end, [one.base_url], episode_id) for one in (near, far)]
        until("some turns", lambda: turns(player.base_url, episode_id) > 10)
        player.kill()
        player = play()
        for one in seen:
            found = one.result(PATIENCE_S)
            assert found.connections == 1, "nobody was sent away"
            lines = httpx.get(f"{player.base_url}/api/episodes/{episode_id}/events", timeout=PATIENCE_S).text
            found.check([json.loads(line) for line in lines.splitlines()])


def test_who_comes_while_nobody_is_there_is_told_to_come_back(tmp_path: Path) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    with relay_of(nowhere, tmp_path) as relay:
        with watch(f"{relay.ws_url}/live/ep-{'0' * 26}") as watcher:
            code, last = watcher.to_the_end()
        assert (code, last["reconnect"]) == (1012, True)
        assert relay.client.get(f"/live/ep-{'0' * 26}/events").status_code == 503


def turns(base_url: str, episode_id: str) -> int:
    entry = httpx.get(f"{base_url}/api/episodes/{episode_id}", timeout=PATIENCE_S).json()
    return int(entry["head_seq"])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"SPECTATOR_UPSTREAM_URL": "player:8000"}, "must be the address of another server, such as http://"),
        ({"SPECTATOR_UPSTREAM_URL": "http://player:8000/live"}, "must be the address of another server"),
        (
            {"SPECTATOR_UPSTREAM_URL": "http://p:1", "SPECTATOR_JOURNAL_URL": "postgresql://host/x"},
            "leaves no room for SPECTATOR_JOURNAL_URL",
        ),
    ],
)
def test_a_wrong_address_is_refused_in_a_sentence(given: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError, match="SPECTATOR_UPSTREAM_URL") as refused:
        Settings.from_environ(given)
    assert says in str(refused.value)
