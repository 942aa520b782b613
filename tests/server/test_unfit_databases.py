"""Databases and fellow servers that do not fit: a sentence each, and no episode is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

import server.app
import server.wiring
from spectator.clock import SystemClock
from spectator.journal.schema import SCHEMA_VERSION
from tests.postgres import USER, Cluster
from tests.server.test_two_servers import check_record, missing_others_soon, running, start
from tests.serving import PATIENCE_S, ROOT, Serving, serve, serve_process, test_settings, until

SECRET = "s3cret-Pass"
TURNS = 60

TOO_NEW = "from spectator.journal import postgres; postgres.OLDEST = 99"
LATER = "from spectator.journal import database; database.SCHEMA_VERSION += 1"
"""What makes the program of a server one that needs a newer PostgreSQL, or other tables."""


def refused(url: str, folder: Path, program: str = "pass") -> str:
    """What a server says that does not start on that journal: a line, and no password."""
    found = subprocess.run(
        [sys.executable, "-c", f"{program}\nfrom server.app import main\nmain(['--port', '0'])"],
        cwd=ROOT,
        env={**os.environ, "SPECTATOR_JOURNAL_URL": url, "SPECTATOR_DATA_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    told = found.stdout + found.stderr
    assert found.returncode != 0, told
    assert SECRET not in told and "Traceback" not in told, told
    lines = [line for line in told.splitlines() if "postgresql" in line]
    assert len(lines) == 1, told
    return lines[0]


def shared(url: str, folder: Path, **changes: Any) -> Any:
    return serve(test_settings(folder, journal_url=SecretStr(url), max_episodes=2, **changes))


def test_a_server_does_not_start_on_a_database_that_does_not_fit_and_says_why(
    postgres: Cluster, scratch: str, tmp_path: Path
) -> None:
    url = postgres.url(scratch, password=SECRET)
    with shared(url, tmp_path / "a") as first:
        episode_id = first.start(options={"turns": 5})
        assert first.finish(episode_id)["reason"] == "finished"
    told = refused(url, tmp_path / "b", TOO_NEW)
    assert "is PostgreSQL" in told and "a journal needs 99 or newer" in told
    postgres.execute("postgres", f"ALTER DATABASE {scratch} SET default_transaction_read_only = on")
    assert "in a read-only transaction" in refused(url, tmp_path / "b")
    postgres.execute("postgres", f"ALTER DATABASE {scratch} RESET default_transaction_read_only")
    postgres.execute(scratch, f"UPDATE schema SET version = {SCHEMA_VERSION + 1}")
    told = refused(url, tmp_path / "b")
    assert f"has schema version {SCHEMA_VERSION + 1}, but this release needs version" in told
    postgres.execute(scratch, f"UPDATE schema SET version = {SCHEMA_VERSION}")
    nowhere = f"postgresql://{USER}:{SECRET}@nowhere.invalid/{scratch}"
    assert "nowhere.invalid" in refused(nowhere, tmp_path / "b")
    with shared(url, tmp_path / "b") as last:
        assert last.client.get(f"/api/episodes/{episode_id}").json()["reason"] == "finished"
    assert check_record(url, episode_id)[-1] == "episode.ended"


def test_a_wrong_password_is_told_without_it(postgres: Cluster, scratch: str, tmp_path: Path) -> None:
    postgres.execute(scratch, f"CREATE ROLE visitor LOGIN PASSWORD '{SECRET}-right'")
    rules = postgres.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"local all visitor scram-sha-256\n{before}")
    postgres.execute(scratch, "SELECT pg_reload_conf()")
    try:
        url = f"postgresql://visitor:{SECRET}-wrong@/{scratch}?host={postgres.folder}"
        assert "password authentication failed for user" in refused(url, tmp_path)
    finally:
        rules.write_text(before)
        postgres.execute(scratch, "SELECT pg_reload_conf()")
        postgres.execute(scratch, "DROP ROLE visitor")


@pytest.fixture
def quick_looks() -> Iterator[None]:
    """A server of this process misses others sooner than is usual."""
    with missing_others_soon():
        yield


def play_on_after_a_death(url: str, folder: Path, staying: Serving) -> None:
    """A server of its own process plays, is not taken for dead, is killed, and the other plays on."""
    with serve_process(folder, variables={"SPECTATOR_JOURNAL_URL": url}) as dying:
        episode_id = start(dying, options={"turns": TURNS})
        until("turn 8", lambda: len(staying.events(episode_id)) > 8)
        assert running(staying.base_url) == [] and running(dying.base_url) == [episode_id]
        dying.kill()
        until("the takeover", lambda: episode_id in running(staying.base_url))
    assert staying.finish(episode_id)["reason"] == "finished"
    types = check_record(url, episode_id)
    assert types.count("episode.recovered") == types.count("episode.ended") == 1


def test_a_server_of_another_version_plays_where_it_knows_the_tables_and_else_does_not_start(
    postgres: Cluster, scratch: str, tmp_path: Path, quick_looks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The episode that is played meanwhile notices nothing of the one that does not start."""
    monkeypatch.setattr(server.app, "__version__", "0.0.1")
    url = postgres.url(scratch, password=SECRET)
    with shared(url, tmp_path / "b") as staying:
        played = staying.start(pace="fast", options={"turns": TURNS})
        told = refused(url, tmp_path / "c", LATER)
        assert f"has schema version {SCHEMA_VERSION}, but this release needs" in told
        assert staying.finish(played)["reason"] == "finished"
        assert check_record(url, played).count("episode.recovered") == 0
        play_on_after_a_death(url, tmp_path / "a", staying)


@pytest.mark.parametrize("hours", [1, -1])
def test_servers_whose_clocks_are_an_hour_apart_neither_depose_each_other_nor_lose_anything(
    postgres: Cluster, scratch: str, tmp_path: Path, quick_looks: None, monkeypatch: pytest.MonkeyPatch,
    hours: int,
) -> None:  # fmt: skip
    class Shifted(SystemClock):
        @staticmethod
        def now() -> datetime:
            return SystemClock.now() + timedelta(hours=hours)

    monkeypatch.setattr(server.wiring, "SystemClock", Shifted)
    url = postgres.url(scratch)
    with shared(url, tmp_path / "b", starts_per_hour=2) as staying:
        own = staying.start(options={"turns": 3})
        began = datetime.fromisoformat(staying.finish(own)["started_at"])
        apart = began - SystemClock.now()
        assert abs(apart - timedelta(hours=hours)) < timedelta(minutes=5), "the clock is wrong indeed"
        play_on_after_a_death(url, tmp_path / "a", staying)
        assert postgres.execute(scratch, "SELECT count(*) FROM begun") == [(2,)], "one at each server"
        again = staying.client.post("/custom/start_episode", json={"pace": "max"})
        assert again.status_code == 429, "an hour is the database's"
        assert 3000 < int(again.headers["Retry-After"]) <= 3601
