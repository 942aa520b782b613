"""``/api/episodes*``: the history, and the recorded bytes."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from spectator.events import decode
from tests.server.watching import watch
from tests.serving import Serving, serve, test_settings

LONG = {"pace": "broadcast", "options": {"turns": 1000}}


def test_the_history_is_paged_newest_first(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving:
        ids = []
        for _ in range(5):
            ids.append(serving.start(options={"turns": 1}))
            serving.finish(ids[-1])
        seen: list[str] = []
        query = "limit=2"
        while True:
            page = serving.client.get(f"/api/episodes?{query}").json()
            assert len(page["episodes"]) <= 2
            seen += [episode["episode_id"] for episode in page["episodes"]]
            if page["next"] is None:
                break
            query = f"limit=2&before={page['next']}"
        assert seen == ids[::-1]


def test_the_history_is_filtered(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, max_episodes=2)) as serving:
        random = serving.start(captain_preset="random", options={"turns": 1})
        serving.finish(random)
        running = serving.start(**LONG)

        def listed(query: str) -> list[str]:
            episodes = serving.client.get(f"/api/episodes?{query}").json()["episodes"]
            return [episode["episode_id"] for episode in episodes]

        assert listed("") == [running, random]
        assert listed("captain=random") == [random]
        assert listed("ended=true") == [random]
        assert listed("ended=false") == [running]
        assert listed("environment=counting&captain=heuristic") == [running]
        assert listed("environment=chess") == []


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=201", "limit=x", "before=../etc", "ended=perhaps", f"captain={'a' * 65}"]
)
def test_a_wrong_filter_is_refused_by_name(serving: Serving, query: str) -> None:
    answer = serving.client.get(f"/api/episodes?{query}")
    assert answer.status_code == 422
    assert [wrong["field"] for wrong in answer.json()["errors"]] == [query.partition("=")[0]]


def test_an_episode_in_the_history_says_how_it_ended(serving: Serving) -> None:
    episode_id = serving.start(seed=11)
    entry = serving.finish(episode_id)
    assert (entry["reason"], entry["score"], entry["result"]) == ("finished", 1.0, "10 of 10 right")
    assert (entry["turns"], entry["seed"], entry["captain"]) == (10, 11, "heuristic")


def test_the_events_are_the_recorded_bytes(serving: Serving) -> None:
    episode_id = serving.start(pace="fast", options={"turns": 3})
    with watch(f"{serving.ws_url}/live/{episode_id}") as watcher:
        watcher.to_the_end()
    answer = serving.client.get(f"/api/episodes/{episode_id}/events")
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    lines = answer.text.splitlines()
    assert [decode(line).event.seq for line in lines] == list(range(1, len(lines) + 1))
    live = [text for text in watcher.texts if '"frame":"event"' in text[:16]]
    assert live and ['{"frame":"event",' + line[1:] for line in lines][-len(live) :] == live


@pytest.mark.parametrize(("after", "left"), [(0, 34), (1, 33), (33, 1), (34, 0), (2**53 - 1, 0)])
def test_events_are_given_from_any_point(serving: Serving, after: int, left: int) -> None:
    episode_id = serving.start()
    serving.finish(episode_id)
    lines = serving.client.get(f"/api/episodes/{episode_id}/events?after_seq={after}").text.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(35 - left, 35))


@pytest.mark.parametrize("after", ["-1", "x", "1.5", str(2**70)])
def test_a_wrong_point_is_refused(serving: Serving, after: str) -> None:
    episode_id = serving.start()
    answer = serving.client.get(f"/api/episodes/{episode_id}/events?after_seq={after}")
    assert answer.status_code == 422 and answer.json()["errors"][0]["field"] == "after_seq"


def test_a_large_episode_is_exported_as_a_file(serving: Serving) -> None:
    episode_id = serving.start(options={"turns": 400, "payload_bytes": 4096})
    serving.finish(episode_id)
    with serving.client.stream(
        "GET", f"/api/episodes/{episode_id}/export", headers={"Accept-Encoding": "identity"}
    ) as answer:
        assert answer.headers["content-disposition"] == f'attachment; filename="{episode_id}.ndjson"'
        pieces = list(answer.iter_raw())
    assert len(pieces) > 5, "it is sent in pieces"
    lines = b"".join(pieces).decode().splitlines()
    assert json.loads(lines[0])["type"] == "episode.started"
    assert json.loads(lines[-1])["type"] == "episode.ended"
    assert b"".join(pieces).decode() == serving.client.get(f"/api/episodes/{episode_id}/events").text


@pytest.mark.parametrize("name", ["nonsense", "ep-none", "%2e%2e%2fetc", "a" * 200, "%00", "%ff", "' or 1=1"])
@pytest.mark.parametrize("what", ["", "/events", "/export"])
def test_an_unknown_episode_is_not_found(serving: Serving, name: str, what: str) -> None:
    answer = serving.client.get(f"/api/episodes/{name}{what}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_history_is_searched_and_filtered_by_what_people_know(serving: Serving) -> None:
    """Every filter by itself and together; a text in whatever case, its wildcards taken as they are."""
    plain = serving.start(seed=710_071, options={"turns": 3})
    serving.finish(plain)
    wild = serving.start(seed=710_072, captain_preset="random", options={"turns": 3})
    serving.finish(wild)
    fork = serving.client.post("/custom/fork", json={"episode_id": plain, "seq": 1, "pace": "max"})
    forked = fork.json()["episode_id"]
    serving.finish(forked)

    def found(**query: Any) -> list[str]:
        answer = serving.client.get("/api/episodes", params=query)
        assert answer.status_code == 200, answer.text
        return [entry["episode_id"] for entry in answer.json()["episodes"]]

    assert found(seed=710_072) == [wild]
    assert found(captain="random", pack="default", reason="finished", seed=710_072) == [wild]
    assert found(captain="random", seed=710_071) == []
    assert found(reason="stopped", seed=710_072) == []
    assert found(parent=plain) == [forked]
    assert found(text="RANDOM count", seed=710_072) == [wild]
    assert found(text="710072") == [wild]
    assert found(text="%") == [] and found(text="_x_") == []
    assert serving.client.get(f"/api/episodes/{forked}").json()["parent"] == plain
    assert serving.client.get("/api/episodes", params={"reason": "boredom"}).status_code == 422


@pytest.mark.parametrize(
    "damage", ["DELETE FROM events WHERE seq > 5", "UPDATE events SET text = '{}' WHERE seq = 2"]
)
def test_a_damaged_record_says_so_and_leaves_the_others_alone(tmp_path: Path, damage: str) -> None:
    with serve(test_settings(tmp_path)) as serving:
        hurt, whole = serving.start(options={"turns": 3}), ""
        serving.finish(hurt)
        whole = serving.start(options={"turns": 3})
        serving.finish(whole)
    with closing(sqlite3.connect(tmp_path / "journal.db")) as journal, journal:
        journal.execute(f"{damage} AND episode_id = ?", [hurt])
    with serve(test_settings(tmp_path)) as serving:
        for path in ("events", "export", "export?recorded=true"):
            answer = serving.client.get(f"/api/episodes/{hurt}/{path}")
            assert (answer.status_code, answer.json()["type"]) == (500, "/problems/record-damaged")
            assert hurt in answer.json()["detail"]
        with watch(f"{serving.ws_url}/live/{hurt}?from_seq=0") as viewer:
            while viewer.next()["frame"] != "bye":
                continue
            assert viewer.frames[-1]["code"] == 4500 and not viewer.frames[-1]["reconnect"]
        assert serving.events(whole)[-1]["type"] == "episode.ended"


def test_what_is_damaged_further_on_breaks_the_answer_off(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving:
        episode_id = serving.start(options={"turns": 60})
        serving.finish(episode_id)
    with closing(sqlite3.connect(tmp_path / "journal.db")) as journal, journal:
        journal.execute("UPDATE events SET text = replace(text, '1', '2') WHERE seq = 150")
    with serve(test_settings(tmp_path)) as serving, pytest.raises(httpx.RemoteProtocolError):
        serving.client.get(f"/api/episodes/{episode_id}/events")
