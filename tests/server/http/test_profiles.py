"""Worlds of every profile through the server: watched, forked, exported, and played by a person."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from spectator import catalog
from tests.commands import spectator
from tests.profiled_worlds import NAMES
from tests.server.watching import watch
from tests.serving import PATIENCE_S, Serving, serve, test_settings

REWARDS = [0.1, -0.05, -0.3, -0.05]


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    """A server with the worlds of every profile; its journal is in ``tmp_path``."""
    for name in NAMES:
        monkeypatch.setitem(catalog.BUILT_IN, name, f"tests.profiled_worlds:{name.upper()}")
    catalog.load_world.cache_clear()
    with serve(test_settings(tmp_path, max_episodes=3, person_decision_s=600)) as running:
        yield running
    catalog.load_world.cache_clear()


def test_a_viewer_sees_the_rewards_so_far_and_the_score(serving: Serving) -> None:
    episode = serving.start(environment="trading", options={"rounds": 4}, pace="fast")
    totals: list[float] = []
    with watch(f"{serving.ws_url}/live/{episode}") as watcher:
        while True:
            frame = watcher.next()
            total = (watcher.state or {}).get("episode", {}).get("total_reward")
            if total is not None and total not in totals:
                totals.append(total)
            if frame["frame"] == "bye":
                break
    assert totals[-1] == sum(REWARDS)
    assert set(totals) <= {sum(REWARDS[:number]) for number in range(1, 5)}
    assert watcher.state["episode"]["score"] == sum(REWARDS)
    assert watcher.state["episode"]["profile"]["rewards"] == "step"
    assert serving.finish(episode)["score"] == sum(REWARDS)


def test_a_fork_carries_the_rewards_of_its_parent_on(serving: Serving) -> None:
    parent = serving.start(environment="trading", options={"rounds": 4})
    serving.finish(parent)
    seq = next(event["seq"] for event in serving.events(parent) if event["turn"] == 3) - 1
    answer = serving.client.post("/custom/fork", json={"episode_id": parent, "seq": seq, "pace": "max"})
    assert answer.status_code == 202, answer.text
    child = answer.json()["episode_id"]
    assert serving.finish(child)["score"] == sum(REWARDS)
    end = serving.events(child)[-1]["data"]
    assert (end["reason"], end["total_reward"]) == ("finished", sum(REWARDS))


def test_the_sum_of_the_exported_rewards_is_the_score(serving: Serving, tmp_path: Path) -> None:
    names = {"trading": 4, "essay": 2, "ordering": 3}
    ids = {name: serving.start(environment=name, options={"rounds": n}) for name, n in names.items()}
    scores = {name: serving.finish(one)["score"] for name, one in ids.items()}
    out = tmp_path / "episodes.parquet"
    options = ("--data-dir", str(tmp_path), "--format", "parquet", "--out", str(out))
    result = spectator("export", "--all", *options)
    assert result.exit_code == 0, result.stderr
    rows = parquet.read_table(out).to_pylist()
    for name, episode in ids.items():
        mine = [row for row in rows if row["episode_id"] == episode]
        taken = [row["reward"] for row in mine if row["type"] == "step.taken"]
        decided = [row["reward"] for row in mine if row["type"] == "decision.made"]
        assert sum(taken) == sum(decided) == scores[name] == mine[0]["episode_score"], name
        lines = spectator("export", episode, "--data-dir", tmp_path).stdout.splitlines()
        events = [json.loads(line) for line in lines]
        assert sum(one["data"]["reward"] for one in events if one["type"] == "step.taken") == scores[name]
    verified = spectator("verify", ids["trading"], "--data-dir", tmp_path)
    assert verified.exit_code == 0, verified.output


def asked(serving: Serving, episode: str, turn: int) -> dict[str, Any]:
    """What is asked in this turn."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        seat = serving.client.get("/custom/asked", params={"episode_id": episode}).json()["asked"]
        if seat and seat["turn"] == turn:
            return dict(seat)
        time.sleep(0.02)
    raise AssertionError(f"turn {turn} was not asked")


def test_a_person_answers_a_world_of_free_text(serving: Serving) -> None:
    episode = serving.start(environment="essay", captain_preset="human", options={"rounds": 1})
    seat = asked(serving, episode, 1)
    (legal,) = seat["legal_actions"]
    assert legal["tool"] == "answer" and legal["arguments"]["required"] == ["said"]
    assert legal["arguments"]["properties"]["said"]["maxLength"] == 2000
    assert "word for word" in seat["prompt"] and "Legal actions" not in seat["prompt"]
    body = {"episode_id": episode, "turn": 1, "action": {"tool": "answer", "arguments": {"said": "it is 0"}}}
    answer = serving.client.post("/custom/act", json=body)
    assert answer.status_code == 200, answer.text
    assert serving.finish(episode)["score"] == 1.0
    decided = next(one["data"] for one in serving.events(episode) if one["type"] == "decision.made")
    assert (decided["action"], decided["source"]) == ({"said": "it is 0"}, "human")


def test_a_person_answers_a_world_whose_action_has_a_schema(serving: Serving) -> None:
    episode = serving.start(environment="ordering", captain_preset="human", options={"rounds": 1})
    seat = asked(serving, episode, 1)
    assert [one["tool"] for one in seat["legal_actions"]] == ["act"]
    wrong = {"parts": [{"name": "bolt", "count": 99}], "urgent": False}
    body = {"episode_id": episode, "turn": 1, "action": {"tool": "act", "arguments": wrong}}
    answer = serving.client.post("/custom/act", json=body)
    assert answer.status_code == 422 and "count" in answer.text
    wrong["parts"][0]["count"] = 3  # type: ignore[index]
    assert serving.client.post("/custom/act", json=body).status_code == 200
    assert serving.finish(episode)["score"] == 1.5
