"""Two servers and one PostgreSQL: a server that dies or stalls gives its episodes to the other."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from websockets.sync.client import connect

from server.background import recovery
from server.settings import Settings
from server.viewers import other_servers
from spectator.errors import ConfigurationError
from spectator.journal.contract import Chain
from spectator.journal.sql_journal import SqlJournal
from spectator.json_values import apply_patch
from tests.postgres import Cluster
from tests.serving import PATIENCE_S, ServerProcess, Serving, serve, serve_process, test_settings, until

TURNS = 60


@contextmanager
def missing_others_soon() -> Iterator[None]:
    """Servers of this process look more often for others, which give a sign every 2 s, than is usual."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recovery, "INTERVAL_S", 0.2)
        patch.setattr(recovery, "SILENT_CHECKS", 20)
        yield


@pytest.fixture
def dying(url: str, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that is a process of its own."""
    with serve_process(tmp_path / "a", variables={"SPECTATOR_JOURNAL_URL": url}) as process:
        yield process


@pytest.fixture(scope="module")
def surviving(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server of this process, which misses others sooner than is usual."""
    settings = test_settings(tmp_path_factory.mktemp("b"), journal_url=SecretStr(url), max_episodes=2)
    with missing_others_soon(), serve(settings) as serving:
        yield serving


def start(server: ServerProcess, **body: Any) -> str:
    told = httpx.post(f"{server.base_url}/custom/start_episode", json={"pace": "fast", **body}, timeout=30)
    assert told.status_code == 202, told.text
    return str(told.json()["episode_id"])


def running(base_url: str) -> list[str]:
    status = httpx.get(f"{base_url}/custom/status", timeout=30).json()
    return [one["episode_id"] for one in status["running"]]


def check_record(url: str, episode_id: str) -> list[str]:
    """The types of its events, once the chain holds and no number is missing or twice there."""

    async def look() -> list[str]:
        journal = await SqlJournal.open(url, writable=False)
        try:
            chain = Chain()
            async for links in journal.links(episode_id):
                assert list(chain.check(links)) == []
            events = await journal.read(episode_id)
            assert [one.seq for one in events] == list(range(1, chain.seq + 1))
            assert len({one.event.epoch for one in events}) == 1
            return [one.type for one in events]
        finally:
            await journal.aclose()

    return asyncio.run(look())


def wait_for_turns(serving: Serving, episode_id: str, turns: int) -> None:
    until(f"turn {turns}", lambda: len(serving.events(episode_id)) > turns)


def test_an_episode_of_a_server_that_is_killed_is_played_on_by_the_other(
    dying: ServerProcess, surviving: Serving, url: str
) -> None:
    episode_id = start(dying, options={"turns": TURNS})
    wait_for_turns(surviving, episode_id, 8)
    assert running(surviving.base_url) == [], "who only shares the journal plays nothing of it"
    mine = surviving.start(pace="fast", options={"turns": TURNS})
    epoch = surviving.client.get(f"/api/episodes/{episode_id}").json()["epoch"]
    dying.kill()
    until("the takeover", lambda: episode_id in running(surviving.base_url))
    entry = surviving.finish(episode_id)
    assert (entry["reason"], entry["epoch"]) == ("finished", epoch)
    assert surviving.finish(mine)["reason"] == "finished"
    types = check_record(url, episode_id)
    assert types.count("episode.recovered") == 1
    assert (types[0], types[-1]) == ("episode.started", "episode.ended")


def test_a_server_that_stood_still_finds_its_episode_played_elsewhere(
    dying: ServerProcess, surviving: Serving, url: str
) -> None:
    episode_id = start(dying, options={"turns": TURNS})
    wait_for_turns(surviving, episode_id, 8)
    dying.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, dying.process.pid, os.WSTOPPED | os.WNOWAIT)
    try:
        until("the takeover", lambda: episode_id in running(surviving.base_url))
    finally:
        dying.process.send_signal(signal.SIGCONT)
    until("its letting go", lambda: episode_id not in running(dying.base_url))
    assert surviving.finish(episode_id)["reason"] == "finished"
    types = check_record(url, episode_id)
    assert types.count("episode.ended") == types.count("episode.recovered") == 1
    again = start(dying, pace="max")  # it goes on as a new owner
    assert surviving.finish(again)["reason"] == "finished"
    dying.terminate()
    log = "".join(dying.log)
    assert "another process plays the episode" in log
    assert "Traceback" not in log


