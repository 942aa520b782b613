"""Plays environments of packages that are too large for ``make test``, watched, for ``tools.try_packages``.

``python -m tests.watchable.large_packages FOLDER PACKAGE...`` plays all forms of packages, those of
:mod:`.real_packages` too.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from typing import Any

from spectator.watchable import WatchedLoop, watch
from tests.watchable.real_packages import FORMS, Counted, form, how, played

# Stable-Baselines3


def carts(number: int) -> list[Any]:
    """Functions that make CartPole, cut short after 30 steps."""
    import gymnasium

    return [lambda: gymnasium.make("CartPole-v1", max_episode_steps=30)] * number


def batch(env: Any, run: WatchedLoop) -> Counted:
    """A batch of Stable-Baselines3, which resets its environments in the step in which they end."""
    import numpy
    from stable_baselines3.common.vec_env import VecEnv

    watched = watch(env, run)
    assert isinstance(watched, VecEnv)
    watched.seed(3)
    watched.reset()
    size, counted = watched.num_envs, Counted()
    steps, sums = [0] * size, [0.0] * size
    chance = numpy.random.default_rng(3)
    for _ in range(120):
        _, rewards, dones, infos = watched.step(chance.integers(0, 2, size))
        for index, info in enumerate(infos):
            steps[index] += 1
            sums[index] += float(rewards[index])
            if dones[index]:
                counted.append((how(not info["TimeLimit.truncated"], True), steps[index], sums[index]))
                steps[index], sums[index] = 0, 0.0
    watched.close()
    return [*counted, *(("open", n, None) for n in steps if n)]


@form("stable-baselines3", "DummyVecEnv")
def dummy_batch(run: WatchedLoop) -> Counted:
    from stable_baselines3.common.vec_env import DummyVecEnv

    return batch(DummyVecEnv(carts(3)), run)


@form("stable-baselines3", "SubprocVecEnv")
def batch_of_processes(run: WatchedLoop) -> Counted:
    from stable_baselines3.common.vec_env import SubprocVecEnv

    return batch(SubprocVecEnv(carts(2)), run)


def learned(algorithm: str, env: Any, steps: int, **options: Any) -> Counted:
    """What a monitor outside the watched environment counted while a policy learned."""
    import stable_baselines3
    from stable_baselines3.common.callbacks import BaseCallback

    class Count(BaseCallback):  # type: ignore[misc]
        """Counts the episodes that the monitor reports."""

        def __init__(self) -> None:
            super().__init__()
            self.counted: Counted = []
            self.steps: list[int] = []

        def _on_step(self) -> bool:
            self.steps = self.steps or [0] * self.training_env.num_envs
            for index, info in enumerate(self.locals["infos"]):
                self.steps[index] += 1
                if (episode := info.get("episode")) is not None:
                    self.steps[index] = 0
                    cut = bool(info.get("TimeLimit.truncated"))
                    self.counted.append((how(not cut, True), int(episode["l"]), float(episode["r"])))
            return True

    count = Count()
    model = getattr(stable_baselines3, algorithm)("MlpPolicy", env, seed=1, device="cpu", **options)
    model.learn(steps, callback=count)
    model.get_env().close()
    return [*count.counted, *(("open", n, None) for n in count.steps if n)]


@form("stable-baselines3", "PPO.learn on a batch")
def learned_on_batch(run: WatchedLoop) -> Counted:
    from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize

    env = VecNormalize(VecMonitor(watch(DummyVecEnv(carts(2)), run)))
    return learned("PPO", env, 256, n_steps=64, batch_size=32, n_epochs=1)


@form("stable-baselines3", "DQN.learn on one environment")
def learned_on_one(run: WatchedLoop) -> Counted:
    from stable_baselines3.common.monitor import Monitor

    return learned("DQN", Monitor(watch(carts(1)[0](), run)), 200, learning_starts=50)


# jumanji


@form("jumanji", "environment")
def jumanji_itself(run: WatchedLoop) -> Counted:
    import jumanji

    watch(jumanji.make("Snake-v1"), run)
    return []


@form("jumanji", "JumanjiToGymWrapper")
def jumanji_gymnasium(run: WatchedLoop) -> Counted:
    import jumanji
    import numpy
    from jumanji.wrappers import JumanjiToGymWrapper

    env, counted = watch(JumanjiToGymWrapper(jumanji.make("Snake-v1")), run), Counted()
    for seed in range(2):
        env.reset(seed=seed)
        steps, total, over, cut = 0, 0.0, False, False
        while not (over or cut):
            _, reward, over, cut, _ = env.step(numpy.int32(steps % 4))
            steps, total = steps + 1, total + float(reward)
        counted.append((how(over, cut), steps, total))
    env.close()
    return counted


@form("jumanji", "JumanjiToDMEnvWrapper")
def jumanji_dm(run: WatchedLoop) -> Counted:
    import jumanji
    import numpy
    from jumanji.wrappers import JumanjiToDMEnvWrapper

    env, counted = watch(JumanjiToDMEnvWrapper(jumanji.make("Snake-v1")), run), Counted()
    for _ in range(2):
        step, steps, total = env.reset(), 0, 0.0
        while not step.last():
            step = env.step(numpy.int32(steps % 4))
            steps, total = steps + 1, total + float(step.reward)
        counted.append((how(float(step.discount) == 0, True), steps, total))
    env.close()
    return counted


# brax


@form("brax", "environment")
def brax_itself(run: WatchedLoop) -> Counted:
    from brax import envs

    watch(envs.create("fast", episode_length=20), run)
    return []


@form("brax", "GymWrapper")
def brax_gym(run: WatchedLoop) -> Counted:
    import numpy
    from brax import envs
    from brax.envs.wrappers.gym import GymWrapper

    inner = envs.create("inverted_pendulum", episode_length=20, backend="generalized", auto_reset=False)
    env, counted = watch(GymWrapper(inner), run), Counted()
    for push in (0.0, 3.0):
        env.reset()
        steps, total, done = 0, 0.0, False
        while not done:
            _, reward, done, info = env.step(numpy.array([push], numpy.float32))
            steps, total = steps + 1, total + float(reward)
        counted.append((how(not info["truncation"], True), steps, total))
    env.close()
    return counted


@form("brax", "VectorGymWrapper")
def brax_batch(run: WatchedLoop) -> Counted:
    import numpy
    from brax import envs
    from brax.envs.wrappers.gym import VectorGymWrapper

    inner = envs.create("inverted_pendulum", episode_length=20, backend="generalized", batch_size=2)
    env, counted = watch(VectorGymWrapper(inner), run), Counted()
    env.reset()
    steps, sums = [0, 0], [0.0, 0.0]
    for _ in range(50):
        _, rewards, dones, info = env.step(numpy.array([[0.0], [3.0]], numpy.float32))
        for index in range(2):
            steps[index], sums[index] = steps[index] + 1, sums[index] + float(rewards[index])
            if dones[index]:
                counted.append((how(not info["truncation"][index], True), steps[index], sums[index]))
                steps[index], sums[index] = 0, 0.0
    return [*counted, *(("open", n, None) for n in steps if n)]


# verifiers


@form("verifiers", "environment")
def verifiers_itself(run: WatchedLoop) -> Counted:
    import verifiers.v1 as verifiers

    watch(object.__new__(verifiers.SingleAgentEnv), run)
    return []


# OpenEnv


class GuessingServer:
    """A server of OpenEnv's own, in this process: guess the number; it ends with the guess or after five."""

    def __enter__(self) -> str:
        import uvicorn
        from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app

        class Guess(Action):  # type: ignore[misc]
            number: int

        class Answer(Observation):  # type: ignore[misc]
            text: str = ""

        class Guessing(Environment):  # type: ignore[misc]
            SUPPORTS_CONCURRENT_SESSIONS = True

            def __init__(self) -> None:
                super().__init__()
                self.guesses, self.secret = 0, 3

            def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Any:
                self.guesses, self.secret = 0, 3 if seed is None else seed
                return Answer(text="Which number?", done=False, reward=None)

            def step(self, action: Any, timeout_s: float | None = None, **_: Any) -> Any:
                self.guesses += 1
                right = action.number == self.secret
                text = "right" if right else "wrong"
                return Answer(text=text, done=right or self.guesses == 5, reward=1.0 if right else -0.25)

            @property
            def state(self) -> Any:
                return State(episode_id="one", step_count=self.guesses)

        app = create_fastapi_app(Guessing, Guess, Answer)
        self.server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    def __exit__(self, *error: object) -> None:
        self.server.should_exit = True
        self.thread.join(10)


