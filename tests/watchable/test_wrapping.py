"""Environments and functions are watched by being wrapped, and the page that says so runs."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import pytest

from spectator.watchable import WatchedLoop, watch
from tests.watchable.recorded import episodes_in, events_of

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]


class Corridor:
    """Three steps to the right."""

    length = 3

    def __init__(self, form: str = "gymnasium") -> None:
        self.form = form
        self.at = 0

    def reset(self, seed: int | None = None) -> Any:
        self.at = 0
        return (self.at, {}) if self.form == "gymnasium" else self.at

    def step(self, action: int) -> Any:
        if action > 1:
            raise ValueError("no such way")
        self.at += action
        done = self.at == self.length
        if self.form == "gymnasium":
            return self.at, float(done), done, False, {}
        if self.form == "gym":
            return self.at, float(done), done or not action, {"TimeLimit.truncated": not action}
        return SimpleNamespace(observation=self.at, reward=float(done), done=done)


@pytest.mark.parametrize("form", ["gymnasium", "gym", "observation"])
async def test_an_environment_is_watched(tmp_path: Path, form: str) -> None:
    env = watch(Corridor(form), tmp_path / "mine", name="corridor")
    env.reset(seed=4)
    answers = [env.step(1) for _ in range(3)]
    env.reset(seed=5)
    env.step(1)
    env.reset(seed=6)
    with pytest.raises(ValueError, match="no such way"):
        env.step(2)
    env.reset()
    env.close()
    assert env.length == 3 and len(answers) == 3
    found = await episodes_in(tmp_path / "mine")
    assert [(one.seed, one.reason, one.score, one.turns) for one in found] == [
        (4, "finished", 1.0, 3), (5, "step_cap", None, 1), (6, "environment_error", None, 0),
        (0, "step_cap", None, 0),
    ]  # fmt: skip
    assert {one.environment for one in found} == {"corridor"}
    assert [one.detail for one in found][1:] == [
        "it was reset before its end", "ValueError: no such way", "the environment was closed before its end",
    ]  # fmt: skip
    events = await events_of(tmp_path / "mine", found[0].episode_id)
    assert [event.data["text"] for event in events if event.type == "imported.said"] == ["0", "1", "2", "3"]


async def test_a_step_that_old_gym_cut_short_is_no_end(tmp_path: Path) -> None:
    env = watch(Corridor("gym"), tmp_path / "mine")
    env.reset()
    env.step(0)
    env.close()
    (one,) = await episodes_in(tmp_path / "mine")
    assert (one.reason, one.turns) == ("step_cap", 1)


async def test_an_environment_of_gymnasium_stays_one(tmp_path: Path) -> None:
    with watch(tmp_path / "mine") as run:
        plain = gymnasium.make("CartPole-v1")
        env = gymnasium.wrappers.TimeLimit(watch(plain, run), 3)
        assert isinstance(env, gymnasium.Env) and env.unwrapped is plain.unwrapped
        for seed in range(2):
            env.reset(seed=seed)
            while not any(env.step(0)[2:4]):
                pass
        env.close()
        with run.episode():
            pass  # its run is open
    found = await episodes_in(tmp_path / "mine")
    assert [(one.seed, one.reason, one.turns) for one in found] == [
        (0, "step_cap", 3), (1, "step_cap", 3), (0, "finished", 0),
    ]  # fmt: skip
    with pytest.raises(TypeError, match="watch each of its environments"):
        watch(gymnasium.make_vec("CartPole-v1", num_envs=2), tmp_path / "several")
    assert not (tmp_path / "several").exists()


async def test_functions_are_watched(tmp_path: Path) -> None:
    with watch(tmp_path / "mine") as run:

        async def answer(question: str, *, tries: int) -> dict[str, Any]:
            await asyncio.sleep(0)
            return {"said": question * tries, "reward": 0.5}

        judge = watch(lambda said: len(said) / 4, run)
        shown = watch(answer, run)
        assert judge("ab") == 0.5
        assert await shown("ab", tries=2) == {"said": "abab", "reward": 0.5}
        assert watch(bool, run)(1) is True
        with pytest.raises(ZeroDivisionError):
            watch(lambda: 1 / 0, run)()
    found = await episodes_in(tmp_path / "mine")
    assert [(one.reason, one.score) for one in found] == [
        ("finished", 0.5), ("finished", 0.5), ("finished", None), ("environment_error", None),
    ]  # fmt: skip


def test_what_is_not_watchable_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="a int cannot be watched"):
        watch(3, tmp_path / "mine")
    with pytest.raises(TypeError, match="a Corridor needs the folder of its run"):
        watch(Corridor(), None)  # type: ignore[call-overload]
    assert not (tmp_path / "mine").exists()
    with watch(tmp_path / "mine") as run:
        assert isinstance(run, WatchedLoop)
        with pytest.raises(TypeError, match="name cannot be changed: the run is already open"):
            watch(Corridor(), run, name="corridor")


async def test_the_page_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "watch-runs.md").read_text()
    section = page.partition("\n## A loop of your own\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    done = subprocess.run(  # noqa: ASYNC221
        [sys.executable, "-c", "\n".join(blocks)],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    runs = {path.name: await episodes_in(path) for path in sorted((tmp_path / "runs").iterdir())}
    assert {name: len(found) for name, found in runs.items()} == {
        "cartpole": 4, "judged": 1, "mine": 16, "sums": 1,
    }  # fmt: skip
    assert len({one.group_id for one in runs["mine"]}) == 4
    assert all(one.reason == "finished" for found in runs.values() for one in found)