def watched(serving: Serving, episode_id: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a viewer is sent until the end: the state that all frames come to, and the frames."""
    frames: list[dict[str, Any]] = []
    state: dict[str, Any] = {}
    with connect(f"{serving.ws_url}/live/{episode_id}") as socket:
        for text in socket:
            frame = json.loads(text)
            frames.append(frame)
            if frame["frame"] == "snapshot":
                state = frame["state"]
            elif frame["frame"] == "event":
                state = apply_patch(state, frame["patch"])
    return state, frames


def test_a_viewer_of_one_server_watches_what_another_plays_even_when_that_one_dies(
    dying: ServerProcess, surviving: Serving, url: str
) -> None:
    episode_id = start(dying, options={"turns": TURNS})
    with ThreadPoolExecutor(2) as viewers:
        early = viewers.submit(watched, surviving, episode_id)
        wait_for_turns(surviving, episode_id, 15)
        late = viewers.submit(watched, surviving, episode_id)
        wait_for_turns(surviving, episode_id, 30)
        dying.kill()
        found = [early.result(PATIENCE_S), late.result(PATIENCE_S)]
    whole = surviving.client.get(f"/api/episodes/{episode_id}/events").text.splitlines()
    for _, frames in found:
        assert [frame["frame"] for frame in frames[:2]] == ["hello", "snapshot"]
        after = frames[1]["seq"]
        events = [frame for frame in frames if frame["frame"] == "event"]
        assert [one["seq"] for one in events] == list(range(after + 1, len(whole) + 1))
        assert [{**one, "frame": None} for one in events] == [
            {**json.loads(line), "frame": None} for line in whole[after:]
        ]
        assert frames[-1]["frame"] == "bye" and frames[-1]["reason"] == "ended"
    assert found[0][0] == found[1][0]
    assert len([frame for frame in found[0][1] if frame["frame"] == "event"]) > 30


LISTENING = (
    "SELECT pid FROM pg_stat_activity "
    "WHERE datname = current_database() AND query = 'LISTEN spectator_commits'"
)


def test_viewers_of_another_server_are_told_of_each_commit(
    dying: ServerProcess, postgres: Cluster, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is asked on time here, so that what comes came by notices."""
    monkeypatch.setattr(other_servers, "INTERVAL_S", 3600)
    monkeypatch.setattr(other_servers, "SLOW_INTERVAL_S", 3600)
    database = url.partition("@/")[2].partition("?")[0]
    (tmp_path / "b").mkdir()
    with serve(test_settings(tmp_path / "b", journal_url=SecretStr(url), max_episodes=1)) as watching:
        until("listening", lambda: len(postgres.execute(database, LISTENING)) >= 2)
        episode_id = start(dying, options={"turns": TURNS})
        with ThreadPoolExecutor(1) as viewers:
            early = viewers.submit(watched, watching, episode_id)
            wait_for_turns(watching, episode_id, 20)
            for (pid,) in postgres.execute(database, LISTENING):  # what is missed meanwhile is read then
                postgres.execute(database, f"SELECT pg_terminate_backend({pid})")
            state, frames = early.result(PATIENCE_S)
        events = [frame["seq"] for frame in frames if frame["frame"] == "event"]
        whole = watching.client.get(f"/api/episodes/{episode_id}/events").text.splitlines()
        assert events == list(range(frames[1]["seq"] + 1, len(whole) + 1))
        assert state["episode"]["status"] == "ended"
        assert frames[-1]["reason"] == "ended"


def questions_of(episode_id: str, patch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts what the servers of this process ask the journal about an episode from now on."""
    asked: Counter[str] = Counter()

    def counting(name: str) -> Any:
        work = getattr(SqlJournal, name)

        def count(journal: SqlJournal, about: Any, *args: Any, **options: Any) -> Any:
            asked[name] += about == episode_id
            return work(journal, about, *args, **options)

        return count

    for name in ("episode", "read", "texts", "checkpoints"):
        patch.setattr(SqlJournal, name, counting(name))
    return asked


def joins_without_questions(dying: ServerProcess, watching: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one viewer come, then ten more, to an episode that stands still."""
    episode_id = start(dying, pace="broadcast", options={"turns": TURNS})
    paused = httpx.post(f"{dying.base_url}/custom/pause", json={"episode_id": episode_id}, timeout=30)
    assert paused.status_code == 200
    wait_for_turns(watching, episode_id, 0)

    def snapshot(stack: ExitStack) -> dict[str, Any]:
        socket = stack.enter_context(connect(f"{watching.ws_url}/live/{episode_id}"))
        assert json.loads(socket.recv(timeout=PATIENCE_S))["frame"] == "hello"
        frame: dict[str, Any] = json.loads(socket.recv(timeout=PATIENCE_S))
        assert frame["frame"] == "snapshot"
        return frame

    with ExitStack() as stack:
        asked = questions_of(episode_id, monkeypatch)
        first = snapshot(stack)
        until("the pause", lambda: snapshot(stack)["state"]["episode"]["status"] == "paused")
        assert asked.total() > 0

        def ten_more_ask_nothing() -> bool:  # a notice of the pause may still be on its way
            asked.clear()
            assert all(snapshot(stack)["seq"] >= first["seq"] for _ in range(10))
            return not +asked

        until("ten viewers who ask nothing", ten_more_ask_nothing)
    httpx.post(f"{dying.base_url}/custom/stop_episode", json={"episode_id": episode_id}, timeout=30)


def test_whoever_joins_what_others_watch_here_already_asks_the_journal_nothing(
    dying: ServerProcess, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "b").mkdir()
    settings = test_settings(tmp_path / "b", journal_url=SecretStr(url), runs_dir=tmp_path / "runs")
    with serve(settings) as watching:
        joins_without_questions(dying, watching, monkeypatch)


def test_a_server_that_leaves_in_order_gives_its_episodes_at_once(
    dying: ServerProcess, surviving: Serving, url: str
) -> None:
    episode_id = start(dying, options={"turns": TURNS})
    wait_for_turns(surviving, episode_id, 5)
    dying.terminate()
    until("the takeover", lambda: episode_id in running(surviving.base_url))
    assert surviving.finish(episode_id)["reason"] == "finished"
    assert check_record(url, episode_id).count("episode.ended") == 1
    assert "s3cret" not in "".join(dying.log)


def test_play_stands_still_while_the_database_is_away_and_goes_on(
    surviving: Serving, url: str, postgres: Cluster
) -> None:
    episode_id = surviving.start(pace="fast", options={"turns": 30})
    wait_for_turns(surviving, episode_id, 5)
    postgres.stop()
    try:
        until("the trouble", lambda: surviving.client.get("/readyz").status_code == 503)
        (running,) = surviving.client.get("/custom/status").json()["running"]
        assert running["episode_id"] == episode_id

        def both_named() -> bool:
            """The stall follows once the episode has something to record."""
            trouble = surviving.client.get("/operator/status").json()["trouble"]
            return {one["kind"] for one in trouble} >= {"journal-unavailable", "recording-stalled"}

        until("both troubles", both_named)
    finally:
        postgres.start()
    assert surviving.finish(episode_id)["reason"] == "finished"
    types = check_record(url, episode_id)
    assert types.count("episode.ended") == 1
    until("readiness", lambda: surviving.client.get("/readyz").status_code == 200)


def test_a_server_without_its_database_says_so_in_a_line_and_ends(tmp_path: Path) -> None:
    url = "postgresql://me:s3cret-Pass@127.0.0.1:1/journal"
    found = subprocess.run(
        [sys.executable, "-m", "server.app", "--port", "0"],
        env={**os.environ, "SPECTATOR_JOURNAL_URL": url, "SPECTATOR_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert found.returncode != 0
    told = found.stdout + found.stderr
    assert "127.0.0.1" in told
    assert "s3cret" not in told
    assert "Traceback" not in told


@pytest.mark.parametrize("url", ["mysql://me:s3cret-Pass@host/x", "s3cret-Pass", "sqlite:///journal.db"])
def test_a_url_that_is_none_of_postgresql_is_refused_by_its_setting(url: str) -> None:
    with pytest.raises(ConfigurationError, match="SPECTATOR_JOURNAL_URL: must be the URL") as refused:
        Settings.from_environ({"SPECTATOR_JOURNAL_URL": url})
    assert "s3cret" not in str(refused.value)
    assert Settings.from_environ({"SPECTATOR_JOURNAL_URL": ""}).journal_url is None


def test_an_address_to_listen_at_is_one_of_a_journal_in_postgresql() -> None:
    direct = {"SPECTATOR_JOURNAL_LISTEN_URL": "postgresql://me:s3cret-Pass@host/x"}
    with pytest.raises(ConfigurationError, match="LISTEN_URL: needs SPECTATOR_JOURNAL_URL too") as refused:
        Settings.from_environ(direct)
    assert "s3cret" not in str(refused.value)
    both = Settings.from_environ({**direct, "SPECTATOR_JOURNAL_URL": "postgresql://pooler/x"})
    assert both.journal_listen_url is not None
    with pytest.raises(ConfigurationError, match="LISTEN_URL: must be the URL of a PostgreSQL"):
        Settings.from_environ(
            {"SPECTATOR_JOURNAL_LISTEN_URL": "host", "SPECTATOR_JOURNAL_URL": "postgresql://a/x"}
        )


def test_settings_do_not_show_the_password() -> None:
    settings = Settings.from_environ({"SPECTATOR_JOURNAL_URL": "postgresql://me:s3cret-Pass@host/x"})
    assert "s3cret" not in repr(settings) + str(settings) + settings.model_dump_json()
