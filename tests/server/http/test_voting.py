"""Viewers call along over HTTP: votes by the rules, one result, a table that outlives the server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from server.http.previews import WIDTH
from server.http.voting import VoterPlace, calls_card
from spectator import catalog
from spectator.evaluation.votes import voter_id
from tests.serving import Serving, serve, test_settings, until

TOKENS = [f"viewer-{number:012}" for number in range(8)]
STRANGE = "<b onclick=x>&\"عادل' 🏏"
SECRET = "a-secret-of-the-operator"
MATCH = {"environment": "cricket", "options": {"max_overs": 50}, "seed": 7, "pace": "broadcast"}


@pytest.fixture(scope="module", autouse=True)
def short_balls() -> Iterator[None]:
    """A ball lasts as long as votes need, instead of four times as long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(catalog.load_world("cricket").beats, "cricket.ball_bowled", 0.9)
        yield


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("votes")


@pytest.fixture(scope="module")
def serving(data_dir: Path) -> Iterator[Serving]:
    settings = test_settings(data_dir, environment="cricket", max_episodes=4, votes_per_minute=20)
    with serve(settings) as running:
        yield running


@pytest.fixture(scope="module")
def match(serving: Serving) -> Iterator[tuple[str, ClientConnection]]:
    episode_id = serving.start(**MATCH)
    with connect(f"{serving.ws_url}/live/{episode_id}", max_queue=None) as viewer:
        ask(serving, episode_id)
        yield episode_id, viewer


def ask(serving: Serving, episode_id: str) -> Any:
    return serving.client.get(f"/api/episodes/{episode_id}/questions")


def vote(serving: Serving, episode_id: str, turn: int, token: str, card: int = 0, **more: Any) -> Any:
    sent = {"turn": turn, "card": card, "token": token, **more}
    return serving.client.post(f"/api/episodes/{episode_id}/votes", json=sent)


def control(serving: Serving, order: str, episode_id: str) -> None:
    answer = serving.client.post(f"/custom/{order}", json={"episode_id": episode_id})
    assert answer.status_code == 200, answer.text


def refused(answer: Any, status: int, kind: str) -> str:
    problem = answer.json()
    assert (answer.status_code, problem["type"]) == (status, f"/problems/{kind}"), problem
    return str(problem)


def frame_of(viewer: ClientConnection, kind: str) -> dict[str, Any]:
    """The next frame of a kind."""
    while True:
        frame = json.loads(viewer.recv(timeout=30))
        if frame["frame"] == kind:
            return dict(frame)


def frames(viewer: ClientConnection, wanted: str) -> dict[str, Any]:
    """The next crowd frame that has ``wanted``."""
    while wanted not in (frame := frame_of(viewer, "crowd")):
        pass
    return frame


def open_question(serving: Serving, match: tuple[str, ClientConnection]) -> dict[str, Any]:
    """A question that stays open: the match is paused."""
    question = frames(match[1], "question")["question"]
    control(serving, "pause", match[0])
    assert ask(serving, match[0]).json()["question"]["turn"] == question["turn"]
    return dict(question)


def test_votes_are_counted_by_their_rules_and_scored_after_the_decision(
    serving: Serving, match: tuple[str, ClientConnection]
) -> None:
    episode_id, viewer = match
    question = open_question(serving, match)
    turn = question["turn"]
    assert len(set(question["cards"])) == 3
    first = vote(serving, episode_id, turn, TOKENS[0], 1, name=" Ada ")
    assert first.status_code == 201, first.text
    assert TOKENS[0] not in first.text
    assert "first call counts" in refused(vote(serving, episode_id, turn, TOKENS[0], 2), 409, "already-voted")
    assert vote(serving, episode_id, turn, TOKENS[1], 0, name=STRANGE).status_code == 201
    for other in (turn - 1, turn + 1):
        assert f"turn {turn} is open" in refused(
            vote(serving, episode_id, other, TOKENS[2]), 409, "voting-closed"
        )
    over_socket = {"frame": "vote", "turn": turn, "card": 0, "token": TOKENS[4], "name": ""}
    for _ in range(2):
        viewer.send(json.dumps(over_socket))
    accepted, again = (frame_of(viewer, "vote") for _ in range(2))
    assert accepted == {"frame": "vote", "turn": turn, "voter": voter_id(TOKENS[4])}
    assert again["refused"] == "already-voted"
    assert frames(viewer, "votes")["votes"] in (1, 2, 3)  # at most one frame a second
    control(serving, "resume", episode_id)
    result = frames(viewer, "result")["result"]
    assert (result["turn"], result["votes"]) == (turn, 3)
    assert [card["votes"] for card in result["cards"]] == [2, 1, 0]
    assert any(card["best"] and card["brier"] <= 0.5 for card in result["cards"])
    assert all(card["regret"] >= 0 for card in (*result["cards"], result["crowd"], result["captain"]))
    mean = (2 * result["cards"][0]["regret"] + result["cards"][1]["regret"]) / 3
    assert result["crowd"]["regret"] == pytest.approx(mean, abs=0.002)
    voter = first.json()["voter"]
    day = serving.client.get("/api/votes").json()["day"]
    known = until("the table", lambda: _of(serving, day, voter))
    assert (known["name"], known["calls"], known["place"]) == ("Ada", 1, None)
    assert known["regret"] == pytest.approx(result["cards"][1]["regret"], abs=0.001)
    assert known["streak"] == int(result["cards"][1]["best"])
    events = {event["type"] for event in serving.events(episode_id)}
    assert not {kind for kind in events if "vote" in kind or "crowd" in kind}


