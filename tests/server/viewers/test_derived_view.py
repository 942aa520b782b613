"""Viewers of an episode whose view is derived are shown what they would be shown of a live one."""

from __future__ import annotations

import json
from typing import Any

from spectator.json_values import apply_patch
from tests.server.watching import watch
from tests.serving import Serving

SHORT: dict[str, Any] = {"view": "derived", "pace": "fast", "seed": 3, "options": {"turns": 12}}


def lines_of(serving: Serving, episode_id: str, path: str = "events") -> list[str]:
    return serving.client.get(f"/api/episodes/{episode_id}/{path}").text.splitlines()


def folded(lines: list[str]) -> Any:
    state: Any = {}
    for line in lines:
        state = apply_patch(state, json.loads(line)["patch"])
    return state


def test_who_joins_while_it_is_played_misses_nothing_to_the_end(serving: Serving) -> None:
    episode_id = serving.start(**SHORT)
    with watch(f"{serving.ws_url}/live/{episode_id}") as early:
        early.until("event")
        with watch(f"{serving.ws_url}/live/{episode_id}") as late:
            assert early.to_the_end()[0] == late.to_the_end()[0] == 1000
    lines = lines_of(serving, episode_id)
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))
    for viewer in (early, late):
        seen = [text for text in viewer.texts if text.startswith('{"frame":"event"')]
        assert seen == ['{"frame":"event",' + line[1:] for line in lines[-len(seen) :]]
        assert viewer.state == folded(lines)
    assert early.state["world"]["said"] == 12 and early.state["feed"]


def test_a_viewer_resumes_by_number_while_it_is_played_and_after(serving: Serving) -> None:
    episode_id = serving.start(**SHORT)
    with watch(f"{serving.ws_url}/live/{episode_id}") as lost:
        while lost.seq < 8:
            lost.next()
    epoch = lost.frames[0]["epoch"]
    with watch(f"{serving.ws_url}/live/{episode_id}?epoch={epoch}&seq={lost.seq}") as back:
        assert back.next()["frame"] == "hello"
        back.state, back.seq = lost.state, lost.seq
        back.to_the_end()
    lines = lines_of(serving, episode_id)
    assert "snapshot" not in back.kinds() and back.state == folded(lines)
    with watch(f"{serving.ws_url}/live/{episode_id}?epoch={epoch}&seq={lost.seq}") as after:
        after.next()
        after.state, after.seq = lost.state, lost.seq
        assert after.to_the_end()[0] == 1000
    assert after.state == folded(lines) and after.events() == list(range(lost.seq + 1, len(lines) + 1))


def test_its_record_is_exported_with_the_view_or_as_it_is(serving: Serving) -> None:
    episode_id = serving.start(view="derived", options={"turns": 5})
    entry = serving.finish(episode_id)
    shown = serving.client.get(f"/api/episodes/{episode_id}/export")
    kept = serving.client.get(f"/api/episodes/{episode_id}/export?recorded=true")
    assert shown.text.splitlines() == lines_of(serving, episode_id)
    assert "spectator-digest" not in shown.headers and kept.headers["spectator-digest"] == entry["digest"]
    recorded = [json.loads(line) for line in kept.text.splitlines()]
    assert all(one["patch"] == {} and one["type"] != "narration.line" for one in recorded)
    assert entry["head_seq"] == len(shown.text.splitlines()) > len(recorded)


def test_the_same_seed_played_live_is_shown_alike(serving: Serving) -> None:
    def world_and_feed(view: str) -> tuple[Any, Any]:
        episode_id = serving.start(view=view, seed=9, options={"turns": 7})
        serving.finish(episode_id)
        state = folded(lines_of(serving, episode_id))
        return state["world"], state["feed"]

    assert world_and_feed("derived") == world_and_feed("live")


def test_a_live_start_records_its_view(serving: Serving) -> None:
    episode_id = serving.start(options={"turns": 3})
    serving.finish(episode_id)
    recorded = lines_of(serving, episode_id, "export?recorded=true")
    assert any(json.loads(line)["type"] == "narration.line" for line in recorded)
    assert "view" not in json.loads(recorded[0])["data"]
