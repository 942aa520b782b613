"""Measure what viewers who call along cost the match: ``python -m benchmarks votes``.

One match of cricket at the broadcast pace, 5,000 viewers on WebSockets. Balls without votes and balls
on which every viewer votes take turns, so that both share the machine's changes of speed.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import time
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from benchmarks.crowd import Crowd, crowd
from benchmarks.fanout import delays_of
from benchmarks.fanout_stage import on_the_servers_core
from benchmarks.figures import Figure, ms, percentile
from benchmarks.serving import server_process

VIEWERS: Final = 5_000
BALLS: Final = 12
"""Balls that are measured; every other one with votes."""

VOTING_S: Final = 4.0
"""Seconds over which the votes on one ball are spread; a ball lasts 6.5 s."""

SETTINGS: Final = {
    "SPECTATOR_VOTES_PER_MINUTE": "0",  # all viewers come from one address
    "SPECTATOR_MAX_VIEWERS": "6000",
}


def measure() -> Iterator[Figure]:
    """Yield the figures; takes three minutes."""
    with server_process(SETTINGS) as (base, process_id), crowd() as viewers, contextlib.ExitStack() as stack:
        client = stack.enter_context(httpx.Client(base_url=base, timeout=30, trust_env=False))
        body = {"environment": "cricket", "options": {"max_overs": 20}, "seed": 7, "pace": "broadcast"}
        episode_id = client.post("/custom/start_episode", json=body).raise_for_status().json()["episode_id"]
        client.get(f"/watch/{episode_id}").raise_for_status()
        port = urlsplit(base).port or 0
        viewers.join(port, VIEWERS, f"/live/{episode_id}")
        on_the_servers_core(process_id)
        calm: list[list[float]] = []
        voted: list[list[float]] = []
        counted: list[int] = []
        spent: tuple[list[float], list[float]] = ([], [])
        cpu_clock = (~process_id << 3) | 2  # of another process, see clock_getcpuclockid(3)
        asked = _next_question(client, episode_id, None)
        for ball in range(BALLS + 2):  # the first two warm up
            arrivals: list[tuple[float, bytes]] = []
            viewers.arrivals = arrivals
            before = time.clock_gettime(cpu_clock)
            if ball % 2:
                _vote(viewers, asked["turn"])
                found = client.get(f"/api/episodes/{episode_id}/questions").json()["question"]
                counted.append(found["votes"] if found and found["turn"] == asked["turn"] else 0)
            asked = _next_question(client, episode_id, asked["turn"])
            viewers.settle(0.3)
            viewers.arrivals = None
            if ball > 1:
                spent[ball % 2].append(time.clock_gettime(cpu_clock) - before)
                (voted if ball % 2 else calm).append(delays_of(arrivals))
        result = client.get(f"/api/episodes/{episode_id}/questions").json()["result"]
    yield _delays(calm, voted)
    without, within = map(statistics.median, spent)
    yield Figure(
        "CPU of the server for a vote, its answer, counts and scores included",
        f"{1e6 * (within - without) / VIEWERS:.0f} us: {within:.2f} s a ball, {without:.2f} s without votes",
        "-",
        "-",
    )
    yield Figure(
        f"votes of {VIEWERS:,} viewers within {VOTING_S:g} s that were counted",
        f"median {statistics.median(counted):,.0f}; {result['votes'] if result else 0:,} in the last result",
        f"{VIEWERS:,}",
        "-",
    )


def _delays(calm: list[list[float]], voted: list[list[float]]) -> Figure:
    """Compare the delays of a ball's events with and without votes, ball by ball."""
    without, within = ([one for ball in balls for one in ball] for balls in (calm, voted))
    ratio, tail = (percentile(within, share) / percentile(without, share) for share in (0.5, 0.99))
    return Figure(
        f"event stamped to received by {VIEWERS:,} viewers while all of them vote",
        f"{ratio:.2f} x the median and {tail:.2f} x the p99 without votes: "
        f"median {ms(percentile(within, 0.5))}, p99 {ms(percentile(within, 0.99))}",
        "<= 1.2 x",
        f"without votes: median {ms(percentile(without, 0.5))}, p99 {ms(percentile(without, 0.99))}",
    )


def _next_question(client: httpx.Client, episode_id: str, before: int | None) -> dict[str, Any]:
    """Wait for the question after that of turn ``before``."""
    while True:
        found = client.get(f"/api/episodes/{episode_id}/questions").raise_for_status().json()["question"]
        if found is not None and found["turn"] != before:
            return dict(found)
        time.sleep(0.05)


def _vote(viewers: Crowd, turn: int) -> None:
    """Send one vote of each viewer over its own socket, spread evenly."""
    began = time.perf_counter()
    for number, seat in enumerate(viewers.seats.values()):
        sent = {
            "frame": "vote",
            "turn": turn,
            "card": number % 3,
            "token": f"viewer-{number:012}",
            "name": "",
        }
        text = json.dumps(sent, separators=(",", ":")).encode()
        seat.connection.send(bytes((0x81, 0x80 | len(text), 0, 0, 0, 0)) + text)  # masked with zeros
        ahead = began + VOTING_S * number / VIEWERS - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
