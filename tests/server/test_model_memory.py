"""A server is killed while two models play: each goes on as if nothing had happened."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx

from tests.llm.brains import batsman, obedient
from tests.llm.endpoints import endpoint, write_captains
from tests.llm.fake_server import FakeModelServer, Mode
from tests.serving import PATIENCE_S, ServerProcess, serve_process

MATCH = {
    "environment": "cricket",
    "captain_preset": "llm:home",
    "opponent_choice": "llm_live",
    "max_overs": 1,
    "seed": 3,
    "pace": "max",
}


def start(running: ServerProcess) -> str:
    answer = httpx.post(f"{running.base_url}/custom/start_episode", json=MATCH, timeout=PATIENCE_S)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["episode_id"])


def finished(running: ServerProcess, episode_id: str) -> list[dict[str, Any]]:
    """The events of an episode, once it has finished."""
    with httpx.Client(base_url=running.base_url, timeout=PATIENCE_S) as client:
        deadline = time.monotonic() + PATIENCE_S
        while (told := client.get(f"/api/episodes/{episode_id}").json())["ended_at"] is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert told["reason"] == "finished"
        return [
            json.loads(line) for line in client.get(f"/api/episodes/{episode_id}/events").text.splitlines()
        ]


def questions_since(fake: FakeModelServer, first: int) -> list[bytes]:
    """Different questions, in order; one that was under way when its server died was asked once more."""
    return list(dict.fromkeys(one.raw for one in fake.received[first:]))


def test_killed_in_the_middle_of_a_match_models_are_asked_on_as_if_nothing_had_happened(
    tmp_path: Path,
) -> None:
    with endpoint(batsman, chunk=100) as home, endpoint(obedient, chunk=100) as away:
        captains = write_captains(
            tmp_path / "captains.toml",
            home={"base_url": home.base_url},
            away={"base_url": away.base_url, "style": "json"},
        )
        variables = {"SPECTATOR_CAPTAINS_FILE": str(captains), "SPECTATOR_LLM_LIVE": "llm:away"}
        with serve_process(tmp_path / "killed", variables=variables) as running:
            whole = finished(running, start(running))
            asked = len(home.received), len(away.received)
            home.mode = away.mode = lambda number: Mode.SLOW
            episode_id = start(running)
            deadline = time.monotonic() + PATIENCE_S
            while len(home.received) + len(away.received) < sum(asked) + 9:
                assert time.monotonic() < deadline
                time.sleep(0.005)
            running.kill()
        home.mode = away.mode = lambda number: Mode.OK
        with serve_process(tmp_path / "killed", variables=variables) as running:
            again = finished(running, episode_id)
    for fake, first in zip((home, away), asked, strict=True):
        assert questions_since(fake, first) == [one.raw for one in fake.received[:first]]
    assert "episode.recovered" in {event["type"] for event in again}
    actions = [
        [event["data"]["action"] for event in events if event["type"] == "decision.made"]
        for events in (whole, again)
    ]
    assert actions[0] == actions[1]
