"""What HTTP demands at every door: whole numbers of JSON, marks of byte order, one known host."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from starlette.datastructures import Headers
from websockets.sync.client import connect

from server.security.permissions import Hosts
from server.settings import Settings
from tests.serving import Serving, serve, test_settings

BIG, MARK = b"1e999", b"\xef\xbb\xbf"
JSON = b"Content-Type: application/json"
EXCHANGES = [
    (b"GET /health HTTP/1.1", [b"Host: evil.example"], b"", 200, "healthy"),
    (b"GET / HTTP/1.1", [b"Host: evil.example"], b"", 421, "SPECTATOR_ALLOWED_HOSTS"),
    (b"GET / HTTP/1.1", [b"Host: a.internal", b"Host: evil.example"], b"", 421, "one Host header"),
    (b"GET / HTTP/1.1", [b'Host: a"><b>'], b"", 421, "one Host header"),
    (b"GET / HTTP/1.1", [], b"", 421, "one Host header"),
    (b"GET /custom/status HTTP/1.0", [], b"", 200, "running"),
    (b"GET /custom/status HTTP/1.1", [b"Host: [2001:db8::1]:80"], b"", 200, "running"),
    (b"POST /custom/stop_episode HTTP/1.1", [b"Host: evil.example", b"Origin: http://evil.example", JSON],
     b"{}", 421, "foreign-host"),
    (b"POST /custom/start_episode HTTP/1.1", [b"Host: a", JSON], b'{"seed":1e999}', 400,
     "too large a number"),
    (b"POST /custom/pause HTTP/1.1", [b"Host: a", JSON], MARK + b'{"episode_id":"ep-1"}', 404, "ep-1"),
    (b"POST /custom/pause HTTP/1.1", [b"Host: a", JSON], MARK + MARK + b"{}", 400, "not JSON"),
    (b"POST /mcp HTTP/1.1", [b"Host: a", JSON], b'{"jsonrpc":"2.0","id":1e999,"method":"tools/list"}', 200,
     "too large a number"),
    (b"POST /mcp HTTP/1.1", [b"Host: a", JSON], MARK + b'{"jsonrpc":"2.0","id":7,"method":"tools/list"}', 200,
     '"id":7'),
]  # fmt: skip


@pytest.mark.parametrize(("line", "head", "body", "status", "said"), EXCHANGES)
def test_an_exchange(
    serving: Serving, line: bytes, head: list[bytes], body: bytes, status: int, said: str
) -> None:
    host, _, port = serving.base_url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as peer:
        lines = [line, *head, b"Connection: close", b"Content-Length: %d" % len(body)]
        peer.sendall(b"\r\n".join([*lines, b"", body]))
        answer = b""
        while part := peer.recv(65_536):
            answer += part
    assert int(answer.split(b" ")[1]) == status, answer
    assert said in answer.decode()


def test_a_socket_reads_the_same_json(serving: Serving) -> None:
    with connect(f"{serving.ws_url}/ws") as peer:
        peer.send('{"type":"reset","data":{"seed":1e999}}')
        refused = json.loads(peer.recv())
        assert (
            refused["data"]["code"] == "INVALID_JSON" and "too large a number" in refused["data"]["message"]
        )
        peer.send('\ufeff{"type":"reset","data":{"seed":3}}')
        assert json.loads(peer.recv())["type"] == "observation"
    with connect(f"{serving.ws_url}/publish") as peer:
        peer.send('{"begin":{"environment":"mine","title":"t","agent":"a","observation":{"x":1e999}}}')
        assert "too large a number" in str(peer.recv())


HOSTS = [
    ({}, "spectator.example.org", False),
    ({}, "localhost:8000", True),
    ({}, "spectator:8000", True),
    ({}, "box.local", True),
    ({}, "127.0.0.1.evil.example", False),
    ({"SPECTATOR_HOST": "0.0.0.0"}, "192.168.1.2", True),
    ({"SPECTATOR_HOST": "0.0.0.0"}, "evil.example", False),
    ({"SPECTATOR_ALLOWED_HOSTS": "a.example *.b.example"}, "A.EXAMPLE.", True),
    ({"SPECTATOR_ALLOWED_HOSTS": "a.example *.b.example"}, "x.b.example:80", True),
    ({"SPECTATOR_ALLOWED_HOSTS": "a.example *.b.example"}, "xb.example", False),
    ({"SPECTATOR_ALLOWED_ORIGINS": "https://c.example"}, "c.example", True),
    ({"SPECTATOR_PUBLIC_URL": "https://d.example"}, "d.example", True),
    ({"SPECTATOR_PROFILE": "public"}, "any.example", True),
    ({"SPECTATOR_PROFILE": "public"}, "a b", False),
    ({"SPECTATOR_PROFILE": "public", "SPECTATOR_PUBLIC_URL": "https://d.example"}, "any.example", False),
]


@pytest.mark.parametrize(("variables", "host", "allowed"), HOSTS)
def test_a_host_is_allowed(variables: dict[str, str], host: str, allowed: bool) -> None:
    hosts = Hosts(Settings.from_environ(variables))
    assert hosts.allows(Headers({"host": host})) is allowed


def test_cards_and_strips_name_the_canonical_address(tmp_path: Path) -> None:
    settings = test_settings(tmp_path, public_url="https://show.example", allowed_hosts="*")
    with serve(settings) as serving:
        episode_id = serving.start()
        serving.finish(episode_id)
        headers = {"Host": "evil.example"}
        page = serving.client.get(f"/watch/{episode_id}", headers=headers).text
        assert f'content="https://show.example/card/{episode_id}.png"' in page and "evil.example" not in page
        for home in ("https://show.example", serving.base_url):
            url = f"{home}/watch/{episode_id}"
            strip = serving.client.get("/oembed", params={"url": url}).json()
            assert strip["provider_url"] == "https://show.example/"
        url = f"https://other.example/watch/{episode_id}"
        assert serving.client.get("/oembed", params={"url": url}).status_code == 404
