"""Whole runs against environments on other servers: pooled rollout servers and OpenEnv servers."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from spectator.errors import ConfigurationError
from spectator.rollouts.fleet_plan import Deadlines
from tests import serving
from tests.llm.brains import Said, counter, last_content
from tests.llm.endpoints import endpoint
from tests.llm.fake_server import FakeModelServer
from tests.rollouts.pooled_server import PooledServer
from tests.rollouts.test_fleet import decisions, recorded, request, run

TURNS = 3


def sayer(body: Mapping[str, Any]) -> Said:
    """Says the number that the newest message asks for."""
    return Said(text=last_content(body).removeprefix("Say "))


@contextmanager
def pooled(server: PooledServer) -> Iterator[str]:
    """The address of a pooled server in a thread of this process."""
    loop, ready, address = asyncio.new_event_loop(), threading.Event(), []

    async def serve() -> web.AppRunner:
        runner = web.AppRunner(server.app(), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
        return runner

    def work() -> None:
        runner = loop.run_until_complete(serve())
        ready.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert ready.wait(20)
    try:
        yield address[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)


def asked(fake: FakeModelServer, url: str, **changes: Any) -> Any:
    fields: dict[str, Any] = {"environment": url, "options": {}, "episodes": 12, "group_size": 3}
    return request(fake, **{**fields, **changes})


SOON = Deadlines(startup_jitter_s=0.0, env_wait_s=20.0)


def test_a_run_on_a_pooled_server_sends_its_prompts_and_leaves_no_environment_behind(tmp_path: Path) -> None:
    server = PooledServer(places=4, turns=TURNS)
    with pooled(server) as url, endpoint(sayer) as fake:
        report = run(asked(fake, f"{url}/qa"), tmp_path, concurrency=8, deadlines=SOON)
        bodies = list(fake.bodies)
        again = run(asked(fake, f"{url}/qa"), tmp_path, concurrency=8, deadlines=SOON)
    assert (report.over, report.halted, report.report.succeeded) == (12, None, True)
    assert {one.total_reward for one in report.report.results} == {0.5 * TURNS}
    assert {one.own_share for one in report.report.results} == {1.0}
    assert [len(again.report.results), server.kept] == [0, {}]
    assert server.most <= 4, "more environments than the server has room for wait until one comes free"
    assert all(count == 1 for count in server.steps.values()) and len(server.steps) == 12 * TURNS
    first = min(bodies, key=lambda body: len(body["messages"]))
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    assert first["messages"][0]["content"] == "Say the number.", "the server's words, and no others"
    longest = max(bodies, key=lambda body: len(body["messages"]))
    assert [one["role"] for one in longest["messages"]] == ["system", *["user", "assistant"] * 2, "user"]


def test_the_only_environment_of_a_server_need_not_be_named(tmp_path: Path) -> None:
    with pooled(PooledServer(turns=1)) as url, endpoint(sayer) as fake:
        report = run(asked(fake, url, episodes=3), tmp_path, deadlines=SOON)
    assert report.report.succeeded


def test_trimming_and_turn_caps_hold_there_too(tmp_path: Path) -> None:
    with pooled(PooledServer(turns=9)) as url, endpoint(sayer) as fake:
        report = run(asked(fake, f"{url}/qa", episodes=1, group_size=1, message_cut=1, max_turns=4), tmp_path)
        assert max(len(body["messages"]) for body in fake.bodies) == 3
    (result,) = report.report.results
    assert (result.end_reason, result.truncated, result.total_reward) == ("step_cap", True, 2.0), (
        "cut short in good order: what was earned counts"
    )


@pytest.fixture(scope="module")
def openenv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of our own OpenEnv server."""
    with serving.serve(serving.test_settings(tmp_path_factory.mktemp("server"))) as running:
        yield running.base_url


