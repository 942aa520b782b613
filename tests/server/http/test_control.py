"""``/custom/*``: what can be asked for is done, and what cannot is refused by field and rule."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serving import Serving, serve, test_settings

LONG = {"pace": "broadcast", "options": {"turns": 1000}}


def refused(answer: httpx.Response, status: int) -> dict[str, Any]:
    """The problem document of a refusal."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    assert document["status"] == status
    assert document["type"].startswith("/problems/") and document["title"] and document["detail"]
    return document


def start(serving: Serving, body: Any) -> httpx.Response:
    return serving.client.post("/custom/start_episode", json=body)


def nothing_runs(serving: Serving) -> bool:
    return bool(serving.client.get("/custom/status").json()["running"] == [])


def test_an_episode_is_started_and_found_where_the_answer_says(serving: Serving) -> None:
    answer = start(serving, {"options": {"turns": 1000}, "seed": 7})
    assert answer.status_code == 202
    episode_id = answer.json()["episode_id"]
    assert answer.json() == {
        "episode_id": episode_id,
        "watch_url": f"/watch/{episode_id}",
        "live_url": f"/live/{episode_id}",
        "seats": {},
    }
    entry = serving.client.get(answer.headers["location"]).json()
    assert (entry["episode_id"], entry["seed"], entry["ended_at"]) == (episode_id, 7, None)


def test_the_policy_on_failure_is_recorded_with_the_episode(serving: Serving) -> None:
    ending = start(serving, {"options": {"turns": 1}, "pace": "max", "on_failure": "end"}).json()[
        "episode_id"
    ]
    assert serving.events(ending)[0]["data"]["on_failure"] == "end"


def test_an_empty_body_starts_the_default(serving: Serving) -> None:
    answer = serving.client.post("/custom/start_episode")
    assert answer.status_code == 202
    running = serving.client.get("/custom/status").json()["running"][0]
    assert running["captain_preset"] == "heuristic"
    assert running["environment"] == "counting" and running["pace"] == "broadcast"
    assert running["opponent_choice"] is None and running["paused"] is False


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"environment": "countin"}, "environment", "did you mean 'counting'?"),
    ({"environment": ""}, "environment", "at least 1 character"),
    ({"environment": 5}, "environment", "valid string"),
    ({"captain_preset": "heuristc"}, "captain_preset", "did you mean 'heuristic'?"),
    ({"captain_preset": ""}, "captain_preset", "at least 1 character"),
    ({"captain_preset": None}, "captain_preset", "valid string"),
    ({"opponent_choice": "nobody"}, "opponent_choice", "without an opponent"),
    ({"eval_pack_id": "hard"}, "eval_pack_id", "unknown 'hard'"),
    ({"max_overs": 0}, "max_overs", "no such option"),
    ({"max_overs": 51}, "max_overs", "no such option"),
    ({"max_overs": "5"}, "max_overs", "valid integer"),
    ({"max_overs": None}, "max_overs", "valid integer"),
    ({"max_overs": 5.0}, "max_overs", "valid integer"),
    ({"max_overs": True}, "max_overs", "valid integer"),
    ({"enable_tts": 1}, "enable_tts", "valid boolean"),
    ({"enable_tts": "yes"}, "enable_tts", "valid boolean"),
    ({"on_failure": "resign"}, "on_failure", "'fallback', 'suspend' or 'end'"),
    ({"seed": -1}, "seed", "greater than or equal to 0"),
    ({"seed": 2**53}, "seed", "less than or equal to"),
    ({"seed": "7"}, "seed", "valid integer"),
    ({"pace": "warp"}, "pace", "'broadcast', 'fast' or 'max'"),
    ({"options": []}, "options", "valid dictionary"),
    ({"options": {"turns": 0}}, "options.turns", "greater than or equal to 1"),
    ({"options": {"turns": "9"}}, "options.turns", "valid integer"),
    ({"options": {"turn": 9}}, "options.turn", "did you mean 'turns'?"),
    ({"max_over": 5}, "max_over", "did you mean 'max_overs'?"),
    ({"pack": "default"}, "pack", "did you mean 'eval_pack_id'?"),
    ({"xyzzy": 5}, "xyzzy", "known fields: environment"),
]


