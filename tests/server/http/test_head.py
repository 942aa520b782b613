"""HEAD is answered wherever GET is: the same status and headers, no body (RFC 9110, 9.3.2)."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

from server.app import create_app
from tests.serving import Serving, test_settings

VARYING = {"date", "transfer-encoding", "retry-after", "x-request-id"}
HARD = {"/sign-in", "/sign-in/callback"}
"""Paths whose GET changes something: their HEAD is the same and asked once."""


def exchange(serving: Serving, request: str) -> bytes:
    """All bytes that the server answers to a request that closes its connection."""
    address = serving.base_url.removeprefix("http://").split(":")
    with socket.create_connection((address[0], int(address[1])), timeout=20) as connection:
        connection.sendall(f"{request}\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def headers(answer: Any) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name not in VARYING}


def paths_of(episode_id: str, data_dir: Path) -> list[str]:
    """Every path that answers GET, of the episode where it is of one."""
    routes = create_app(test_settings(data_dir)).router.routes
    found = {one.path for one in routes if isinstance(one, Route) and "GET" in (one.methods or ())}
    filled = {one.replace("{episode_id}", episode_id).replace("{rest:path}", "x") for one in found}
    return sorted(filled - HARD)


def test_every_page_answers_head_as_get(serving: Serving, tmp_path: Path) -> None:
    episode_id = serving.start(options={"turns": 3})
    serving.finish(episode_id)
    paths = paths_of(episode_id, tmp_path)
    assert len(paths) > 40
    for path in paths:
        got, head = serving.client.get(path), serving.client.head(path)
        assert head.status_code == got.status_code, path
        assert head.content == b""
        changing = (
            {"content-length"} if path == "/metrics" else set()
        )  # processor time goes on between the two
        assert {**headers(head), **dict.fromkeys(changing)} == {**headers(got), **dict.fromkeys(changing)}, (
            path
        )


def test_head_of_a_live_stream_ends_and_the_episode_goes_on(worlds_server: Serving, test_worlds: Any) -> None:
    stuck = worlds_server.start(environment="stuck")
    assert test_worlds.reached.wait(5)
    said = exchange(worlds_server, f"HEAD /live/{stuck}/events HTTP/1.1")
    assert said.startswith(b"HTTP/1.1 200") and b"text/event-stream" in said
    assert said.endswith(b"\r\n\r\n") and said.count(b"\r\n\r\n") == 1
    test_worlds.open()
    assert worlds_server.finish(stuck)["reason"] == "finished"


@pytest.mark.parametrize("path", ["/custom/start_episode", "/custom/stop_episode"])
def test_head_of_what_has_no_get_is_refused(serving: Serving, path: str) -> None:
    assert serving.client.head(path).status_code == 405