def _of(serving: Serving, day: str, voter: str) -> dict[str, Any] | None:
    answer = serving.client.get(f"/api/votes/{day}/{voter}")
    return dict(answer.json()) if answer.status_code == 200 else None


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"card": 3}, "card"),
        ({"card": -1}, "card"),
        ({"card": "1"}, "card"),
        ({"turn": "1"}, "turn"),
        ({"token": "short"}, "token"),
        ({"token": "spaces are not allowed here"}, "token"),
        ({"name": "x" * 25}, "name"),
        ({"name": "two\nlines"}, "name"),
        ({"name": "\u202eevil"}, "name"),
        ({"name": "zero\u200bwidth"}, "name"),
        ({"name": None}, "name"),
        ({"vote": 1}, "vote"),
    ],
)
def test_a_wrong_field_is_named(
    serving: Serving, match: tuple[str, ClientConnection], change: dict[str, Any], field: str
) -> None:
    sent = {"turn": 1, "card": 0, "token": TOKENS[3], **change}
    answer = serving.client.post(f"/api/episodes/{match[0]}/votes", json=sent)
    assert f"'{field}'" in refused(answer, 422, "invalid-request")


def test_a_socket_refuses_a_wrong_vote_and_closes_on_a_malformed_one(
    serving: Serving, match: tuple[str, ClientConnection]
) -> None:
    sent = {"frame": "vote", "turn": 1, "card": 0, "token": TOKENS[3], "name": ""}
    with connect(f"{serving.ws_url}/live/{match[0]}", max_queue=None) as viewer:
        for field, value in (("card", 3), ("card", -1), ("token", "x"), ("name", "a\nb"), ("name", "x" * 25)):
            viewer.send(json.dumps({**sent, field: value}))
            answer = frame_of(viewer, "vote")
            assert answer["refused"] == "invalid-request"
            assert answer["reason"].startswith(f"{field} must ")
        viewer.send(json.dumps(sent))
        assert frame_of(viewer, "vote")["refused"] == "voting-closed"
        viewer.send(json.dumps({**sent, "card": True}))
        assert frame_of(viewer, "bye")["code"] == 4400


def test_what_cannot_be_called(serving: Serving, match: tuple[str, ClientConnection]) -> None:
    refused(serving.client.post(f"/api/episodes/{match[0]}/votes"), 422, "invalid-request")
    refused(vote(serving, "ep-unknown", 1, TOKENS[3]), 404, "episode-not-found")
    counting = serving.start(environment="counting", pace="broadcast")
    refused(vote(serving, counting, 1, TOKENS[3]), 404, "no-questions")
    serving.client.post("/custom/stop_episode", json={"episode_id": counting})
    serving.finish(counting)
    refused(vote(serving, counting, 1, TOKENS[3]), 409, "episode-over")
    refused(serving.client.get("/api/votes/2026-01-01/0123456789abcdef"), 404, "voter-not-found")
    refused(serving.client.get("/api/votes/2026-01-01/stranger"), 422, "invalid-request")
    refused(vote(serving, match[0], 1, TOKENS[3], name="x" * 70_000), 413, "body-too-large")


