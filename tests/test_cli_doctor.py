"""``spectator doctor``: what it finds from outside and inside, and that it changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path

import httpx
import pytest
from click.testing import Result

from server.doctor import OutsideChecks
from spectator.events import record
from spectator.journal.sql_journal import SqlJournal
from tests.commands import spectator
from tests.journal.records import run, started
from tests.llm.endpoints import write_captains
from tests.postgres import Cluster
from tests.serving import free_port, serve, test_settings

TOKEN = "a-token-of-the-operator"


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs the command with variables of its own."""
    for name in ("SPACE_ID", "SPACE_HOST", "FORWARDED_ALLOW_IPS", "CARTESIA_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str, **variables: str) -> Result:
        named = {f"SPECTATOR_{name.upper()}": value for name, value in variables.items()}
        return spectator("doctor", *arguments, env=named)

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
            "episodes",
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


def test_an_episode_that_nobody_plays_is_found_from_outside(
    doctor: Callable[..., Result], tmp_path: Path
) -> None:
    with serve(test_settings(tmp_path)) as serving:
        left, whole = (serving.start(wait_s=50, options={"turns": 3}) for _ in range(2))
        assert serving.finish(left) and serving.finish(whole)
        assert lines(doctor(serving.base_url))["episodes"][0] == "ok"
        with closing(sqlite3.connect(tmp_path / "journal.db")) as journal, journal:
            journal.execute("DELETE FROM events WHERE episode_id = ? AND text LIKE '%episode.ended%'", [left])
            journal.execute(
                "UPDATE episodes SET ended_at = NULL, reason = NULL, end_seq = NULL, end_digest = NULL "
                "WHERE episode_id = ?", [left],
            )  # fmt: skip
        verdict, detail = lines(doctor(serving.base_url))["episodes"]
    assert verdict == "failed" and left in detail and whole not in detail


def test_inside_a_database_episodes_without_an_owner_and_slots_without_a_standby_are_found(
    doctor: Callable[..., Result], postgres: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.doctor.HEARTBEATS_S", 0)
    database = postgres.make()
    url = postgres.url(database)

    async def leave() -> None:
        journal = await SqlJournal.open(url)
        await journal.append([started("ep-left")])
        rests = started("ep-rests")
        suspended = replace(rests.event, seq=2, type="episode.suspended", data={})
        await journal.append([rests, record(suspended)])
        await journal.append([started("ep-held")])
        await journal.aclose()

    run(leave())
    postgres.execute(
        database, "INSERT INTO leases (fence, episode_id, owner, expires_ms) VALUES (9, 'ep-held', 'x', 0)"
    )
    folder = {"data_dir": str(tmp_path), "journal_url": url}
    postgres.execute(database, "SELECT pg_create_physical_replication_slot('old', true)")
    try:
        found = lines(doctor(**folder))
    finally:
        postgres.execute(database, "SELECT pg_drop_replication_slot('old')")
    verdict, detail = found["episodes"]
    assert verdict == "failed" and "ep-rests" not in detail
    assert "ep-held (leased by a dead server), ep-left" in detail
    assert found["replicas"][0] == "failed" and "slot old" in found["replicas"][1]
    assert lines(doctor(**folder))["replicas"] == ("ok", "0 standbys, none behind")
    postgres.execute("postgres", f"DROP DATABASE {database} WITH (FORCE)")


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
async def test_what_is_wrong_from_outside_is_said_with_what_to_do(
    believed: bool, date: float | None, proxies: str, clock: str
) -> None:
    transport = httpx.MockTransport(lambda request: answered(request, believed=believed, date=date))

    outside = OutsideChecks("http://doctor.invalid", None, transport)
    found = {one.name: (one.verdict, one.detail) async for one in outside.findings()}
    verdicts = {name: verdict for name, (verdict, _) in found.items()}
    assert verdicts == {
        "reachable": "ok",
        "HTTPS": "warning",
        "clock": clock,
        "ready": "failed",
        "episodes": "failed",
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
