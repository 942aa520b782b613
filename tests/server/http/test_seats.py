"""A person plays a seat through the server: what is asked, who may answer, once a turn, restarts included."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serving import PATIENCE_S, Serving, free_port, serve, serve_process, test_settings, until

TOKEN = "correct-horse-battery"
OPERATOR = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """An open server with cricket and counting, and time enough for a busy machine."""
    settings = test_settings(
        tmp_path_factory.mktemp("data"), max_episodes=4, person_decision_s=600, decision_timeout_s=900
    )
    with serve(settings) as running:
        yield running


@pytest.fixture
def counting(app: Serving) -> Iterator[str]:
    """A count of three, played by a person."""
    episode_id = app.start(captain_preset="human", options={"turns": 3})
    yield episode_id
    app.client.post("/custom/stop_episode", json={"episode_id": episode_id})


def asked(
    client: httpx.Client, episode_id: str, *, after: int = 0, headers: dict[str, str] | None = None
) -> dict[str, Any]:
    """What is asked after a turn."""

    def look() -> Any:
        seat = client.get("/custom/asked", params={"episode_id": episode_id}, headers=headers).json()["asked"]
        return seat if seat and seat["turn"] > after else None

    found: dict[str, Any] = until("the question", look)
    return found


def act(client: httpx.Client, episode_id: str, turn: int, tool: str, **more: Any) -> httpx.Response:
    headers = more.pop("headers", None)
    body = {
        "episode_id": episode_id,
        "turn": turn,
        "action": {"tool": tool, **more.pop("action", {})},
        **more,
    }
    return client.post("/custom/act", json=body, headers=headers)


def say(client: httpx.Client, episode_id: str, turn: int, **more: Any) -> httpx.Response:
    return act(client, episode_id, turn, "say", action={"arguments": {"text": f"ACTION: {turn}"}}, **more)


def decisions(client: httpx.Client, episode_id: str) -> list[dict[str, Any]]:
    lines = client.get(f"/api/episodes/{episode_id}/events").text.splitlines()
    events = [httpx.Response(200, text=line).json() for line in lines]
    return [event["data"] for event in events if event["type"] == "decision.made"]


def test_people_are_in_the_catalogue_on_both_sides(app: Serving) -> None:
    worlds = app.client.get("/custom/catalog").json()["environments"]
    cricket = next(world for world in worlds if world["name"] == "cricket")
    for side in ("captains", "opponents"):
        person = next(preset for preset in cricket[side] if preset["name"] == "human")
        assert person["available"] and person["source"] == "human" and not person["costs_money"]
        assert "needs a person" in person["summary"]


def test_a_person_plays_an_episode_with_reasons_that_everybody_reads(app: Serving, counting: str) -> None:
    for turn in (1, 2, 3):
        seat = asked(app.client, counting, after=turn - 1)
        assert (seat["actor"], seat["turn"], seat["situation"]["next"]) == ("counter", turn, turn)
        assert 0 < seat["left_s"] <= seat["limit_s"] == 600
        assert [legal["tool"] for legal in seat["legal_actions"]] == ["say"]
        assert "Situation now" in seat["prompt"] and "Legal actions" in seat["prompt"]
        answer = say(app.client, counting, turn, reason=f"{turn} is next\u202e")
        assert answer.status_code == 200, answer.text
        assert answer.json()["turn"] == turn
    assert app.finish(counting)["score"] == 1.0
    made = decisions(app.client, counting)
    assert [one["source"] for one in made] == ["human"] * 3
    assert made[0]["reasoning"] == "1 is next"


def test_what_breaks_a_rule_is_422_beside_its_field_and_the_turn_stands(app: Serving, counting: str) -> None:
    asked(app.client, counting)

    def wrong(response: httpx.Response) -> dict[str, str]:
        assert response.status_code == 422, response.text
        return {error["field"]: error["rule"] for error in response.json()["errors"]}

    assert (
        "must match"
        in wrong(act(app.client, counting, 1, "say", action={"arguments": {"text": "one"}}))[
            "action.arguments.text"
        ]
    )
    assert "missing" in wrong(act(app.client, counting, 1, "say"))["action.arguments"]
    assert "legal: say" in wrong(act(app.client, counting, 1, "shout"))["action.tool"]
    assert "no person plays 'away'" in wrong(say(app.client, counting, 1, actor="away"))["actor"]
    body = {"episode_id": counting, "tern": 1}
    fields = wrong(app.client.post("/custom/act", json=body))
    assert "did you mean 'turn'" in fields["tern"]
    fields = wrong(app.client.post("/custom/act", json={"episode_id": counting}))
    assert fields.keys() == {"turn", "action.tool"}
    assert decisions(app.client, counting) == []
    assert say(app.client, counting, 1).status_code == 200


def test_a_turn_that_is_over_or_to_come_is_409_and_says_whose_turn_it_is(app: Serving, counting: str) -> None:
    asked(app.client, counting)
    early = say(app.client, counting, 2)
    assert early.status_code == 409 and early.json()["type"] == "/problems/not-asked"
    assert early.json()["detail"] == "Turn 2 has not come yet; turn 1 is for counter (human) to decide."
    assert say(app.client, counting, 1).status_code == 200
    asked(app.client, counting, after=1)
    late = say(app.client, counting, 1)
    assert late.status_code == 409 and late.json()["detail"].startswith(
        "Turn 1 is already decided; turn 2 is for"
    )


def test_of_many_tabs_at_once_exactly_one_decides_a_turn(app: Serving, counting: str) -> None:
    asked(app.client, counting)
    with ThreadPoolExecutor(8) as tabs:
        codes = list(tabs.map(lambda _: say(app.client, counting, 1).status_code, range(8)))
    assert sorted(codes) == [200] + [409] * 7
    assert asked(app.client, counting, after=1)["turn"] == 2
    assert len(decisions(app.client, counting)) == 1


def test_nobody_acts_where_no_person_plays_or_the_match_is_over(app: Serving, counting: str) -> None:
    other = app.start(options={"turns": 1})
    app.finish(other)
    assert say(app.client, other, 1).status_code == 409
    assert say(app.client, "ep-none", 1).status_code == 404
    slow = app.start(pace="broadcast", options={"turns": 50})
    refused = say(app.client, slow, 1)
    assert refused.status_code == 422 and "no person plays in this episode" in refused.json()["detail"]
    app.client.post("/custom/stop_episode", json={"episode_id": slow})


def test_a_person_against_a_captain_and_against_oneself(app: Serving) -> None:
    """In cricket the rival is asked in between; against oneself both seats are asked in turn."""
    alone = app.start(environment="cricket", captain_preset="human", seed=5, max_overs=1)
    seat = asked(app.client, alone)
    assert seat["actor"] == "home"
    both = app.start(
        environment="cricket", captain_preset="human", opponent_choice="self", seed=5, max_overs=1
    )
    turn, actors = 0, set()
    for _ in range(6):
        seat = asked(app.client, both, after=turn, headers=app.seat_header(both))
        turn = seat["turn"]
        actors.add(seat["actor"])
        tool = seat["legal_actions"][0]["tool"]
        answer = act(app.client, both, turn, tool, actor=seat["actor"], headers=app.seat_header(both))
        assert answer.status_code == 200, answer.text
    assert actors == {"home", "away"}
    status = app.client.get("/custom/asked", params={"episode_id": both}).json()
    assert status["seats"] == ["home", "away"]
    for episode_id in (alone, both):
        app.client.post("/custom/stop_episode", json={"episode_id": episode_id})


def test_a_draft_is_weighed_from_what_the_seat_sees(app: Serving) -> None:
    """Each choice has its odds and the planner's advice is legal; nothing is decided by asking."""
    episode_id = app.start(environment="cricket", captain_preset="human", seed=5, max_overs=1)
    seat = asked(app.client, episode_id)
    while seat["situation"]["phase"] != "bowl":
        act(app.client, episode_id, seat["turn"], seat["legal_actions"][0]["tool"])
        seat = asked(app.client, episode_id, after=seat["turn"])

    def weigh(draft: str) -> httpx.Response:
        return app.client.get("/custom/asked", params={"episode_id": episode_id, "draft": draft})

    assert seat["weighed"] is None
    plan = [{"tool": "plan_delivery", "arguments": {"length": "good", "line": "stumps"}}]
    plain, planned = (weigh(json.dumps(calls)).json()["asked"]["weighed"] for calls in ([], plan))
    assert plain["now"]["worth"] == 0.0 and len(plain["options"]["pitch"]) == 21
    assert planned["now"] == plain["options"]["pitch"]["good|stumps"] != plain["now"]
    assert planned["options"]["field"].keys() == {"standard", "attacking", "ring"}, "the powerplay's"
    assert [call["tool"] for call in plain["advice"]["calls"]][-1] == "bowl_delivery"
    nine = [{"name": "x", "x": 50.0, "y": float(place)} for place in range(9)]
    for calls, rule in (
        ([{"tool": "set_field", "arguments": {"fielders": nine}}], "F1.outside_ring"),
        ([{"tool": "play_delivery", "arguments": {}}], "illegal"),
    ):
        assert weigh(json.dumps(calls)).json()["asked"]["weighed"]["refused"]["rule"] == rule
    for wrong in ("no", "[1]", json.dumps(7 * plan)):
        answer = weigh(wrong)
        assert answer.status_code == 422 and answer.json()["errors"][0]["field"] == "draft"
    assert asked(app.client, episode_id)["turn"] == seat["turn"]
    app.client.post("/custom/stop_episode", json={"episode_id": episode_id})


