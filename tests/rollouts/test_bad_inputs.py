"""Rows of the table "What happens when something fails" in docs/rollouts.md that test_fleet.py has not."""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from spectator.catalog import load_world
from spectator.environments.counting.world import CountingEnvironment
from spectator.environments.world import World
from spectator.observations import Observation
from spectator.rollouts.fleet import FleetReport
from spectator.rollouts.fleet_plan import Deadlines
from spectator.rollouts.handlers import EpisodeContext, EpisodeOutcome
from spectator.runs.interactor import EpisodeResult
from spectator.runs.run_plan import Attempt
from spectator.steppers.local import on_a_thread
from tests.llm.brains import Said, counter
from tests.llm.endpoints import endpoint
from tests.llm.fake_server import Mode
from tests.rollouts.pooled_server import PooledServer
from tests.rollouts.test_fleet import KILLED, decisions, recorded, request, run
from tests.rollouts.test_remote_fleet import asked, pooled, sayer

QUICK = Deadlines(startup_jitter_s=0.0, env_wait_s=0.5, model_wait_s=0.5)


def only(report: FleetReport) -> EpisodeResult[Attempt]:
    """The one job's last result."""
    (last,) = report.report.last
    return last


def test_garbage_from_the_endpoint_is_asked_again_and_a_lasting_one_halts_the_run(tmp_path: Path) -> None:
    with endpoint(counter, [Mode.GARBAGE, Mode.OK, Mode.NOT_HTTP, Mode.OK, Mode.CUT, Mode.OK]) as fake:
        report = run(request(fake, episodes=3), tmp_path / "now and then", deadlines=QUICK)
    assert report.report.succeeded
    with endpoint(counter, [Mode.GARBAGE] * 10_000) as fake:
        report = run(request(fake), tmp_path / "for ever", deadlines=QUICK)
        assert report.halted is not None and "cannot be asked" in report.halted
        assert len(fake.received) < 200, "an endpoint that never answers is not asked for ever"
    with endpoint(counter) as fake:
        assert run(request(fake), tmp_path / "for ever", deadlines=QUICK).over == 12


@pytest.mark.parametrize("mode", [Mode.BROKEN, Mode.GARBAGE, Mode.REDIRECT])
def test_an_endpoint_that_fails_from_the_start_costs_no_attempt(tmp_path: Path, mode: Mode) -> None:
    """A few episodes at once do not fail often enough for it to be left alone; one used up its attempts."""
    with endpoint(counter, [mode] * 10_000) as fake:
        asked = request(fake, episodes=2, group_size=1)
        report = run(asked, tmp_path, concurrency=1, deadlines=QUICK)
    assert (report.over, report.halted is not None) == (0, True)
    assert [one.reason for one in recorded(tmp_path)] == [None], "it stands where it is"
    with endpoint(counter) as fake:
        report = run(request(fake, episodes=2, group_size=1), tmp_path, deadlines=QUICK)
    assert (report.over, report.halted, len(recorded(tmp_path))) == (2, None, 2)


def test_an_endpoint_that_dies_midway_halts_the_run_and_the_same_command_finishes_it(tmp_path: Path) -> None:
    with endpoint(counter, [Mode.OK] * 20 + [Mode.CUT] * 10_000) as fake:
        report = run(request(fake), tmp_path, deadlines=QUICK)
    assert report.halted is not None
    assert 0 < report.over < 12
    with endpoint(counter) as fake:
        report = run(request(fake), tmp_path, deadlines=QUICK)
    assert (report.over, report.halted) == (12, None)
    assert sum(map(len, decisions(tmp_path).values())) == 12


def test_an_endpoint_that_is_restarted_is_waited_for(tmp_path: Path) -> None:
    """New weights are loaded, say: for a while nothing answers, and no episode is lost or begun anew."""
    with endpoint(counter, [Mode.OK] * 20 + [Mode.CUT] * 17 + [Mode.OK] * 10_000) as fake:
        patient = dataclasses.replace(QUICK, model_wait_s=60.0)
        report = run(request(fake), tmp_path, deadlines=patient)
    assert (report.over, report.halted, report.report.succeeded) == (12, None, True)
    assert len(recorded(tmp_path)) == 12, "nobody's first attempt failed"


