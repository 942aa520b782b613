"""A server answers at once; what ran before it is recovered meanwhile, and nothing is started before that."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.gate import Gate
from tests.server.watching import watch
from tests.serving import Serving, serve, test_settings, without_errors

SLOW = {"environment": "stuck", "pace": "fast", "options": {"turns": 1000}}


@pytest.fixture
def left(tmp_path: Path, test_worlds: Gate) -> tuple[str, str]:
    """An episode that has ended, and one that a server left in a world where a step waits at the gate."""
    test_worlds.open()
    with serve(test_settings(tmp_path)) as serving:
        ended = serving.start(options={"turns": 3})
        serving.finish(ended)
        unended = serving.start(**SLOW)
        with watch(f"{serving.ws_url}/live/{unended}") as viewer:
            while viewer.seq < 10:
                viewer.next()
    Gate.current = Gate()
    return ended, unended


@pytest.fixture
def recovering(tmp_path: Path, left: tuple[str, str]) -> Iterator[Serving]:
    """A server that is held at the gate while it recovers."""
    with without_errors(), serve(test_settings(tmp_path), ready=False) as serving:
        assert Gate.current.reached.wait(20)
        yield serving
        Gate.current.open()


def problem(answer: Any) -> str:
    assert answer.headers["content-type"] == "application/problem+json"
    return str(answer.json()["type"])


def test_while_episodes_are_recovered_the_server_answers_reads_and_refuses_starts(
    recovering: Serving, left: tuple[str, str]
) -> None:
    ended, unended = left
    client = recovering.client
    assert client.get("/health").json() == {"status": "healthy"}
    readiness = client.get("/readyz")
    assert (readiness.status_code, problem(readiness)) == (503, "/problems/recovering")
    assert readiness.headers["retry-after"] == "1"
    assert "0 of 1 done" in readiness.json()["detail"]
    assert len(recovering.events(ended)) == client.get(f"/api/episodes/{ended}").json()["head_seq"]
    assert [one["episode_id"] for one in client.get("/api/episodes").json()["episodes"]] == [unended, ended]
    for path, body in (
        ("start_episode", {}),
        ("fork", {"episode_id": ended, "seq": 4}),
        ("stop_episode", {"episode_id": unended}),
        ("stop_episode", {}),
        ("pause", {"episode_id": unended}),
    ):
        refused = client.post(f"/custom/{path}", json=body)
        assert (refused.status_code, problem(refused)) == (503, "/problems/recovering"), path
        assert refused.headers["retry-after"] == "1"
    assert client.post("/custom/stop_episode", json={"episode_id": ended}).status_code == 409
    assert client.post("/custom/stop_episode", json={"episode_id": "ep-none"}).status_code == 404
    assert client.get("/custom/status").json()["running"] == []


def test_once_they_are_recovered_everything_is_as_ever(recovering: Serving, left: tuple[str, str]) -> None:
    unended = left[1]
    Gate.current.open()
    with watch(f"{recovering.ws_url}/live/{unended}") as viewer:
        viewer.until("snapshot")
        stood = viewer.seq
        while viewer.seq < stood + 5:
            viewer.next()
    assert recovering.client.get("/readyz").json() == {"status": "ready"}
    stopped = recovering.client.post("/custom/stop_episode", json={"episode_id": unended})
    assert stopped.json()["reason"] == "stopped"
    recovering.finish(recovering.start(options={"turns": 2}))


@pytest.mark.parametrize("path", ["{unended}", ""])
def test_viewers_wait_for_the_episode_and_see_it_go_on(
    recovering: Serving, left: tuple[str, str], path: str
) -> None:
    """Whoever comes back early must not be told that it is over; whoever waits for the next one, gets it."""
    where = f"/live/{path.format(unended=left[1])}".rstrip("/")
    opening = threading.Timer(0.3, Gate.current.open)
    opening.start()
    with watch(f"{recovering.ws_url}{where}") as viewer:
        snapshot = viewer.until("snapshot")
        assert snapshot["state"]["episode"]["id"] == left[1]
        stood = viewer.seq
        while viewer.seq < stood + 5:
            viewer.next()
    opening.join()


def test_a_server_that_must_go_while_it_recovers_leaves_the_episode_as_it_was(
    tmp_path: Path, left: tuple[str, str]
) -> None:
    before = events_of(tmp_path, left[1])
    with serve(test_settings(tmp_path), ready=False):
        assert Gate.current.reached.wait(20)
    assert events_of(tmp_path, left[1]) == before
    Gate.current.open()
    with serve(test_settings(tmp_path)) as again:
        assert again.client.get("/custom/status").json()["running"][0]["episode_id"] == left[1]


def test_a_damaged_record_keeps_nobody_from_starting(tmp_path: Path, left: tuple[str, str]) -> None:
    Gate.current.open()
    with closing(sqlite3.connect(tmp_path / "journal.db")) as journal, journal:
        journal.execute("UPDATE events SET text = '{' WHERE episode_id = ? AND seq = 5", (left[1],))
    before = events_of(tmp_path, left[1])
    with serve(test_settings(tmp_path)) as serving:
        serving.finish(serving.start(options={"turns": 2}))
    assert events_of(tmp_path, left[1]) == before


def events_of(folder: Path, episode_id: str) -> list[Any]:
    with closing(sqlite3.connect(folder / "journal.db")) as journal:
        wanted = "SELECT seq, text FROM events WHERE episode_id = ? ORDER BY seq"
        return journal.execute(wanted, (episode_id,)).fetchall()
