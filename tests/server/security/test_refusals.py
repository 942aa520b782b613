"""A refused request can be found in the log by the id that its answer tells."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.process import LineRateFilter
from tests.serving import serve, test_settings

LOG = "server.security.requests"
HERE = {"X-Forwarded-For": "203.0.113.9"}
REFUSED: list[tuple[str, str, dict[str, Any], int]] = [
    ("GET", "/api/episodes/nobody", {}, 404),
    ("GET", "/nowhere", {}, 404),
    ("GET", "/custom/start_episode", {}, 405),
    ("GET", "/api/episodes?limit=0", {}, 422),
    ("GET", "/envs/counting/nowhere", {}, 404),
    ("POST", "/custom/start_episode", {"json": {"seed": -1}}, 422),
    ("POST", "/custom/start_episode", {"content": b"x" * 100_000}, 413),
    ("POST", "/custom/start_episode", {"json": {}, "headers": {"Origin": "https://evil.example"}}, 403),
    ("POST", "/operator/pause", {}, 401),
    ("POST", "/pooled/counting/a/step", {"json": {"action": "x"}}, 404),
    ("POST", "/envs/counting/step", {"json": {"action": {"tool": "count"}, "timeout_s": 1e-9}}, 504),
]


def test_every_refusal_tells_the_id_under_which_the_log_has_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen = set()
    settings = test_settings(
        tmp_path, operator_token="a-token-of-the-operator", trusted_hops=1, requests_per_minute=len(REFUSED)
    )
    with caplog.at_level(logging.INFO, LOG), serve(settings) as serving:

        def ask(method: str, path: str, more: dict[str, Any]) -> httpx.Response:
            headers = {**HERE, **more.pop("headers", {})}
            return serving.client.request(method, path, headers=headers, **more)

        for method, path, more, status in (*REFUSED, ("GET", "/custom/status", {}, 429)):
            for _ in range(5 if status == 429 else 0):  # some were given back meanwhile
                ask(method, path, {})
            answer = ask(method, path, dict(more))
            assert answer.status_code == status, (path, answer.text)
            request_id = answer.json()["request_id"]
            assert answer.headers["X-Request-Id"] == request_id
            assert re.fullmatch(r"[0-9a-f]{16}", request_id) and request_id not in seen
            seen.add(request_id)
            (line,) = [text for text in caplog.messages if text.startswith(f"request {request_id} from")]
            assert f"from 203.0.113.x: {method} {path.partition('?')[0]} answered with {status}" in line
    assert "203.0.113.9" not in caplog.text, "a log has networks, not machines"


def test_a_client_does_not_choose_its_id(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving:
        answer = serving.client.get("/nowhere", headers={"X-Request-Id": "mine"})
        assert answer.headers["X-Request-Id"] != "mine"


def test_what_broke_inside_is_logged_under_the_same_id(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(test_settings(tmp_path)) as serving:

        async def broken(*_: object) -> None:
            raise RuntimeError("a /secret/path")

        services = serving.server.config.app.state.services  # type: ignore[union-attr]
        monkeypatch.setattr(services.journal, "episodes", broken)
        answer = serving.client.get("/api/episodes")
    assert answer.status_code == 500 and "/secret" not in answer.text
    (fault,) = [one for one in caplog.records if one.name == "server.security.faults"]
    assert fault.getMessage() == f"request {answer.json()['request_id']}: GET /api/episodes failed"


def test_a_flood_of_refusals_is_logged_in_part_and_the_rest_counted() -> None:
    few = LineRateFilter(3)

    def lines(minute: int, count: int) -> list[str]:
        found = []
        for number in range(count):
            record = logging.makeLogRecord({"msg": "line %d", "args": (number,)})
            record.created = minute * 60.0 + number / 1000
            if few.filter(record):
                found.append(record.getMessage())
        return found

    assert lines(7, 1000) == ["line 0", "line 1", "line 2"]
    assert lines(8, 2) == ["line 0 (997 such lines before it were dropped)", "line 1"]
    assert lines(9, 1) == ["line 0"]
