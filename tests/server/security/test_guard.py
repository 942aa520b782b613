"""Who may do what: tokens, origins, limits, headers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import HTTPConnection

from server.security.permissions import Origins
from server.security.rate_limits import MAX_TRACKED, RateLimit
from server.security.requests import address_of, forwarded_for
from server.settings import Settings
from tests.fakes import ManualClock
from tests.gate import Gate
from tests.serving import Serving, serve, test_settings

TOKEN = "a-token-of-the-operator"
RIGHT = {"Authorization": f"Bearer {TOKEN}"}
WRONG = {"Authorization": "Bearer a-token-of-somebody-else"}
LONG = {"pace": "broadcast", "options": {"turns": 1000}}


@pytest.mark.parametrize(
    ("client", "counted"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::5", "2001:db8:1:2::/64"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::a:b:c:d", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
        ("x:y", "x:y"),
    ],
)
def test_a_household_is_counted_as_one_however_it_writes_its_addresses(client: str, counted: str) -> None:
    assert address_of(HTTPConnection({"type": "http", "client": (client, 1)})) == counted


@pytest.fixture
def guarded(tmp_path: Path, test_worlds: Gate) -> Iterator[Serving]:
    """A server with a token."""
    with serve(test_settings(tmp_path, operator_token=TOKEN, max_episodes=2)) as running:
        yield running


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("pause", {}),
    ("resume", {}),
    ("pace", {"pace": "fast"}),
    ("stop_episode", {}),
]


def test_with_a_token_only_its_bearer_stops_or_slows(guarded: Serving) -> None:
    episode_id = guarded.start(**LONG)
    for what, body in CHANGES:
        for headers in ({}, {"Authorization": "Basic xyz"}, {"Authorization": TOKEN}, WRONG):
            answer = guarded.client.post(f"/custom/{what}", json=body, headers=headers)
            assert answer.status_code == 401, what
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert answer.headers["content-type"] == "application/problem+json"
    running = guarded.client.get("/custom/status").json()["running"][0]
    assert (running["episode_id"], running["paused"], running["pace"]) == (episode_id, False, "broadcast")
    for what, body in CHANGES:
        assert guarded.client.post(f"/custom/{what}", json=body, headers=RIGHT).status_code == 200, what


def test_with_a_token_only_its_bearer_spends_money(guarded: Serving) -> None:
    for captain, headers, status in (
        ("heuristic", {}, 202),
        ("heuristic", RIGHT, 202),
        ("heuristic", WRONG, 401),
        ("dear", {}, 401),
        ("dear", WRONG, 401),
        ("dear", RIGHT, 202),
    ):
        body = {"environment": "paid", "captain_preset": captain, **LONG}
        answer = guarded.client.post("/custom/start_episode", json=body, headers=headers)
        assert answer.status_code == status, (captain, headers)
        running = guarded.client.get("/custom/status").json()["running"]
        assert len(running) == (status == 202), (captain, headers)
        if running:
            guarded.client.post("/custom/stop_episode", json={}, headers=RIGHT).raise_for_status()


def test_without_a_token_control_is_open_on_loopback(worlds_server: Serving) -> None:
    worlds_server.start(environment="paid", captain_preset="dear", **LONG)
    assert worlds_server.client.post("/custom/stop_episode", json={}).status_code == 200


@pytest.mark.parametrize("headers", [{"X-Forwarded-For": "203.0.113.9"}, {"Forwarded": "for=203.0.113.9"}])
def test_without_a_token_money_is_not_spent_through_a_proxy(
    worlds_server: Serving, headers: dict[str, str]
) -> None:
    body = {"environment": "paid", "captain_preset": "dear"}
    answer = worlds_server.client.post("/custom/start_episode", json=body, headers=headers)
    assert answer.status_code == 403 and "SPECTATOR_OPERATOR_TOKEN" in answer.json()["detail"]


def test_without_a_token_money_is_not_spent_when_others_can_reach_the_server(
    tmp_path: Path, test_worlds: Gate
) -> None:
    with serve(test_settings(tmp_path, host="0.0.0.0")) as serving:
        body = {"environment": "paid", "captain_preset": "dear"}
        assert serving.client.post("/custom/start_episode", json=body).status_code == 403
        serving.start(environment="paid", **LONG)
        assert serving.client.post("/custom/stop_episode", json={}).status_code == 200


def test_guessing_tokens_is_slowed_down(guarded: Serving) -> None:
    answers = [guarded.client.post("/custom/pause", json={}, headers=WRONG) for _ in range(12)]
    assert [answer.status_code for answer in answers] == [401] * 10 + [429] * 2
    assert int(answers[-1].headers["retry-after"]) >= 1


def test_metrics_need_the_token_when_there_is_one(guarded: Serving) -> None:
    assert guarded.client.get("/metrics").status_code == 401
    assert "spectator_viewers 0" in guarded.client.get("/metrics", headers=RIGHT).text


def test_starts_are_limited_by_address_but_not_for_the_operator(tmp_path: Path) -> None:
    settings = test_settings(tmp_path, starts_per_minute=2, operator_token=TOKEN)
    with serve(settings) as serving:
        body = {"pace": "max", "options": {"turns": 1}}
        for _ in range(2):
            serving.finish(serving.start(**body))
        refused = serving.client.post("/custom/start_episode", json=body)
        assert refused.status_code == 429 and 1 <= int(refused.headers["retry-after"]) <= 61
        allowed = serving.client.post("/custom/start_episode", json=body, headers=RIGHT)
        assert allowed.status_code == 202


def test_starts_are_limited_for_all_together(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, starts_per_hour=1)) as serving:
        serving.finish(serving.start(options={"turns": 1}))
        assert serving.client.post("/custom/start_episode", json={}).status_code == 429


def test_refused_starts_use_up_nobodys(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, starts_per_minute=2, starts_per_hour=2)) as serving:
        for body in ({"captain_preset": "nobody"}, {"options": {"turns": "x"}}, {"nonsense": 1}):
            assert serving.client.post("/custom/start_episode", json=body).status_code == 422
        assert serving.client.post("/custom/start_episode", content=b"{").status_code in (400, 415)
        assert serving.client.post("/custom/fork", json={"episode_id": "none", "seq": 1}).status_code == 404
        for _ in range(2):
            serving.finish(serving.start(options={"turns": 1}, pace="max"))
        assert serving.client.post("/custom/start_episode", json={}).status_code == 429


def test_behind_proxies_the_stated_hop_is_counted_and_never_what_the_client_wrote(tmp_path: Path) -> None:
    body = {"pace": "max", "options": {"turns": 1}}
    with serve(test_settings(tmp_path, starts_per_minute=1, trusted_hops=1)) as serving:

        def start(forwarded: str) -> int:
            headers = {"X-Forwarded-For": forwarded}
            answer = serving.client.post("/custom/start_episode", json=body, headers=headers)
            if answer.status_code == 202:
                serving.finish(answer.json()["episode_id"])
            return answer.status_code

        assert start("203.0.113.1") == 202
        assert [start(f"198.51.100.{forged}, 203.0.113.1") for forged in range(12)] == [429] * 12
        assert start("203.0.113.1, 203.0.113.2") == 202, "another visitor is another address"


def test_networks_of_proxies_may_be_named(tmp_path: Path) -> None:
    settings = test_settings(tmp_path, starts_per_minute=1, trusted_proxies=("127.0.0.0/8", "10.0.0.0/8"))
    body = {"pace": "max", "options": {"turns": 1}}
    with serve(settings) as serving:
        for forwarded, status in [("6.6.6.6, 203.0.113.1, 10.0.0.7", 202), ("7.7.7.7, 203.0.113.1", 429)]:
            headers = {"X-Forwarded-For": forwarded}
            answer = serving.client.post("/custom/start_episode", json=body, headers=headers)
            assert answer.status_code == status


@pytest.mark.parametrize(
    ("values", "hops", "client"),
    [
        ([], 1, None),
        ([""], 1, None),
        (["203.0.113.9"], 2, None),
        (["203.0.113.9:4711"], 1, "203.0.113.9"),
        (["[2001:db8::1]:4711"], 1, "2001:db8::1"),
        (["2001:db8::1"], 1, "2001:db8::1"),
        (["a, b", "c"], 2, "b"),
        (["203.0.113.9, "], 1, None),
    ],
)
def test_the_address_is_that_many_entries_from_the_right(
    values: list[str], hops: int, client: str | None
) -> None:
    assert forwarded_for(values, hops) == client


def test_a_rate_limit_is_a_moving_window() -> None:
    clock = ManualClock()
    limit = RateLimit(2, 10.0, clock)
    assert limit.take("a") == 0.0
    clock.advance(4.0)
    assert limit.take("a") == 0.0
    clock.advance(5.0)
    assert limit.take("a") == 1.0
    assert limit.take("b") == 0.0
    clock.advance(1.0)
    assert limit.take("a") == 0.0
    assert limit.take("a") == 4.0


def test_a_rate_limit_remembers_only_so_many() -> None:
    limit = RateLimit(1, 10.0, ManualClock())
    assert all(limit.take(str(number)) == 0.0 for number in range(MAX_TRACKED + 1))
    assert limit.take("0") == 0.0, "the longest silent was forgotten"
    assert limit.take(str(MAX_TRACKED)) == 10.0


ORIGINS: list[tuple[str, str | None, str, bool]] = [
    ("127.0.0.1", None, "127.0.0.1:8000", True),
    ("127.0.0.1", "http://127.0.0.1:8000", "127.0.0.1:8000", True),
    ("127.0.0.1", "http://localhost:8000", "localhost:8000", True),
    ("127.0.0.1", "http://LOCALHOST:8000", "localhost:8000", True),
    ("127.0.0.1", "http://localhost:9999", "localhost:8000", False),
    ("127.0.0.1", "https://evil.example", "127.0.0.1:8000", False),
    ("127.0.0.1", "http://evil.example:8000", "evil.example:8000", False),
    ("127.0.0.1", "null", "127.0.0.1:8000", False),
    ("127.0.0.1", "", "127.0.0.1:8000", False),
    ("127.0.0.1", "file://", "127.0.0.1:8000", False),
    ("127.0.0.1", "https://listed.example", "127.0.0.1:8000", True),
    ("127.0.0.1", "https://listed.example.evil.example", "127.0.0.1:8000", False),
    ("127.0.0.1", "http://[", "127.0.0.1:8000", False),
    ("0.0.0.0", "https://mine.example", "mine.example", True),
    ("0.0.0.0", "https://evil.example", "mine.example", False),
    ("0.0.0.0", "https://mine.example@evil.example", "mine.example", False),
]


@pytest.mark.parametrize(("host", "origin", "asked", "allowed"), ORIGINS)
def test_only_our_own_pages_and_no_page_at_all_may_write(
    host: str, origin: str | None, asked: str, allowed: bool
) -> None:
    origins = Origins(Settings(host=host, allowed_origins=("https://listed.example",)))
    headers = {"host": asked} | ({} if origin is None else {"origin": origin})
    assert origins.allows(headers) is allowed


@pytest.mark.parametrize("what", ["start_episode", "stop_episode", "pause", "resume", "pace", "nowhere"])
def test_a_foreign_page_may_not_post(serving: Serving, what: str) -> None:
    episode_id = serving.start(**LONG)
    answer = serving.client.post(
        f"/custom/{what}", json={"pace": "max"}, headers={"Origin": "https://evil.example"}
    )
    assert answer.status_code == 403
    assert answer.json()["type"] == "/problems/foreign-origin"
    assert [one["episode_id"] for one in serving.client.get("/custom/status").json()["running"]] == [
        episode_id
    ]


def test_a_foreign_page_may_ask_but_is_given_no_leave_to_read(serving: Serving) -> None:
    answer = serving.client.get("/custom/status", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers
    preflight = serving.client.options(
        "/custom/start_episode",
        headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"},
    )
    assert "access-control-allow-origin" not in preflight.headers


@pytest.mark.parametrize(
    "path", ["/health", "/custom/status", "/nowhere", "/openapi.json", "/api/episodes/x"]
)
def test_every_answer_carries_the_security_headers(serving: Serving, path: str) -> None:
    headers = serving.client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "require-trusted-types-for 'script'" in policy
    assert "frame-ancestors 'self' https://huggingface.co https://*.hf.space" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert "x-frame-options" not in headers
    assert "server" not in headers


def test_scripts_and_sheets_go_without_what_only_documents_heed(serving: Serving) -> None:
    """A page fetches many of them; a picture may be opened by itself, and so it has all."""
    page = serving.client.get("/").text
    for ending, heeded in ((".css", False), (".js", False), (".svg", True)):
        found = re.search(rf'(?:href|src)="([^"]+{re.escape(ending)}[^"]*)"', page)
        assert found is not None, ending
        headers = serving.client.get(found[1]).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert ("permissions-policy" in headers) is heeded, found[1]
