"""Each seat that a person plays has a key of its own: nobody reads or answers for another."""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.security.permissions import SEAT_KEYS_FILE, SeatKeys
from tests.server.watching import watch
from tests.serving import PATIENCE_S, Serving, people_settings, serve

TOKEN = "correct-horse-battery"
OPERATOR = {"Authorization": f"Bearer {TOKEN}"}
SECRET = "the-coming-ball-is-a-yorker"
MATCH = {"environment": "cricket", "max_overs": 1, "seed": 5, "captain_preset": "human"}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serve(people_settings(tmp_path_factory.mktemp("data"), TOKEN)) as running:
        yield running


@pytest.fixture
def rivals(app: Serving) -> Iterator[str]:
    """A match between two people, started by the operator."""
    app.client.headers.update(OPERATOR)
    episode_id = app.start(**MATCH, opponent_choice="human")
    del app.client.headers["Authorization"]
    yield episode_id
    app.client.post("/custom/stop_episode", json={"episode_id": episode_id}, headers=OPERATOR)


def look(app: Serving, episode_id: str, headers: dict[str, str] | None) -> httpx.Response:
    return app.client.get("/custom/asked", params={"episode_id": episode_id}, headers=headers)


def tool_for(asked: dict[str, Any]) -> str:
    """The plan of a delivery where one can be made, else whatever comes first."""
    tools = [legal["tool"] for legal in asked["legal_actions"]]
    return "plan_delivery" if "plan_delivery" in tools else str(tools[0])


def decide(app: Serving, asked: dict[str, Any], episode_id: str, headers: dict[str, str]) -> httpx.Response:
    action: dict[str, Any] = {"tool": tool_for(asked), "arguments": {}}
    if action["tool"] == "plan_delivery":
        action["arguments"] = {"length": "yorker", "line": "stumps"}
    body = {"episode_id": episode_id, "turn": asked["turn"], "action": action, "reason": SECRET}
    return app.client.post("/custom/act", json=body, headers=headers)


def whose_turn(app: Serving, episode_id: str, after: int = 0) -> tuple[str, str, dict[str, Any]]:
    """Who is asked, who is not, and what is asked."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for actor, rival in (("home", "away"), ("away", "home")):
            told = look(app, episode_id, app.seat_header(episode_id, actor)).json()["asked"]
            if told and told["turn"] > after:
                assert told["actor"] == actor
                return actor, rival, told
        time.sleep(0.02)
    raise AssertionError("nobody was asked")


def test_a_seat_is_read_and_answered_by_its_own_key_alone(app: Serving, rivals: str) -> None:
    """Until the rival's ball is bowled, neither its question nor its plan reaches the other on any way in."""
    turn, planned = 0, False
    with watch(f"{app.ws_url}/live/{rivals}") as viewer:
        viewer.until("snapshot")
        while not planned:
            actor, rival, asked = whose_turn(app, rivals, turn)
            other = app.seat_header(rivals, rival)
            for headers in (other, OPERATOR):
                told = look(app, rivals, headers).json()
                assert told["asked"] is None and told["deciding"] == actor
                refused = decide(app, asked, rivals, headers)
                assert refused.status_code in (403, 409), refused.text
            assert look(app, rivals, other).json()["yours"] == [rival]
            assert look(app, rivals, OPERATOR).json()["yours"] == []
            taken = decide(app, asked, rivals, app.seat_header(rivals, actor))
            assert taken.status_code == 200 and taken.json()["actor"] == actor
            turn, planned = asked["turn"], tool_for(asked) == "plan_delivery"
        whose_turn(app, rivals, turn)
        secret = f'"{SECRET}"'
        for path in ("events", "export", ""):
            assert (
                secret not in app.client.get(f"/api/episodes/{rivals}/{path}".rstrip("/"), headers=other).text
            )
        for text in viewer.texts:
            assert "plan_delivery" not in text or SECRET not in text


