"""``spectator doctor``: what it finds from outside and inside, and that it changes nothing."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from email.utils import formatdate
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from server.doctor import OutsideChecks
from spectator.cli import main
from tests.llm.endpoints import write_captains
from tests.serving import free_port, serve, test_settings

TOKEN = "a-token-of-the-operator"


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs the command with variables of its own."""
    for name in ("SPACE_ID", "SPACE_HOST", "FORWARDED_ALLOW_IPS", "CARTESIA_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str, **variables: str) -> Result:
        named = {f"SPECTATOR_{name.upper()}": value for name, value in variables.items()}
        return CliRunner().invoke(main, ["doctor", *arguments], env=named)

    return run


def lines(result: Result) -> dict[str, tuple[str, str]]:
    """Verdict and detail, by check."""
    found = {}
    for line in result.output.splitlines():
        verdict, _, rest = line.partition(" ")
        name, _, detail = rest.strip().partition(": ")
        found[name] = (verdict, detail)
    return found


def test_a_healthy_server_passes_and_nothing_is_changed(
    doctor: Callable[..., Result], tmp_path: Path
) -> None:
    with serve(test_settings(tmp_path, operator_token=TOKEN)) as serving:
        running = serving.start(pace="broadcast", options={"turns": 1000})
        result = doctor(serving.base_url, operator_token=TOKEN)
        found = lines(result)
        assert result.exit_code == 0, result.output
        assert {verdict for verdict, _ in found.values()} == {"ok"}
        assert list(found) == [
            "reachable",
            "HTTPS",
            "clock",
            "ready",
            "compression",
            "proxies",
            "control",
            "token",
            "WebSocket",
        ]
        assert found["control"][1] == "clients without the token may not stop or slow matches"
        assert [one["episode_id"] for one in serving.client.get("/custom/status").json()["running"]] == [
            running
        ]
        wrong = doctor(serving.base_url, operator_token="another-token-of-nobody")
        assert wrong.exit_code == 1 and lines(wrong)["token"][0] == "failed"


def test_a_server_that_is_not_there_fails(doctor: Callable[..., Result]) -> None:
    result = doctor(f"http://127.0.0.1:{free_port()}")
    assert result.exit_code == 1
    assert list(lines(result)) == ["reachable"] and lines(result)["reachable"][0] == "failed"
    assert doctor("example.org").exit_code == 2


def answered(request: httpx.Request, *, believed: bool, date: float | None) -> httpx.Response:
    """A public server with everything wrong that can be."""
    headers = {} if date is None else {"Date": formatdate(date, usegmt=True)}
    forged = request.headers.get("x-forwarded-for", "10.0.0.7") if believed else "10.0.0.7"
    path = request.url.path
    if path == "/api/address":
        return httpx.Response(200, json={"address": forged.split(",")[0]}, headers=headers)
    if path == "/health":
        return httpx.Response(200, json={"status": "healthy"}, headers=headers)
    if path == "/readyz":
        return httpx.Response(503, json={"detail": "The journal cannot be used now."}, headers=headers)
    if path == "/custom/stop_episode":
        return httpx.Response(404, json={}, headers=headers)
    return httpx.Response(200, text="open", headers=headers)


@pytest.mark.parametrize(
    ("believed", "date", "proxies", "clock"),
    [(True, None, "failed", "warning"), (False, 1_000_000_000.0, "warning", "failed")],
)
def test_what_is_wrong_from_outside_is_said_with_what_to_do(
    believed: bool, date: float | None, proxies: str, clock: str
) -> None:
    transport = httpx.MockTransport(lambda request: answered(request, believed=believed, date=date))

    async def look() -> dict[str, tuple[str, str]]:
        outside = OutsideChecks("http://doctor.invalid", None, transport)
        return {one.name: (one.verdict, one.detail) async for one in outside.findings()}

    found = asyncio.run(look())
    verdicts = {name: verdict for name, (verdict, _) in found.items()}
    assert verdicts == {
        "reachable": "ok",
        "HTTPS": "warning",
        "clock": clock,
        "ready": "failed",
        "compression": "warning",
        "proxies": proxies,
        "control": "warning",
        "token": "failed",
        "WebSocket": "failed",
    }
    assert "SPECTATOR_TRUSTED_HOPS" in found["proxies"][1]
    assert "SPECTATOR_OPERATOR_TOKEN" in found["control"][1]


def test_inside_a_good_folder_all_is_well_and_nothing_is_left_behind(
    doctor: Callable[..., Result], tmp_path: Path
) -> None:
    empty = doctor(data_dir=str(tmp_path / "new" / "data"))
    assert empty.exit_code == 0, empty.output
    assert lines(empty)["journal"][1].startswith("none yet")
    assert list(tmp_path.iterdir()) == []
    with serve(test_settings(tmp_path)) as serving:
        serving.finish(serving.start(options={"turns": 3}))
    before = sorted(path.name for path in tmp_path.iterdir())
    result = doctor(data_dir=str(tmp_path), host="0.0.0.0")
    found = lines(result)
    assert result.exit_code == 0, result.output
    assert "1 episodes" in found["journal"][1] and "intact (13 events)" in found["journal"][1]
    assert found["token"][0] == "warning"
    assert sorted(path.name for path in tmp_path.iterdir() if "-" not in path.name) == [
        name for name in before if "-" not in name
    ]


def test_a_cap_of_money_without_a_price_is_told(
    doctor: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_KEY", "sk-fake-0123456789")
    captains = write_captains(
        tmp_path / "captains.toml", mine={"base_url": "http://127.0.0.1:9/v1", "api_key_env": "FAKE_KEY"}
    )
    folder = {"data_dir": str(tmp_path), "captains_file": str(captains)}
    by_default = doctor(**folder)
    assert by_default.exit_code == 0 and lines(by_default)["models"][0] == "warning"
    asked_for = doctor(**folder, model_day_cost="5")
    verdict, detail = lines(asked_for)["models"]
    assert asked_for.exit_code == 1 and verdict == "failed"
    assert "SPECTATOR_MODEL_DAY_COST" in detail and "llm:mine" in detail
    assert lines(doctor(**folder, model_day_cost="0", model_episode_cost="0"))["models"][0] == "ok"


def test_inside_wrong_settings_and_damage_fail(doctor: Callable[..., Result], tmp_path: Path) -> None:
    wrong = doctor(max_episodes="none")
    assert wrong.exit_code == 1 and "SPECTATOR_MAX_EPISODES" in wrong.output
    with serve(test_settings(tmp_path)) as serving:
        serving.finish(serving.start(options={"turns": 3}))
    with closing(sqlite3.connect(tmp_path / "journal.db")) as journal, journal:
        journal.execute("UPDATE events SET text = replace(text, '1', '2') WHERE seq = 5")
    damaged = doctor(data_dir=str(tmp_path))
    assert damaged.exit_code == 1
    assert "was changed after it was recorded" in lines(damaged)["journal"][1]
