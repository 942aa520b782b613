"""Limits that hold over two servers on one PostgreSQL, of which one is killed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr
from websockets.sync.client import connect

from tests.llm.brains import counter
from tests.llm.endpoints import endpoint, write_captains
from tests.llm.fake_server import billed
from tests.openenv.conftest import Client
from tests.postgres import Cluster
from tests.serving import PATIENCE_S, ServerProcess, Serving, serve, serve_process, test_settings, until

TOKENS = 40_000
LONG = {"turns": 400}


def begin(base_url: str, **body: Any) -> httpx.Response:
    return httpx.post(f"{base_url}/custom/start_episode", json={"pace": "max", **body}, timeout=PATIENCE_S)


def stop(base_url: str, episode_id: str) -> None:
    told = httpx.post(f"{base_url}/custom/stop_episode", json={"episode_id": episode_id}, timeout=PATIENCE_S)
    assert told.status_code == 200, told.text


def reserved(postgres: Cluster, scratch: str, what: str) -> float:
    rows = postgres.execute(scratch, "SELECT amount FROM reserved WHERE what = %s", [what])
    return float(rows[0][0]) if rows else 0.0


def test_the_days_tokens_hold_over_two_servers_though_one_is_killed(
    postgres: Cluster, scratch: str, tmp_path: Path
) -> None:
    """Both ask one endpoint, which counts what is billed; the rest of the one that died stays counted."""
    url = postgres.url(scratch)
    with endpoint(counter) as fake:
        captains = write_captains(tmp_path / "captains.toml", paid={"base_url": fake.base_url})
        variables = {
            "SPECTATOR_JOURNAL_URL": url,
            "SPECTATOR_MODEL_DAY_TOKENS": str(TOKENS),
            "SPECTATOR_CAPTAINS_FILE": str(captains),
            "SPECTATOR_MAX_EPISODES": "2",
        }
        settings = test_settings(
            tmp_path / "b", journal_url=SecretStr(url), captains_file=captains, max_episodes=4,
            model_day_tokens=TOKENS,
        )  # fmt: skip
        wanted = {"captain_preset": "llm:paid", "options": LONG, "pace": "fast"}
        with serve(settings) as staying, serve_process(tmp_path / "a", variables=variables) as dying:
            for base_url in (staying.base_url, dying.base_url, dying.base_url):
                assert begin(base_url, **wanted).status_code == 202
            until("some tokens", lambda: billed(fake)[0] > TOKENS / 4)
            dying.kill()
            refused = until("the cap", lambda: _refusal(staying, wanted))
            assert refused.status_code == 429, refused.text
            told = refused.json()
            assert told["type"] == "/problems/allowance-spent"
            words = f"the day's cap of {TOKENS:,} tokens is reached, by all servers together"
            assert words in told["detail"] and "SPECTATOR_MODEL_DAY_" in told["detail"]
            assert 0 < int(refused.headers["Retry-After"]) <= 86_401
            assert words in staying.client.get("/custom/status").json()["models_today"]["refusal"]
        tokens, most = billed(fake)
        assert TOKENS * 0.8 < tokens <= TOKENS + most, "at most an estimate of a prompt beyond it"
        assert reserved(postgres, scratch, "model tokens") >= tokens - 2 * most
        with serve(settings) as again:
            refused = until("the cap", lambda: _refusal(again, wanted))
            assert refused.status_code == 429, "nor after a restart"
        assert billed(fake)[0] == tokens, "where the rest covers no request"


def _refusal(server: Serving, wanted: dict[str, Any]) -> httpx.Response | None:
    """The refusal of a start; one that begins is stopped again."""
    told = begin(server.base_url, **wanted)
    if told.status_code == 202:
        stop(server.base_url, told.json()["episode_id"])
        return None
    return None if told.status_code == 409 else told


def test_a_server_that_leaves_gives_back_what_it_did_not_use(
    postgres: Cluster, scratch: str, tmp_path: Path
) -> None:
    with endpoint(counter) as fake:
        captains = write_captains(tmp_path / "captains.toml", paid={"base_url": fake.base_url})
        settings = test_settings(
            tmp_path / "a", journal_url=SecretStr(postgres.url(scratch)), captains_file=captains
        )
        with serve(settings) as only:
            only.finish(only.start(captain_preset="llm:paid", options={"turns": 3}))
            until("a part", lambda: reserved(postgres, scratch, "model tokens") > 1_000_000)
        assert reserved(postgres, scratch, "model tokens") == billed(fake)[0]


def starts(server: ServerProcess | Serving, address: str) -> httpx.Response:
    sent = {"pace": "max", "options": {"turns": 1}}
    headers = {"X-Forwarded-For": address}
    return httpx.post(
        f"{server.base_url}/custom/start_episode", json=sent, headers=headers, timeout=PATIENCE_S
    )


def test_starts_are_counted_over_two_servers_though_one_is_killed(
    postgres: Cluster, scratch: str, tmp_path: Path
) -> None:
    url, token = postgres.url(scratch), "a-token-of-the-operator"
    variables = {
        "SPECTATOR_JOURNAL_URL": url,
        "SPECTATOR_STARTS_PER_MINUTE": "4",
        "SPECTATOR_STARTS_PER_HOUR": "7",
        "SPECTATOR_TRUSTED_HOPS": "1",
        "SPECTATOR_MAX_EPISODES": "8",
        "SPECTATOR_OPERATOR_TOKEN": token,
    }
    settings = test_settings(
        tmp_path / "b", journal_url=SecretStr(url), starts_per_minute=4, starts_per_hour=7, trusted_hops=1,
        max_episodes=8, operator_token=token,
    )  # fmt: skip
    one, other = "203.0.113.9", "198.51.100.7"
    with serve(settings) as staying, serve_process(tmp_path / "a", variables=variables) as dying:
        wrong = {"pace": "max", "captain_preset": "nobody"}
        assert begin(dying.base_url, **wrong).status_code == 422, "what is refused is not counted"
        with ThreadPoolExecutor(4) as clients:
            asked = [clients.submit(starts, (staying, dying)[at % 2], one) for at in range(8)]
            told = [each.result(PATIENCE_S) for each in asked]
        assert sorted(each.status_code for each in told) == [202] * 4 + [429] * 4
        refused = next(each for each in told if each.status_code == 429)
        assert "starts from this address, on all servers together (SPECTATOR_STARTS_PER_MINUTE)" in (
            "".join(each.json()["detail"] for each in told if each.status_code == 429)
        )
        assert 0 < int(refused.headers["Retry-After"]) <= 61
        dying.kill()
        assert [starts(staying, other).status_code for _ in range(3)] == [202] * 3
        refused = starts(staying, "192.0.2.1")
        assert (refused.status_code, refused.json()["type"]) == (429, "/problems/too-many-requests")
        words = "starts, on all servers together (SPECTATOR_STARTS_PER_HOUR)"
        assert words in refused.json()["detail"], "what the one that died began stays counted"
        assert 3000 < int(refused.headers["Retry-After"]) <= 3601
        operator = {"Authorization": f"Bearer {token}"}
        sent = {"pace": "max", "options": {"turns": 1}}
        freely = httpx.post(f"{staying.base_url}/custom/start_episode", json=sent, headers=operator)
        assert freely.status_code == 202, freely.text
    rows = postgres.execute(scratch, "SELECT whose FROM begun")
    assert len(rows) == 7 and one not in str(rows) and other not in str(rows)


def client(server: ServerProcess | Serving, address: str) -> Client:
    """A client of the socket of environments, from an address; the caller closes ``client.socket``."""
    url = server.base_url.replace("http", "ws", 1)
    return Client(connect(f"{url}/ws", additional_headers={"X-Forwarded-For": address}, legacy=True))


def resets(server: ServerProcess | Serving, address: str, times: int, **data: Any) -> list[Any]:
    """What the client is told at each of its resets: the metadata of the first observation, or an error."""
    one = client(server, address)
    with one.socket:
        told = [one.send({"type": "reset", "data": {"turns": 2, **data}}) for _ in range(times)]
    return [each["data"].get("metadata", {}) if each["type"] == "observation" else each for each in told]


RATES = {"resets_per_minute": 4, "resets_per_hour": 7, "publishes_per_minute": 2, "publishes_per_hour": 3}


def test_resets_and_publishes_are_counted_over_two_servers_though_one_is_killed(
    postgres: Cluster, scratch: str, tmp_path: Path
) -> None:
    url = postgres.url(scratch)
    variables = {
        "SPECTATOR_JOURNAL_URL": url,
        "SPECTATOR_TRUSTED_HOPS": "1",
        **{f"SPECTATOR_{name.upper()}": str(count) for name, count in RATES.items()},
    }
    settings = test_settings(tmp_path / "b", journal_url=SecretStr(url), trusted_hops=1, **RATES)
    one, other = "203.0.113.9", "198.51.100.7"
    with serve(settings) as staying, serve_process(tmp_path / "a", variables=variables) as dying:
        wrong = client(dying, one)
        with wrong.socket:
            assert wrong.fail({"type": "reset", "data": {"turns": -1}})["code"] == "VALIDATION_ERROR"
        with ThreadPoolExecutor(2) as clients:
            told = [clients.submit(resets, server, one, 4, publish=True) for server in (staying, dying)]
            first, second = (each.result(PATIENCE_S) for each in told)
        begun = [each for each in first + second if "published" in each]
        refused = [each["data"]["message"] for each in first + second if "published" not in each]
        assert (len(begun), len(refused)) == (4, 4)
        words = "resets from this address, on all servers together (SPECTATOR_RESETS_PER_MINUTE)"
        assert any(words in each for each in refused)
        published = [each["published"] for each in begun]
        assert sum("episode_id" in each for each in published) == 2
        words = "published episodes from this address"
        assert any(words in each.get("refused", "") for each in published)
        dying.kill()
        again = resets(staying, other, 4, publish=True)
        assert ["published" in each for each in again] == [True] * 3 + [False], (
            "those of the dead are counted"
        )
        assert "(SPECTATOR_RESETS_PER_HOUR)" in again[3]["data"]["message"]
        shown = [each["published"] for each in again[:3]]
        assert ["episode_id" in each for each in shown] == [True, False, False]
        assert "(SPECTATOR_PUBLISHES_PER_HOUR)" in shown[1]["refused"]
    rows = postgres.execute(scratch, "SELECT what, count(*) FROM begun GROUP BY what ORDER BY what")
    assert rows == [("publishes", 3), ("resets", 7)], "what was refused or wrong is not counted"


def test_notes_are_counted_over_two_servers_and_wait_for_the_database(
    postgres: Cluster, scratch: str, tmp_path: Path
) -> None:
    shared: dict[str, Any] = {"journal_url": SecretStr(postgres.url(scratch)), "notes_per_minute": 3}
    with (
        serve(test_settings(tmp_path / "a", **shared)) as here,
        serve(test_settings(tmp_path / "b", **shared)) as there,
    ):
        played = here.finish(here.start(options={"turns": 2}))["episode_id"]

        def note(server: Serving) -> httpx.Response:
            return server.client.post(f"/api/episodes/{played}/notes", json={"label": "good"})

        assert [note(one).status_code for one in (here, there, here)] == [201] * 3
        refused = note(there)
        assert refused.status_code == 429, refused.text
        assert "notes from this address, on all servers together" in refused.json()["detail"]
        postgres.execute(scratch, "DELETE FROM begun")
        postgres.execute(scratch, "ALTER TABLE begun RENAME TO away")
        assert note(here).status_code == 503, "what cannot be counted is not done"
        postgres.execute(scratch, "ALTER TABLE away RENAME TO begun")
        assert note(here).status_code == 201
