"""A name that the operator hides is shown to no stranger, live or recorded, until it is unhidden."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from server.security.masking import HIDDEN, NameMask
from server.viewers.broadcast import ThoughtFrames
from spectator.episodes.decisions import Thinking
from spectator.policies.policy import Thought
from tests.fakes import FakePolicy, ManualClock, counted
from tests.server.playing import Names
from tests.server.watching import PATIENCE_S, Watcher, watch
from tests.serving import Serving, serve, test_settings

TOKEN = "a-token-of-the-operator"
RIGHT = {"Authorization": f"Bearer {TOKEN}"}
NAME = 'Nasty "Näme"'
"""With what JSON escapes, and what HTML does."""

WRITTEN = (NAME, json.dumps(NAME)[1:-1], json.dumps(NAME, ensure_ascii=False)[1:-1], "Nasty &#34;Näme")
BEGIN = {
    "environment": "maze",
    "title": f"Maze of {NAME}",
    "agent": NAME,
    "observation": {"at": NAME, NAME: 1, "status": NAME},
}
STEP = {
    "action": {"go": NAME},
    "reasoning": f"{NAME} says so",
    "observation": {"at": [1, NAME]},
    "reward": 0.25,
}


PAGES = (
    "/", "/wall", "/compare", "/leaderboard", "/calls", "/watch/{episode_id}", "/replay/{episode_id}",
    "/docs",
)  # fmt: skip


def shows(text: str) -> bool:
    return any(written in text for written in WRITTEN)


class Published:
    """An episode of a stranger's own environment, that tells of itself over a socket."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        socket.send(json.dumps({"begin": BEGIN}))
        self.episode_id: str = json.loads(socket.recv(timeout=PATIENCE_S))["episode_id"]

    def step(self, **changes: Any) -> None:
        self._socket.send(json.dumps({"step": {**STEP, **changes}}))


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    with serve(test_settings(tmp_path, operator_token=TOKEN)) as running:
        yield running


@contextmanager
def published(serving: Serving) -> Iterator[Published]:
    with connect(f"{serving.ws_url}/publish", additional_headers=RIGHT, open_timeout=PATIENCE_S) as socket:
        yield Published(socket)


def order(serving: Serving, what: str, name: str = NAME) -> None:
    answer = serving.client.post(f"/operator/{what}", json={"name": name}, headers=RIGHT)
    assert answer.status_code == 200, answer.text


def read_routes(serving: Serving, episode_id: str) -> dict[str, httpx.Response]:
    """What a stranger is answered at every address that is read, but for those of event streams and files."""
    values = {
        "episode_id": episode_id,
        "seq": "1",
        "run": "first",
        "group": "g-000000",
        "group_id": "g-000000",
        "day": "2026-11-28",
        "voter": 16 * "0",
    }
    document = serving.client.get("/openapi.json").json()
    paths = [path for path, how in document["paths"].items() if "get" in how]
    return {
        path: serving.client.get(path.format(**values))
        for path in (*paths, *PAGES)
        if not path.startswith(("/live/{", "/audio", "/pooled", "/envs"))
    }


def test_no_route_shows_a_hidden_name_of_an_ended_episode(serving: Serving) -> None:
    with published(serving) as episode:
        episode.step()
        episode.step(done=True)
        serving.finish(episode.episode_id)
    while serving.client.get("/api/leaderboard").json()["pending"]:
        pass
    before = read_routes(serving, episode.episode_id)
    showing = {path for path, answer in before.items() if shows(answer.text)}
    assert showing >= {
        "/api/episodes", "/api/episodes/{episode_id}", "/api/episodes/{episode_id}/events",
        "/api/episodes/{episode_id}/export", "/api/leaderboard", "/leaderboard", "/watch/{episode_id}",
        "/replay/{episode_id}",
    }  # fmt: skip
    order(serving, "hide")
    for path, answer in read_routes(serving, episode.episode_id).items():
        assert not shows(answer.text), path
        assert answer.status_code == before[path].status_code, path
        assert (HIDDEN in answer.text) == (path in showing), path
    order(serving, "unhide")
    after = read_routes(serving, episode.episode_id)
    for path in showing:
        assert after[path].text == before[path].text, path


