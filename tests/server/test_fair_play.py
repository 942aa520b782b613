"""A rival who reads everything that a server shows learns nothing of a decision before its ball is bowled."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from spectator.episodes.embargo import embargo_on
from spectator.episodes.plan import EpisodeRequest, plan_episode
from tests.server.watching import watch
from tests.serving import PATIENCE_S, Serving, serve, test_settings, until

SECRET = "the-coming-ball-is-a-yorker"
PLAN = {"length": "yorker", "line": "stumps"}
SHORT = {"environment": "cricket", "max_overs": 1, "seed": 5}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    settings = test_settings(
        tmp_path_factory.mktemp("data"), max_episodes=4, person_decision_s=600, decision_timeout_s=900
    )
    with serve(settings) as running:
        yield running


class People:
    """Two people in one match, each act of whom is awaited."""

    def __init__(self, serving: Serving, episode_id: str) -> None:
        self.client, self.episode_id, self.turn = serving.client, episode_id, 0
        self.header = serving.seat_header(episode_id)

    def asked(self) -> dict[str, Any]:
        """What is asked after the last act."""

        def look() -> Any:
            where = {"episode_id": self.episode_id}
            told = self.client.get("/custom/asked", params=where, headers=self.header).json()["asked"]
            return told if told and told["turn"] > self.turn else None

        found: dict[str, Any] = until("the question", look)
        return found

    def act(self, tool: str, arguments: dict[str, Any] | None = None, reason: str = "") -> None:
        """Act for whoever is asked."""
        turn = self.asked()["turn"]
        action = {"tool": tool, "arguments": arguments or {}}
        body = {"episode_id": self.episode_id, "turn": turn, "action": action, "reason": reason}
        answer = self.client.post("/custom/act", json=body, headers=self.header)
        assert answer.status_code == 200, answer.text
        self.turn = turn

    def until(self, phase: str) -> dict[str, Any]:
        """Play on, the first tool each time, until this is to be decided."""
        while (seat := self.asked())["situation"]["phase"] != phase:
            self.act(seat["legal_actions"][0]["tool"])
        return seat


def stop(serving: Serving, episode_id: str) -> None:
    serving.client.post("/custom/stop_episode", json={"episode_id": episode_id})


@contextmanager
def planned(serving: Serving, **more: Any) -> Iterator[tuple[People, str]]:
    """A match in which the bowling side has made its plan for the first ball, and the batter is asked."""
    episode_id = serving.start(captain_preset="human", opponent_choice="human", **SHORT, **more)
    people = People(serving, episode_id)
    try:
        people.until("bowl")
        people.act("plan_delivery", PLAN, SECRET)
        people.act("bowl_delivery", reason=SECRET)
        assert people.asked()["situation"]["phase"] == "bat"
        yield people, episode_id
    finally:
        stop(serving, episode_id)


def recorded(folder: Path, episode_id: str) -> int:
    """How many events the journal holds, whoever may see them."""
    with closing(sqlite3.connect(folder / "journal.db")) as journal:
        found = journal.execute("SELECT max(seq) FROM events WHERE episode_id = ?", (episode_id,)).fetchone()
    return int(found[0])


def routes(client: httpx.Client) -> list[str]:
    """Every route that answers a GET, from the interface's own description, and the pages."""
    paths = client.get("/openapi.json").json()["paths"]
    return [*(path for path, known in paths.items() if "get" in known), "/", "/watch/{episode_id}", "/wall"]


def polled(client: httpx.Client, episode_id: str, head: int) -> Iterator[tuple[str, str]]:
    """What every route answers when it is asked about this episode, with all its switches."""
    for path in routes(client):
        if "events" in path and "live" in path:
            continue  # a stream without an end, see below
        filled = path.replace("{episode_id}", episode_id)
        for name, value in (("{seq}", str(head)), ("{name}", "cricket"), ("{world}", "cricket")):
            filled = filled.replace(name, value)
        for query in ("", "?recorded=true", f"?after_seq={head - 2}"):
            asked = f"{filled}{query or f'?episode_id={episode_id}'}"
            yield asked, client.get(asked, follow_redirects=True).text


def streamed(client: httpx.Client, episode_id: str) -> str:
    """What server-sent events bring somebody who comes now, up to and with the snapshot."""
    lines: list[str] = []
    with client.stream("GET", f"/live/{episode_id}/events", timeout=PATIENCE_S) as answer:
        for line in answer.iter_lines():
            lines.append(line)
            if '"frame":"snapshot"' in line:
                return "\n".join(lines)
    raise AssertionError("no snapshot came")


def leaks(text: str) -> bool:
    return SECRET in text or "yorker" in text.replace('"enum"', "").split('"legal_actions"')[0]