def test_a_key_that_is_withdrawn_is_not_waited_for(tmp_path: Path) -> None:
    """Each of the four episodes in play asks once more at most; one that is waited for is asked again."""
    with endpoint(counter, [Mode.OK] * 20 + [Mode.UNAUTHORIZED] * 10_000) as fake:
        patient = dataclasses.replace(QUICK, model_wait_s=600.0)
        report = run(request(fake), tmp_path, concurrency=4, deadlines=patient)
    assert report.halted is not None
    assert 20 < len(fake.received) <= 20 + 4


def test_an_endpoint_that_says_nothing_costs_the_decisions_own_time(tmp_path: Path) -> None:
    """The first answer shows that it is there; a silent one is given up, and its episode tried again."""
    with endpoint(counter, [Mode.OK, Mode.SILENT, *[Mode.OK] * 100]) as fake:
        asked = request(fake, episodes=1, group_size=1, model={"timeout_s": 1.0})
        report = run(asked, tmp_path, concurrency=1, deadlines=QUICK)
    first, last = report.report.results
    assert (first.end_reason, first.failure_class, first.total_reward) == ("policy_error", "timeout", None)
    assert first.again and last.total_reward == 1.0 and last.attempt == 2


def test_an_episode_that_takes_too_long_is_cut_and_tried_again(tmp_path: Path) -> None:
    with endpoint(counter, [Mode.SLOW] * 1000, pause_s=0.1) as fake:
        asked = request(fake, episodes=1, group_size=1, attempts=2, options={"turns": 50})
        report = run(asked, tmp_path, deadlines=dataclasses.replace(QUICK, episode_s=0.5))
    result = only(report)
    assert (result.end_reason, result.failure_class, result.total_reward) == ("timeout", "timeout", None)
    assert (result.attempt, report.over) == (2, 1)
    assert 0 < result.turns < 50


def cut_off(body: Mapping[str, Any]) -> Said:
    return Said(text="I think that the next number is", finish="length")


@pytest.mark.parametrize(
    ("on_invalid", "reason", "reward"),
    [
        ("penalize", "policy_error", 0.0),
        ("mask", "policy_error", None),
        ("end", "policy_error", None),
        ("fallback", "finished", None),
    ],
)
def test_an_answer_cut_at_its_length(
    tmp_path: Path, on_invalid: str, reason: str, reward: float | None
) -> None:
    with endpoint(cut_off) as fake:
        report = run(
            request(fake, episodes=1, group_size=1, on_invalid=on_invalid), tmp_path, deadlines=QUICK
        )
    result = only(report)
    assert (result.end_reason, result.total_reward, result.attempt) == (reason, reward, 1)
    assert result.failure_class == (None if on_invalid == "fallback" else "truncated")
    assert result.own_share == 0.0


def answering(operation: str, answer: Any) -> Callable[[PooledServer], None]:
    def change(server: PooledServer) -> None:
        server.wrong[operation] = lambda *_: web.json_response(answer)

    return change


def raw(operation: str, text: str, status: int = 200) -> Callable[[PooledServer], None]:
    def change(server: PooledServer) -> None:
        server.wrong[operation] = lambda *_: web.Response(
            text=text, status=status, content_type="application/json"
        )

    return change


def hang(operation: str) -> Callable[[PooledServer], None]:
    async def never(*_: Any) -> web.Response:
        await asyncio.sleep(30)
        raise AssertionError

    def change(server: PooledServer) -> None:
        server.wrong[operation] = never

    return change


