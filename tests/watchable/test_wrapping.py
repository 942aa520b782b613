"""Environments and functions are watched by being wrapped, and the page that says so runs."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

from spectator.watchable import WatchedLoop, watch, watchable
from spectator.watchable.watched_loop import WatchedEpisode
from tests.watchable.recorded import episodes_in, events_of

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
        if self.form == "brax":
            return self.at, float(done), done or not action, {"truncation": np.float32(not action)}
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
    for _ in range(2):
        env.reset()
    env.step(1)
    env.reset()
    env.close()
    assert env.length == 3 and len(answers) == 3
    found = await episodes_in(tmp_path / "mine")
    assert [(one.seed, one.reason, one.score, one.turns) for one in found] == [
        (4, "finished", 1.0, 3), (5, "step_cap", None, 1), (6, "environment_error", None, 0),
        (0, "step_cap", None, 1),
    ], "a reset without a step is not an episode"  # fmt: skip
    assert {one.environment for one in found} == {"corridor"}
    assert [one.detail for one in found][1:] == [
        "it was reset before its end", "ValueError: no such way", "it was reset before its end",
    ]  # fmt: skip
    events = await events_of(tmp_path / "mine", found[0].episode_id)
    assert [event.data["text"] for event in events if event.type == "imported.said"] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("form", ["gym", "brax"])
async def test_a_step_that_old_gym_cut_short_is_no_end(tmp_path: Path, form: str) -> None:
    env = watch(Corridor(form), tmp_path / "mine")
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
    silent = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")])
    silent.metadata = {}
    with pytest.raises(TypeError, match="does not say when it resets its environments"):
        watch(silent, tmp_path / "several")
    assert not (tmp_path / "several").exists()


class Together:
    """Two agents at once, as PettingZoo's parallel form has them; the second leaves after two steps."""

    def reset(self, seed: int | None = None, options: object = None) -> Any:
        self.at = 0
        return {"a": 0, "b": 0}, {"a": {}, "b": {}}

    def step(self, actions: dict[str, int]) -> Any:
        self.at += 1
        over = self.at == 5
        here = ["a", "b"] if self.at <= 2 else ["a"]
        rewards = {"a": 1.0, "b": -0.5}
        return (
            dict.fromkeys(here, self.at), {agent: rewards[agent] for agent in here},
            {agent: over or (agent == "b" and self.at == 2) for agent in here}, dict.fromkeys(here, False),
            {agent: {} for agent in here},
        )  # fmt: skip


class Turns:
    """Two agents in turns, as PettingZoo's AEC form has them."""

    def reset(self, seed: int | None = None) -> None:
        self.at, self.agents, self.agent_selection = 0, ["a", "b"], "a"
        self.rewards = {"a": 0.0, "b": 0.0}
        self.terminations = self.truncations = dict.fromkeys(self.agents, False)

    def agent_iter(self) -> Any:
        return iter("ab" * 2)

    def observe(self, agent: str) -> str:
        return f"{agent} at {self.at}"

    def step(self, action: int | None) -> None:
        self.at += 1
        self.agent_selection = "ab"[self.at % 2]
        self.rewards = {"a": 1.0 * (self.at == 4), "b": 0.0}
        self.terminations = dict.fromkeys(self.agents, self.at >= 4)


class TimeSteps(Corridor):
    """Steps as dm_env's ``TimeStep``; ``players`` makes it OpenSpiel's. Cut short by an action of 0."""

    def reset(self, seed: int | None = None) -> Any:
        super().reset()
        return self._at(None, 1.0)

    def step(self, action: int) -> Any:
        self.at += action
        over = self.at == self.length
        return self._at(float(over), 0.0 if over else 1.0, last=over or not action)

    def _at(self, reward: float | None, discount: float, last: bool = False) -> Any:
        many = self.form == "OpenSpiel"
        named = ("observations", "rewards") if many else ("observation", "reward")
        parts = {named[0]: self.at, named[1]: [reward, reward] if many and reward is not None else reward}
        return SimpleNamespace(step_type=2 * last, last=lambda: last, discount=discount, **parts)


class Batch:
    """Two environments that reset themselves, as a batch of Stable-Baselines3; the second is cut short."""

    num_envs = 2

    def reset(self) -> Any:
        self.at = np.zeros(2, int)
        return self.at.copy()

    def step(self, actions: Any) -> Any:
        self.at += 1
        infos: list[dict[str, Any]] = [{}, {}]
        dones = self.at == (3, 2)
        for index in np.flatnonzero(dones):
            infos[index] = {"terminal_observation": int(self.at[index]), "TimeLimit.truncated": index == 1}
        self.at[dones] = 0
        return self.at.copy(), np.array([1.0, 0.25]), dones, infos


class TalkingGame:
    """``(done, info)`` from a step and the rewards from ``close``, as TextArena's games."""

    def reset(self, num_players: int) -> None:
        self.at = 0

    def step(self, action: str) -> Any:
        self.at += 1
        return self.at == 2, {"turn": self.at}

    def close(self) -> Any:
        return {0: 1, 1: -1}, {}