@pytest.mark.parametrize(("body", "field", "rule"), WRONG, ids=[str(body) for body, _, _ in WRONG])
def test_a_wrong_field_is_named_with_its_rule(
    serving: Serving, body: dict[str, Any], field: str, rule: str
) -> None:
    document = refused(start(serving, body), 422)
    assert [wrong["field"] for wrong in document["errors"]] == [field]
    assert rule in document["errors"][0]["rule"]
    assert nothing_runs(serving)


def test_every_wrong_field_is_named_at_once(serving: Serving) -> None:
    body = {
        "captain_preset": "nobody",
        "opponent_choice": "nobody",
        "max_overs": "5",
        "pace": None,
        "seed": -3,
        "options": {"turns": 0, "bogus": 1},
        "more": 1,
    }
    document = refused(start(serving, body), 422)
    assert {wrong["field"] for wrong in document["errors"]} == {*body, "options.turns", "options.bogus"} - {
        "options"
    }
    assert nothing_runs(serving)


JSON = {"content-type": "application/json"}


def chunks() -> Iterator[bytes]:
    """A body that does not say how long it is."""
    yield b'{"options":"'
    for _ in range(20):
        yield b"x" * 10_000
    yield b'"}'


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"{", JSON, 400),
        (b"", JSON, 400),
        (b"\xff\xfe\x00", JSON, 400),
        (b'{"seed": NaN}', JSON, 400),
        (b"[" * 60_000, JSON, 400),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, JSON, 400),
        (b'{"a":' * 50 + b"1" + b"}" * 50, JSON, 422),
        (b"[]", JSON, 422),
        (b"null", JSON, 422),
        (b'"start"', JSON, 422),
        (b'{"captain_preset": "\\ud800"}', JSON, 422),
        (b'{"\\ud800": 1}', JSON, 422),
        (b"{}", {"content-type": "text/plain"}, 415),
        (b"a=1", {"content-type": "application/x-www-form-urlencoded"}, 415),
        (b"{}", {"content-type": "application/jsonp"}, 415),
        (b"{}", {"content-type": ""}, 415),
        (b'{"options": "' + b"x" * 2**20 + b'"}', JSON, 413),
        (chunks(), JSON, 413),
    ],
    ids=range(18),
)
def test_a_body_that_cannot_be_read_is_refused(
    serving: Serving, content: Any, headers: dict[str, str], status: int
) -> None:
    refused(serving.client.post("/custom/start_episode", content=content, headers=headers), status)
    assert nothing_runs(serving)


def test_a_charset_after_the_content_type_is_fine(serving: Serving) -> None:
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    assert serving.client.post("/custom/start_episode", content=b"{}", headers=headers).status_code == 202


def test_a_start_beyond_the_slots_is_told_what_runs(serving: Serving) -> None:
    running = {serving.start(**LONG), serving.start(**LONG)}
    document = refused(start(serving, LONG), 409)
    assert {episode["episode_id"] for episode in document["running"]} == running
    assert document["running"] == serving.client.get("/custom/status").json()["running"]


def test_a_slot_is_free_again_once_its_episode_has_ended(serving: Serving) -> None:
    for _ in range(5):
        serving.finish(serving.start(options={"turns": 2}))
    assert nothing_runs(serving)


def test_an_episode_is_stopped(serving: Serving) -> None:
    episode_id = serving.start(**LONG)
    answer = serving.client.post("/custom/stop_episode", json={})
    assert answer.json() == {"episode_id": episode_id, "reason": "stopped", "turns": 0}
    assert serving.client.get(f"/api/episodes/{episode_id}").json()["reason"] == "stopped"


@pytest.mark.parametrize("what", ["stop_episode", "pause", "resume", "pace"])
def test_what_has_ended_or_never_was_cannot_be_changed(serving: Serving, what: str) -> None:
    pace = {"pace": "max"} if what == "pace" else {}
    episode_id = serving.start(options={"turns": 1})
    serving.finish(episode_id)
    post = serving.client.post
    over = refused(post(f"/custom/{what}", json={"episode_id": episode_id, **pace}), 409)
    assert over["type"] == "/problems/episode-over" and episode_id in over["detail"]
    unknown = refused(post(f"/custom/{what}", json={"episode_id": "ep-none", **pace}), 404)
    assert "ep-none" in unknown["detail"]
    assert "no episode is running" in refused(post(f"/custom/{what}", json=pace), 404)["detail"]
    assert refused(post(f"/custom/{what}", json={"episod_id": 1, **pace}), 422)["errors"] == [
        {"field": "episod_id", "rule": "unknown field; did you mean 'episode_id'?"}
    ]


