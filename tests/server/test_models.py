"""Model captains live in the server: offered, guarded, played, and never a leak."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.app import main
from server.settings import Settings
from server.wiring import read_cast
from spectator.clock import SystemClock
from spectator.errors import ConfigurationError
from tests.llm.brains import batsman, counter, obedient
from tests.llm.endpoints import endpoint, write_captains
from tests.llm.fake_server import Mode
from tests.server.watching import watch
from tests.serving import PATIENCE_S, Serving, serve, serve_process, test_settings, without_errors

CANARY = "sk-canary-4711-do-not-print"
TOKEN = "a-token-of-the-operator"
RIGHT = {"Authorization": f"Bearer {TOKEN}"}


def events_of(serving: Serving, episode_id: str) -> list[dict[str, Any]]:
    text = serving.client.get(f"/api/episodes/{episode_id}/events").text
    return [json.loads(line) for line in text.splitlines()]


def decisions(serving: Serving, episode_id: str) -> list[dict[str, Any]]:
    return [event["data"] for event in events_of(serving, episode_id) if event["type"] == "decision.made"]


def preset(serving: Serving, world: str, seat: str, name: str) -> dict[str, Any]:
    worlds = {one["name"]: one for one in serving.client.get("/custom/catalog").json()["environments"]}
    return next(one for one in worlds[world][seat] if one["name"] == name)


def model_settings(data_dir: Path, captains: Path, **changes: Any) -> Settings:
    """Settings that offer the captains of a file; ``FAKE_KEY`` holds the canary."""
    changes = {"llm_live": "llm:away", "captains_file": captains, "max_episodes": 2, **changes}
    return test_settings(data_dir, **changes).with_variables({"FAKE_KEY": CANARY})


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server whose home and away models have an endpoint each; a third has no key, a fourth counts."""
    folder = tmp_path_factory.mktemp("models")
    with endpoint(batsman) as home, endpoint(obedient) as away, endpoint(counter) as third:
        captains = write_captains(
            folder / "captains.toml",
            home={"base_url": home.base_url, "api_key_env": "FAKE_KEY", "price_in": 2.0, "price_out": 8.0},
            away={"base_url": away.base_url, "style": "json"},
            keyless={"base_url": away.base_url, "api_key_env": "NO_SUCH_KEY"},
            counter={"base_url": third.base_url, "style": "xml"},
        )
        with without_errors(), serve(model_settings(folder, captains)) as running:
            yield running


def test_every_world_offers_the_models_and_says_what_is_missing(stage: Serving) -> None:
    for world, seats in (("cricket", ("captains", "opponents")), ("counting", ("captains",))):
        for seat in seats:
            here = preset(stage, world, seat, "llm:home")
            assert (here["available"], here["costs_money"], here["source"]) == (True, True, "model")
            lacks = preset(stage, world, seat, "llm:keyless")
            assert (lacks["available"], lacks["missing"]) == (
                False,
                "needs a key in the variable NO_SUCH_KEY",
            )
            assert preset(stage, world, seat, "llm:hf")["missing"] == "needs a key in the variable HF_TOKEN"
    assert preset(stage, "cricket", "opponents", "llm_live")["label"] == "Model away (live)"


def test_what_is_missing_is_said_when_it_is_asked_for(stage: Serving) -> None:
    body = {"environment": "cricket", "captain_preset": "llm:keyless", "opponent_choice": "llm:nobody"}
    answer = stage.client.post("/custom/start_episode", json=body)
    assert answer.status_code == 422
    rules = {wrong["field"]: wrong["rule"] for wrong in answer.json()["errors"]}
    assert "needs a key in the variable NO_SUCH_KEY" in rules["captain_preset"]
    assert "unknown 'llm:nobody'" in rules["opponent_choice"]


@pytest.mark.parametrize("opponent", ["llm_live", "llm:away", "self"])
def test_two_models_play_a_match_that_the_record_tells_apart(stage: Serving, opponent: str) -> None:
    episode_id = stage.start(
        environment="cricket", captain_preset="llm:home", opponent_choice=opponent, max_overs=1
    )
    assert stage.finish(episode_id)["reason"] == "finished"
    made = Counter((one["actor"], one["source"], one["model"]) for one in decisions(stage, episode_id))
    rival = "home-1" if opponent == "self" else "away-1"
    assert made.keys() == {("home", "model", "home-1"), ("away", "model", rival)}


