"""The proxy of compose.yaml before two servers and one PostgreSQL: viewers come back to the other server."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from tests.coming_back import watch
from tests.server.test_two_servers import missing_others_soon, running, start
from tests.serving import (
    PATIENCE_S,
    ROOT,
    ServerProcess,
    Serving,
    free_port,
    serve,
    serve_process,
    test_settings,
    until,
)

VIEWERS = 6
TURNS = 80
KILLED_AFTER = 90
"""Events, three a turn: they take longer than the 2 s from one sign of life to the next."""


@pytest.fixture(scope="module")
def surviving(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server of this process, which misses others sooner than is usual."""
    settings = test_settings(
        tmp_path_factory.mktemp("b"), journal_url=SecretStr(url), max_episodes=2, trusted_hops=1
    )
    with missing_others_soon(), serve(settings) as serving:
        yield serving


@pytest.fixture(scope="module")
def dying(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that is a process of its own; the last test ends it."""
    variables = {"SPECTATOR_JOURNAL_URL": url, "SPECTATOR_TRUSTED_HOPS": "1"}
    with serve_process(tmp_path_factory.mktemp("a"), variables=variables) as process:
        yield process


@pytest.fixture(scope="module")
def proxy(
    caddy: str, dying: ServerProcess, surviving: Serving, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The very configuration of compose.yaml before the two servers; its base URL."""
    tmp_path = tmp_path_factory.mktemp("caddy")
    base_url = f"http://127.0.0.1:{free_port()}"
    servers = [one.base_url.removeprefix("http://") for one in (dying, surviving)]
    environ = {
        **os.environ,
        "SITE_ADDRESS": base_url,
        "SERVERS": " ".join(servers),
        "XDG_DATA_HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    with (
        (tmp_path / "caddy.log").open("w") as log,
        subprocess.Popen(
            [caddy, "run", "--adapter", "caddyfile", "--config", str(ROOT / "deploy" / "Caddyfile")],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        ) as process,
    ):
        try:
            wait_until_it_answers(base_url, process, tmp_path / "caddy.log")
            yield base_url
        finally:
            process.kill()


def wait_until_it_answers(base_url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            if httpx.get(f"{base_url}/health", timeout=10).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.02)
    raise AssertionError(log.read_text())


def viewers_of(base_url: str) -> int:
    (line,) = (
        line
        for line in httpx.get(f"{base_url}/metrics").text.splitlines()
        if line.startswith("spectator_viewers ")
    )
    return int(float(line.split()[1]))


def test_a_stranger_s_word_for_an_address_is_not_believed(proxy: str) -> None:
    told = httpx.get(f"{proxy}/api/address", headers={"X-Forwarded-For": "203.0.113.9"}, timeout=30)
    assert told.json()["address"] == "127.0.0.1"


def test_pages_start_episodes_and_events_stream_through_it(
    proxy: str, dying: ServerProcess, surviving: Serving
) -> None:
    """A page's origin is the proxy's, and server-sent events are not held back."""
    body = {"pace": "fast", "options": {"turns": 30}}
    told = httpx.post(f"{proxy}/custom/start_episode", json=body, headers={"Origin": proxy}, timeout=30)
    assert told.status_code == 202, told.text
    episode_id = told.json()["episode_id"]
    with httpx.stream("GET", f"{proxy}/live/{episode_id}/events", timeout=30) as answer:
        lines = answer.iter_lines()
        kinds = [
            json.loads(line[6:])["frame"]
            for line, _ in zip(lines, range(40), strict=False)
            if line.startswith("data: {")
        ]
        entry = surviving.client.get(f"/api/episodes/{episode_id}").json()
        assert entry["ended_at"] is None, "it streams while the episode goes on"
    assert kinds[:2] == ["hello", "snapshot"]
    assert "event" in kinds
    stranger = httpx.post(
        f"{proxy}/custom/start_episode", json=body, headers={"Origin": "http://elsewhere.example"}, timeout=30
    )
    assert stranger.status_code == 403
    assert surviving.finish(episode_id)["reason"] == "finished"


def test_viewers_of_a_server_that_is_killed_see_every_event_once_by_the_other(
    proxy: str, dying: ServerProcess, surviving: Serving
) -> None:
    until("a free slot", lambda: running(dying.base_url) == [])
    episode_id = start(dying, options={"turns": TURNS})
    with ThreadPoolExecutor(VIEWERS) as pool:
        watching = [pool.submit(watch, [proxy], episode_id) for _ in range(VIEWERS)]
        until("all viewers", lambda: viewers_of(dying.base_url) + viewers_of(surviving.base_url) == VIEWERS)
        assert viewers_of(dying.base_url) > 0 < viewers_of(surviving.base_url), "nothing is sticky"
        until("its events", lambda: len(surviving.events(episode_id)) > KILLED_AFTER)
        assert running(surviving.base_url) == [], "a server that lives is not missed"
        dying.kill()
        found = [one.result(2 * PATIENCE_S) for one in watching]
    assert surviving.finish(episode_id)["reason"] == "finished"
    events = surviving.events(episode_id)
    for seen in found:
        seen.check(events)
    assert Counter(min(seen.connections, 2) for seen in found)[2] > 0, "somebody had to come back"