def test_an_episode_stands_still_until_resumed(serving: Serving) -> None:
    episode_id = serving.start(pace="fast", options={"turns": 1000})
    paused = serving.client.post("/custom/pause", json={"episode_id": episode_id}).json()
    assert paused["paused"] is True
    turn = serving.client.get("/custom/status").json()["running"][0]["turn"]
    time.sleep(0.35)  # three steps of the fast pace: real time is the subject
    assert serving.client.get("/custom/status").json()["running"][0]["turn"] == turn
    assert serving.client.post("/custom/pause", json={}).json()["paused"] is True
    assert serving.client.post("/custom/resume", json={}).json()["paused"] is False
    assert serving.client.post("/custom/pace", json={"pace": "max"}).json()["pace"] == "max"
    assert serving.finish(episode_id)["reason"] == "finished"


def test_a_pace_must_be_named(serving: Serving) -> None:
    serving.start(**LONG)
    for body in ({}, {"pace": None}, {"pace": "slow"}, {"pace": 2}):
        document = refused(serving.client.post("/custom/pace", json=body), 422)
        assert document["errors"][0]["field"] == "pace"


def test_the_catalogue_lists_what_can_be_asked_for(worlds_server: Serving) -> None:
    catalogue = worlds_server.client.get("/custom/catalog").json()
    assert catalogue["default_environment"] == "counting"
    assert catalogue["paces"] == ["broadcast", "fast", "max"]
    worlds = {world["name"]: world for world in catalogue["environments"]}
    assert {"counting", "paid", "stuck"} <= set(worlds)
    assert worlds["counting"]["options"]["properties"]["turns"]["default"] == 10
    assert worlds["counting"]["opponents"] == [] and worlds["counting"]["default_opponent"] is None
    presets = {preset["name"]: preset for preset in worlds["paid"]["captains"]}
    assert presets["absent"]["available"] is False and presets["absent"]["missing"] == "a key in SOME_KEY"
    assert presets["dear"]["costs_money"] is True and presets["dear"]["available"] is True


def test_a_captain_that_is_not_available_says_what_is_missing(worlds_server: Serving) -> None:
    answer = start(worlds_server, {"environment": "paid", "captain_preset": "absent"})
    assert "a key in SOME_KEY" in refused(answer, 422)["errors"][0]["rule"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/api/nowhere", 404),
        ("GET", "/custom/start_episode", 405),
        ("DELETE", "/custom/status", 405),
        ("PUT", "/api/episodes", 405),
    ],
)
def test_what_is_not_there_is_a_problem_document(
    serving: Serving, method: str, path: str, status: int
) -> None:
    document = refused(serving.client.request(method, path), status)
    assert document["instance"] == path


def test_the_api_describes_itself(serving: Serving) -> None:
    document = serving.client.get("/openapi.json").json()
    text = json.dumps(document)
    schemas = document["components"]["schemas"]
    used = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert used <= set(schemas), "every model that is referred to is described"
    assert not {name for name in schemas if "HTTPValidation" in name}, "ours are problem documents"
    start_route = document["paths"]["/custom/start_episode"]["post"]
    assert set(start_route["responses"]) >= {"202", "400", "401", "403", "409", "413", "415", "422", "429"}
    assert "application/problem+json" in start_route["responses"]["409"]["content"]
    assert schemas["StartEpisode"]["additionalProperties"] is False


def test_the_interface_is_explained_to_people_without_a_script(serving: Serving) -> None:
    answer = serving.client.get("/docs")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")
    document = serving.client.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"<code>{method.upper()} {path}</code>" in answer.text
    assert "<code>captain_preset</code>" in answer.text
    assert "<script>" not in answer.text and "http://" not in answer.text.replace("http://www.w3.org", "")


def test_an_episode_whose_record_grows_too_long_is_cut_short(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, episode_mb=0.1)) as serving:
        for view in ("live", "derived"):
            options = {"turns": 1_000_000, "payload_bytes": 4096}
            ended = serving.finish(serving.start(options=options, view=view))
            assert (ended["reason"], ended["detail"]) == (
                "step_cap",
                "cut short: its record reached 0.1 MB",
            )
            assert 10 < ended["turns"] < 200
