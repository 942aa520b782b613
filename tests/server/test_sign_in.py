"""Visitors sign in with Hugging Face and play with a model on their own quota; the token stays put."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import psycopg
import pytest
from pydantic import SecretStr

from server.background.router_models import models_in
from server.settings import Settings
from tests.llm.brains import counter
from tests.postgres import Cluster
from tests.server.test_two_servers import missing_others_soon
from tests.server.watching import watch
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


@pytest.mark.parametrize(
    "after", ["//evil.example", "/\\evil.example", "https://evil.example/", "javascript:alert(1)", "", "/a b"]
)
def test_a_sign_in_leads_to_no_other_site(app: Serving, fresh: StandInHub, after: str) -> None:
    with browser(app) as client:
        assert sign_in(client, after).headers["location"] == f"{app.base_url}/"


def test_a_visitor_who_denies_consent_is_told_so(app: Serving, fresh: StandInHub) -> None:
    fresh.denies = True
    with browser(app) as client:
        back = sign_in(client)
        assert back.status_code == 403
        assert "You did not allow the sign-in" in back.text
        assert "denied <b>" not in back.text
        visitor = client.get("/custom/visitor").json()
        assert (visitor["user"], visitor["expired"]) == (None, False)


def test_another_visitors_sign_in_is_not_taken_over(app: Serving, fresh: StandInHub) -> None:
    with browser(app) as mine, browser(app) as other, browser(app) as without_cookies:
        there = to_hub(mine)
        to_hub(other)
        for client in (other, without_cookies):
            back = back_from_hub(client, there)
            assert back.status_code == 400
            assert "not begun in this browser" in back.text
            assert client.get("/custom/visitor").json()["user"] is None
        assert back_from_hub(mine, there).status_code == 303


def test_a_code_is_taken_once(app: Serving, fresh: StandInHub) -> None:
    with browser(app) as client:
        answer = httpx.get(to_hub(client).copy_merge_params(CONSENT))
        assert client.get(answer.headers["location"]).status_code == 303
        assert client.get(answer.headers["location"]).status_code == 400


@pytest.mark.parametrize("down", ["metadata", "token"])
def test_a_provider_that_is_down_is_said_on_the_page(fresh: StandInHub, tmp_path: Path, down: str) -> None:
    fresh.down.add(down)
    with serve(hub_settings(fresh, tmp_path, free_port())) as app, browser(app) as client:
        answer = client.get("/sign-in")
        if down == "token":
            answer = back_from_hub(client, httpx.URL(answer.headers["location"]))
        assert answer.status_code == 502
        assert "Hugging Face did not answer as expected" in answer.text
        fresh.down.clear()
        assert sign_in(client).status_code == 303


def test_an_identity_of_another_sign_in_is_refused(app: Serving, fresh: StandInHub) -> None:
    fresh.nonce_in_token = "another"
    with browser(app) as client:
        assert sign_in(client).status_code == 502
        assert client.get("/custom/visitor").json()["user"] is None


def test_a_sign_in_without_inference_is_of_no_use(app: Serving, fresh: StandInHub) -> None:
    fresh.scope = "openid profile"
    with browser(app) as client:
        back = sign_in(client)
        assert back.status_code == 403
        assert "allow the use of inference" in back.text


@pytest.mark.parametrize(
    ("model", "rule"),
    [
        ("", "must be hf:OWNER/MODEL"),
        ("no-owner", "must be hf:OWNER/MODEL"),
        ("a/b c", "must be hf:OWNER/MODEL"),
        ("../../etc", "must be hf:OWNER/MODEL"),
        ("a/" + "b" * 190, "must be hf:OWNER/MODEL"),
        ("a/" + "b" * 250, "at most 200"),
    ],
)
def test_a_model_needs_its_owner(app: Serving, fresh: StandInHub, model: str, rule: str) -> None:
    with browser(app) as client:
        sign_in(client)
        answer = start(client, captain_preset=f"hf:{model}")
    assert answer.status_code == 422
    (wrong,) = answer.json()["errors"]
    assert wrong["field"] == "captain_preset"
    assert rule in wrong["rule"]


def test_only_who_is_signed_in_brings_a_model(app: Serving, fresh: StandInHub) -> None:
    with browser(app) as client:
        answer = start(client, captain_preset=f"hf:{MODEL}")
        assert answer.status_code == 422
        assert "needs a sign-in with Hugging Face" in answer.json()["errors"][0]["rule"]
        sign_in(client)
        assert client.post("/custom/sign_out", json={}).json() == {"signed_out": True}
        assert client.get("/custom/visitor").json()["user"] is None
        assert start(client, captain_preset=f"hf:{MODEL}").status_code == 422
        assert start(client, captain_preset="llm:hf").status_code in (401, 422)


def test_a_server_without_a_sign_in_says_so(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as app, browser(app) as client:
        assert client.get("/custom/visitor").json()["sign_in_url"] is None
        page = client.get("/sign-in")
        assert page.status_code == 404
        assert "offers no sign-in" in page.text
        assert client.get("/custom/models").json()["type"] == "/problems/no-sign-in"
        rule = start(client, captain_preset=f"hf:{MODEL}").json()["errors"][0]["rule"]
        assert "offers no sign-in" in rule


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (402, "the Hugging Face quota for inference behind this seat is used up"),
        (403, "the Hugging Face account behind this seat may not use this model"),
        (404, "Hugging Face has no chat model of this name"),
    ],
)
def test_the_match_goes_on_where_the_router_refuses(
    app: Serving, fresh: StandInHub, status: int, reason: str
) -> None:
    fresh.statuses["maker/Refused"] = status
    with browser(app) as client:
        sign_in(client)
        made = play(app, client, "maker/Refused", options={"turns": 3})
    assert {one["source"] for one in made} == {"fallback"}
    assert {one["fallback_reason"].partition(": ")[2] for one in made} == {reason}
    assert made[0]["failure_class"] == "model_rejected"


def test_a_router_that_asks_to_wait_is_named(app: Serving, fresh: StandInHub) -> None:
    fresh.statuses["maker/Busy"] = 429
    with browser(app) as client:
        sign_in(client)
        started = start(client, captain_preset="hf:maker/Busy", options={"turns": 2}).json()
        assert client.post("/custom/sign_out", json={}).status_code == 200  # or it would wait for long
        app.finish(started["episode_id"])
    assert {one["source"] for one in decisions(app, started["episode_id"])} == {"fallback"}


def test_a_token_that_is_no_longer_accepted_ends_the_sign_in(app: Serving, fresh: StandInHub) -> None:
    with browser(app) as client:
        sign_in(client)
        fresh.tokens.clear()
        made = play(app, client, options={"turns": 4})
        assert "no longer accepts the sign-in" in made[0]["fallback_reason"]
        assert {one["failure_class"] for one in made} == {"model_rejected"}
        assert len(fresh.asked) == 1  # and is not asked with it again
        visitor = client.get("/custom/visitor").json()
        assert (visitor["user"], visitor["expired"]) == (None, True)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"data": 7}', b"<html>"])
def test_what_is_not_a_list_of_models_is_not_taken_for_one(body: bytes) -> None:
    with pytest.raises(ValueError):
        models_in(body)


def test_without_a_list_a_model_is_named_all_the_same(fresh: StandInHub, tmp_path: Path) -> None:
    fresh.models = b'{"data": 7}'
    with serve(hub_settings(fresh, tmp_path, free_port())) as app, browser(app) as client:
        sign_in(client)
        assert client.get("/custom/models").json() == {"models": []}
        assert {one["source"] for one in play(app, client)} == {"model"}


def test_another_visitor_cannot_fork_with_that_token(app: Serving, fresh: StandInHub) -> None:
    with browser(app) as mine, browser(app) as other:
        sign_in(mine)
        answer = start(mine, captain_preset=f"hf:{MODEL}", options={"turns": 6})
        parent = answer.json()["episode_id"]
        app.finish(parent)
        seq = next(e["seq"] for e in app.events(parent) if e["type"] == "step.taken" and e["turn"] == 3)
        asked = len(fresh.asked)
        fork = {"episode_id": parent, "seq": seq, "pace": "max"}
        refused = other.post("/custom/fork", json=fork)
        assert refused.status_code == 422
        assert "needs a sign-in" in refused.json()["errors"][0]["rule"]
        assert other.post("/custom/fork", json={**fork, "captain_preset": "heuristic"}).status_code == 202
        assert len(fresh.asked) == asked
        own = mine.post("/custom/fork", json=fork)
        assert own.status_code == 202, own.text
        app.finish(own.json()["episode_id"])
        assert len(fresh.asked) > asked
        assert set(fresh.asked_with) == {f"Bearer {fresh.issued[0]}"}


def test_starts_with_a_model_of_ones_own_count(fresh: StandInHub, tmp_path: Path) -> None:
    with (
        serve(hub_settings(fresh, tmp_path, free_port(), starts_per_minute=1)) as app,
        browser(app) as client,
    ):
        sign_in(client)
        assert start(client, captain_preset=f"hf:{MODEL}").status_code == 202
        assert start(client, captain_preset=f"hf:{MODEL}").status_code == 429


def test_the_operators_caps_are_not_used_up_by_visitors(fresh: StandInHub, tmp_path: Path) -> None:
    settings = hub_settings(fresh, tmp_path, free_port(), model_day_tokens=1, model_episode_tokens=1)
    with serve(settings) as app, browser(app) as client:
        sign_in(client)
        assert {one["source"] for one in play(app, client)} == {"model"}
        assert app.client.get("/custom/status").json()["models_today"]["tokens"] == 0
    with serve(settings) as app:
        assert app.client.get("/custom/status").json()["models_today"]["tokens"] == 0


def test_behind_a_proxy_with_https_the_cookie_is_secure_and_partitioned(
    fresh: StandInHub, tmp_path: Path
) -> None:
    settings = hub_settings(fresh, tmp_path, free_port(), public_url=None, allowed_hosts="*").with_variables(
        {**fresh.variables(), "SPACE_HOST": "me-app.hf.space"}
    )
    with serve(settings) as app, browser(app) as client:
        answer = client.get("/sign-in", headers={"Host": "evil.example"})
        query = parse_qs(urlsplit(answer.headers["location"]).query)
        assert query["redirect_uri"] == ["https://me-app.hf.space/sign-in/callback"]
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-spectator-visitor=")
        assert cookie.endswith("Path=/; HttpOnly; Secure; SameSite=None; Partitioned")
        url = client.get("/custom/visitor").json()["sign_in_url"]
        assert url == "https://me-app.hf.space/sign-in"


def test_the_token_is_nowhere_but_in_its_requests(
    hub: StandInHub, fresh: StandInHub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    said = []
    with serve(hub_settings(fresh, tmp_path, free_port(), log_level="debug")) as app:
        with browser(app) as client, browser(app) as other:
            sign_in(client)
            token = fresh.issued[0]
            fresh.brain = lambda body: counter(body)
            good = start(client, captain_preset=f"hf:{MODEL}").json()["episode_id"]
            app.finish(good)
            fresh.statuses[MODEL] = 403  # whose answer repeats the token
            bad = start(client, captain_preset=f"hf:{MODEL}").json()["episode_id"]
            app.finish(bad)
            for one in (client, other, app.client):
                said += [
                    one.get(path).text
                    for path in ("/", "/custom/visitor", "/custom/catalog", "/custom/status")
                ]
                for episode_id in (good, bad):
                    for path in (
                        "watch/{}",
                        "api/episodes/{}",
                        "api/episodes/{}/events",
                        "api/episodes/{}/training",
                    ):
                        said.append(one.get(f"/{path.format(episode_id)}").text)
                said.append(one.get("/api/episodes").text + one.get("/metrics").text)
            session = client.cookies["spectator-visitor"]
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert token in fresh.asked_with[0]
    assert files
    assert not [text for text in said if token in text]
    assert token not in caplog.text
    assert not [held for held in files if token.encode() in held or session.encode() in held]


def test_signing_out_in_the_middle_of_a_match_is_heeded_at_once(app: Serving, fresh: StandInHub) -> None:
    with browser(app) as client:
        sign_in(client)
        begun = start(client, captain_preset=f"hf:{MODEL}", options={"turns": 40}).json()["episode_id"]
        with watch(f"{app.ws_url}/live/{begun}") as viewer:
            while viewer.seq < 8:
                viewer.next()
            fresh.pause_s = 60.0  # what is asked now would be waited for long
            assert client.post("/custom/sign_out", json={}).status_code == 200
            app.finish(begun)
        asked = len(fresh.asked)
    made = decisions(app, begun)
    sources = [one["source"] for one in made]
    assert sources[0] == "model"
    assert sources[-1] == "fallback"
    assert "sign-in behind this seat is over; sign in again" in made[-1]["fallback_reason"]
    assert made[-1]["failure_class"] == "model_rejected"
    assert asked <= sources.count("model") + 1


@pytest.mark.parametrize("rule", ["fallback", "suspend"])
def test_after_a_restart_the_seat_falls_back_and_says_why(
    fresh: StandInHub, tmp_path: Path, rule: str
) -> None:
    settings = hub_settings(fresh, tmp_path, free_port())
    with serve(settings) as app, browser(app) as client:
        sign_in(client)
        body = {"options": {"turns": 60}, "on_failure": rule, "pace": "fast"}
        begun = start(client, captain_preset=f"hf:{MODEL}", **body).json()["episode_id"]
        with watch(f"{app.ws_url}/live/{begun}") as viewer:
            while viewer.seq < 10:
                viewer.next()
    asked = len(fresh.asked)
    with serve(settings) as app, browser(app) as client:
        client.cookies.set("spectator-visitor", "of-the-server-before")
        assert client.get("/custom/visitor").json()["expired"]
        refused = start(client, captain_preset=f"hf:{MODEL}").json()["errors"][0]["rule"]
        assert "has expired, or is on another server; sign in again" in refused
        if rule == "suspend":
            with watch(f"{app.ws_url}/live/{begun}") as viewer:
                while viewer.next()["frame"] != "bye":
                    pass
            last = app.events(begun)[-1]
            assert (last["type"], last["data"]["failure_class"]) == ("episode.suspended", "model_rejected")
        else:
            app.client.post(
                "/custom/pace", json={"episode_id": begun, "pace": "max"},
                headers={"Authorization": f"Bearer {TOKEN}"},
            )  # fmt: skip
            assert app.finish(begun)["reason"] == "finished"
            made = decisions(app, begun)
            assert [made[0]["source"], made[-1]["source"]] == ["model", "fallback"]
            assert "sign in again to start another match" in made[-1]["fallback_reason"]
    assert len(fresh.asked) == asked


def test_in_a_cluster_the_token_stays_with_the_server_that_has_it(
    fresh: StandInHub, tmp_path: Path, postgres: Cluster
) -> None:
    url = postgres.url(postgres.make())
    at = {"journal_url": SecretStr(url), "max_episodes": 1}
    with (
        missing_others_soon(),
        serve(hub_settings(fresh, tmp_path / "a", free_port(), **at)) as here,
        serve(hub_settings(fresh, tmp_path / "b", free_port(), **at)) as there,
        browser(here) as client,
    ):
        sign_in(client)
        with httpx.Client(base_url=there.base_url, cookies=client.cookies) as elsewhere:
            refused = start(elsewhere, captain_preset=f"hf:{MODEL}")
            assert "is on another server; sign in again" in refused.json()["errors"][0]["rule"]
        assert start(client, pace="fast", options={"turns": 1000}).status_code == 202
        full = start(client, captain_preset=f"hf:{MODEL}")
        assert (full.status_code, full.json()["type"]) == (409, "/problems/episode-busy")
        assert start(client, options={"turns": 3}).status_code == 202  # played there
        token = fresh.issued[0]
        with psycopg.connect(url) as connection:
            tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            names = [name for (name,) in tables.fetchall()]
            assert names
            for name in names:
                rows = connection.execute(f'SELECT t::text FROM "{name}" t').fetchall()
                assert not [row for row in rows if token in row[0]]
