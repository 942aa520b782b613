"""Environments with no more than ``get_task_prompt`` and ``step``: on a server, and in this process."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from aiohttp import web

from spectator.errors import ConfigurationError, EnvironmentMalformed, InvalidRequest
from spectator.rollouts.fleet import FleetReport
from spectator.rollouts.prompt_environment import PromptEnvironment, prompt_world
from tests.commands import spectator
from tests.llm.endpoints import endpoint
from tests.llm.fake_server import FakeModelServer, Mode
from tests.rollouts.pooled_server import PooledServer
from tests.rollouts.test_fleet import recorded, request, run
from tests.rollouts.test_remote_fleet import SOON, asked, pooled, sayer

HERE = "tests.rollouts.test_prompt_environments"


class BareServer(PooledServer):
    """A server with exactly ``get_task_prompt`` and ``step``, and an environment for any id."""

    def app(self) -> web.Application:
        """Its two routes."""
        app = web.Application()
        app.router.add_get("/qa/{env_id}/{operation:get_task_prompt}", self.handle)
        app.router.add_post("/qa/{env_id}/{operation:step}", self.handle)
        return app

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One operation of an environment, made by its first request."""
        if request.match_info["env_id"] not in self.kept:
            self.reset(request.match_info["env_id"], {"seed": 7})
        return await super().handle(request)


def test_a_server_with_only_a_prompt_and_a_step_is_played(tmp_path: Path) -> None:
    """Each attempt failed: ``reset`` was answered with 404."""
    server = BareServer(turns=3)
    with pooled(server) as url, endpoint(sayer) as fake:
        report = run(asked(fake, f"{url}/qa", episodes=8, group_size=2), tmp_path, deadlines=SOON)
    assert (report.over, report.report.succeeded, len(recorded(tmp_path))) == (8, True, 8)
    assert {one.total_reward for one in report.report.results} == {1.5}
    assert len(server.kept) == 8, "each attempt has an environment of its own"


def test_a_server_that_rejects_reset_otherwise_is_not_played(tmp_path: Path) -> None:
    server = PooledServer(wrong={"reset": web.json_response({"error": "no such task"}, status=400)})
    with pooled(server) as url, endpoint(sayer) as fake:
        report = run(asked(fake, f"{url}/qa", episodes=1, group_size=1, attempts=1), tmp_path, deadlines=SOON)
    assert [one.failure_class for one in report.report.results] == ["env_infra"]
    assert server.asked["get_task_prompt"] == 0


class Sums:
    """Asks for the numbers after its seed, one after another."""

    threads: ClassVar[list[int]] = []
    closed: ClassVar[int] = 0

    def __init__(self, seed: int, turns: int = 2) -> None:
        self.number, self.turns, self.turn = seed % 1000, turns, 0

    def get_task_prompt(self) -> list[dict[str, str]]:
        self.threads.append(threading.get_ident())
        if self.turn == self.turns:
            return []
        return [{"role": "user", "content": f"Say {self.number + self.turn}"}]

    def step(self, text: str) -> dict[str, Any]:
        right = text == str(self.number + self.turn)
        self.turn += 1
        return {"reward": 0.5 * right, "info": {"turn": self.turn}}

    def close(self) -> None:
        Sums.closed += 1


def play(
    fake: FakeModelServer, folder: Path, environment: str = f"{HERE}:Sums", **changes: Any
) -> FleetReport:
    fields: dict[str, Any] = {"environment": environment, "options": {}, "episodes": 4, "group_size": 2}
    return run(request(fake, **{**fields, **changes}), folder)


def test_objects_of_this_process_are_played_each_on_its_own_thread(tmp_path: Path) -> None:
    Sums.threads.clear()
    Sums.closed = 0
    with endpoint(sayer) as fake:
        report = play(fake, tmp_path, options={"turns": 3})
        seeds = {one.seed for one in recorded(tmp_path)}
    assert (report.over, report.report.succeeded, len(seeds)) == (4, True, 2)
    assert {one.total_reward for one in report.report.results} == {1.5}
    assert threading.get_ident() not in Sums.threads and len(set(Sums.threads)) == 4
    assert Sums.closed == 4


def test_an_episode_that_was_left_goes_on_with_a_new_object(tmp_path: Path) -> None:
    left = [Mode.OK] * 3 + [Mode.UNAUTHORIZED] * 1000
    with endpoint(sayer, left) as fake:
        halted = play(fake, tmp_path, options={"turns": 4}, episodes=1, group_size=1)
    with endpoint(sayer) as fake:
        report = play(fake, tmp_path, options={"turns": 4}, episodes=1, group_size=1)
        asked = len(fake.received)
    assert halted.halted is not None and halted.over == 0
    (result,) = report.report.results
    assert (result.total_reward, result.attempt, asked) == (2.0, 1, 1), (
        "its recorded answers are not asked again"
    )


