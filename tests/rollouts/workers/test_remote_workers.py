"""Worker processes whose environments are on other servers."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from functools import partial
from pathlib import Path

from aiohttp import web

from spectator.rollouts.deadlines import Deadlines
from spectator.rollouts.workers.desk import Desk
from tests import serving
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint
from tests.llm.fake_server import Mode
from tests.rollouts.pooled_server import PooledServer
from tests.rollouts.test_fleet import recorded, request
from tests.rollouts.test_remote_fleet import TURNS, pooled, sayer
from tests.rollouts.workers.test_workers import (
    Watched,
    assert_equal_to,
    further,
    kill_newest,
    leases,
    run_workers,
    started,
    until,
    whole,
)


def test_workers_play_on_a_pooled_server_and_leave_no_environment_behind(tmp_path: Path) -> None:
    server = PooledServer(places=4, turns=TURNS)
    with pooled(server) as url, endpoint(sayer) as fake:
        asked = request(fake, environment=f"{url}/qa", options={}, episodes=12, group_size=3)
        report, desk = run_workers(asked, tmp_path)
    assert (report.over, report.halted, report.report.succeeded) == (12, None, True)
    assert {one.total_reward for one in report.report.results} == {0.5 * TURNS}
    assert server.kept == {} and server.most <= 4
    assert all(count == 1 for count in server.steps.values()) and len(server.steps) == 12 * TURNS
    assert (desk.deaths, leases(tmp_path)) == (0, [])


def test_a_killed_worker_s_episodes_go_on_elsewhere_in_new_environments(tmp_path: Path) -> None:
    """What it had decided is taken again, step by step, in an environment that was reset."""

    async def kill(launcher: Watched, desk: Desk) -> None:
        for number in range(2):
            await further(desk, 6)
            await kill_newest(launcher, desk)
            await until(partial(started, launcher, number + 3))

    server = PooledServer(places=64, turns=6)
    with pooled(server) as url, endpoint(sayer, [Mode.SLOW], pause_s=0.02) as fake:
        asked = request(fake, environment=f"{url}/qa", options={}, episodes=24, group_size=3)
        unbroken = whole(fake, asked, tmp_path / "whole")
        before = len(fake.received)
        report, desk = run_workers(asked, tmp_path / "killed", kill)
        again = len(fake.received) - 2 * before
    assert (report.over, report.halted, desk.deaths) == (24, None, 2)
    assert {one.total_reward for one in report.report.last} == {3.0}
    assert 0 <= again <= 2 * 4, "only questions whose answers were not recorded are asked again"
    assert_equal_to(unbroken, tmp_path / "killed", 24)


def test_a_worker_killed_while_it_gives_an_environment_back_leaves_none_behind(tmp_path: Path) -> None:
    """Its request never arrives: then the episode has no end yet, and whoever plays it on gives it back."""
    lost: list[str] = []

    async def lose(asked: web.Request) -> web.Response:
        await until(lambda: asked.transport is None)  # its worker is dead
        return web.Response(status=500)

    def lose_the_first(server: PooledServer, asked: web.Request) -> Awaitable[web.Response] | None:
        if lost:
            return None
        lost.append(asked.match_info["env_id"])
        return lose(asked)

    async def kill(launcher: Watched, desk: Desk) -> None:
        await until(lambda: bool(lost))
        await kill_newest(launcher, desk)

    server = PooledServer(places=4, turns=TURNS, wrong={"done": lose_the_first})
    with pooled(server) as url, endpoint(sayer) as fake:
        asked = request(fake, environment=f"{url}/qa", options={}, episodes=6, group_size=3)
        report, desk = run_workers(asked, tmp_path, kill, workers=1, concurrency=2)
    assert (report.over, report.halted, desk.deaths) == (6, None, 1)
    assert {one.total_reward for one in report.report.last} == {0.5 * TURNS}
    assert server.kept == {}, "a place is lost"


def test_a_server_with_room_for_one_worker_alone_is_waited_for_as_long_as_that_one_plays(
    tmp_path: Path,
) -> None:
    shortages: list[str] = []
    waited: list[float] = []

    async def look(launcher: Watched, desk: Desk) -> None:
        await until(lambda: desk.state.shortage is not None and len(desk.in_flight) == 1)
        assert desk.state.shortage is not None
        shortages.append(desk.state.shortage.reason)
        (first,), found = desk.in_flight, time.monotonic()
        await until(lambda: any(one.episode_id != first.episode_id for one in desk.in_flight))
        waited.append(desk.in_flight[-1].began_s - found)

    server = PooledServer(places=1, turns=8, step_s=0.2)
    with pooled(server) as url, endpoint(sayer) as fake:
        asked = request(fake, environment=f"{url}/qa", options={}, episodes=2, group_size=1)
        patience = Deadlines(env_wait_s=1.2, startup_jitter_s=0.0)
        report, _ = run_workers(asked, tmp_path, look, concurrency=2, deadlines=patience)
    assert (report.over, report.halted, server.most) == (2, None, 1)
    assert shortages == ["reset: the server answers 503"]
    assert waited[0] > 0, "an episode begins once it has an environment, not when it is given out"


def test_a_server_without_room_halts_workers_in_the_words_of_one_process(tmp_path: Path) -> None:
    with pooled(PooledServer(places=0)) as url, endpoint(sayer) as fake:
        asked = request(fake, environment=f"{url}/qa", options={}, episodes=4, group_size=1)
        patience = Deadlines(env_wait_s=0.5, startup_jitter_s=0.0)
        report, desk = run_workers(asked, tmp_path, deadlines=patience)
    assert report.halted is not None and report.halted.startswith(
        "no environment could be had for 0.5 s (env_infra): reset: the server answers 503"
    )
    assert (report.report.results, desk.deaths, leases(tmp_path), recorded(tmp_path)) == ((), 0, [], [])


def test_an_interrupt_waits_for_no_environment_that_is_not_there(tmp_path: Path) -> None:
    async def interrupt(launcher: Watched, desk: Desk) -> None:
        await until(lambda: desk.state.shortage is not None)
        desk.drain()

    with pooled(PooledServer(places=0)) as url, endpoint(sayer) as fake:
        asked = request(fake, environment=f"{url}/qa", options={}, episodes=4, group_size=1)
        report, desk = run_workers(asked, tmp_path, interrupt)
    assert (report.over, report.halted, report.report.drained) == (0, None, True)
    assert (desk.deaths, desk.owed, leases(tmp_path)) == (0, 4, [])


def test_workers_play_on_an_openenv_server(tmp_path: Path) -> None:
    with serving.serve(serving.test_settings(tmp_path / "server")) as running, endpoint(counter) as fake:
        url = running.base_url.replace("http://", "openenv+ws://") + "/envs/counting"
        asked = request(fake, environment=url, episodes=9, options={"turns": TURNS})
        report, _ = run_workers(asked, tmp_path / "run")
    assert (report.over, report.halted, report.report.succeeded) == (9, None, True)
    assert len(recorded(tmp_path / "run")) == 9