def test_the_record_stays_and_whoever_has_the_token_is_given_it(serving: Serving) -> None:
    with published(serving) as episode:
        episode.step(done=True)
        serving.finish(episode.episode_id)
    path = f"/api/episodes/{episode.episode_id}/export"
    whole = serving.client.get(path)
    order(serving, "hide")
    masked, own = serving.client.get(path), serving.client.get(path, headers=RIGHT)
    assert own.content == whole.content
    assert own.headers["Spectator-Digest"] == whole.headers["Spectator-Digest"]
    assert "Spectator-Digest" not in masked.headers
    forged = serving.client.get(path, headers={"Authorization": "Bearer another"})
    assert not shows(forged.text)
    kinds = [json.loads(line)["type"] for line in masked.text.splitlines()]
    assert kinds == [json.loads(line)["type"] for line in whole.text.splitlines()]
    assert serving.client.get("/operator/status", headers=RIGHT).json()["hidden"] == [NAME]


def test_whoever_watches_sees_it_no_more_and_sees_it_again(serving: Serving) -> None:
    with published(serving) as episode, ExitStack() as stack:
        live = f"{serving.ws_url}/live"
        viewers = [stack.enter_context(watch(url)) for url in (live, f"{live}/{episode.episode_id}")]
        wall = stack.enter_context(watch(f"{live}/wall"))
        for viewer in viewers:
            viewer.until("snapshot")
            assert shows(viewer.texts[-1])
        until_tile(wall, lambda text: shows(text))
        order(serving, "hide")
        for viewer in viewers:
            seen = len(viewer.texts)
            viewer.until("snapshot")
            assert not shows(viewer.texts[-1]) and len(viewer.texts) > seen
        until_tile(wall, lambda text: HIDDEN in text)
        from_now = [len(viewer.texts) for viewer in viewers]
        episode.step()
        for viewer, first in zip(viewers, from_now, strict=True):
            while viewer.until("event")["type"] != "step.taken":
                pass
            assert not any(shows(text) for text in viewer.texts[first:])
            assert HIDDEN in json.dumps(viewer.state)
        late(serving, episode.episode_id, shown=False)
        order(serving, "unhide")
        for viewer in viewers:
            viewer.until("snapshot")
            assert viewer.state["episode"]["seats"]["agent"]["label"] == NAME
        until_tile(wall, lambda text: shows(text))
        late(serving, episode.episode_id, shown=True)


def late(serving: Serving, episode_id: str, *, shown: bool) -> None:
    """Whoever comes now, in whatever way, sees the name or does not."""
    url = f"{serving.ws_url}/live/{episode_id}"
    with watch(url) as viewer:
        viewer.until("snapshot")
        epoch = viewer.frames[0]["epoch"]
        assert shows(viewer.texts[-1]) == shown
    with watch(f"{url}?epoch={epoch}&seq=0") as viewer:
        viewer.until("event")
        assert viewer.frames[-1]["seq"] == 1 and shows(viewer.texts[-1]) == shown
    with watch(f"{serving.ws_url}/live/wall") as viewer:
        assert viewer.next() and shows(viewer.texts[-1]) == shown
    assert shows(serving.client.get("/live/wall").text) == shown
    with serving.client.stream("GET", f"/live/{episode_id}/events") as stream:
        for line in stream.iter_lines():
            if line.startswith("data:") and '"snapshot"' in line:
                assert shows(line) == shown
                break


def until_tile(wall: Watcher, wanted: Callable[[str], bool]) -> None:
    wall.next()
    while not wanted(wall.texts[-1]):
        wall.next()


def test_a_name_that_forms_in_parts_shows_in_no_frame() -> None:
    names, thinking = Names("Bo Peep"), Thinking(ManualClock())
    telling, said = ThoughtFrames(thinking, names), ""
    with thinking.deciding("home", 1, FakePolicy(counted)):
        for part in ("I think B", "o Pe", "ep lost", " them"):
            thinking.hear(Thought("home", 1, "thought", part))
            frame = telling.next()
            assert frame is not None
            said = json.loads(frame.text)["thought"]
            assert "Bo Pe" not in said and "B" not in said
    frame = telling.next()
    assert frame is not None and said == json.loads(frame.text)["thought"] == f"I think {HIDDEN} lost them"


def test_words_that_hold_a_name_and_the_protocols_own_stay() -> None:
    mask = NameMask({"max", "step.taken", "agent", "Al"})
    text = '{"type":"step.taken","pace":"max","agent":{"label":"max"},"data":{"said":"Also Al maximal"}}'
    assert json.loads(mask.json(text)) == {
        "type": "step.taken",
        "pace": "max",
        "agent": {"label": HIDDEN},
        "data": {"said": f"Also {HIDDEN} maximal"},
    }
    plain = '{"said":"Also"}'
    assert mask.json(plain) is plain and NameMask().json(text) is text
    assert mask.json('{"world":{"status":"max"}}') == f'{{"world":{{"status":"{HIDDEN}"}}}}'
