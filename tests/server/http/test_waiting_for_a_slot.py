"""Starts and forks that wait for a slot over HTTP: the place, the ticket, going away, and bad input."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.serving import PATIENCE_S, Serving, serve, test_settings, without_errors

LONG = {"pace": "broadcast", "options": {"turns": 1000}}


@pytest.fixture
def taken(tmp_path: Path) -> Iterator[tuple[Serving, str]]:
    """A server whose only slot is taken, and by what."""
    with without_errors(), serve(test_settings(tmp_path, max_waiting_per_address=2)) as serving:
        yield serving, serving.start(**LONG)


def ask(serving: Serving, body: dict[str, Any], path: str = "/custom/start_episode") -> httpx.Response:
    return httpx.post(f"{serving.base_url}{path}", json=body, timeout=PATIENCE_S)


def aside(call: Callable[[], httpx.Response]) -> tuple[threading.Thread, list[httpx.Response]]:
    answers: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: answers.append(call()))
    thread.start()
    return thread, answers


def until_waiting(serving: Serving, wanted: int) -> None:
    """Wait until so many wait."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_S * 50)):
        if serving.client.get("/custom/status").json()["waiting"] == wanted:
            return
        pause.wait(0.02)
    raise AssertionError(f"not {wanted} wait")


def stop(serving: Serving, episode_id: str) -> None:
    assert serving.client.post("/custom/stop_episode", json={"episode_id": episode_id}).status_code == 200


def test_whoever_does_not_ask_to_wait_is_refused_with_its_place(taken: tuple[Serving, str]) -> None:
    serving, episode_id = taken
    answer = ask(serving, LONG)
    document = answer.json()
    assert (answer.status_code, document["type"]) == (409, "/problems/episode-busy")
    assert [one["episode_id"] for one in document["running"]] == [episode_id]
    assert document["queue"] == {"place": 1, "waiting": 0}
    assert 5 <= int(answer.headers["Retry-After"]) <= 60
    assert f"taken by {episode_id}" in document["detail"]
    assert serving.client.get("/custom/status").json()["waiting"] == 0


def test_a_start_and_a_fork_wait_for_their_turn(taken: tuple[Serving, str]) -> None:
    serving, episode_id = taken
    at = serving.events(episode_id)[0]["seq"]
    first, started = aside(lambda: ask(serving, {**LONG, "wait_s": 50}))
    until_waiting(serving, 1)
    fork = {"episode_id": episode_id, "seq": at, "wait_s": 50}
    second, forked = aside(lambda: ask(serving, fork, "/custom/fork"))
    until_waiting(serving, 2)
    assert ask(serving, {**LONG, "wait_s": 50}).json()["queue"] == {"waiting": 2}, "two of one address may"
    figures = serving.client.get("/metrics").text
    assert "spectator_starts_waiting 2.0" in figures and 'limit="max_episodes"} 1.0' in figures
    stop(serving, episode_id)
    first.join(PATIENCE_S)
    assert started[0].status_code == 202
    stop(serving, started[0].json()["episode_id"])
    second.join(PATIENCE_S)
    assert forked[0].status_code == 202
    assert serving.client.get("/custom/status").json()["waiting"] == 0


def test_a_ticket_keeps_a_place_from_one_request_to_the_next(taken: tuple[Serving, str]) -> None:
    serving, episode_id = taken
    answer = ask(serving, {**LONG, "wait_s": 1})
    queue = answer.json()["queue"]
    assert (answer.status_code, queue["place"], answer.headers["Retry-After"]) == (409, 1, "0")
    again, answers = aside(lambda: ask(serving, {**LONG, "wait_s": 50, "ticket": queue["ticket"]}))
    until_waiting(serving, 1)
    stop(serving, episode_id)
    again.join(PATIENCE_S)
    assert answers[0].status_code == 202


def test_a_client_that_disconnects_leaves_the_queue(taken: tuple[Serving, str]) -> None:
    serving, episode_id = taken
    place = urlsplit(serving.base_url)
    body = json.dumps({**LONG, "wait_s": 50}).encode()
    with socket.create_connection((place.hostname, place.port)) as client:
        head = f"POST /custom/start_episode HTTP/1.1\r\nHost: {place.netloc}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        until_waiting(serving, 1)
    until_waiting(serving, 0)
    stop(serving, episode_id)
    assert serving.client.get("/custom/status").json()["running"] == []


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"wait_s": -1}, "wait_s"),
        ({"wait_s": 51}, "wait_s"),
        ({"wait_s": 1.5}, "wait_s"),
        ({"wait_s": "10"}, "wait_s"),
        ({"wait_s": None}, "wait_s"),
        ({"ticket": ""}, "ticket"),
        ({"ticket": "a b"}, "ticket"),
        ({"ticket": "x" * 65}, "ticket"),
        ({"ticket": 7}, "ticket"),
        ({"wait": 10}, "wait"),
    ],
)
@pytest.mark.parametrize("path", ["/custom/start_episode", "/custom/fork"])
def test_bad_waits_are_named_and_start_nothing(
    serving: Serving, path: str, wrong: dict[str, Any], field: str
) -> None:
    body = {"episode_id": "ep-x", "seq": 3} if path.endswith("fork") else {}
    answer = serving.client.post(path, json={**body, **wrong})
    assert answer.status_code == 422, answer.text
    assert [one["field"] for one in answer.json()["errors"]] == [field]
    assert serving.client.get("/custom/status").json()["running"] == []


def test_whoever_waits_is_sent_away_when_the_server_goes(tmp_path: Path) -> None:
    with without_errors():
        with serve(test_settings(tmp_path)) as serving:
            serving.start(**LONG)
            thread, answers = aside(lambda: ask(serving, {**LONG, "wait_s": 50}))
            until_waiting(serving, 1)
        thread.join(PATIENCE_S)
    assert answers[0].status_code == 409 and "shutting down" in answers[0].json()["detail"]


def test_an_episode_gives_way_to_another_address(tmp_path: Path) -> None:
    """The one that held the only slot ends as ``timeout`` and says why; a newcomer plays."""
    settings = test_settings(tmp_path, slot_hold_s=0.5, trusted_hops=1)
    with without_errors(), serve(settings) as serving:
        serving.client.headers["X-Forwarded-For"] = "203.0.113.1"
        held = serving.start(**LONG)
        headers = {"X-Forwarded-For": "203.0.113.2"}
        url = f"{serving.base_url}/custom/start_episode"
        answer = httpx.post(url, json={**LONG, "wait_s": 50}, headers=headers, timeout=60)
        assert answer.status_code == 202, answer.text
        assert serving.finish(held)["reason"] == "timeout"
        ended = serving.events(held)[-1]["data"]
        assert "others waited for a slot" in ended["detail"], ended
