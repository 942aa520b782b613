"""Connections that send nothing, or a little at a time: they are cut, and nobody else is."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from server.security import middleware
from server.transport import connection, private_api
from tests.server.watching import open_by_hand, watch
from tests.serving import Serving, serve, test_settings, without_errors


@pytest.fixture
def hasty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    """A server that waits one second for everything."""
    monkeypatch.setattr(private_api, "REQUEST_S", 1.0)
    monkeypatch.setattr(middleware, "BODY_S", 1.0)
    with without_errors(), serve(test_settings(tmp_path)) as running:
        yield running


def connected(serving: Serving) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(serving.base_url.rpartition(":")[2])), timeout=10)


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET /live/x HTTP/1.1\r\nUpgrade: websocket\r\n"])
def test_half_a_request_is_cut(hasty: Serving, sent: bytes) -> None:
    with connected(hasty) as peer:
        peer.sendall(sent)
        try:
            assert peer.recv(1) == b""
        except ConnectionResetError:
            pass


def test_half_of_a_later_request_is_cut_and_who_asks_again_and_again_is_not(hasty: Serving) -> None:
    with connected(hasty) as peer, httpx.Client(base_url=hasty.base_url) as busy:
        peer.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert peer.recv(65536).startswith(b"HTTP/1.1 200")
        peer.settimeout(0.2)
        deadline, ports, cut = time.monotonic() + 30, set(), False
        while not cut:
            assert time.monotonic() < deadline, "it is still served"
            answer = busy.get("/health")
            ports.add(answer.extensions["network_stream"].get_extra_info("client_addr"))
            try:
                peer.sendall(b"G")
                cut = peer.recv(1) == b""
            except TimeoutError:
                continue
            except OSError:
                cut = True
        assert len(ports) == 1


ENDLESS = [
    (b"GET /health HTTP/1.1\r\n", b"A: b\r\n" * 1000),
    (b"GET /health HTTP/1.1\r\nX: ", b"a" * 4096),
    (b"GET /", b"a" * 4096),
    (b"POST /custom/pause HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ", b"a" * 4096),
    (b"POST /custom/pause HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;x=", b"a" * 4096),
]


@pytest.mark.parametrize(("begins", "goes_on"), ENDLESS)
def test_a_head_without_an_end_is_refused(serving: Serving, begins: bytes, goes_on: bytes) -> None:
    with connected(serving) as peer:
        sent = 0
        try:
            peer.sendall(begins)
            while sent < 16 * 1024 * 1024:
                peer.sendall(goes_on)
                sent += len(goes_on)
        except OSError:
            pass
    assert sent < 16 * 1024 * 1024, "it is read for ever"


def test_a_long_body_is_no_head(serving: Serving) -> None:
    answer = serving.client.post("/custom/pause", content=b'{"episode_id":"' + b" " * 200_000 + b'"}')
    assert answer.status_code == 413 and answer.headers["content-type"] == "application/problem+json"
    assert serving.client.get("/health", headers={"X": "a" * 30_000}).status_code == 200


UPGRADE = b"Host: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /live?" + b"a" * 20_000 + b" HTTP/1.1\r\n" + UPGRADE, b"414"),
        (b"GET /live HTTP/1.1\r\n" + UPGRADE + b"X: " + b"a" * 20_000 + b"\r\n", b"431"),
        (b"GET /live HTTP/1.1\r\n" + UPGRADE + b"X: a\r\n" * 1000, b"431"),
        (b"GET /live HTTP/1.1\r\n" + UPGRADE, b"400"),
        (b"POST /live HTTP/1.1\r\n" + UPGRADE, b"405"),
    ],
)
def test_a_handshake_that_cannot_be_read_is_refused(serving: Serving, head: bytes, status: bytes) -> None:
    with connected(serving) as peer:
        peer.sendall(head + b"\r\n")
        answer = b""
        while part := peer.recv(65536):
            answer += part
    assert answer.split(b" ")[1] == status


def test_half_a_body_is_refused(hasty: Serving) -> None:
    with connected(hasty) as peer:
        peer.sendall(
            b"POST /custom/start_episode HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
        answer = peer.recv(65536)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"application/problem+json" in answer


def test_a_body_that_trickles_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "WHOLE_BODY_S", 1.0)
    head = b"POST /custom/start_episode HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with serve(test_settings(tmp_path)) as serving, connected(serving) as peer:
        peer.sendall(head + b"Content-Length: 5000\r\n\r\n")
        peer.settimeout(0.05)
        answer = b""
        for _ in range(400):
            peer.sendall(b" ")
            try:
                answer = peer.recv(65536)
                break
            except TimeoutError:
                continue
    assert answer.startswith(b"HTTP/1.1 408 ") and b"not complete after 1 s" in answer


def test_whoever_watches_is_not_cut(hasty: Serving) -> None:
    episode_id = hasty.start(pace="fast", options={"turns": 15})
    with (
        watch(f"{hasty.ws_url}/live/{episode_id}") as watcher,
        httpx.stream("GET", f"{hasty.base_url}/live/{episode_id}/events") as events,
    ):
        assert watcher.to_the_end()[0] == 1000
        assert '"frame":"bye","code":1000' in list(events.iter_lines())[-2]


def test_a_viewer_that_never_reads_is_cut_after_its_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LINGER_S", 0.3)
    with without_errors(), serve(test_settings(tmp_path, viewer_backlog_bytes=4 * 1024 * 1024)) as serving:
        episode_id = serving.start(pace="broadcast", options={"turns": 2000, "payload_bytes": 65_536})
        connections = serving.server.server_state.connections
        with open_by_hand(serving.base_url, f"/live/{episode_id}"):
            assert any(isinstance(one, connection.ViewerConnection) for one in connections)
            serving.client.post("/custom/pace", json={"pace": "max"})
            deadline = time.monotonic() + 20
            while any(isinstance(one, connection.ViewerConnection) for one in tuple(connections)):
                assert time.monotonic() < deadline, "it still holds its connection"
                time.sleep(0.02)
            closed = serving.client.get("/metrics").text
        assert 'spectator_viewers_closed_total{code="4008"} 1' in closed
        serving.client.post("/custom/stop_episode", json={})
