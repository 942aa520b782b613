"""A server with few descriptors plays on, and answers, while strangers hold its connections."""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from server import process
from server.settings import Settings
from server.transport.capacity import RESERVED, Capacity, HttpConnections
from tests.serving import PATIENCE_S, ServerProcess, serve, serve_process, test_settings, until

FEW = 256
"""Files that the server may open."""

HALVES = (b"", b"GET / HT", b"POST /custom/pause HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
          b"Content-Length: 100\r\n\r\n{")  # fmt: skip
"""What a stranger sends and then falls silent: nothing, half a head, half a body."""


@pytest.fixture
def many_files() -> Iterator[None]:
    """A thousand sockets in this process too."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))


def strangers(serving: ServerProcess, stack: contextlib.ExitStack, count: int) -> None:
    """Connect, send no whole request, and stay."""
    address = ("127.0.0.1", int(serving.base_url.rpartition(":")[2]))
    for number in range(count):
        peer = stack.enter_context(socket.create_connection(address, PATIENCE_S))
        with contextlib.suppress(OSError):  # closed already
            peer.sendall(HALVES[number % len(HALVES)])


@pytest.mark.usefixtures("many_files")
def test_a_match_is_played_to_its_end_among_silent_sockets(tmp_path: Path) -> None:
    few = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({FEW}, {FEW}))"
    with contextlib.ExitStack() as stack:
        serving = stack.enter_context(serve_process(tmp_path, program=few))
        options = {"pace": "fast", "options": {"turns": 12}}
        started = httpx.post(f"{serving.base_url}/custom/start_episode", json=options)
        page = f"{serving.base_url}/api/episodes/{started.json()['episode_id']}"
        for _ in range(4):
            strangers(serving, stack, 250)
            assert httpx.get(f"{serving.base_url}/health", timeout=1.0).status_code == 200
        ended = until("its end", lambda: (one := httpx.get(page).json())["ended_at"] and one)
        assert ended["reason"] == "finished"
        troubled = [line for line in serving.log if "waiting for the journal" in line or "Too many" in line]
        assert not troubled


def test_the_last_connections_are_for_operators_and_health_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "open_files", lambda: 2 * (RESERVED + 2))
    token = "0123456789abcdef"
    with serve(test_settings(tmp_path, operator_token=token)) as serving, contextlib.ExitStack() as stack:
        operator = {"Authorization": f"Bearer {token}"}
        started = httpx.post(
            f"{serving.base_url}/custom/start_episode", json={"options": {"turns": 1000}}, headers=operator
        )
        events = f"{serving.base_url}/live/{started.json()['episode_id']}/events"
        for _ in range(2):  # each is being answered for as long as it watches
            stack.enter_context(httpx.stream("GET", events))
        status = f"{serving.base_url}/custom/status"
        refused = httpx.get(status)
        assert (refused.status_code, refused.json()["type"]) == (503, "/problems/too-many-connections")
        assert refused.headers["connection"] == "close" and "retry-after" in refused.headers
        with pytest.raises(InvalidStatus, match="503"):
            connect(f"{serving.ws_url}/live")
        assert httpx.get(f"{serving.base_url}/health").status_code == 200
        assert httpx.get(status, headers=operator).status_code == 200


class Peer:
    """An HTTP connection in memory."""

    def __init__(self, waits: bool = True) -> None:
        self.waits, self.open = waits, True

    def abort(self) -> None:
        self.open = False


def joined(
    others: HttpConnections, peers: list[Peer], *added: Peer, address: str = "192.0.2.1"
) -> list[bool]:
    """Whether each of ``added`` found the server crowded, when it joined."""
    found = []
    for one in added:
        peers.append(one)
        for gone in [peer for peer in peers if not peer.open]:
            others.leave(gone)
        found.append(others.join(one, address, sum(peer.open for peer in peers)))
    return found


def test_the_oldest_that_waits_makes_room_and_none_that_is_answered() -> None:
    others, peers = HttpConnections(Capacity(20, 0, 10)), list[Peer]()
    assert not any(joined(others, peers, Peer(waits=False), Peer(), Peer(), Peer(waits=False)))
    assert joined(others, peers, Peer()) == [False]
    assert [peer.open for peer in peers] == [True, False, True, True, True]
    assert joined(others, peers, Peer(waits=False), Peer(waits=False)) == [False, False]
    assert sum(peer.open for peer in peers) == 20 - RESERVED
    crowded = joined(others, peers, *(Peer(waits=False) for _ in range(RESERVED)))
    assert all(crowded) and sum(peer.open for peer in peers) == 20
    assert joined(others, peers, Peer(waits=False)) == [True] and not peers[-1].open
    peers[0].waits = True
    assert joined(others, peers, Peer()) == [True] and not peers[0].open and peers[-1].open


def test_an_address_has_its_own_bound() -> None:
    others, peers = HttpConnections(Capacity(1000, 2, 10)), list[Peer]()
    joined(others, peers, Peer(), Peer(waits=False), address="192.0.2.9")
    joined(others, peers, Peer(), Peer(waits=False), Peer(waits=False), address="192.0.2.1")
    assert [peer.open for peer in peers] == [True, True, False, True, True]
    assert joined(others, peers, Peer()) == [True] and not peers[-1].open
    others.leave(peers[3])
    assert joined(others, peers, Peer()) == [False] and peers[-1].open
    joined(others, peers, *(Peer(waits=False) for _ in range(9)), address="127.0.0.1")
    assert all(peer.open for peer in peers[-9:]), "this machine may be a proxy"


def test_a_proxy_is_not_one_address() -> None:
    assert Capacity.of(Settings(max_connections_per_address=5), 4096).per_address == 5
    assert Capacity.of(Settings(max_connections_per_address=5, trusted_hops=1), 4096).per_address == 0