@pytest.mark.parametrize("profile", ["open", "public"])
@pytest.mark.parametrize("who", ["the starter", "the operator"])
def test_with_a_token_set_a_visitor_plays_a_seat_of_their_own_match(
    tmp_path: Path, who: str, profile: str
) -> None:
    """The starter by the seat's key, the operator by the token; strangers have neither."""
    settings = test_settings(
        tmp_path, profile=profile, operator_token=TOKEN, person_decision_s=600, decision_timeout_s=900
    )
    mine, stranger = {"X-Forwarded-For": "203.0.113.1"}, {"X-Forwarded-For": "203.0.113.2"}
    with serve(settings) as app:
        body = {"captain_preset": "human", "options": {"turns": 1}}
        started = app.client.post("/custom/start_episode", json=body, headers=mine)
        assert started.status_code == 202, started.text
        episode_id, (seat,) = started.json()["episode_id"], started.json()["seats"].values()
        where = {"episode_id": episode_id}
        action = {**where, "turn": 1, "action": {"tool": "count", "arguments": {"value": 1}}}
        refused = 401 if profile == "open" else 403
        assert app.client.get("/custom/asked", params=where, headers=stranger).status_code == refused
        assert app.client.post("/custom/act", json=action, headers=stranger).status_code == refused
        app.client.headers.update(OPERATOR if who == "the operator" else {"X-Seat-Key": seat["key"], **mine})
        asked(app.client, episode_id)
        assert say(app.client, episode_id, 1).status_code == 200
        assert app.finish(episode_id)["score"] == 1.0


