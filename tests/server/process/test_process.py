"""The server as a process: it starts, goes in order, dies, and comes back with what was recorded."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from tests.server.watching import open_by_hand, watch
from tests.serving import PATIENCE_S, ROOT, free_port, serve_process

LONG = {"pace": "broadcast", "options": {"turns": 1000}}


def start(base_url: str, **body: object) -> str:
    answer = httpx.post(f"{base_url}/custom/start_episode", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["episode_id"])


def run(arguments: Sequence[str], **variables: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m server.app`` to its own end."""
    environ = {name: text for name, text in os.environ.items() if not name.startswith("SPECTATOR_")}
    return subprocess.run(
        [sys.executable, "-m", "server.app", *arguments],
        cwd=ROOT,
        env={**environ, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.usefixtures("real_starts")
def test_on_sigterm_viewers_are_told_to_come_back_and_the_process_leaves(tmp_path: Path) -> None:
    with serve_process(tmp_path) as serving:
        episode_id = start(serving.base_url, **LONG)
        with (
            watch(f"{serving.ws_url}/live/{episode_id}") as watcher,
            watch(f"{serving.ws_url}/live", max_queue=1) as follower,
            httpx.stream("GET", f"{serving.base_url}/live/{episode_id}/events") as events,
        ):
            watcher.until("snapshot")
            serving.terminate()
            for viewer in (watcher, follower):
                code, bye = viewer.to_the_end()
                assert (code, bye["code"], bye["reconnect"]) == (1012, 1012, True)
            assert '"code":1012,"reconnect":true' in list(events.iter_lines())[-2]
        assert serving.process.returncode == 0
        assert not [line for line in serving.log if re.search('"level": "(error|warning)|ignored in', line)]
        assert not [line for line in serving.log if "[accepted]" in line or "connection open" in line]
    with serve_process(tmp_path) as again:
        entry = httpx.get(f"{again.base_url}/api/episodes/{episode_id}").json()
        assert entry["reason"] is None
        (running,) = httpx.get(f"{again.base_url}/custom/status").json()["running"]
        assert running["episode_id"] == episode_id, "it is played on"


def test_a_thousand_viewers_are_told_to_come_back(tmp_path: Path) -> None:
    bye = b'"frame":"bye","code":1012,"reconnect":true'
    with serve_process(tmp_path) as serving, contextlib.ExitStack() as stack:
        episode_id = start(serving.base_url, **LONG)
        peers = [
            stack.enter_context(open_by_hand(serving.base_url, f"/live/{episode_id}")) for _ in range(1000)
        ]
        serving.terminate()
        told = 0
        for peer in peers:
            peer.settimeout(PATIENCE_S)
            got = b""
            with contextlib.suppress(ConnectionResetError):
                while chunk := peer.recv(65_536):
                    got += chunk
            told += bye in got
        assert told == 1000
        assert serving.process.returncode == 0


def test_after_a_crash_what_was_recorded_is_there(tmp_path: Path) -> None:
    port = free_port()
    with serve_process(tmp_path, port=port) as serving:
        finished = start(serving.base_url, pace="max", options={"turns": 3})
        with watch(f"{serving.ws_url}/live/{finished}") as viewer:
            viewer.to_the_end()
        cut = start(serving.base_url, pace="fast", options={"turns": 1000})
        with watch(f"{serving.ws_url}/live/{cut}") as watcher:
            while watcher.seq < 10:
                watcher.next()
            serving.kill()
            with pytest.raises(ConnectionClosed):
                while True:
                    watcher.next()
    with serve_process(tmp_path, port=port) as again:
        page = httpx.get(f"{again.base_url}/api/episodes").json()["episodes"]
        assert [(one["episode_id"], one["reason"]) for one in page] == [(cut, None), (finished, "finished")]
        epoch = watcher.frames[0]["epoch"]
        with watch(f"{again.ws_url}/live/{cut}?epoch={epoch}&seq={watcher.seq}") as returned:
            returned.state, returned.seq = watcher.state, watcher.seq
            while returned.seq < watcher.seq + 20:
                returned.next()
            httpx.post(f"{again.base_url}/custom/stop_episode", json={})
            returned.to_the_end()
        assert returned.state["episode"]["status"] == "ended"
        assert returned.state["episode"]["reason"] == "stopped"
        assert "snapshot" not in returned.kinds()


def test_a_second_process_names_the_journal_or_the_address_that_it_cannot_have(tmp_path: Path) -> None:
    with serve_process(tmp_path) as serving:
        port = serving.base_url.rpartition(":")[2]
        journal = run(["--port", "0"], SPECTATOR_DATA_DIR=str(tmp_path), SPECTATOR_ENVIRONMENT="counting")
        address = run(["--port", port], SPECTATOR_DATA_DIR=str(tmp_path / "other"))
    host = run(["--host", "no.such.host.invalid"], SPECTATOR_DATA_DIR=str(tmp_path / "other"))
    for second, said in (
        (journal, "another process writes the journal"),
        (address, f"cannot listen on 127.0.0.1:{port}"),
        (host, "cannot listen on no.such.host.invalid"),
    ):
        assert second.returncode != 0
        assert said in second.stderr and "Traceback" not in second.stderr
        assert " at http://" not in second.stderr


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (["--port", "x"], {}, "SPECTATOR_PORT: Input should be a valid integer"),
        ([], {"SPECTATOR_MAX_EPISODE": "2"}, "did you mean SPECTATOR_MAX_EPISODES?"),
        (["--bogus"], {}, "unrecognized arguments: --bogus"),
        ([], {"SPECTATOR_ENVIRONMENT": "chess"}, "SPECTATOR_ENVIRONMENT: unknown world 'chess'"),
    ],
)
def test_a_wrong_start_is_refused_in_a_sentence(
    tmp_path: Path, arguments: list[str], variables: dict[str, str], said: str
) -> None:
    ended = run(arguments, SPECTATOR_DATA_DIR=str(tmp_path), **variables)
    assert ended.returncode != 0
    assert said in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.usefixtures("real_starts")
