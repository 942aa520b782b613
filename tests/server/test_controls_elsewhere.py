"""Controls of an episode that another server plays: on one PostgreSQL, deaths of either side included."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from server.background import recovery
from server.http import commands
from tests.server.test_two_servers import check_record, missing_others_soon, running, start
from tests.serving import PATIENCE_S, ServerProcess, Serving, serve, serve_process, test_settings, until

LONG = {"turns": 400}
TOKEN = "correct-horse-battery"


@pytest.fixture
def player(url: str, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that is a process of its own."""
    with serve_process(tmp_path / "a", variables={"SPECTATOR_JOURNAL_URL": url}) as process:
        yield process


@pytest.fixture(scope="module")
def asked(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server of this process, which misses others sooner than is usual."""
    settings = test_settings(tmp_path_factory.mktemp("b"), journal_url=SecretStr(url))
    with missing_others_soon(), serve(settings) as serving:
        yield serving


@contextmanager
def standing_still(process: ServerProcess) -> Iterator[None]:
    """The process is stopped as long as the context lives."""
    process.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.process.pid, os.WSTOPPED | os.WNOWAIT)
    try:
        yield
    finally:
        process.process.send_signal(signal.SIGCONT)


def order(base_url: str, what: str, episode_id: str, **more: Any) -> httpx.Response:
    headers = more.pop("headers", None)
    body = {"episode_id": episode_id, **more}
    return httpx.post(f"{base_url}/custom/{what}", json=body, headers=headers, timeout=PATIENCE_S)


def events(serving: Serving, episode_id: str, kind: str) -> list[dict[str, Any]]:
    return [one for one in serving.events(episode_id) if one["type"] == kind]


def test_an_episode_is_paused_paced_resumed_and_stopped_from_another_server(
    player: ServerProcess, asked: Serving, url: str
) -> None:
    episode_id = start(player, options=LONG)
    for _ in range(2):  # twice changes nothing
        told = order(asked.base_url, "pause", episode_id)
        assert (told.status_code, told.json()["paused"]) == (200, True), told.text
    told = order(asked.base_url, "pace", episode_id, pace="max")
    assert (told.status_code, told.json()["pace"]) == (200, "max"), told.text
    told = order(asked.base_url, "pace", episode_id, pace="broadcast")
    assert told.json()["pace"] == "broadcast"
    assert httpx.get(f"{player.base_url}/custom/status").json()["running"][0]["paused"]
    told = order(asked.base_url, "resume", episode_id)
    assert (told.status_code, told.json()["paused"]) == (200, False), told.text
    told = order(asked.base_url, "stop_episode", episode_id)
    assert told.status_code == 200, told.text
    entry = asked.client.get(f"/api/episodes/{episode_id}").json()
    assert entry["reason"] == told.json()["reason"] == "stopped", "it is recorded when the answer comes"
    assert entry["turns"] == told.json()["turns"]
    until("its slot", lambda: not running(player.base_url))
    types = check_record(url, episode_id)
    assert (types.count("episode.paused"), types.count("episode.resumed")) == (1, 1)
    assert events(asked, episode_id, "episode.ended")[0]["data"]["detail"] == "stopped by visitor"
    for what in ("stop_episode", "pause", "resume"):
        late = order(asked.base_url, what, episode_id)
        assert (late.status_code, late.json()["type"]) == (409, "/problems/episode-over")
    assert order(asked.base_url, "pause", "ep-nobody").status_code == 404


def test_a_stop_of_what_a_dead_server_played_is_done_without_a_slot(
    player: ServerProcess, asked: Serving, url: str
) -> None:
    mine = [asked.start(pace="broadcast", options=LONG) for _ in range(asked_slots(asked))]
    episode_id = start(player, options=LONG)
    player.kill()
    told = order(asked.base_url, "stop_episode", episode_id)
    assert (told.status_code, told.json().get("reason")) == (200, "stopped"), told.text
    types = check_record(url, episode_id)
    assert (types.count("episode.ended"), types.count("episode.recovered")) == (1, 0)
    for one in mine:
        assert order(asked.base_url, "stop_episode", one).status_code == 200


def asked_slots(serving: Serving) -> int:
    return int(serving.client.get("/custom/status").json()["slots"])


def test_a_pause_outlives_the_server_that_was_to_carry_it_out(
    player: ServerProcess, asked: Serving, url: str
) -> None:
    episode_id = start(player, options=LONG)
    until("a turn", lambda: len(asked.events(episode_id)) > 4)
    with ThreadPoolExecutor(1) as thread, standing_still(player):
        waiting = thread.submit(order, asked.base_url, "pause", episode_id)
        told = waiting.result(PATIENCE_S)
    assert (told.status_code, told.json().get("paused")) == (200, True), told.text
    assert episode_id in running(asked.base_url), "who took it over has paused it"
    assert order(asked.base_url, "stop_episode", episode_id).status_code == 200
    types = check_record(url, episode_id)
    assert types.count("episode.paused") == types.count("episode.recovered") == 1
    assert types.index("episode.recovered") < types.index("episode.paused")


def test_whoever_waits_in_vain_is_told_what_becomes_of_it(
    player: ServerProcess, asked: Serving, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "WAIT_S", 0.3)
    monkeypatch.setattr(recovery, "SILENT_CHECKS", 10_000)
    episode_id = start(player, options=LONG)
    with standing_still(player):
        told = order(asked.base_url, "pause", episode_id)
        assert (told.status_code, told.json()["type"]) == (503, "/problems/player-unavailable")
        assert "nothing was changed" in told.json()["detail"]
        told = order(asked.base_url, "stop_episode", episode_id)
        assert told.status_code == 503 and "the stop is stored" in told.json()["detail"]
        assert asked.client.get(f"/api/episodes/{episode_id}").json()["ended_at"] is None
    assert asked.finish(episode_id)["reason"] == "stopped"
    types = check_record(url, episode_id)
    assert types.count("episode.paused") == 0
    assert types.count("episode.ended") == 1


def test_a_stop_outlives_the_server_that_was_asked(
    player: ServerProcess, asked: Serving, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "SILENT_CHECKS", 10_000)
    episode_id = start(player, options=LONG)
    variables = {"SPECTATOR_JOURNAL_URL": url}
    with serve_process(tmp_path / "c", variables=variables) as dying, ThreadPoolExecutor(1) as thread:
        with standing_still(player):
            lost = thread.submit(order, dying.base_url, "stop_episode", episode_id)
            until("the command", lambda: waits(url, episode_id))
            dying.kill()
            assert isinstance(lost.exception(PATIENCE_S), httpx.TransportError)
        assert asked.finish(episode_id)["reason"] == "stopped"
    assert check_record(url, episode_id).count("episode.ended") == 1


def waits(url: str, episode_id: str) -> bool:
    import psycopg

    with psycopg.connect(url) as connection:
        wanted = "SELECT 1 FROM commands WHERE episode_id = %s AND name = 'stop'"
        return connection.execute(wanted, [episode_id]).fetchone() is not None


@pytest.fixture
def pair(url: str, tmp_path: Path) -> Iterator[Callable[..., tuple[Serving, Serving]]]:
    """Makes two servers of this process with the same settings."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def make(**settings: Any) -> tuple[Serving, Serving]:
            wanted = {"journal_url": SecretStr(url), **settings}
            first, second = (
                stack.enter_context(serve(test_settings(tmp_path / name, **wanted))) for name in ("d", "e")
            )
            return first, second

        yield make


def test_only_the_address_that_started_it_stops_it_at_whichever_server(
    pair: Callable[..., tuple[Serving, Serving]],
) -> None:
    one, other = pair(profile="public", trusted_hops=1, operator_token=TOKEN, max_episodes=2)
    own, foreign = {"X-Forwarded-For": "203.0.113.9"}, {"X-Forwarded-For": "198.51.100.7"}
    told = one.client.post("/custom/start_episode", json={"options": LONG, "pace": "fast"}, headers=own)
    assert told.status_code == 202, told.text
    episode_id = told.json()["episode_id"]
    for what in ("pause", "stop_episode", "resume"):
        refused = order(other.base_url, what, episode_id, headers=foreign)
        assert (refused.status_code, refused.json()["type"]) == (403, "/problems/not-your-episode")
    assert order(other.base_url, "pause", episode_id, headers=own).status_code == 200
    operator = {"Authorization": f"Bearer {TOKEN}", **foreign}
    assert order(other.base_url, "resume", episode_id, headers=operator).status_code == 200
    wrong = {"Authorization": "Bearer of-something-else", **own}
    assert order(other.base_url, "stop_episode", episode_id, headers=wrong).status_code == 401
    assert order(other.base_url, "stop_episode", episode_id, headers=own).json()["reason"] == "stopped"
    assert [one["data"]["by"] for one in events(other, episode_id, "episode.resumed")] == ["operator"]


def test_without_the_token_nobody_stops_it_at_whichever_server(
    pair: Callable[..., tuple[Serving, Serving]],
) -> None:
    one, other = pair(operator_token=TOKEN)
    episode_id = one.start(pace="fast", options=LONG)
    assert order(other.base_url, "stop_episode", episode_id).status_code == 401
    operator = {"Authorization": f"Bearer {TOKEN}"}
    assert order(other.base_url, "stop_episode", episode_id, headers=operator).status_code == 200


def test_a_person_plays_a_seat_through_another_server(pair: Callable[..., tuple[Serving, Serving]]) -> None:
    one, other = pair(person_decision_s=600, decision_timeout_s=900)
    episode_id = one.start(captain_preset="human", options={"turns": 3})
    key = one.seat_header(episode_id)

    def look(headers: dict[str, str]) -> httpx.Response:
        return other.client.get("/custom/asked", params={"episode_id": episode_id}, headers=headers)

    def say(turn: int, text: str, headers: dict[str, str]) -> httpx.Response:
        action = {"tool": "say", "arguments": {"text": text}}
        body = {"episode_id": episode_id, "turn": turn, "action": action}
        return other.client.post("/custom/act", json=body, headers=headers)

    assert look({"X-Seat-Key": "agent.wrong"}).status_code == 403
    assert say(1, "ACTION: 1", {"X-Seat-Key": "agent.wrong"}).json()["type"] == "/problems/not-your-seat"
    for turn in (1, 2, 3):
        seat = until("the question", partial(lambda turn: asked_at(look(key), turn), turn))
        assert seat["legal_actions"] and seat["left_s"] > 0
        if turn == 1:
            wrong = other.client.post(
                "/custom/act",
                json={"episode_id": episode_id, "turn": 1, "action": {"tool": "fly"}},
                headers=key,
            )
            assert wrong.status_code == 422 and wrong.json()["errors"][0]["field"] == "action.tool"
            assert say(7, "ACTION: 7", key).json()["type"] == "/problems/not-asked"
        told = say(turn, f"ACTION: {turn}", key)
        assert (told.status_code, told.json().get("turn")) == (200, turn), told.text
    assert other.finish(episode_id)["reason"] == "finished"


def asked_at(answer: httpx.Response, turn: int) -> Any:
    told = answer.json()["asked"]
    return told if told and told["turn"] == turn else None


def test_an_episode_of_another_server_is_forked_here(pair: Callable[..., tuple[Serving, Serving]]) -> None:
    one, other = pair()
    episode_id = one.start(pace="fast", options={"turns": 60})
    until("some turns", lambda: len(events(other, episode_id, "decision.made")) > 4)
    seq = next(one["seq"] - 1 for one in other.events(episode_id)[6:] if one["type"] == "decision.made")
    told = other.client.post("/custom/fork", json={"episode_id": episode_id, "seq": seq, "pace": "max"})
    assert told.status_code == 202, told.text
    assert other.finish(told.json()["episode_id"])["reason"] == "finished"
    assert one.finish(episode_id)["reason"] == "finished"
