"""What the operator sees and does: who takes what, pauses that last, names that are hidden, deletions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from server.security.masking import OperatorOrders
from server.security.requests import masked
from server.telemetry import LoopLag, Timings
from spectator.errors import ConfigurationError, JournalUnavailable
from tests.fakes import ManualClock
from tests.openenv.conftest import open_client
from tests.serving import Serving, serve, test_settings

TOKEN = "a-token-of-the-operator"
RIGHT = {"Authorization": f"Bearer {TOKEN}"}
LONG: dict[str, Any] = {"pace": "broadcast", "options": {"turns": 1000}}


@pytest.fixture
def operated(tmp_path: Path) -> Iterator[Serving]:
    """A server with a token."""
    with serve(test_settings(tmp_path, operator_token=TOKEN, max_episodes=2, keep_mb=500)) as running:
        yield running


def status(serving: Serving) -> dict[str, Any]:
    answer = serving.client.get("/operator/status", headers=RIGHT)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


ROUTES = [
    ("GET", "/operator/status"),
    ("POST", "/operator/pause"),
    ("POST", "/operator/resume"),
    ("POST", "/operator/hide"),
    ("POST", "/operator/unhide"),
    ("DELETE", "/api/episodes/{}"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_strangers_may_nothing_of_it(operated: Serving, method: str, path: str) -> None:
    episode_id = operated.start(options={"turns": 1})
    operated.finish(episode_id)
    path = path.format(episode_id)
    before = status(operated)
    for headers in ({}, {"Authorization": "Bearer a-token-of-somebody-else"}):
        body = {"json": {"name": "x"}} if method == "POST" else {}
        answer = operated.client.request(method, path, headers=headers, **body)  # type: ignore[arg-type]
        assert answer.status_code == 401
    after = status(operated)
    assert (before["paused_since"], before["hidden"], before["deleted"]) == (
        after["paused_since"],
        after["hidden"],
        after["deleted"],
    )
    assert operated.client.get(f"/api/episodes/{episode_id}").status_code == 200


def test_without_a_token_only_its_own_machine_operates(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving:
        assert serving.client.get("/operator/status").status_code == 200
        forwarded = {"X-Forwarded-For": "203.0.113.9"}
        assert serving.client.get("/operator/status", headers=forwarded).status_code == 403
    with serve(test_settings(tmp_path, host="0.0.0.0")) as serving:
        assert serving.client.get("/operator/status").status_code == 403


def test_a_deleted_episode_is_gone_but_for_its_digest(operated: Serving, tmp_path: Path) -> None:
    episode_id, kept = (operated.start(options={"turns": 3}, seed=seed) for seed in (1, 2))
    entry = operated.finish(episode_id)
    operated.finish(kept)
    answer = operated.client.delete(f"/api/episodes/{episode_id}", headers=RIGHT)
    assert answer.status_code == 200
    told = answer.json()
    assert (told["digest"], told["events"]) == (entry["digest"], entry["head_seq"])
    for path in (f"/api/episodes/{episode_id}", f"/api/episodes/{episode_id}/export"):
        assert operated.client.get(path).status_code == 404
    assert operated.client.delete(f"/api/episodes/{episode_id}", headers=RIGHT).status_code == 404
    assert len(operated.events(kept)) == operated.client.get(f"/api/episodes/{kept}").json()["head_seq"]
    lines = (tmp_path / "deleted.ndjson").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [told] == status(operated)["deleted"]


def test_what_runs_is_not_deleted(operated: Serving) -> None:
    episode_id = operated.start(**LONG)
    refused = operated.client.delete(f"/api/episodes/{episode_id}", headers=RIGHT)
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/episode-unended")
    for wrong in ("none", "..%2f..", "ep-01ARZ3NDEKTSV4RRFFQ69G5FAV"):
        assert operated.client.delete(f"/api/episodes/{wrong}", headers=RIGHT).status_code == 404


def test_what_cannot_be_noted_is_not_deleted(operated: Serving, tmp_path: Path) -> None:
    episode_id = operated.start(options={"turns": 1})
    operated.finish(episode_id)
    (tmp_path / "deleted.ndjson").mkdir()
    assert operated.client.delete(f"/api/episodes/{episode_id}", headers=RIGHT).status_code == 503
    assert operated.client.get(f"/api/episodes/{episode_id}").status_code == 200


def test_a_pause_of_starts_lasts_and_the_operator_starts_all_the_same(tmp_path: Path) -> None:
    settings = test_settings(tmp_path, operator_token=TOKEN, max_episodes=2)
    body = {"pace": "max", "options": {"turns": 1}}
    with serve(settings) as serving:
        ended = serving.start(options={"turns": 5})
        serving.finish(ended)
        since = serving.client.post("/operator/pause", headers=RIGHT, json={}).json()["paused_since"]
        again = serving.client.post("/operator/pause", headers=RIGHT, json={}).json()["paused_since"]
        assert since == again is not None
    with serve(settings) as serving:
        for path, sent in (("start_episode", body), ("fork", {"episode_id": ended, "seq": 1})):
            refused = serving.client.post(f"/custom/{path}", json=sent)
            assert refused.status_code == 503 and int(refused.headers["retry-after"]) > 0
            assert "paused starts" in refused.json()["detail"]
        allowed = serving.client.post("/custom/start_episode", json=body, headers=RIGHT)
        assert allowed.status_code == 202
        assert status(serving)["refusals"] == {"starts_paused": 2}
        client = open_client(serving)
        with client.socket:
            client.ask("reset", {})  # what is private is nobody's start
        assert serving.client.post("/operator/resume", headers=RIGHT, json={}).json() == {
            "paused_since": None
        }
        serving.finish(serving.start(options={"turns": 1}))


def test_a_hidden_name_is_shown_in_no_list(operated: Serving) -> None:
    episode_id = operated.start(options={"turns": 2})
    label = operated.finish(episode_id)["captain_label"]
    assert operated.client.post("/operator/hide", json={}, headers=RIGHT).status_code == 422
    hidden = operated.client.post("/operator/hide", json={"name": label}, headers=RIGHT)
    assert hidden.json() == {"hidden": [label]}
    while operated.client.get("/api/leaderboard").json()["pending"]:
        pass
    for path in ("/api/episodes", f"/api/episodes/{episode_id}", "/api/leaderboard"):
        text = operated.client.get(path).text
        assert "(name hidden)" in text and f'"{label}"' not in text
    shown = operated.client.post("/operator/unhide", json={"name": label}, headers=RIGHT)
    assert shown.json() == {"hidden": []}
    assert operated.client.get(f"/api/episodes/{episode_id}").json()["captain_label"] == label


def test_the_operator_sees_who_takes_what(operated: Serving) -> None:
    episode_id = operated.start(**LONG)
    client = open_client(operated)
    with client.socket:
        client.ask("reset", {})
        operated.start(**LONG)
        assert operated.client.post("/custom/start_episode", json=LONG).status_code == 409
        found = status(operated)
    first = found["episodes"][0]
    assert (first["episode_id"], first["address"], first["shown"]) == (episode_id, "127.0.0.x", False)
    budgets = {one["name"]: one for one in found["budgets"]}
    assert (budgets["max_episodes"]["used"], budgets["max_episodes"]["limit"]) == (2, 2)
    assert budgets["openenv_max_sessions"]["addresses"] == {"127.0.0.x": 1}
    assert found["refusals"] == {"max_episodes": 1}
    assert found["journal"]["limit_bytes"] == 500e6 and found["journal"]["unended_bytes"] > 100
    assert "127.0.0.1" not in json.dumps(found)


def test_the_figures_have_what_the_operator_sees(operated: Serving) -> None:
    operated.start(**LONG)
    operated.start(**LONG)
    operated.client.post("/custom/start_episode", json=LONG)
    client = open_client(operated)
    with client.socket:
        client.ask("reset", {})
        text = operated.client.get("/metrics", headers=RIGHT).text
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["spectator_refusals_total", "max_episodes"] == 1
    assert samples[("spectator_openenv_sessions",)] == 1
    assert samples[("spectator_unended_bytes",)] > 100
    for name in ("reads", "reads_waiting", "starts_paused", "model_tokens_today", "model_cost_today"):
        assert samples[(f"spectator_{name}",)] == 0, name
    assert ("spectator_loop_lag_seconds_count",) in samples


def test_lags_are_noted_and_the_worst_is_of_the_last_minute() -> None:
    timings = Timings()
    lag = LoopLag(ManualClock(), timings.loop_lag)
    assert lag.worst == 0.0
    for late in (-0.001, 0.5, 0.01):
        lag.note(late)
    assert lag.worst == 0.5
    for _ in range(240):
        lag.note(0.002)
    assert lag.worst == 0.002
    assert timings.registry.get_sample_value("spectator_loop_lag_seconds_count") == 243


def test_orders_that_cannot_be_read_or_kept_are_not_guessed(tmp_path: Path) -> None:
    orders = OperatorOrders(tmp_path)
    orders.give(paused_since="2026-11-22T00:00:00.000Z")
    assert OperatorOrders(tmp_path).paused
    (tmp_path / "operator.json").unlink()
    (tmp_path / "operator.json").mkdir()
    with pytest.raises(JournalUnavailable):
        orders.give(paused_since=None)
    assert orders.paused
    (tmp_path / "operator.json").rmdir()
    (tmp_path / "operator.json").write_text('{"paused": 1}')
    with pytest.raises(ConfigurationError, match="is unreadable; fix or delete it"):
        OperatorOrders(tmp_path)


def test_addresses_are_shown_without_their_machine() -> None:
    assert masked("operator") == "operator"
    assert masked("2001:db8:7:8::/64") == "2001:db8:x"
