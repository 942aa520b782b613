"""``POST /custom/fork``: an episode is played on from within by others, or refused by field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spectator.episodes.reader import ViewReader
from tests.server.http.test_control import refused
from tests.serving import Serving, serve, test_settings


def events_of(serving: Serving, episode_id: str) -> list[dict[str, Any]]:
    answer = serving.client.get(f"/api/episodes/{episode_id}/events")
    return [json.loads(line) for line in answer.text.splitlines()]


def fork(serving: Serving, **body: Any) -> Any:
    return serving.client.post("/custom/fork", json=body)


def test_a_fork_is_an_episode_of_its_own_with_its_parent_named(serving: Serving) -> None:
    parent = serving.start(options={"turns": 8})
    serving.finish(parent)
    told = events_of(serving, parent)
    seq = next(event["seq"] for event in told if event["turn"] == 4) - 1
    answer = fork(serving, episode_id=parent, seq=seq, captain_preset="random", pace="max", seed=3)
    assert answer.status_code == 202, answer.text
    child = answer.json()["episode_id"]
    assert answer.headers["location"] == f"/api/episodes/{child}"
    assert serving.finish(child)["captain"] == "random"
    events = events_of(serving, child)
    assert events[0]["data"]["parent"]["episode_id"] == parent
    assert events[0]["patch"]["episode"]["parent"] == {
        "episode_id": parent,
        "seq": seq,
        "turn": 3,
        "captains_seed": 3,
    }
    past = [(event["type"], event["data"]) for event in told[1:seq]]
    assert [(event["type"], event["data"]) for event in events[1:seq]] == past


@pytest.mark.parametrize(
    ("body", "status", "fields"),
    [
        ({}, 422, ["episode_id", "seq"]),
        ({"episode_id": "ep-nowhere", "seq": 3}, 404, []),
        ({"episode_id": "../../etc", "seq": 3}, 404, []),
        ({"seq": "3", "pace": "warp"}, 422, ["seq", "pace", "episode_id"]),
        ({"episode_id": "PARENT", "seq": 10_000}, 422, ["seq"]),
        ({"episode_id": "PARENT", "seq": 2, "captain": "x"}, 422, ["captain"]),
        ({"episode_id": "PARENT", "seq": 2, "captain_preset": "nobody"}, 422, ["captain_preset"]),
        ({"episode_id": "PARENT", "seq": -1}, 422, ["seq"]),
    ],
)
def test_what_cannot_be_forked_is_refused_by_field(
    serving: Serving, body: dict[str, Any], status: int, fields: list[str]
) -> None:
    parent = serving.start(options={"turns": 3})
    serving.finish(parent)
    document = refused(
        fork(serving, **{name: parent if value == "PARENT" else value for name, value in body.items()}),
        status,
    )
    assert [wrong["field"] for wrong in document.get("errors", [])] == fields
    assert serving.client.get("/custom/status").json()["running"] == []


def test_forks_are_limited_as_starts_are(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, starts_per_minute=1)) as serving:
        parent = serving.start(options={"turns": 3})
        serving.finish(parent)
        refused(fork(serving, episode_id=parent, seq=1), 429)


def test_what_lies_too_far_into_a_long_record_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(test_settings(tmp_path)) as serving:
        parent = serving.start(options={"turns": 40})
        serving.finish(parent)
        sizes = [len(line) for line in serving.client.get(f"/api/episodes/{parent}/events").text.splitlines()]
    last = next(seq for seq in range(1, len(sizes)) if sum(sizes[: seq + 1]) > 20_000)
    with serve(test_settings(tmp_path, episode_mb=0.02)) as serving:
        monkeypatch.setattr(ViewReader, "stream", None)
        rule = refused(fork(serving, episode_id=parent, seq=last + 1), 422)["errors"][0]["rule"]
        assert rule == (
            "is beyond the first 0.02 MB of the record, the size limit of an episode "
            f"(SPECTATOR_EPISODE_MB); fork at event {last} or earlier"
        )
        rule = refused(fork(serving, episode_id=parent, seq=10_000), 422)["errors"][0]["rule"]
        assert "from 1 to" in rule
        monkeypatch.undo()
        assert fork(serving, episode_id=parent, seq=1).status_code == 202, "the rest of it can be forked"
