"""A start names an endpoint of its own: where that is allowed, which addresses, and where the key stays."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.settings import Settings
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint
from tests.llm.fake_server import FakeModelServer, Mode
from tests.serving import Serving, serve, test_settings

CANARY = "sk-own-canary-4711"


@pytest.fixture(scope="module")
def own() -> Iterator[FakeModelServer]:
    with endpoint(counter) as fake:
        yield fake


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serve(test_settings(tmp_path_factory.mktemp("data"), max_episodes=2)) as one:
        yield one


def start(app: Serving, base_url: str, **more: Any) -> Any:
    sent = {"base_url": base_url, "model": "qwen3:4b", "api_key": CANARY, **more.pop("endpoint", {})}
    return app.client.post("/custom/start_episode", json={"pace": "max", "captain_endpoint": sent, **more})


def decisions(app: Serving, episode_id: str) -> list[dict[str, Any]]:
    return [event["data"] for event in app.events(episode_id) if event["type"] == "decision.made"]


def test_a_model_on_ones_own_machine_plays(app: Serving, own: FakeModelServer) -> None:
    answer = start(app, own.base_url)
    assert answer.status_code == 202, answer.text
    episode_id = answer.json()["episode_id"]
    assert app.finish(episode_id)["reason"] == "finished"
    assert {one["source"] for one in decisions(app, episode_id)} == {"model"}
    assert own.received[-1].headers["authorization"] == f"Bearer {CANARY}"
    seat = app.events(episode_id)[0]["data"]["seats"]["counter"]
    assert (seat["policy"], seat["label"], seat["source"]) == ("own:qwen3:4b", "qwen3:4b", "model")


def test_neither_key_nor_address_is_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with (
        endpoint(counter, [Mode.OK, Mode.OK, Mode.UNAUTHORIZED, Mode.ECHO]) as fake,
        serve(test_settings(tmp_path)) as app,
    ):
        episode_id = start(app, fake.base_url).json()["episode_id"]
        app.finish(episode_id)
        said = app.client.get(f"/api/episodes/{episode_id}/events").text
        said += app.client.get("/custom/status").text + app.client.get("/custom/catalog").text
        address = fake.base_url.removeprefix("http://")
    held = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert "qwen3:4b" in said
    for secret in (CANARY, address):
        assert secret not in said
        assert secret.encode() not in held
    assert CANARY not in caplog.text


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"base_url": "ftp://x.example"}, "captain_endpoint.base_url"),
        ({"base_url": "https://user:secret@x.example/v1"}, "captain_endpoint.base_url"),
        ({"base_url": "https://x.example/v1/chat/completions"}, "captain_endpoint.base_url"),
        ({"model": ""}, "captain_endpoint.model"),
        ({"model": "a b"}, "captain_endpoint.model"),
        ({"api_key": "a b"}, "captain_endpoint.api_key"),
        ({"api_key": 7}, "captain_endpoint.api_key"),
        ({"style": "prose"}, "captain_endpoint.style"),
        ({"key": CANARY}, "captain_endpoint.key"),
    ],
)
def test_a_wrong_endpoint_is_refused_by_field(app: Serving, sent: dict[str, Any], field: str) -> None:
    answer = start(app, "https://x.example/v1", endpoint=sent)
    assert answer.status_code == 422
    assert [wrong["field"] for wrong in answer.json()["errors"]] == [field]
    assert CANARY not in answer.text and "secret" not in answer.text


def test_an_endpoint_stands_in_place_of_a_preset(app: Serving) -> None:
    answer = start(app, "https://x.example/v1", captain_preset="heuristic")
    rule = "conflicts with captain_preset, which names the same seat; send one of them"
    assert answer.json()["errors"][0]["rule"] == rule
    answer = app.client.post("/custom/start_episode", json={"captain_preset": "own:qwen3:4b"})
    assert "needs its endpoint again" in answer.json()["errors"][0]["rule"]


@pytest.mark.parametrize(
    ("changes", "offered"),
    [
        ({}, True),
        ({"host": "0.0.0.0"}, False),
        ({"profile": "public"}, False),
        ({"own_endpoints": "off"}, False),
        ({"host": "0.0.0.0", "own_endpoints": "on"}, True),
    ],
)
def test_where_endpoints_are_offered(changes: dict[str, Any], offered: bool) -> None:
    assert Settings(**changes).offers_own_endpoints is offered


def test_a_server_that_takes_none_says_so(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, own_endpoints="off")) as app:
        assert app.client.get("/custom/visitor").json()["own_endpoints"] is False
        answer = start(app, "https://x.example/v1")
    assert "does not accept visitors' endpoints" in answer.json()["errors"][0]["rule"]


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    settings = test_settings(tmp_path_factory.mktemp("data"), profile="public", own_endpoints="on")
    with serve(settings) as one:
        yield one


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "10.1.2.3", "192.168.0.7", "169.254.169.254", "[::1]", "[fe80::1]",
        "0.0.0.0", "ollama", "api.localhost", "[::ffff:127.0.0.1]", "100.64.0.1",
    ],
)  # fmt: skip
def test_a_public_server_asks_no_private_address(public: Serving, host: str) -> None:
    answer = start(public, f"http://{host}:8080/v1")
    assert answer.status_code == 422
    assert (
        answer.json()["errors"][0]["rule"]
        == "must be a public address: this server does not call private ones"
    )