def test_an_episode_left_on_a_server_without_reset_is_played_again(tmp_path: Path) -> None:
    server = BareServer(turns=4)
    with pooled(server) as url:
        for modes in ([Mode.OK] * 3 + [Mode.UNAUTHORIZED] * 1000, [Mode.OK]):
            with endpoint(sayer, modes) as fake:
                report = run(asked(fake, f"{url}/qa", episodes=1, group_size=1), tmp_path, deadlines=SOON)
    (lost, whole) = report.report.results
    assert (lost.failure_class, lost.again, whole.attempt, whole.total_reward) == ("killed", True, 2, 2.0)
    assert set(server.steps.values()) == {1}, "no step of an environment is sent twice"


def test_the_command_line_plays_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_tasks.py").write_text(f"from {HERE} import Sums as Task\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with endpoint(sayer) as fake:
        result = spectator(
            "rollouts", "run", "--env", "my_tasks:Task", "--base-url", fake.base_url, "--model", "m",
            "--episodes", "2", "--startup-jitter", "0", "--out", "run", "--option", "turns=3",
        )  # fmt: skip
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (
            "no_such_module:Env",
            "the environment 'no_such_module:Env' cannot be imported: ModuleNotFoundError",
        ),
        (f"{HERE}:Absent", "AttributeError: .*use MODULE:NAME"),
        (f"{HERE}:HERE", "is not a class or a function"),
    ],
)
def test_a_module_that_is_not_there_is_named_and_nothing_is_written(
    tmp_path: Path, environment: str, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        run(request("http://127.0.0.1:9/v1", environment=environment, options={}), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_no_scripted_captain_stands_in_there() -> None:
    with pytest.raises(ValueError, match="only a world of the catalogue has a scripted captain"):
        request("http://127.0.0.1:9/v1", environment=f"{HERE}:Sums", on_invalid="fallback")


def test_an_option_that_the_object_does_not_take_fails_with_its_name(tmp_path: Path) -> None:
    with endpoint(sayer) as fake:
        report = play(fake, tmp_path, options={"level": 2}, episodes=1, group_size=1, attempts=1)
    (result,) = report.report.results
    (summary,) = recorded(tmp_path)
    assert (result.failure_class, result.total_reward) == ("env_infra", None)
    assert "unexpected keyword argument 'level'" in str(summary.detail)


def of(prompt: Any = ({"role": "user", "content": "Go."},), answer: Any = None) -> PromptEnvironment:
    class Fixed:
        def get_task_prompt(self) -> Any:
            return prompt

        def step(self, action: str) -> Any:
            return answer

    environment = PromptEnvironment(Fixed)
    environment.reset(seed=1, episode_id="ep-1", options={})
    return environment


class Dumped:
    """An answer as a model of pydantic gives it."""

    def model_dump(self, mode: str) -> Mapping[str, Any]:
        return {"reward": 1, "truncated": True, "info": {"why": "time"}}


@pytest.mark.parametrize(
    ("answer", "reward", "cut"),
    [
        ({"reward": True, "terminated": True}, 1.0, False),
        ((0.25, True, False, {}), 0.25, False),
        (json.dumps({"reward": 2, "terminated": True}), 2.0, False),
        (memoryview(b'{"reward": null, "terminated": true}'), 0.0, False),
        (Dumped(), 1.0, True),
    ],
)
def test_an_answer_may_have_any_common_form(answer: Any, reward: float, cut: bool) -> None:
    seen = of(answer=answer).step({"text": "x"})
    assert (seen.reward, seen.done, "truncated" in seen.metadata) == (reward, True, cut)


async def later() -> dict[str, Any]:
    return {"reward": 1.0}


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        (None, "step returned NoneType; return a mapping with reward"),
        ({"terminated": True}, "step returned dict"),
        ({"reward": "1"}, "the reward '1', which is not a finite number"),
        ({"reward": float("nan")}, "not a finite number"),
        ({"reward": 1, "terminated": "yes"}, "terminated is 'yes'"),
        ({"reward": 1, "terminated": True, "info": {"at": object()}}, "not plain finite JSON"),
        (b"{", "not JSON"),
    ],
)
def test_a_wrong_answer_is_the_environments_failure(answer: Any, rule: str) -> None:
    with pytest.raises(EnvironmentMalformed, match=rule):
        of(answer=answer).step({"text": "x"})


def test_an_async_method_is_named() -> None:
    with pytest.raises(EnvironmentMalformed, match="step is async; make it an ordinary method"):
        of(answer=later()).step({"text": "x"})


@pytest.mark.parametrize(
    ("prompt", "rule"), [([], "empty before the first step"), ("Go.", "not JSON"), (3, "int")]
)
def test_a_wrong_prompt_is_the_environments_failure(prompt: Any, rule: str) -> None:
    with pytest.raises(EnvironmentMalformed, match=rule):
        of(prompt=prompt)


def test_a_class_that_is_in_no_module_is_played_from_python(tmp_path: Path) -> None:
    class Local(Sums):
        pass

    with endpoint(sayer) as fake:
        plan = request(fake, environment="local", options={}, episodes=2, group_size=1)
        report = run(plan, tmp_path, load=lambda name: prompt_world(Local))
    assert report.report.succeeded


def test_an_unknown_world_is_still_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="unknown 'qa'"):
        run(request("http://127.0.0.1:9/v1", environment="qa", options={}), tmp_path)
