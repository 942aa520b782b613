"""The measurement of alternatives: how long a viewer waits to be told what else could have been called."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx

from benchmarks.figures import Figure
from tests.serving import serve_process

LENGTHS: Final = (5, 20)
EVERY: Final = 9
"""One decision in so many is asked for, in order, as by somebody who steps through the match."""
TARGET: Final = "under 3 s"


def measure() -> list[Figure]:
    """A match of each length, played as fast as can be; then its decisions one after the other."""
    settings = {"SPECTATOR_LINES_S_PER_MINUTE": "0"}
    with TemporaryDirectory() as data, serve_process(Path(data), variables=settings) as server:
        with httpx.Client(base_url=server.base_url, timeout=120) as client:
            return [figure for overs in LENGTHS for figure in _figures(client, overs)]


def _figures(client: httpx.Client, overs: int) -> Iterator[Figure]:
    asked = {"environment": "cricket", "pace": "max", "max_overs": overs, "seed": 7}
    started = client.post("/custom/start_episode", json={**asked, "captain_preset": "planner"})
    started.raise_for_status()
    episode_id = started.json()["episode_id"]
    while client.get(f"/api/episodes/{episode_id}").json()["ended_at"] is None:
        time.sleep(0.2)
    told = client.get(f"/api/episodes/{episode_id}/events").text.splitlines()
    made = [event for event in map(json.loads, told) if event["type"] == "decision.made"]
    first = _wait(client, episode_id, made[-1])
    yield Figure(
        f"alternatives, {overs} overs: the first answer, of the last decision", f"{first:.2f} s", TARGET, ""
    )
    waits: dict[str, list[float]] = {"a ball's call": [], "whom to choose": []}
    for event in made[::EVERY]:
        chooses = event["data"]["action"]["tool"] in ("select_batter", "select_bowler", "call_toss")
        kind = "whom to choose" if chooses else "a ball's call"
        waits[kind].append(_wait(client, episode_id, event))
    for kind, seconds in waits.items():
        value = f"median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s of {len(seconds)}"
        yield Figure(f"alternatives, {overs} overs: {kind}", value, TARGET, "")


def _wait(client: httpx.Client, episode_id: str, event: dict[str, Any]) -> float:
    began = time.perf_counter()
    answer = client.get(f"/api/episodes/{episode_id}/alternatives", params={"seq": event["seq"]})
    answer.raise_for_status()
    return time.perf_counter() - began