def test_a_world_with_one_kind_of_action_is_played_by_a_model(stage: Serving) -> None:
    episode_id = stage.start(environment="counting", captain_preset="llm:counter")
    assert stage.finish(episode_id)["score"] == 1.0
    assert {one["source"] for one in decisions(stage, episode_id)} == {"model"}


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ({"captain_preset": "llm:home"}, {}, 401),
        ({"opponent_choice": "llm:away"}, {}, 401),
        ({"opponent_choice": "llm_live"}, {}, 401),
        ({"captain_preset": "llm:home", "opponent_choice": "self"}, {}, 401),
        ({"captain_preset": "llm:home"}, {"Authorization": "Bearer wrong-wrong-wrong-wrong"}, 401),
        ({"captain_preset": "llm:home"}, RIGHT, 202),
        ({}, {}, 202),
    ],
)
def test_with_a_token_only_the_operator_starts_a_model(
    guarded: Serving, body: dict[str, Any], headers: dict[str, str], status: int
) -> None:
    body = {"environment": "cricket", "max_overs": 1, "pace": "broadcast", **body}
    answer = guarded.client.post("/custom/start_episode", json=body, headers=headers)
    assert answer.status_code == status
    if status == 202:
        chosen = {"episode_id": answer.json()["episode_id"]}
        guarded.client.post("/custom/stop_episode", json=chosen, headers=RIGHT)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with a token, whose models nobody reaches."""
    folder = tmp_path_factory.mktemp("guarded")
    dead = {"base_url": "http://127.0.0.1:9/v1"}
    captains = write_captains(folder / "captains.toml", home=dead, away=dead)
    with serve(model_settings(folder, captains, operator_token=TOKEN)) as running:
        yield running


def test_without_a_token_a_model_is_for_this_machine_alone(tmp_path: Path) -> None:
    captains = write_captains(tmp_path / "captains.toml", away={"base_url": "http://127.0.0.1:9/v1"})
    body = {"environment": "cricket", "opponent_choice": "llm_live"}
    with serve(model_settings(tmp_path, captains, host="0.0.0.0")) as open_to_all:
        answer = open_to_all.client.post("/custom/start_episode", json=body)
        assert answer.status_code == 403
        assert "SPECTATOR_OPERATOR_TOKEN" in answer.json()["detail"]
    with serve(model_settings(tmp_path, captains)) as at_home:
        proxied = at_home.client.post(
            "/custom/start_episode", json=body, headers={"X-Forwarded-For": "1.2.3.4"}
        )
        assert proxied.status_code == 403


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[captains.x]\nlabel = 'X'", "captains.x.base_url"),
        ("[captains.x", "is not TOML"),
        (None, "cannot be read"),
    ],
)
def test_a_wrong_captains_file_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, said: str
) -> None:
    captains = tmp_path / "captains.toml"
    if text is not None:
        captains.write_text(text, encoding="utf-8")
    monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", str(captains))
    with pytest.raises(SystemExit) as refused:
        main(["--port", "0"])
    assert said in str(refused.value)
    assert "Traceback" not in str(refused.value)


def test_a_live_opponent_that_nobody_knows_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTATOR_LLM_LIVE", "llm:nobody")
    with pytest.raises(SystemExit, match="unknown model captain 'llm:nobody'; use one of llm:hf"):
        main(["--port", "0"])


@pytest.mark.parametrize(
    ("table", "setting", "refused"),
    [
        ({"api_key_env": "FAKE_KEY"}, "MODEL_DAY_COST", True),
        ({"api_key_env": "FAKE_KEY"}, "MODEL_EPISODE_COST", True),
        ({"api_key_env": "FAKE_KEY"}, "MODEL_DAY_TOKENS", False),
        ({"api_key_env": "FAKE_KEY", "price_in": 1.0, "price_out": 2.0}, "MODEL_DAY_COST", False),
        ({"api_key_env": "KEY_THAT_IS_NOT_SET"}, "MODEL_DAY_COST", False),
        ({}, "MODEL_DAY_COST", False),
    ],
)
def test_a_cap_of_money_that_limits_nothing_is_refused_at_the_start(
    tmp_path: Path, table: dict[str, Any], setting: str, *, refused: bool
) -> None:
    """The sentence names captain and setting; the doctor says the same before."""
    captains = write_captains(tmp_path / "captains.toml", mine={"base_url": "http://127.0.0.1:9/v1", **table})
    settings = Settings.from_environ(
        {
            "SPECTATOR_CAPTAINS_FILE": str(captains),
            f"SPECTATOR_{setting}": "5",
            "FAKE_KEY": "sk-fake-0123456789",
        }
    )
    if refused:
        with pytest.raises(
            ConfigurationError, match=rf"SPECTATOR_{setting}: .* llm:mine: the price is unknown"
        ):
            read_cast(settings, SystemClock())
    else:
        read_cast(settings, SystemClock())


@pytest.mark.usefixtures("real_starts")
def test_a_key_shows_nowhere(tmp_path: Path) -> None:
    """Not in logs, events, errors, metrics, the catalogue, pages or the arguments of the process."""
    with endpoint(counter, [Mode.ECHO, Mode.UNAUTHORIZED, Mode.NOT_HTTP, Mode.OK]) as fake:
        captains = write_captains(
            tmp_path / "captains.toml", mine={"base_url": fake.base_url, "api_key_env": "FAKE_KEY"}
        )
        variables = {
            "SPECTATOR_CAPTAINS_FILE": str(captains),
            "SPECTATOR_LOG_LEVEL": "debug",
            "FAKE_KEY": CANARY,
        }
        with serve_process(tmp_path / "data", variables=variables) as running:
            with httpx.Client(base_url=running.base_url, timeout=30) as client:
                body = {"captain_preset": "llm:mine", "pace": "max"}
                episode_id = client.post("/custom/start_episode", json=body).json()["episode_id"]
                while client.get(f"/api/episodes/{episode_id}").json()["ended_at"] is None:
                    time.sleep(0.05)
                paths = ["/custom/catalog", "/custom/status", "/metrics", "/openapi.json", "/", "/readyz"]
                paths += [f"/api/episodes/{episode_id}/events", f"/watch/{episode_id}"]
                told = "".join(client.get(path).text for path in paths)
            arguments = Path(f"/proc/{running.process.pid}/cmdline").read_bytes().decode()
            running.terminate()
        assert fake.received[0].headers["authorization"] == f"Bearer {CANARY}"
    assert "decision.made" in told and "a request to a model failed" in "".join(running.log)
    kept = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert CANARY not in told + arguments + "".join(running.log) + repr(model_settings(tmp_path, captains))
    assert CANARY.encode() not in kept


def test_a_person_plays_against_a_model(stage: Serving) -> None:
    episode_id = stage.start(
        environment="cricket", captain_preset="human", opponent_choice="llm:away", seed=5, max_overs=1
    )
    turn = 0
    for _ in range(4):
        deadline = time.monotonic() + PATIENCE_S
        seat = None
        while seat is None or seat["turn"] <= turn:
            assert time.monotonic() < deadline, "the person was not asked"
            time.sleep(0.02)
            seat = stage.client.get("/custom/asked", params={"episode_id": episode_id}).json()["asked"]
        turn = seat["turn"]
        tool = seat["legal_actions"][0]["tool"]
        body = {"episode_id": episode_id, "turn": turn, "action": {"tool": tool}}
        assert stage.client.post("/custom/act", json=body).status_code == 200
    stage.client.post("/custom/stop_episode", json={"episode_id": episode_id})
    made = Counter((one["actor"], one["source"]) for one in decisions(stage, episode_id))
    assert made["home", "human"] >= 3 and made["away", "model"] >= 1
    assert {source for _, source in made} == {"human", "model"}


def test_a_model_that_was_never_reached_is_on_the_board_unranked(tmp_path: Path) -> None:
    with endpoint(counter) as fake:
        gone = fake.base_url
    captains = write_captains(
        tmp_path / "captains.toml", away={"base_url": gone}, gone={"base_url": gone, "retries": 0}
    )
    with serve(model_settings(tmp_path, captains)) as running:
        fields = {"environment": "counting", "pace": "max", "options": {"turns": 2}}
        for captain in ("llm:gone", "random"):
            running.finish(running.start(**fields, captain_preset=captain))
        deadline = time.monotonic() + PATIENCE_S
        while len(rows := running.client.get("/api/leaderboard").json()["rows"]) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        page = running.client.get("/leaderboard").text
    by_captain = {row["captain"]: row for row in rows}
    random, dead = by_captain["random"], by_captain["llm:gone"]
    assert (random["ranked"], random["own_share"]) == (False, 1.0)  # no evaluation: history
    assert (dead["captain"], dead["ranked"], dead["own_share"], dead["unreached"]) == (
        "llm:gone",
        False,
        0.0,
        1,
    )
    assert dead["measures"] == {} and dead["wins"] == 0
    assert dead["unranked"] == "history" and "played outside evaluations" in page


def test_whoever_watches_an_episode_that_is_suspended_is_told_so_and_it_goes_on_after_a_restart(
    tmp_path: Path,
) -> None:
    with endpoint(counter) as fake:
        gone = fake.base_url
    file = tmp_path / "captains.toml"
    write_captains(file, away={"base_url": gone}, gone={"base_url": gone, "retries": 0})
    with serve(model_settings(tmp_path, file)) as running:
        fields = {"environment": "counting", "captain_preset": "llm:gone", "options": {"turns": 2}}
        episode_id = running.start(**fields, pace="fast", on_failure="suspend")
        with watch(f"{running.ws_url}/live/{episode_id}") as viewer:
            bye = viewer.until("bye")
        assert (bye["code"], bye["reconnect"]) == (1000, False)
        assert bye["reason"] == "its record has no end, and it is not running here"
        assert running.events(episode_id)[-1]["data"]["failure_class"] == "model_infra"
        assert running.client.get("/custom/status").json()["running"] == []
    with endpoint(counter) as fake:
        write_captains(file, away={"base_url": fake.base_url}, gone={"base_url": fake.base_url})
        with serve(model_settings(tmp_path, file)) as running:
            assert running.finish(episode_id)["reason"] == "finished"


def test_a_suspended_episode_is_resumed_in_the_server_that_runs(tmp_path: Path) -> None:
    file = tmp_path / "captains.toml"
    with endpoint(counter, [Mode.BROKEN, Mode.OK]) as fake:
        write_captains(file, away={"base_url": fake.base_url}, gone={"base_url": fake.base_url, "retries": 0})
        with serve(model_settings(tmp_path, file)) as running:
            fields = {"environment": "counting", "captain_preset": "llm:gone", "options": {"turns": 2}}
            episode_id = running.start(**fields, pace="fast", on_failure="suspend")
            while running.client.get("/custom/status").json()["running"]:
                pass
            asked = {"episode_id": episode_id}
            answer = running.client.post("/custom/resume", json=asked)
            assert (answer.status_code, answer.json()["episode_id"]) == (200, episode_id), answer.text
            assert running.finish(episode_id)["reason"] == "finished"
            kinds = [one["type"] for one in running.events(episode_id)]
            assert kinds.index("episode.recovered") == kinds.index("episode.suspended") + 1
            again = running.client.post("/custom/resume", json=asked)
            assert again.json()["type"] == "/problems/episode-over"


def test_whoever_may_not_start_a_model_may_not_resume_one(tmp_path: Path) -> None:
    file, token = tmp_path / "captains.toml", {"Authorization": "Bearer a-token-of-the-operator"}
    with endpoint(counter, [Mode.BROKEN, Mode.OK]) as fake:
        write_captains(file, away={"base_url": fake.base_url}, gone={"base_url": fake.base_url, "retries": 0})
        with serve(model_settings(tmp_path, file, operator_token="a-token-of-the-operator")) as running:
            fields = {"environment": "counting", "captain_preset": "llm:gone", "options": {"turns": 2}}
            running.client.headers.update(token)
            episode_id = running.start(**fields, pace="fast", on_failure="suspend")
            while running.client.get("/custom/status").json()["running"]:
                pass
            asked = {"episode_id": episode_id}
            del running.client.headers["Authorization"]
            assert running.client.post("/custom/resume", json=asked).status_code == 401
            assert running.events(episode_id)[-1]["type"] == "episode.suspended"
            assert running.client.post("/custom/resume", json=asked, headers=token).status_code == 200
            assert running.finish(episode_id)["reason"] == "finished"