def test_help_shows_an_example() -> None:
    ended = run(["--help"])
    assert ended.returncode == 0
    assert "--port" in ended.stdout and "Example:" in ended.stdout


@pytest.mark.usefixtures("real_starts")
def test_uvicorn_serves_the_application_by_its_name(tmp_path: Path) -> None:
    port = free_port()
    environ = {**os.environ, "SPECTATOR_DATA_DIR": str(tmp_path), "SPECTATOR_ENVIRONMENT": "counting"}
    command = [sys.executable, "-m", "uvicorn", "server.app:app", "--port", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.DEVNULL)
    try:
        base_url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                assert httpx.get(f"{base_url}/health").json() == {"status": "healthy"}
                break
            except httpx.TransportError:
                time.sleep(0.05)
        episode_id = start(base_url, pace="fast", options={"turns": 3})
        with watch(f"ws://127.0.0.1:{port}/live/{episode_id}") as watcher:
            assert watcher.to_the_end()[0] == 1000
        with watch(f"ws://127.0.0.1:{port}/live/wall") as looker:
            looker.until("wall")
            other = start(base_url, pace="fast", options={"turns": 3})
            while other not in looker.until("wall.changed")["tiles"]:
                continue
            looker.say(frame="nonsense")
            assert looker.to_the_end()[0] == 4400
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def test_the_data_folder_may_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "a b%20c?d#e" / "deep"
    with serve_process(folder) as serving:
        episode_id = start(serving.base_url, pace="max", options={"turns": 1})
        with watch(f"{serving.ws_url}/live/{episode_id}") as watcher:
            watcher.to_the_end()
    assert (folder / "journal.db").exists()
    assert [path.name for path in tmp_path.iterdir()] == [folder.parent.name]


@pytest.mark.parametrize(
    ("variables", "words", "port"),
    [
        ({}, [], ""),
        ({"SPECTATOR_PORT": "9000"}, [], ""),
        ({}, ["SPECTATOR_PORT=9000"], ""),
        ({"PORT": "7000"}, [], " --port 7000"),
        ({"SPECTATOR_PORT": "9000"}, ["PORT=7000"], " --port 7000"),
    ],
)
def test_make_run_leaves_the_port_to_the_settings_unless_it_is_given(
    variables: dict[str, str], words: list[str], port: str
) -> None:
    outer = {"PORT", "SPECTATOR_PORT", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"}
    environ = {name: text for name, text in os.environ.items() if name not in outer}
    command = ["make", "--dry-run", "--no-print-directory", "run", *words]
    ran = subprocess.run(
        command, cwd=ROOT, env=environ | variables, capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1].rstrip() == f".venv/bin/python -m server.app{port}"