def test_a_visitors_seat_counts_in_the_limit_on_starts(tmp_path: Path) -> None:
    settings = test_settings(tmp_path, operator_token=TOKEN, starts_per_minute=1, max_episodes=3)
    with serve(settings) as app:
        post = app.client.post
        assert post("/custom/start_episode", json={"captain_preset": "human"}).status_code == 202
        assert post("/custom/start_episode", json={"captain_preset": "human"}).status_code == 429


def test_after_the_servers_death_the_person_plays_on(tmp_path: Path) -> None:
    port = free_port()
    variables = {"SPECTATOR_PERSON_DECISION_S": "600", "SPECTATOR_DECISION_TIMEOUT_S": "900"}
    with serve_process(tmp_path, port=port, variables=variables) as first:
        with httpx.Client(base_url=first.base_url, timeout=PATIENCE_S) as client:
            body = {"captain_preset": "human", "options": {"turns": 2}, "pace": "max"}
            episode_id = client.post("/custom/start_episode", json=body).json()["episode_id"]
            asked(client, episode_id)
            assert say(client, episode_id, 1).status_code == 200
            asked(client, episode_id, after=1)
        first.kill()
    with serve_process(tmp_path, port=port, variables=variables) as second:
        with httpx.Client(base_url=second.base_url, timeout=PATIENCE_S) as client:
            assert asked(client, episode_id, after=1)["turn"] == 2
            assert say(client, episode_id, 2).status_code == 200
            entry = until(
                "the entry", lambda: (e := client.get(f"/api/episodes/{episode_id}").json())["ended_at"] and e
            )
            assert entry["score"] == 1.0
            assert [one["source"] for one in decisions(client, episode_id)] == ["human"] * 2
