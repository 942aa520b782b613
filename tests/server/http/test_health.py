"""Health, readiness and figures, also while a world is stuck or the journal is gone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.gate import Gate
from tests.server.watching import watch
from tests.serving import Serving, serve, test_settings


def test_the_process_is_healthy_and_ready(serving: Serving) -> None:
    assert serving.client.get("/health").json() == {"status": "healthy"}
    assert serving.client.get("/readyz").json() == {"status": "ready"}


def test_a_stuck_world_holds_up_nobody(worlds_server: Serving, test_worlds: Gate) -> None:
    serving = worlds_server
    stuck = serving.start(environment="stuck")
    assert test_worlds.reached.wait(5)
    for _ in range(100):  # the gate stays shut meanwhile
        assert serving.client.get("/health").status_code == 200
    with watch(f"{serving.ws_url}/live/{stuck}") as watcher:
        assert watcher.until("snapshot")["state"]["episode"]["id"] == stuck
    serving.finish(serving.start(options={"turns": 3}))
    test_worlds.open()
    assert serving.finish(stuck)["reason"] == "finished"


def test_a_stuck_world_can_be_stopped(worlds_server: Serving, test_worlds: Gate) -> None:
    stuck = worlds_server.start(environment="stuck")
    assert test_worlds.reached.wait(5)
    answer = worlds_server.client.post("/custom/stop_episode", json={})
    assert answer.json() == {"episode_id": stuck, "reason": "stopped", "turns": 0}


def test_without_its_journal_the_server_says_so(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving:
        database = sqlite3.connect(tmp_path / "journal.db")
        for table in ("schema", "episodes", "events"):
            database.execute(f"ALTER TABLE {table} RENAME TO gone_{table}")
        database.close()
        for path in ("/readyz", "/api/episodes", "/api/episodes/ep-1", "/live/ep-1/events"):
            answer = serving.client.get(path)
            assert answer.status_code == 503
            assert answer.json()["type"] == "/problems/journal-unavailable"
            assert "sqlite" not in answer.text.lower() and "gone" not in answer.text
        answer = serving.client.post("/custom/start_episode", json={})
        assert answer.status_code == 503
        assert serving.client.get("/custom/status").json()["running"] == []
        with watch(f"{serving.ws_url}/live/ep-1") as watcher:
            code, bye = watcher.to_the_end()
        assert (code, bye["reconnect"]) == (1012, True)
        assert serving.client.get("/health").status_code == 200


def test_the_figures_count_what_happened(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving:
        episode_id = serving.start(options={"turns": 3})
        serving.finish(episode_id)
        with watch(f"{serving.ws_url}/live/{episode_id}") as watcher:
            watcher.to_the_end()
        answer = serving.client.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    for sample, value in {
        ("spectator_episodes_started_total",): 1,
        ("spectator_episodes_ended_total", "finished"): 1,
        ("spectator_events_published_total", "step.taken"): 3,
        ("spectator_viewers_closed_total", "1000"): 1,
        ("spectator_episodes_running",): 0,
        ("spectator_viewers",): 0,
        ("spectator_decision_seconds_count",): 3,
        ("spectator_step_seconds_count",): 3,
    }.items():
        assert samples[sample] == value, sample
    assert samples[("spectator_commit_seconds_count",)] >= 3
    assert 0 < samples[("spectator_commit_seconds_sum",)] < 60
    assert ("spectator_publish_seconds_bucket", "+Inf") in samples


def test_publications_to_viewers_are_timed(serving: Serving) -> None:
    episode_id = serving.start(pace="fast", options={"turns": 5})
    with watch(f"{serving.ws_url}/live/{episode_id}") as watcher:
        watcher.to_the_end()
    families = {one.name: one for one in text_string_to_metric_families(serving.client.get("/metrics").text)}
    timed = {sample.name: sample.value for sample in families["spectator_publish_seconds"].samples}
    assert timed["spectator_publish_seconds_count"] >= 3


NAMES = {
    "viewers": "gauge",
    "viewers_closed": "counter",
    "episodes_running": "gauge",
    "episodes_troubled": "gauge",
    "episodes_shown": "gauge",
    "episode_slots": "gauge",
    "episodes_started": "counter",
    "episodes_ended": "counter",
    "events_published": "counter",
    "episodes_pruned": "counter",
    "pruned_bytes": "counter",
    "refusals": "counter",
    "openenv_sessions": "gauge",
    "reads": "gauge",
    "reads_waiting": "gauge",
    "starts_paused": "gauge",
    "unended_bytes": "gauge",
    "model_tokens_today": "gauge",
    "model_cost_today": "gauge",
    "voice_characters_today": "gauge",
    "loop_lag_seconds": "histogram",
    "lines": "counter",
    "voice_failures": "counter",
    "decision_seconds": "histogram",
    "step_seconds": "histogram",
    "commit_seconds": "histogram",
    "publish_seconds": "histogram",
}


def test_the_names_of_the_figures_stay(serving: Serving) -> None:
    """Dashboards know them."""
    families = text_string_to_metric_families(serving.client.get("/metrics").text)
    found = {one.name.removeprefix("spectator_"): one.type for one in families}
    assert {name: found.get(name) for name in NAMES} == NAMES