@pytest.mark.parametrize(
    ("wrong", "reason", "said"),
    [
        (answering("get_task_prompt", []), "environment_error", "already over after reset"),
        (answering("get_task_prompt", "Say 1"), "environment_error", "not a list of messages but str"),
        (answering("get_task_prompt", None), "environment_error", "not a list of messages but NoneType"),
        (
            answering("get_task_prompt", [{"content": "Say 1"}]),
            "environment_error",
            "not an object with a role",
        ),
        (answering("get_task_prompt", ["Say 1"]), "environment_error", "not an object with a role"),
        (raw("step", '{"reward": NaN, "terminated": true}'), "environment_error", "NaN is not JSON"),
        (raw("step", '{"reward": 1e999, "terminated": true}'), "environment_error", "not a finite number"),
        (raw("step", f'{{"reward": 1{"0" * 400}}}'), "environment_error", "not a finite number"),
        (answering("step", {"reward": "much"}), "environment_error", "not a finite number"),
        (answering("step", {"terminated": True}), "environment_error", "has no reward"),
        (answering("step", [1]), "environment_error", "not a JSON object"),
        (raw("step", "<html>"), "environment_error", "not JSON"),
        (raw("step", "boom", 500), "environment_error", "the server answers 500"),
        (raw("step", "no", 400), "environment_error", "the server answers 400: no"),
        (raw("reset", "no such level", 422), "environment_error", "no such level"),
        (hang("step"), "timeout", "did not answer within 0.3 s"),
        (hang("reset"), "timeout", "did not answer within 0.5 s"),
    ],
)
def test_what_a_pooled_server_may_answer(
    tmp_path: Path, wrong: Callable[[PooledServer], None], reason: str, said: str
) -> None:
    """Each is an attempt on record, without a reward, tried again; nothing of it stays open there."""
    server = PooledServer()
    wrong(server)
    soon = dataclasses.replace(QUICK, env_s=0.3, env_start_s=0.5)
    with pooled(server) as url, endpoint(sayer) as fake:
        report = run(asked(fake, f"{url}/qa", episodes=1, group_size=1, attempts=2), tmp_path, deadlines=soon)
    result = only(report)
    assert (result.end_reason, result.failure_class, result.total_reward) == (reason, "env_infra", None)
    assert said in (result.detail or "")
    assert [result.attempt, len(recorded(tmp_path)), report.halted] == [2, 2, None]
    assert server.kept == {}
    assert server.asked["step"] <= 2, "a step that may have been delivered is not repeated"


def test_an_environment_that_stops_asking_has_ended(tmp_path: Path) -> None:
    """An empty prompt after a step is the end: what was earned counts."""

    def ask_once(server: PooledServer, asked: web.Request) -> web.Response | None:
        over = any(played.turn for played in server.kept.values())
        return web.json_response([]) if over else None

    server = PooledServer(wrong={"get_task_prompt": ask_once})
    with pooled(server) as url, endpoint(sayer) as fake:
        report = run(asked(fake, f"{url}/qa", episodes=1, group_size=1), tmp_path, deadlines=QUICK)
    result = only(report)
    assert (result.end_reason, result.total_reward, result.turns) == ("finished", 0.5, 1)


def test_a_server_that_never_has_room_halts_the_run(tmp_path: Path) -> None:
    with pooled(PooledServer(places=0)) as url, endpoint(sayer) as fake:
        report = run(asked(fake, f"{url}/qa", episodes=3), tmp_path, deadlines=QUICK)
    assert report.halted is not None and "503" in report.halted
    assert (report.over, len(recorded(tmp_path))) == (0, 0), "nothing was begun, and nothing counts as tried"


class Odd(CountingEnvironment):
    """Does something odd in its first step."""

    def odd(self, observation: Observation) -> Observation:
        raise NotImplementedError

    def step(self, action: Mapping[str, Any]) -> Observation:
        return self.odd(super().step(action))


class NotANumber(Odd):
    """Rewards with what is no number."""

    def odd(self, observation: Observation) -> Observation:
        return dataclasses.replace(observation, reward=float("nan"))


class PastAllFloats(Odd):
    """Rewards with a whole number that no float can hold."""

    def odd(self, observation: Observation) -> Observation:
        return dataclasses.replace(observation, reward=10**400)


class Exits(Odd):
    """Calls ``sys.exit``."""

    def odd(self, observation: Observation) -> Observation:
        sys.exit(1)


class AnswersText(Odd):
    """Answers what is no observation."""

    def odd(self, observation: Observation) -> Observation:
        return "over"  # type: ignore[return-value]


class Late(Odd):
    """Takes longer than it may."""

    def odd(self, observation: Observation) -> Observation:
        time.sleep(0.25)
        return observation


