"""Private episodes whose clients want them to be seen: live, kept, replayed, and nobody's to stop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from tests.commands import spectator
from tests.openenv.conftest import Client, RunPeer, open_client
from tests.server.watching import watch
from tests.serving import Serving, serve, test_settings

TOKEN = "a-token-that-is-long-enough"


def published(answer: Any) -> Any:
    return answer["observation"]["metadata"]["published"]


def play(client: Client, turns: int) -> Any:
    answer = None
    for number in range(1, turns + 1):
        sent = {"text": f"ACTION: {number}", "metadata": {"reasoning": f"because of {number}"}}
        answer = client.ask("step", sent)
    return answer


def status(serving: Serving) -> Any:
    return serving.client.get("/custom/status").json()


def test_everybody_sees_a_published_episode_and_it_is_kept(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving:
        client = open_client(serving)
        with client.socket:
            place = published(
                client.ask("reset", {"seed": 3, "turns": 5, "publish": True, "publish_as": "GRPO step 12"})
            )
            episode_id = place["episode_id"]
            assert serving.client.get(place["watch_url"]).status_code == 200
            with watch(f"{serving.ws_url}/live") as anybody:
                assert anybody.until("hello")["episode_id"] == episode_id
            with watch(f"{serving.ws_url}/live/{episode_id}") as viewer:
                viewer.until("snapshot")
                assert viewer.state["episode"]["seats"]["counter"]["label"] == "GRPO step 12"
                shown = status(serving)
                assert [one["episode_id"] for one in shown["shown"]] == [episode_id]
                assert shown["running"] == [], "it holds no slot"
                for act in ("stop_episode", "pause", "resume", "pace"):
                    refused = serving.client.post(
                        f"/custom/{act}",
                        json={"episode_id": episode_id, "pace": "max"}
                        if act == "pace"
                        else {"episode_id": episode_id},
                    )
                    assert refused.status_code == 409
                    assert "played elsewhere" in refused.text
                assert play(client, 5)["done"]
                code, _ = viewer.to_the_end()
                assert code == 1000
                decision = next(frame for frame in viewer.frames if frame.get("type") == "decision.made")
                assert decision["data"]["source"] == "remote"
                assert decision["data"]["reasoning"] == "because of 1"
            entry = serving.finish(episode_id)
            assert (entry["reason"], entry["score"], entry["turns"], entry["captain"]) == (
                "finished",
                1.0,
                5,
                "remote",
            )
            assert entry["captain_label"] == "GRPO step 12"
            assert status(serving)["shown"] == []
            assert serving.client.get(f"/replay/{episode_id}").status_code == 200
    verified = spectator("verify", episode_id, "--data-dir", tmp_path)
    assert verified.exit_code == 0, verified.stderr
    assert "every event matches the replay of its seed and decisions" in verified.stdout


def test_a_private_episode_stays_private_and_its_answers_are_the_same(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving:
        answers = []
        for wish in ({}, {"publish": True}):
            client = open_client(serving)
            with client.socket:
                first = client.ask("reset", {"seed": 3, "turns": 3, "episode_id": "mine", **wish})
                first.pop("metadata", None)
                first["observation"]["metadata"].pop("published", None)
                answers.append([first, play(client, 3), client.ask("state")])
        assert answers[0] == answers[1]
        assert len(serving.client.get("/api/episodes").json()["episodes"]) == 1


@pytest.mark.parametrize("how", ["close", "reset", "vanish"])
def test_who_goes_away_ends_the_published_episode_with_the_reason(tmp_path: Path, how: str) -> None:
    with serve(test_settings(tmp_path)) as serving:
        client = open_client(serving)
        with client.socket:
            episode_id = published(client.ask("reset", {"turns": 50, "publish": True}))["episode_id"]
            play(client, 2)
            if how == "reset":
                client.ask("reset", {"turns": 50})
            elif how == "vanish":
                client.socket.socket.close()
            else:
                client.socket.send(json.dumps({"type": "close"}))
            entry = serving.finish(episode_id)
        assert (entry["reason"], entry["turns"]) == ("interrupted", 2)
        assert ("began another" if how == "reset" else "disconnected") in entry["detail"]


def test_a_server_that_goes_away_ends_it_too(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving:
        client = open_client(serving)
        episode_id = published(client.ask("reset", {"turns": 50, "publish": True}))["episode_id"]
    with serve(test_settings(tmp_path)) as serving:
        assert serving.client.get(f"/api/episodes/{episode_id}").json()["reason"] == "interrupted"


def test_their_number_is_bounded_and_the_next_one_stays_private(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, openenv_max_published=1)) as serving:
        first, second = open_client(serving), open_client(serving)
        with first.socket, second.socket:
            assert "episode_id" in published(first.ask("reset", {"publish": True}))
            assert "published already" in published(second.ask("reset", {"publish": True}))["refused"]
            assert not play(second, 1)["done"], "it is played all the same"
            assert len(status(serving)["shown"]) == 1


def test_only_who_may_is_shown(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, operator_token=TOKEN)) as serving:
        stranger = open_client(serving)
        with stranger.socket:
            refused = stranger.fail({"type": "reset", "data": {"publish": True}})
            assert [wrong["field"] for wrong in refused["errors"]] == ["publish"]
            assert "token" in refused["errors"][0]["rule"]
            stranger.ask("reset", {})
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with connect(f"{serving.ws_url}/ws", additional_headers=headers) as socket:
            assert "episode_id" in published(Client(socket).ask("reset", {"publish": True}))
        answer = serving.client.post("/reset", json={"publish": True})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == "publish"


def test_the_opponent_and_refused_actions_are_told_as_in_a_live_match(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, environment="cricket")) as serving:
        client = open_client(serving)
        with client.socket:
            place = published(client.ask("reset", {"seed": 5, "max_overs": 5, "publish": True}))
            client.ask("step", {"tool": "no_such_tool", "arguments": {}})
            done = False
            for _ in range(600):
                answer = client.ask("state")
                answer = client.ask("step", {"tool": "play_delivery", "arguments": {}})
                if answer["observation"]["refused"]:
                    tool = answer["observation"]["legal_actions"][0]["tool"]
                    answer = client.ask("step", {"tool": tool, "arguments": {}})
                done = answer["done"]
                if done:
                    break
            assert done
        entry = serving.finish(place["episode_id"])
        assert entry["reason"] == "finished"
    verified = spectator("verify", place["episode_id"], "--data-dir", tmp_path)
    assert verified.exit_code == 0, verified.stderr


@pytest.mark.openenv
def test_whoever_uses_the_official_package_is_seen(tmp_path: Path, run_peer: RunPeer) -> None:
    with serve(test_settings(tmp_path)) as serving:
        told = run_peer("peer_publish.py", serving.base_url)
        entry = serving.finish(told["client"]["episode_id"])
        assert (entry["reason"], entry["turns"]) == ("finished", 4)
        assert told["client"]["done"]
        guess = serving.client.get("/api/episodes?environment=guess").json()["episodes"][0]
        guess = serving.finish(guess["episode_id"])
        assert (guess["title"], guess["captain_label"], guess["reason"]) == (
            "Guess the number",
            "Bisection",
            "finished",
        )
        assert (guess["turns"], guess["score"]) == (told["steps"], 1.0)
        lines = serving.client.get(f"/api/episodes/{guess['episode_id']}/events").text.splitlines()
        decisions = [one["data"] for one in map(json.loads, lines) if one["type"] == "decision.made"]
        assert decisions[0]["reasoning"] == "halfway from 1 to 100"
        assert serving.client.get(f"/replay/{guess['episode_id']}").status_code == 200


def test_one_address_publishes_only_so_often(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, publishes_per_minute=2)) as serving:
        client = open_client(serving)
        with client.socket:
            places = [published(client.ask("reset", {"turns": 5, "publish": True})) for _ in range(4)]
            assert ["episode_id" in place for place in places] == [True, True, False, False]
            assert "published episodes from this address" in places[2]["refused"]
            assert "again in" in places[2]["refused"] and "stays private" in places[2]["refused"]
            assert not play(client, 1)["done"]