def test_the_last_result_can_be_read_after_the_end(serving: Serving) -> None:
    """Its sockets are closed by then; the fork begins shortly before the end."""
    parent = serving.start(**{**MATCH, "pace": "max", "options": {"max_overs": 1}})
    serving.finish(parent)
    events = serving.events(parent)
    balls = [one["seq"] for one in events if one["type"] == "cricket.ball_bowled"]
    step = next(one["seq"] for one in events if one["type"] == "step.taken" and one["seq"] > balls[-4])
    forked = serving.client.post(
        "/custom/fork", json={"episode_id": parent, "seq": step, "pace": "broadcast"}
    )
    episode_id = forked.json()["episode_id"]
    turn = None
    with connect(f"{serving.ws_url}/live/{episode_id}", max_queue=None) as viewer:
        ask(serving, episode_id)
        for text in viewer:
            if question := json.loads(text).get("question"):
                turn = question["turn"]
                sent = {"frame": "vote", "turn": turn, "card": 2, "token": TOKENS[5], "name": ""}
                viewer.send(json.dumps(sent))
    asked = ask(serving, episode_id).json()
    assert turn is not None
    assert (asked["question"], asked["result"]["turn"], asked["result"]["votes"]) == (None, turn, 1)
    refused(vote(serving, episode_id, turn, TOKENS[5]), 409, "episode-over")
    refused(ask(serving, parent), 409, "episode-over")


def test_robots_are_slowed_down(serving: Serving, match: tuple[str, ClientConnection]) -> None:
    answers = [vote(serving, match[0], 1, f"robot-{number:012}") for number in range(21)]
    assert "SPECTATOR_VOTES_PER_MINUTE" in refused(answers[-1], 429, "too-many-requests")
    assert int(answers[-1].headers["Retry-After"]) > 0


def test_nothing_is_asked_at_full_speed(serving: Serving) -> None:
    episode_id = serving.start(**{**MATCH, "pace": "max", "options": {"max_overs": 5}})
    with connect(f"{serving.ws_url}/live/{episode_id}", max_queue=None) as viewer:
        ask(serving, episode_id)
        kinds = {json.loads(text)["frame"] for text in viewer}
    assert "crowd" not in kinds


def test_the_table_outlives_the_server_and_hides_names(serving: Serving, data_dir: Path) -> None:
    day = serving.client.get("/api/votes").json()["day"]
    settings = test_settings(data_dir / "other", environment="cricket", operator_token=SECRET)
    (data_dir / "other").mkdir()
    (data_dir / "other" / "votes.db").write_bytes((data_dir / "votes.db").read_bytes())
    with serve(settings) as other:
        table = other.client.get("/api/votes", params={"day": day})
        assert table.json()["viewers"] == []  # too few calls
        voter = voter_id(TOKENS[0])
        known = _of(serving, day, voter)
        assert known is not None, "the votes of this file's first test"
        assert _of(other, day, voter) == known
        page = other.client.get(f"/calls/{day}/{voter}")
        assert "<h1" in page.text
        assert "<bdi>Ada</bdi>" in page.text
        strange = other.client.get(f"/calls/{day}/{voter_id(TOKENS[1])}").text
        assert unescape(strange).count(STRANGE) >= 1 and "<b onclick" not in strange
        assert other.client.get(f"/calls/{day}/{voter}.png").headers["content-type"] == "image/png"
        hide = other.client.post(
            "/operator/hide", json={"name": "Ada"}, headers={"Authorization": f"Bearer {SECRET}"}
        )
        assert hide.status_code == 200, hide.text
        assert "Ada" not in other.client.get(f"/calls/{day}/{voter}").text
        assert (_of(other, day, voter) or {})["name"] == "(name hidden)"
        assert "No viewer has made 6 calls" in other.client.get("/calls", params={"day": day}).text


@pytest.mark.parametrize(
    "path", ["/calls?day=yesterday", "/calls/yesterday/0123456789abcdef", "/calls/2026-01-01/<b>"]
)
def test_a_link_without_calls_leads_to_a_page(serving: Serving, path: str) -> None:
    answer = serving.client.get(path, headers={"Accept": "text/html"})
    assert (answer.status_code, answer.headers["content-type"][:9]) == (404, "text/html")
    assert "Back to the lobby" in answer.text
    assert serving.client.get(path).headers["content-type"] == "application/problem+json"


def test_the_longest_name_fits_on_the_card() -> None:
    day = VoterPlace(
        voter="ab", name="", calls=8, best=5, regret=0.5, brier=0.4, streak=0, longest=1, place=None
    )
    found = re.search(
        r'x="64.0"[^>]*font-size="([\d.]+)"[^>]*>W{24}<', calls_card("W" * 24, day, date.today())
    )
    assert found
    assert 64 + 24 * 1.1 * float(found[1]) <= WIDTH - 60