@pytest.mark.parametrize("stepper", ["inline", "thread"])
@pytest.mark.parametrize(
    ("environment", "reason", "said"),
    [
        (NotANumber, "environment_error", "reward"),
        (PastAllFloats, "environment_error", "reward"),
        (Exits, "environment_error", "SystemExit"),
        (AnswersText, "environment_error", "not an observation"),
        (Late, "timeout", "did not answer within 0.1 s"),
    ],
)
def test_what_an_environment_of_ours_may_do(
    tmp_path: Path, environment: type[Odd], reason: str, said: str, stepper: str
) -> None:
    def odd_world(name: str) -> World:
        return dataclasses.replace(load_world(name), environment=environment)

    where = {"open_stepper": on_a_thread} if stepper == "thread" else {}
    soon = dataclasses.replace(QUICK, env_s=0.1)
    with endpoint(counter) as fake:
        report = run(
            request(fake, episodes=1, group_size=1, attempts=2),
            tmp_path,
            load=odd_world,
            deadlines=soon,
            **where,
        )
    result = only(report)
    assert (result.end_reason, result.failure_class, result.total_reward) == (reason, "env_infra", None)
    assert said in (result.detail or "")
    assert (result.attempt, report.over) == (2, 1)


class OneThread(CountingEnvironment):
    """Bears no other thread than the one that made it, like a browser or a renderer."""

    def __init__(self) -> None:
        super().__init__()
        self.made_on = threading.get_ident()

    def step(self, action: Mapping[str, Any]) -> Observation:
        assert threading.get_ident() == self.made_on
        threads.add(self.made_on)
        return super().step(action)


threads: set[int] = set()


def test_on_threads_each_environment_has_one_of_its_own(tmp_path: Path) -> None:
    def world(name: str) -> World:
        return dataclasses.replace(load_world(name), environment=OneThread)

    with endpoint(counter) as fake:
        report = run(
            request(fake), tmp_path, load=world, open_stepper=on_a_thread, concurrency=12, deadlines=QUICK
        )
    assert report.report.succeeded
    assert threading.get_ident() not in threads and len(threads) > 1
    threads.clear()


class Broken:
    """A handler that fails wherever it can."""

    def handle(self, messages: Sequence[Any], context: EpisodeContext) -> Sequence[Any]:
        if context.member == 0:
            raise RuntimeError("no advice")
        return messages

    def on_episode_end(self, context: EpisodeContext, outcome: EpisodeOutcome) -> None:
        raise RuntimeError("cannot learn")


def test_a_handler_that_fails_costs_its_own_episode_and_no_run(tmp_path: Path) -> None:
    with endpoint(counter) as fake:
        report = run(request(fake, episodes=3, group_size=3), tmp_path, handler=Broken(), deadlines=QUICK)
    ends = sorted((one.end_reason, one.failure_class) for one in report.report.last if one.end_reason)
    assert ends == [("finished", None), ("finished", None), ("policy_error", "policy_fault")]
    assert report.over == 3


FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000,) * 2)\n" + KILLED.replace(
    "sys.exit(0", "print(report.halted)\nsys.exit(3 if report.halted else 0"
)


@pytest.mark.timeout(120)
def test_a_disk_that_is_full_halts_the_run_and_loses_nothing(tmp_path: Path) -> None:
    """The limit on a file's size is the kernel's own, and stands for a disk that takes no more."""
    with endpoint(counter) as fake:
        plan = request(fake, episodes=60, options={"turns": 6})
        command = [sys.executable, "-c", FULL, plan.model_dump_json(), str(tmp_path)]
        full = subprocess.run(command, capture_output=True, text=True, timeout=100)
        assert full.returncode == 3, full.stderr[-2000:]
        assert "journal" in full.stdout
        before = {one.episode_id for one in recorded(tmp_path) if one.reason == "finished"}
        assert 0 < len(before) < 60
        report = run(plan, tmp_path, deadlines=QUICK)
    assert (report.over, report.halted) == (60, None)
    after = recorded(tmp_path)
    assert before <= {one.episode_id for one in after}
    assert sum(one.reason == "finished" for one in after) == 60