def test_a_run_on_an_openenv_server(openenv: str, tmp_path: Path) -> None:
    url = openenv.replace("http://", "openenv+ws://") + "/envs/counting"
    with endpoint(counter) as fake:
        plan = asked(fake, url, episodes=12, options={"turns": TURNS})
        report = run(plan, tmp_path, concurrency=6, deadlines=SOON)
    assert (report.over, report.halted, report.report.succeeded) == (12, None, True)
    assert {one.total_reward for one in report.report.results} == {1.0}
    assert {summary.environment for summary in recorded(tmp_path)} == {"remote"}
    assert len(decisions(tmp_path)) == 4


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def serve(port: int, places: int, step_s: float) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.rollouts.pooled_server", str(port), str(places), "4", str(step_s)]
    process = subprocess.Popen(command)
    limit = time.monotonic() + 30
    while time.monotonic() < limit:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.02)
    raise AssertionError("the server did not begin to listen")


@pytest.mark.timeout(120)
def test_a_server_that_is_killed_and_comes_back_costs_attempts_and_no_episode(tmp_path: Path) -> None:
    """A step that may have been delivered is not repeated: its episode is tried again from its beginning."""
    port, report = free_port(), []
    server = serve(port, 6, 0.02)
    with endpoint(sayer) as fake:
        plan = asked(fake, f"http://127.0.0.1:{port}/qa", episodes=36, group_size=4)
        running = threading.Thread(
            target=lambda: report.append(run(plan, tmp_path, concurrency=6, deadlines=SOON))
        )
        running.start()
        try:
            limit = time.monotonic() + 60
            while len(fake.received) < 30 and time.monotonic() < limit:
                time.sleep(0.005)
            server.kill()
            server.wait(20)
            time.sleep(0.5)
            server = serve(port, 6, 0.02)
            running.join(90)
        finally:
            server.kill()
            server.wait(20)
        assert not running.is_alive()
    (came,) = report
    assert (came.over, came.halted, came.report.succeeded) == (36, None, True)
    lost = [one for one in came.report.results if one.again]
    assert lost and {one.failure_class for one in lost} == {"env_infra"}
    assert all(one.total_reward is None for one in lost), "no verdict, and no reward of 0"
    assert {one.total_reward for one in came.report.last} == {2.0}
    assert sum(summary.reason == "finished" for summary in recorded(tmp_path)) == 36


@pytest.mark.timeout(60)
def test_a_server_that_stays_away_halts_the_run_within_its_deadline(tmp_path: Path) -> None:
    port = free_port()
    server = serve(port, 6, 0.0)
    try:
        with endpoint(sayer) as fake:
            plan = asked(fake, f"http://127.0.0.1:{port}/qa", episodes=6, group_size=1)
            server.kill()
            server.wait(20)
            report = run(plan, tmp_path, deadlines=Deadlines(env_wait_s=1.0, startup_jitter_s=0.0))
            assert report.halted is not None
            assert "no environment could be made for 1 s (env_infra)" in report.halted
            assert (report.over, len(fake.received)) == (0, 0)
            server = serve(port, 6, 0.0)
            assert run(plan, tmp_path, deadlines=SOON).report.succeeded, "the same command finishes the rest"
    finally:
        server.kill()
        server.wait(20)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://127.0.0.1:9", "cannot be read"),
        ("openenv+ws://127.0.0.1:9/envs/counting", "cannot read"),
        ("http://", "is not a valid address"),
        ("http://host:99999/qa", "is not a valid address"),
        ("ftp://host/qa", "neither a world nor an address"),
        ("openenv+ftp://host", "is not a URL of a server"),
    ],
)
def test_an_address_that_leads_nowhere_is_refused_and_writes_nothing(
    tmp_path: Path, address: str, said: str
) -> None:
    plan = request("http://127.0.0.1:9/v1", environment=address, options={})
    with pytest.raises(ConfigurationError, match=said):
        run(plan, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_same_run_goes_on_where_its_server_has_moved_to(tmp_path: Path) -> None:
    with endpoint(sayer) as fake:
        with pooled(PooledServer(turns=1)) as url:
            run(asked(fake, f"{url}/qa", episodes=3), tmp_path, deadlines=SOON)
        with pooled(PooledServer(turns=1)) as url:
            report = run(asked(fake, f"{url}/qa", episodes=6), tmp_path, deadlines=SOON)
    assert (report.over, len(report.report.results)) == (6, 3)
