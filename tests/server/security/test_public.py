"""A server that strangers reach: its defaults, what it offers, and what it says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from server.security.permissions import Offer
from server.settings import PUBLIC, Settings, welcome
from spectator.errors import ConfigurationError, InvalidRequest
from tests.openenv.conftest import Client, open_client
from tests.serving import serve, test_settings

TOKEN = "a-token-of-the-operator"


@pytest.mark.parametrize("variable", ["SPACE_ID", "SPACE_HOST", "SPECTATOR_PROFILE"])
def test_a_space_has_the_public_defaults(variable: str) -> None:
    settings = Settings.from_environ({variable: "public"})
    assert settings.profile == "public"
    assert {name: getattr(settings, name) for name in PUBLIC} == dict(PUBLIC)
    assert settings.openenv_max_published == 0, "there is no token"


def test_what_is_set_wins_over_the_public_defaults() -> None:
    settings = Settings.from_environ(
        {
            "SPACE_ID": "me/app",
            "SPECTATOR_MAX_EPISODES": "9",
            "SPECTATOR_OPERATOR_TOKEN": TOKEN,
            "SPECTATOR_TRUSTED_PROXIES": "10.0.0.0/8",
        }
    )
    assert (settings.max_episodes, settings.keep_mb, settings.trusted_hops) == (9, 2000, 0)
    assert settings.openenv_max_published == 16, "its clients have to send the token"
    assert Settings.from_environ({"SPACE_ID": "me/app", "SPECTATOR_PROFILE": "open"}) == Settings(
        profile="open"
    ).with_variables({"SPACE_ID": "me/app", "SPECTATOR_PROFILE": "open"})
    with pytest.raises(ConfigurationError, match="SPECTATOR_PROFILE"):
        Settings.from_environ({"SPECTATOR_PROFILE": "secret"})


@pytest.mark.parametrize(
    ("body", "field", "rule"),
    [
        ({"options": {"turns": 501}}, "options.turns", "is at most 500 here (SPECTATOR_OPTION_LIMITS)"),
        (
            {"options": {"payload_bytes": 65536}},
            "options.payload_bytes",
            "is at most 4096 here (SPECTATOR_OPTION_LIMITS)",
        ),
        ({"environment": "collider"}, "environment", "is one of counting, cricket here (SPECTATOR_WORLDS)"),
        ({"environment": "cricket", "max_overs": 21}, "options.max_overs", "is at most 20 here"),
    ],
)
def test_strangers_get_what_is_offered_and_the_operator_anything(
    tmp_path: Path, body: dict[str, Any], field: str, rule: str
) -> None:
    settings = test_settings(
        tmp_path, worlds=("cricket", "counting"), option_limits=PUBLIC["option_limits"], operator_token=TOKEN
    )
    with serve(settings) as serving:
        refused = serving.client.post("/custom/start_episode", json=body)
        assert refused.status_code == 422
        (wrong,) = refused.json()["errors"]
        assert wrong["field"] == field and wrong["rule"].startswith(rule)
        assert serving.client.get("/custom/status").json()["running"] == []
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert serving.client.post("/custom/start_episode", json=body, headers=headers).status_code == 202


def test_openenv_clients_get_what_is_offered_too(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, option_limits=("turns=5",))) as serving:
        client = open_client(serving)
        with client.socket:
            refused = client.fail({"type": "reset", "data": {"turns": 6}})
            assert [wrong["field"] for wrong in refused["errors"]] == ["turns"]
            assert not client.ask("reset", {"turns": 5})["done"]
        assert serving.client.post("/reset", json={"turns": 6}).status_code == 422


def test_one_address_has_only_so_many_sockets(tmp_path: Path) -> None:
    settings = test_settings(tmp_path, openenv_sessions_per_address=2, trusted_hops=1)

    def opened(address: str) -> Client:
        headers = {"X-Forwarded-For": address}
        return Client(connect(f"{serving.ws_url}/ws", additional_headers=headers, legacy=True))

    with serve(settings) as serving:
        clients = [opened(address) for address in ("203.0.113.1", "203.0.113.1", "203.0.113.2")]
        for client in clients:
            client.ask("reset", {})
        refused = opened("203.0.113.1").fail({"type": "reset", "data": {}})
        assert refused["code"] == "CAPACITY_REACHED" and "from this address" in refused["message"]
        for client in clients:
            client.socket.close()


def test_one_address_keeps_only_so_many_environments_by_whatever_way(tmp_path: Path) -> None:
    settings = test_settings(
        tmp_path, openenv_sessions_per_address=2, trusted_hops=1, operator_token=TOKEN
    )  # fmt: skip
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}

    def pooled(name: str, address: str, **headers: str) -> httpx.Response:
        headers = {"X-Forwarded-For": address, **headers}
        return serving.client.post(f"/pooled/counting/{name}/reset", json={}, headers=headers)

    with serve(settings) as serving:
        own = {"X-Forwarded-For": "203.0.113.1"}
        assert pooled("a", "203.0.113.1").status_code == 200
        assert "result" in serving.client.post("/mcp", json=hello, headers=own).json()
        refused = pooled("b", "203.0.113.1")
        assert refused.status_code == 429 and refused.headers["Retry-After"] == "1"
        assert (
            "2 of 2 environments from this address are open (SPECTATOR_OPENENV_SESSIONS_PER_ADDRESS)"
            in (refused.json()["detail"])
        )
        assert serving.client.post("/mcp", json=hello, headers=own).json()["error"]["data"] == {
            "active_sessions": 2,
            "max_sessions": 2,
        }
        socket = Client(connect(f"{serving.ws_url}/ws", additional_headers=own, legacy=True))
        assert socket.fail({"type": "reset", "data": {}})["code"] == "CAPACITY_REACHED"
        assert serving.client.post("/reset", json={}, headers=own).status_code == 200, "it keeps none"
        assert pooled("b", "203.0.113.2").status_code == 200
        for name in ("c", "d", "e"):
            assert pooled(name, "203.0.113.1", Authorization=f"Bearer {TOKEN}").status_code == 200
        assert serving.client.delete("/pooled/counting/a").json() == {"ok": True}
        for name in ("c", "d", "e"):
            serving.client.delete(f"/pooled/counting/{name}")
        assert pooled("b2", "203.0.113.1").status_code == 200


def test_an_offer_without_limits_refuses_nothing() -> None:
    Offer().check("anything", {"max_overs": 50, "name": "x"})
    with pytest.raises(InvalidRequest, match=r"a: is at most 1 here.*b: is at most 2 here"):
        Offer(largest={"a": 1, "b": 2, "c": 3}).check("w", {"a": 2, "b": 2.5, "c": True}, prefix="")


def test_a_wrong_limit_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="SPECTATOR_OPTION_LIMITS: 'max_overs' is not an option"):
        Settings.from_environ({"SPECTATOR_OPTION_LIMITS": "max_overs"})


def test_the_start_up_line_says_what_is_open_to_whom() -> None:
    said = welcome(Settings.from_environ({"SPACE_ID": "x", "SPECTATOR_HOST": "0.0.0.0"}), "0.0.0.0", 80)
    assert "open to everyone who reaches it: starts (3 at once, 200 an hour)" in said
    assert "stops and pauses by the client that started the episode; no models and no paid voices" in said
    said = welcome(Settings(operator_token=TOKEN), "::1", 80)
    assert "http://[::1]:80" in said and "stops and pauses by the operator; models" in said


@pytest.mark.parametrize("token", [None, TOKEN], ids=["no token", "a token"])
def test_strangers_neither_stop_nor_slow_what_somebody_else_started(
    tmp_path: Path, token: str | None
) -> None:
    settings = test_settings(
        tmp_path, profile="public", host="0.0.0.0", operator_token=token, trusted_hops=1, max_episodes=4
    )
    mine, stranger = {"X-Forwarded-For": "203.0.113.1"}, {"X-Forwarded-For": "203.0.113.2"}
    slow = {"environment": "counting", "pace": "broadcast", "options": {"turns": 500}}

    def post(verb: str, headers: dict[str, str], **body: Any) -> httpx.Response:
        return serving.client.post(f"/custom/{verb}", json=body, headers=headers)

    with serve(settings) as serving:
        episode_id = post("start_episode", mine, **slow).json()["episode_id"]
        for verb, more in (("pause", {}), ("resume", {}), ("pace", {"pace": "max"}), ("stop_episode", {})):
            for chosen in ({"episode_id": episode_id}, {}):
                refused = post(verb, stranger, **chosen, **more)
                assert (refused.status_code, refused.json()["type"]) == (403, "/problems/not-your-episode")
                assert "started from another address" in refused.json()["detail"]
        (running,) = serving.client.get("/custom/status").json()["running"]
        assert not running["paused"] and running["pace"] == "broadcast"
        assert post("pause", mine, episode_id=episode_id).json()["paused"]
        assert post("stop_episode", mine).json()["reason"] == "stopped"
        assert post("stop_episode", stranger, episode_id="ep-nobody").status_code == 403
        if token is not None:
            operator = {**stranger, "Authorization": f"Bearer {token}"}
            other = post("start_episode", mine, **slow).json()["episode_id"]
            assert post("stop_episode", operator, episode_id=other).json()["reason"] == "stopped"


def test_strangers_do_not_play_the_only_seat_of_somebody_else(tmp_path: Path) -> None:
    settings = test_settings(tmp_path, profile="public", host="0.0.0.0", trusted_hops=1)
    mine, stranger = {"X-Forwarded-For": "203.0.113.1"}, {"X-Forwarded-For": "203.0.113.2"}
    with serve(settings) as serving:
        post = serving.client.post
        started = post("/custom/start_episode", json={"captain_preset": "human"}, headers=mine).json()
        here = {"episode_id": started["episode_id"]}
        action = {"turn": 1, "action": {"tool": "count"}}
        assert serving.client.get("/custom/asked", params=here, headers=stranger).status_code == 403
        assert post("/custom/act", json={**here, **action}, headers=stranger).status_code == 403
        assert serving.client.get("/custom/asked", params=here, headers=mine).json()["yours"]
        (seat,) = started["seats"].values()
        elsewhere = {**stranger, "X-Seat-Key": seat["key"]}
        assert serving.client.get("/custom/asked", params=here, headers=elsewhere).json()["yours"]