@form("openenv", "client, synchronous")
def openenv_client(run: WatchedLoop) -> Counted:
    from openenv.core import GenericEnvClient

    counted: Counted = []
    with GuessingServer() as address, watch(GenericEnvClient(base_url=address).sync(), run) as env:
        for seed in (2, 4, 9):
            result = env.reset(seed=seed)
            steps, total = 0, 0.0
            while not result.done:
                result = env.step({"number": steps + 1})
                steps, total = steps + 1, total + result.reward
            counted.append(("finished", steps, total))
    return counted


@form("openenv", "client, asynchronous")
def openenv_async_client(run: WatchedLoop) -> Counted:
    from openenv.core import GenericEnvClient

    async def play(address: str) -> Counted:
        counted: Counted = []
        async with watch(GenericEnvClient(base_url=address), run) as env:
            for seed in (2, 9):
                result = await env.reset(seed=seed)
                steps, total = 0, 0.0
                while not result.done:
                    result = await env.step({"number": steps + 1})
                    steps, total = steps + 1, total + result.reward
                counted.append(("finished", steps, total))
        return counted

    with GuessingServer() as address:
        return asyncio.run(play(address))


if __name__ == "__main__":
    wanted = [name for name, (package, _) in FORMS.items() if package in sys.argv[2:]]
    print(json.dumps(list(played(sys.argv[1], wanted))))