@pytest.mark.parametrize("view", ["live", "derived"])
def test_a_rival_that_polls_every_route_learns_nothing_of_the_coming_ball(app: Serving, view: str) -> None:
    with planned(app, view=view) as (people, episode_id):
        with watch(f"{app.ws_url}/live/{episode_id}") as early:
            head = early.until("snapshot")["seq"]
            assert [event["seq"] for event in app.events(episode_id)][-1] == head
            assert not any(event["type"] == "decision.made" for event in app.events(episode_id))
            for asked, told in polled(app.client, episode_id, head + 3):
                assert SECRET not in told, asked
            assert SECRET not in streamed(app.client, episode_id)
            own = people.asked()
            assert own["situation"]["you"]["delivery"] is None and not leaks(json.dumps(own["situation"]))
            with watch(f"{app.ws_url}/live/wall") as wall:
                wall.until("wall")
            assert not any(SECRET in text for text in (*early.texts, *wall.texts))
            people.act("play_delivery", reason="a straight bat")
            people.asked()
            while not any(frame.get("type") == "cricket.ball_bowled" for frame in early.frames):
                early.next()
            assert any(SECRET in text for text in early.texts), "the ball brings what led to it"
        shown = app.events(episode_id)
        made = [event for event in shown if event["type"] == "decision.made"]
        assert [event["seq"] for event in shown] == [*range(1, len(shown) + 1)]
        assert made[-1]["data"]["reasoning"] == "a straight bat"
        assert made[-2]["at"] < made[-1]["at"], "the record keeps true times"


def test_a_viewer_who_resumes_or_forks_beyond_what_is_shown_is_given_no_more(app: Serving) -> None:
    with planned(app) as (_, episode_id):
        entry = app.client.get(f"/api/episodes/{episode_id}").json()
        head, listed = entry["head_seq"], app.client.get("/api/episodes").json()["episodes"]
        assert entry["digest"] is None, "a digest of what is withheld would let plans be tried out"
        assert [one["head_seq"] for one in listed if one["episode_id"] == episode_id] == [head]
        with watch(f"{app.ws_url}/live/{episode_id}?epoch={entry['epoch']}&seq=1") as back:
            back.state, back.seq = {}, 1
            while back.next().get("seq") != head:
                continue
            assert not any(SECRET in text for text in back.texts)
        for beyond in (head + 1, head + 4):
            refused = app.client.post("/custom/fork", json={"episode_id": episode_id, "seq": beyond})
            assert refused.status_code == 422, refused.text
            (error,) = refused.json()["errors"]
            assert error["field"] == "seq" and f"from 1 to {head}" in error["rule"]


def test_what_was_withheld_when_the_server_went_stays_so_when_it_comes_back(tmp_path: Path) -> None:
    settings = test_settings(tmp_path, max_episodes=2, person_decision_s=600, decision_timeout_s=900)
    with serve(settings) as app:
        episode_id = app.start(captain_preset="human", opponent_choice="human", **SHORT)
        people = People(app, episode_id)
        people.until("bowl")
        people.act("plan_delivery", PLAN, SECRET)
        people.asked()
        head, seats = app.client.get(f"/api/episodes/{episode_id}").json()["head_seq"], app.seats
    assert recorded(tmp_path, episode_id) > head
    with serve(settings) as app:
        app.seats = seats
        people = People(app, episode_id)
        people.asked()
        entry = app.client.get(f"/api/episodes/{episode_id}").json()
        assert entry["head_seq"] == head
        with watch(f"{app.ws_url}/live/{episode_id}") as viewer:
            assert viewer.until("snapshot")["seq"] == head and SECRET not in viewer.texts[-1]
            people.turn = 0
            people.act("bowl_delivery")
            people.act("play_delivery")
            while not any(frame.get("type") == "cricket.ball_bowled" for frame in viewer.frames):
                viewer.next()
            assert any(SECRET in text for text in viewer.texts)
        stop(app, episode_id)
        ended = app.finish(episode_id)
        whole = app.events(episode_id)
        assert len(whole) == ended["head_seq"] and any(SECRET in json.dumps(event) for event in whole)
        assert ended["digest"] is not None


def test_where_orders_stand_for_an_over_they_are_shown_when_it_is_over(app: Serving) -> None:
    options = {"decisions": "over"}
    episode_id = app.start(captain_preset="human", opponent_choice="human", options=options, **SHORT)
    people = People(app, episode_id)
    people.until("bowling_plan")
    people.act("bowl_over", {"length": "yorker", "ask": {"wicket": True, "boundary": True}}, SECRET)
    people.until("batting_plan")
    people.act("play_over", {"aggression": 1.0, "ask": {"boundary": True, "wicket": True}})
    while people.asked()["situation"]["innings"] == 1:
        balls = people.asked()["situation"]["score"]["balls"]
        assert balls < 6 and SECRET not in app.client.get(f"/api/episodes/{episode_id}/events").text
        people.act(people.asked()["legal_actions"][0]["tool"])
    assert SECRET in app.client.get(f"/api/episodes/{episode_id}/events").text
    stop(app, episode_id)


def test_nothing_is_withheld_between_scripted_captains_or_where_there_is_no_rival(app: Serving) -> None:
    worlds = app.client.get("/custom/catalog").json()["environments"]
    withheld = {world["name"]: world["profile"].get("withheld_until", []) for world in worlds}
    assert withheld["cricket"] == ["cricket.ball_bowled"]
    assert withheld["counting"] == withheld["collider"] == []
    episode_id = app.start(captain_preset="human", environment="counting", options={"turns": 3})
    people = People(app, episode_id)
    people.act("say", {"text": "ACTION: 1"}, SECRET)
    people.asked()
    assert SECRET in app.client.get(f"/api/episodes/{episode_id}/events").text
    stop(app, episode_id)

    plan = plan_episode(EpisodeRequest("cricket"), draw_seed=lambda: 1)
    person = replace(plan.captain, source="human")
    assert embargo_on(plan) is None
    assert embargo_on(replace(plan, captain=person)) is not None
    assert embargo_on(replace(plan, opponent=person)) is not None
    assert embargo_on(replace(plan, opponent=replace(person, source="model"))) is not None
