"""Somebody's own environment is shown: by the mixin, on a real socket, whatever the peer does."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from spectator.watchable import WAITING, Spectator, Watchable
from tests.server.watching import PATIENCE_S, watch
from tests.serving import Serving, serve, test_settings

BEGIN = {"environment": "maze", "title": "Maze", "agent": "Walker", "observation": {"at": [0, 0]}}
STEP = {"action": {"go": "east"}, "reasoning": "the exit", "observation": {"at": [1, 0]}, "reward": 0.25}


@dataclass
class Seen:
    """What an environment answers, shaped as OpenEnv's observations are."""

    text: str
    reward: float = 0.0
    done: bool = False

    def model_dump(self, mode: str) -> dict[str, Any]:
        return {"text": self.text}


@dataclass
class Walk:
    """What an agent sends."""

    step: str
    metadata: dict[str, Any] = field(default_factory=dict)

    def model_dump(self, mode: str) -> dict[str, Any]:
        return {"step": self.step, "metadata": self.metadata}


class Maze:
    """Somebody's own environment: three steps and it is over."""

    def __init__(self) -> None:
        self.steps = 0
        self.closed = False

    def reset(self, seed: int | None = None) -> Seen:
        self.steps = 0
        return Seen("a wall")

    def step(self, action: Walk) -> Seen:
        self.steps += 1
        return Seen("out" if self.steps == 3 else "a path", 1.0 if self.steps == 3 else 0.0, self.steps == 3)

    def close(self) -> None:
        self.closed = True


def shown_at(url: str, **place: Any) -> Any:
    class ShownMaze(Watchable, Maze):
        spectator = Spectator(url, **place)

    return ShownMaze()


def listed(serving: Serving) -> list[Any]:
    found: list[Any] = serving.client.get("/api/episodes").json()["episodes"]
    return found


def tellers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "spectator"]


def test_three_lines_make_an_environment_watchable(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving, watch(f"{serving.ws_url}/live") as viewer:
        env = shown_at(serving.base_url, agent="Me")
        env.reset(seed=4)
        viewer.until("snapshot")
        for number in range(3):
            env.step(Walk("on", {"reasoning": f"step {number}"}))
        while not (viewer.state or {}).get("episode", {}).get("reason"):
            viewer.next()
        env.close()
        assert env.closed
        entry = serving.finish(viewer.state["episode"]["id"])
        assert (entry["environment"], entry["title"], entry["captain_label"]) == (
            "shown_maze",
            "ShownMaze",
            "Me",
        )
        assert (entry["reason"], entry["score"], entry["turns"], entry["seed"]) == ("finished", 1.0, 3, 4)
        assert viewer.state["world"]["headline"] == "Step 3, 1 reward so far"
        assert '"text":"out"' in viewer.state["world"]["observation"]
        reasons = [
            frame["data"]["reasoning"] for frame in viewer.frames if frame.get("type") == "decision.made"
        ]
        assert reasons[-1] == "step 2"
        assert serving.client.get(f"/watch/{entry['episode_id']}").status_code == 200
    assert not tellers()


def test_a_reset_or_a_close_in_the_middle_ends_what_was_shown(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving:
        env = shown_at(serving.base_url)
        env.reset()
        env.step(Walk("on"))
        env.close()
        while not listed(serving) or listed(serving)[0]["ended_at"] is None:
            pass
        entry = listed(serving)[0]
        assert (entry["reason"], entry["turns"]) == ("interrupted", 1)
        assert "disconnected" in entry["detail"]


def test_a_server_that_is_away_does_not_stop_the_environment(tmp_path: Path) -> None:
    env = shown_at("http://127.0.0.1:9")
    env.reset()
    for _ in range(WAITING + 10):
        env.steps = 0
        env.step(Walk("on"))
    env.close()
    assert env.closed


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("nonsense", "JSON"),
        (json.dumps({"begin": {**BEGIN, "environment": "No Spaces"}}), "begin.environment"),
        (json.dumps({"begin": {**BEGIN, "environment": "counting"}}), "choose another name"),
        (json.dumps({"begin": {**BEGIN, "title": ""}}), "begin.title"),
        (json.dumps({"begin": {**BEGIN, "more": 1}}), "begin.more"),
        (json.dumps({"step": STEP}), "begin"),
        ("x" * 300_000, "at most"),
    ],
)
def test_a_bad_beginning_is_refused_by_name_and_nothing_is_kept(
    serving: Serving, message: str, says: str
) -> None:
    before = len(listed(serving))
    with connect(f"{serving.ws_url}/publish") as socket:
        socket.send(message)
        assert says in json.loads(socket.recv(timeout=PATIENCE_S))["refused"]
    assert len(listed(serving)) == before


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ({**STEP, "reward": "much"}, "step.reward"),
        ({**STEP, "action": [1]}, "step.action"),
        ({**STEP, "action": {"go": "x" * 70_000}}, "step.action"),
        ({**STEP, "latency_s": -1}, "step.latency_s"),
    ],
)
def test_a_bad_step_ends_it_with_the_reason(serving: Serving, step: Any, says: str) -> None:
    with connect(f"{serving.ws_url}/publish") as socket:
        socket.send(json.dumps({"begin": BEGIN}))
        place = json.loads(socket.recv(timeout=PATIENCE_S))
        socket.send(json.dumps({"step": STEP}))
        socket.send(json.dumps({"step": step}))
        assert says in json.loads(socket.recv(timeout=PATIENCE_S))["refused"]
    entry = serving.finish(place["episode_id"])
    assert (entry["reason"], entry["turns"]) == ("interrupted", 1)
    assert "was invalid" in entry["detail"]


def test_who_may_and_how_many(tmp_path: Path) -> None:
    token = "a-token-that-is-long-enough"
    with serve(test_settings(tmp_path, operator_token=token, openenv_max_published=1)) as serving:
        with pytest.raises(InvalidStatus) as refused:
            connect(f"{serving.ws_url}/publish")
        assert refused.value.response.status_code == 401
        headers = {"Authorization": f"Bearer {token}"}
        with connect(f"{serving.ws_url}/publish", additional_headers=headers) as first:
            first.send(json.dumps({"begin": BEGIN}))
            assert "watch_url" in json.loads(first.recv(timeout=PATIENCE_S))
            with connect(f"{serving.ws_url}/publish", additional_headers=headers) as second:
                second.send(json.dumps({"begin": BEGIN}))
                assert "try again later" in json.loads(second.recv(timeout=PATIENCE_S))["refused"]
