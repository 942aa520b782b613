"""Server-sent events: the live frames for whoever has no WebSocket."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.server.watching import watch
from tests.serving import Serving

LONG = {"pace": "broadcast", "options": {"turns": 1000}}


class Stream:
    """What came by server-sent events.

    Args:
        lines: The lines of the response.
    """

    def __init__(self, text: str) -> None:
        blocks = [block.splitlines() for block in text.split("\n\n") if block]
        assert blocks[0] == ["retry: 2000"]
        self.frames: list[dict[str, Any]] = []
        self.ids: list[str | None] = []
        for block in blocks[1:]:
            fields = dict(line.split(": ", 1) for line in block)
            self.frames.append(json.loads(fields["data"]))
            self.ids.append(fields.get("id"))

    def names(self) -> list[str]:
        return [frame["frame"] for frame in self.frames if frame["frame"] != "viewers"]


def played(serving: Serving) -> tuple[str, str, int]:
    """Id, epoch and head of an episode that has ended."""
    episode_id = serving.start()
    entry = serving.finish(episode_id)
    return episode_id, entry["epoch"], entry["head_seq"]


def test_a_live_episode_is_told_to_its_end(serving: Serving) -> None:
    episode_id = serving.start(pace="fast", options={"turns": 4})
    answer = serving.client.get(f"/live/{episode_id}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    stream = Stream(answer.text)
    assert stream.names()[:2] == ["hello", "snapshot"] and stream.names()[-1] == "bye"
    events = [
        (frame, name) for frame, name in zip(stream.frames, stream.ids, strict=True) if "patch" in frame
    ]
    assert all(name == f"{frame['epoch']}:{frame['seq']}" for frame, name in events)
    assert [frame["seq"] for frame, _ in events] == list(
        range(stream.frames[1]["seq"] + 1, events[-1][0]["seq"] + 1)
    )
    assert events[-1][0]["type"] == "episode.ended"


def test_events_are_told_in_the_recorded_encoding_as_over_a_socket(serving: Serving) -> None:
    episode_id = serving.start(pace="broadcast", options={"turns": 20, "payload_bytes": 65_536})
    with (
        watch(f"{serving.ws_url}/live/{episode_id}") as watcher,
        serving.client.stream("GET", f"/live/{episode_id}/events") as answer,
    ):
        watcher.until("snapshot")
        coming = answer.iter_lines()
        while '"frame":"snapshot"' not in next(coming):
            pass
        serving.client.post("/custom/pace", json={"pace": "max"})
        seen = [line[6:] for line in coming if line.startswith('data: {"frame":"event"')]
        watcher.to_the_end()
    lines = serving.client.get(f"/api/episodes/{episode_id}/events").text.splitlines()
    assert seen == ['{"frame":"event",' + line[1:] for line in lines[-len(seen) :]]
    told = [text for text in watcher.texts if text.startswith('{"frame":"event"')]
    shared = min(len(told), len(seen))
    assert shared > 9 and told[-shared:] == seen[-shared:]


@pytest.mark.parametrize("seq", [0, 5, 33])
def test_last_event_id_resumes_exactly(serving: Serving, seq: int) -> None:
    episode_id, epoch, head = played(serving)
    answer = serving.client.get(f"/live/{episode_id}/events", headers={"Last-Event-ID": f"{epoch}:{seq}"})
    stream = Stream(answer.text)
    assert stream.names() == ["hello", *["event"] * (head - seq), "bye"]
    by_query = serving.client.get(f"/live/{episode_id}/events?epoch={epoch}&seq={seq}")
    assert by_query.text == answer.text


def test_a_browser_that_has_it_all_is_told_not_to_come_back(serving: Serving) -> None:
    episode_id, epoch, head = played(serving)
    headers = {"Last-Event-ID": f"{epoch}:{head}"}
    assert serving.client.get(f"/live/{episode_id}/events", headers=headers).status_code == 204


def test_another_epoch_gets_a_snapshot(serving: Serving) -> None:
    episode_id, _, head = played(serving)
    answer = serving.client.get(f"/live/{episode_id}/events", headers={"Last-Event-ID": f"other:{head}"})
    assert Stream(answer.text).names() == ["hello", "snapshot", "bye"]


@pytest.mark.parametrize("last", ["nonsense", "a:b", ":", "a:1:2", "a:" + "9" * 30])
def test_a_malformed_last_event_id_is_refused(serving: Serving, last: str) -> None:
    episode_id, _, _ = played(serving)
    answer = serving.client.get(f"/live/{episode_id}/events", headers={"Last-Event-ID": last})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "Last-Event-ID"


@pytest.mark.parametrize("name", ["nonsense", "%2e%2e", "a" * 100])
def test_an_unknown_episode_is_not_found(serving: Serving, name: str) -> None:
    assert serving.client.get(f"/live/{name}/events").status_code == 404


def test_a_viewer_that_leaves_is_forgotten(serving: Serving) -> None:
    episode_id = serving.start(**LONG)
    with serving.client.stream("GET", f"/live/{episode_id}/events") as answer:
        lines = answer.iter_lines()
        assert next(lines) == "retry: 2000"
        assert "spectator_viewers 1" in serving.client.get("/metrics").text
    for _ in range(200):
        if "spectator_viewers 0" in serving.client.get("/metrics").text:
            return
    raise AssertionError("the viewer is still counted")