def test_deciding_for_the_rival_by_name_is_refused_and_changes_nothing(app: Serving, rivals: str) -> None:
    actor, rival, asked = whose_turn(app, rivals)
    body = {
        "episode_id": rivals,
        "actor": actor,
        "turn": asked["turn"],
        "action": {"tool": asked["legal_actions"][0]["tool"]},
    }
    for headers in (app.seat_header(rivals, rival), OPERATOR):
        refused = app.client.post("/custom/act", json=body, headers=headers)
        assert refused.status_code == 403 and refused.json()["type"] == "/problems/not-your-seat"
        assert actor in refused.json()["detail"] and app.seats[rivals][actor] not in refused.text
    assert whose_turn(app, rivals)[2]["turn"] == asked["turn"]


def test_a_key_is_good_for_its_own_episode_and_seat_and_nothing_else(app: Serving, rivals: str) -> None:
    keys = app.seats[rivals]
    app.client.headers.update(OPERATOR)
    alone = app.start(captain_preset="human", options={"turns": 1})
    del app.client.headers["Authorization"]
    home = keys["home"]
    forged = (home.replace("home.", "away."), home[:-1], home + "A", "", "home.", ",", "x" * 900, "hömé")
    for wrong in (*forged, app.seats[alone]["counter"]):
        where, header = {"episode_id": rivals}, [(b"X-Seat-Key", wrong.encode())]
        answer = app.client.get("/custom/asked", params=where, headers=header)
        assert answer.status_code == 403, wrong
        assert answer.json()["type"] == "/problems/not-your-seat"
    for route in ("pause", "stop_episode"):
        assert app.client.post(f"/custom/{route}", json={}, headers={"X-Seat-Key": home}).status_code == 401
    assert look(app, rivals, None).status_code == 401
    assert look(app, alone, {"X-Seat-Key": home}).status_code == 403
    assert look(app, alone, OPERATOR).json()["yours"] == ["counter"], "alone, the operator's token is enough"
    guest = app.seat_header(alone)
    assert look(app, alone, guest).json()["yours"] == ["counter"]
    app.client.post("/custom/stop_episode", json={"episode_id": alone}, headers=OPERATOR)


def test_keys_are_told_once_by_the_start_and_stand_in_no_record(
    app: Serving, rivals: str, tmp_path: Path
) -> None:
    keys = list(app.seats[rivals].values())
    assert len({key.partition(".")[2] for key in keys}) == 2 and all(len(key) > 43 for key in keys)
    for path in (
        "/custom/status",
        f"/api/episodes/{rivals}",
        f"/api/episodes/{rivals}/events",
        "/api/episodes",
    ):
        told = app.client.get(path, headers=OPERATOR).text
        assert not any(key in told for key in keys)
    started = app.client.post("/custom/start_episode", json={"options": {"turns": 1}, "pace": "max"}).json()
    assert started["seats"] == {}, "scripted captains need none"


def test_keys_survive_a_restart_and_lie_behind_the_users_own_eyes(tmp_path: Path) -> None:
    first, again = SeatKeys(tmp_path), SeatKeys(tmp_path)
    key = first.key("ep-1", "home")
    assert again.key("ep-1", "home") == key and first.key("ep-1", "away") != first.key("ep-2", "away")
    assert stat.S_IMODE((tmp_path / SEAT_KEYS_FILE).stat().st_mode) == 0o600
    assert first.seats(f" x , {key}", "ep-1", ["away", "home"]) == ["home"]
    (tmp_path / SEAT_KEYS_FILE).write_bytes(b"cut")
    assert SeatKeys(tmp_path).key("ep-1", "home") != key, "a file that was cut is no secret"


def test_the_link_of_a_seat_carries_its_key_behind_the_hash(app: Serving) -> None:
    body = {**MATCH, "opponent_choice": "human"}
    started = app.client.post("/custom/start_episode", json=body, headers=OPERATOR).json()
    for seat in started["seats"].values():
        page, _, fragment = seat["url"].partition("#")
        assert page == started["watch_url"] and fragment == f"seat={seat['key']}"
    assert json.dumps(started).count("?") == 0
    app.client.post("/custom/stop_episode", json={"episode_id": started["episode_id"]}, headers=OPERATOR)