@pytest.mark.parametrize(
    ("env", "actions", "expected"),
    [
        (Together(), [{"a": 0, "b": 0}] * 5, [("finished", 4.0, 5)]),
        (Turns(), [0, 1, 0, 1], [("finished", 1.0, 4)]),
        (TimeSteps("dm_env"), [1, 1, 1], [("finished", 1.0, 3)]),
        (TimeSteps("dm_env"), [1, 0], [("step_cap", None, 2)]),
        (TimeSteps("OpenSpiel"), [1, 1, 1], [("finished", 2.0, 3)]),
    ],
)
async def test_other_forms_have_their_lengths_rewards_and_ends(
    tmp_path: Path, env: Any, actions: list[Any], expected: list[Any]
) -> None:
    watched = watchable(env, tmp_path / "mine")
    watched.reset()
    for action in actions:
        watched.step(action)
    watched.close()
    found = await episodes_in(tmp_path / "mine")
    assert [(one.reason, one.score, one.turns) for one in found] == expected


async def test_each_environment_of_a_batch_has_its_own_episodes(tmp_path: Path) -> None:
    env = watch(Batch(), tmp_path / "mine")
    env.reset()
    for _ in range(6):
        env.step(np.zeros(2))
    env.close()
    found = await episodes_in(tmp_path / "mine")
    assert sorted((one.reason, one.score or 0.0, one.turns) for one in found if one.turns) == [
        ("finished", 3.0, 3), ("finished", 3.0, 3), *[("step_cap", 0.0, 2)] * 3,
    ]  # fmt: skip
    longest = next(one for one in found if one.turns == 3)
    events = await events_of(tmp_path / "mine", longest.episode_id)
    assert [one.data["text"] for one in events if one.type == "imported.said"] == ["0", "1", "2", "3"]
    with pytest.raises(TypeError, match="cannot watch a batch of 5000 environments; watch at most 1024"):
        watch(SimpleNamespace(num_envs=5_000, reset=print, step=print), tmp_path / "many")


class Reusing:
    """Returns the same array, mapping and list in each step; its ``__dict__`` must not be asked for."""

    def __init__(self) -> None:
        self.at = np.zeros(2)

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise AssertionError("CPython makes each attribute slower once it is asked for")

    def reset(self) -> Any:
        self.at[:] = 0
        return {"at": self.at}

    def step(self, action: list[int]) -> Any:
        self.at += 1
        action[0] += 1
        return {"at": self.at}, 1.0, False, False, {}


class ReusingBatch(Batch):
    """A batch of which each environment returns its place in the same array."""

    def reset(self) -> Any:
        super().reset()
        return self.at

    def step(self, actions: Any) -> Any:
        answer = super().step(actions)
        actions[0] += 1
        return self.at, *answer[1:]


@pytest.mark.parametrize(
    ("env", "action", "shown"),
    [
        (Reusing(), [0], ['{"at":[0.0,0.0]}', '{"at":[1.0,1.0]}', '{"at":[2.0,2.0]}']),
        (ReusingBatch(), np.zeros(2, int), ["0", "1", "2"]),
    ],
)
async def test_another_thread_reads_steps_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: Any, action: Any, shown: list[str]
) -> None:
    record, threads = WatchedEpisode.record, set()

    def noted(*given: Any) -> None:
        threads.add(threading.get_ident())
        record(*given)

    monkeypatch.setattr(WatchedEpisode, "record", noted)
    with watch(tmp_path / "mine") as run:
        watched = watch(env, run)
        watched.reset()
        for _ in range(2):
            watched.step(action)
        while run._line._unread:
            pass
    assert threads and threading.get_ident() not in threads
    first = (await episodes_in(tmp_path / "mine"))[0]
    events = await events_of(tmp_path / "mine", first.episode_id)
    assert [event.data["text"] for event in events if event.type == "imported.said"] == shown
    decided = [event.data["action"]["action"] for event in events if "action" in event.data]
    assert decided == ([[1], [2]] if isinstance(action, list) else [1, 2])


async def test_what_close_returns_is_passed_on(tmp_path: Path) -> None:
    env = watch(TalkingGame(), tmp_path / "mine")
    env.reset(num_players=2)
    assert [env.step("[pass]")[0] for _ in range(2)] == [False, True]
    assert env.close() == ({0: 1, 1: -1}, {})
    (one,) = await episodes_in(tmp_path / "mine")
    assert (one.reason, one.score, one.turns) == ("finished", None, 2)


@pytest.mark.parametrize(
    "answer",
    [
        (np.zeros((2, 3)), np.ones(2), np.array([True, False]), np.zeros(2, bool), {}),
        (0, {"a": "much"}, {"a": False}, {"a": False}, {}),
        (0, 1.0, {"a": False}, 3, {}),
        SimpleNamespace(step_type=1, last=lambda: 1 / 0),
    ],
    ids=["an unknown batch", "rewards in words", "ends of two forms", "a broken end"],
)
async def test_what_cannot_be_read_is_said_and_never_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, answer: Any
) -> None:
    env = watch(SimpleNamespace(reset=lambda: 0, step=lambda action: answer), tmp_path / "mine")
    env.reset()
    assert all(env.step(0) is answer for _ in range(3))
    env.reset()
    assert env.step(0) is answer
    env.close()
    assert caplog.text.count("an episode is not recorded completely") == 1
    found = await episodes_in(tmp_path / "mine")
    assert [one.detail for one in found] == ["what the environment returned cannot be read"] * 2


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
