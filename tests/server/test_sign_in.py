"""Visitors sign in with Hugging Face and play with a model on their own quota; the token stays where it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest

from server.settings import Settings
from tests.llm.brains import counter
from tests.serving import PATIENCE_S, Serving, free_port, serve, test_settings
from tests.stand_in_hub import MODEL, StandInHub, running

TOKEN = "a-token-of-the-operator"
CONSENT = {"consent": "yes"}


def hub_settings(hub: StandInHub, data_dir: Path, port: int, **changes: Any) -> Settings:
    """Settings of a server that the operator's token guards, with a sign-in."""
    usual = {"operator_token": TOKEN, "max_episodes": 4, "port": port}
    settings = test_settings(data_dir, **{**usual, "public_url": f"http://127.0.0.1:{port}", **changes})
    return hub.offered_by(settings)


@pytest.fixture(scope="module")
def hub() -> Iterator[StandInHub]:
    with running(StandInHub(counter)) as one:
        yield one


@pytest.fixture
def fresh(hub: StandInHub) -> Iterator[StandInHub]:
    """The same, as it was before."""
    before = dict(vars(hub), down=set(), statuses={}, tokens=set(), issued=[], asked=[], asked_with=[])
    vars(hub).update(before, down=set(), statuses={})
    yield hub
    vars(hub).update({**before, "down": set(), "statuses": {}})


@pytest.fixture(scope="module")
def app(hub: StandInHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serve(hub_settings(hub, tmp_path_factory.mktemp("data"), free_port())) as one:
        yield one


@contextmanager
def browser(serving: Serving) -> Iterator[httpx.Client]:
    """A browser, as far as cookies and redirects go."""
    with httpx.Client(base_url=serving.base_url, timeout=PATIENCE_S, headers={"Accept": "text/html"}) as one:
        yield one


def to_hub(client: httpx.Client, after: str = "/") -> httpx.URL:
    """Begin to sign in; where that leads."""
    answer = client.get("/sign-in", params={"next": after})
    assert answer.status_code == 302, answer.text
    return httpx.URL(answer.headers["location"])


def back_from_hub(client: httpx.Client, there: httpx.URL) -> httpx.Response:
    """Say yes there, and come back."""
    answer = httpx.get(there.copy_merge_params(CONSENT), timeout=PATIENCE_S)
    assert answer.status_code == 302, answer.text
    return client.get(answer.headers["location"])


def sign_in(client: httpx.Client, after: str = "/") -> httpx.Response:
    return back_from_hub(client, to_hub(client, after))


def start(client: httpx.Client, **body: Any) -> httpx.Response:
    return client.post("/custom/start_episode", json={"pace": "max", **body})


def decisions(serving: Serving, episode_id: str) -> list[dict[str, Any]]:
    return [event["data"] for event in serving.events(episode_id) if event["type"] == "decision.made"]


def play(serving: Serving, client: httpx.Client, model: str = MODEL, **body: Any) -> list[dict[str, Any]]:
    answer = start(client, captain_preset=f"hf:{model}", **body)
    assert answer.status_code == 202, answer.text
    episode_id = answer.json()["episode_id"]
    assert serving.finish(episode_id)["reason"] == "finished"
    return decisions(serving, episode_id)


def test_a_visitor_signs_in_and_plays_with_a_model_of_the_router(app: Serving, fresh: StandInHub) -> None:
    with browser(app) as client:
        there = to_hub(client, "/wall?tiles=4")
        query = parse_qs(there.query.decode())
        assert query["redirect_uri"] == [f"{app.base_url}/sign-in/callback"]
        assert {"state", "nonce", "code_challenge"} <= query.keys()
        back = back_from_hub(client, there)
        assert (back.status_code, back.headers["location"]) == (303, f"{app.base_url}/wall?tiles=4")
        assert "HttpOnly; SameSite=Lax" in back.headers["set-cookie"]
        visitor = client.get("/custom/visitor").json()
        assert visitor["user"] == "ada"
        assert 0 < visitor["left_s"] <= 3600
        assert [one["id"] for one in client.get("/custom/models").json()["models"]] == [
            "maker/Plain-7B",
            MODEL,
        ]
        made = play(app, client)
        assert {one["source"] for one in made} == {"model"}
        assert {one["model"] for one in made} == {MODEL}
        assert set(fresh.asked_with) == {f"Bearer {fresh.issued[0]}"}
