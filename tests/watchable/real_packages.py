"""Plays environments of real packages, watched: ``python -m tests.watchable.real_packages FOLDER FORM...``.

Each form plays with its package's own API and counts what that says: how each episode ended, its steps and
its rewards. The last line of the output is what was counted.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from types import ModuleType
from typing import Any

from spectator.watchable import WatchedLoop, watch

Counted = list[tuple[str, int, float | None]]
"""The episodes: how each ended, its steps, the sum of its rewards if it ended."""

FORMS: dict[str, tuple[str, Callable[[WatchedLoop], Counted]]] = {}
"""By name: the package, and what plays and counts."""


def form(package: str, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a form of a package."""

    def declare(play: Callable[..., Any]) -> Callable[..., Any]:
        FORMS[f"{package}: {name}"] = (package, play)
        return play

    return declare


def how(ended: Any, cut: Any) -> str:
    """How an episode ended."""
    return "finished" if ended else "step_cap" if cut else "open"


# Gymnasium


@form("gymnasium", "environment")
def gymnasium_environment(run: WatchedLoop) -> Counted:
    import gymnasium

    counted: Counted = []
    for name, most in (("CartPole-v1", 60), ("MountainCar-v0", 7)):
        plain = gymnasium.make(name, max_episode_steps=most)
        env = gymnasium.wrappers.RecordEpisodeStatistics(watch(plain, run))
        env.action_space.seed(1)
        for seed in range(3):
            env.reset(seed=seed)
            ended = cut = False
            while not (ended or cut):
                _, _, ended, cut, info = env.step(env.action_space.sample())
            counted.append((how(ended, cut), int(info["episode"]["l"]), float(info["episode"]["r"])))
        env.close()
    return counted


@form("gymnasium", "environment that resets itself")
def gymnasium_again(run: WatchedLoop) -> Counted:
    import gymnasium

    env = watch(gymnasium.wrappers.Autoreset(gymnasium.make("CartPole-v1", max_episode_steps=20)), run)
    env.action_space.seed(1)
    env.reset(seed=1)
    steps, total, over, counted = 0, 0.0, False, Counted()
    for _ in range(90):
        _, reward, ended, cut, _ = env.step(env.action_space.sample())
        steps, total = (0, 0.0) if over else (steps + 1, total + float(reward))
        if over := ended or cut:
            counted.append((how(ended, cut), steps, total))
    env.close()
    return [*counted, *([("open", steps, None)] if steps and not over else [])]


def vector(make: Callable[[Any], Any], mode: str, run: WatchedLoop) -> Counted:
    """A vector environment of Gymnasium, counted as its documentation says for its mode."""
    import gymnasium
    import numpy

    def one() -> Any:
        return gymnasium.make("CartPole-v1", max_episode_steps=25)

    watched = watch(make([one, one, one]), run)
    assert isinstance(watched, gymnasium.vector.VectorEnv)
    env = watched if mode == "Disabled" else gymnasium.vector.VectorWrapper(watched)
    env.action_space.seed(2)
    env.reset(seed=5)
    counted: Counted = []
    steps, sums, over = [0] * 3, [0.0] * 3, numpy.zeros(3, bool)
    for _ in range(90):
        _, rewards, ended, cut, _ = env.step(env.action_space.sample())
        for index in range(3):
            if mode == "NextStep" and over[index]:
                steps[index], sums[index] = 0, 0.0
                continue
            steps[index] += 1
            sums[index] += float(rewards[index])
            if ended[index] or cut[index]:
                counted.append((how(ended[index], cut[index]), steps[index], sums[index]))
                if mode != "NextStep":
                    steps[index], sums[index] = 0, 0.0
        over = ended | cut
        if mode == "Disabled" and over.any():
            env.reset(options={"reset_mask": over.copy()})
    env.close()
    return [*counted, *(("open", n, None) for n, out in zip(steps, over, strict=True) if n and not out)]


def modes(kind: str) -> None:
    """Declare the modes of a class of vector environments."""
    for mode in ("NextStep", "SameStep", "Disabled"):

        @form("gymnasium", f"{kind}, {mode}")
        def play(run: WatchedLoop, mode: str = mode) -> Counted:
            import gymnasium

            made = getattr(gymnasium.vector, kind)
            return vector(lambda envs: made(envs, autoreset_mode=mode), mode, run)


modes("SyncVectorEnv")
modes("AsyncVectorEnv")


# PettingZoo


def in_turns(env: Any, run: WatchedLoop, seed: int) -> Counted:
    """An AEC environment, in the loop of its documentation; rewards are those that the agents saw."""
    from pettingzoo import AECEnv
    from pettingzoo.utils.wrappers import BaseWrapper

    watched = watch(env, run)
    assert isinstance(watched, AECEnv)
    counted: Counted = []
    chance = random.Random(seed)
    for again in range(2):
        outer = BaseWrapper(watched) if again else watched
        outer.reset(seed=seed + again)
        steps, total, ended = 0, 0.0, False
        for agent in outer.agent_iter():
            observation, reward, termination, truncation, info = outer.last()
            total += float(reward)
            if termination or truncation:
                ended = ended or termination
                outer.step(None)
                continue
            masks = [one["action_mask"] for one in (observation, info) if _has(one, "action_mask")]
            legal = [*masks[0].nonzero()[0]] if masks else range(outer.action_space(agent).n)
            outer.step(int(chance.choice([*legal])))
            steps, ended = steps + 1, False
        counted.append((how(ended, True), steps, total))
    watched.close()
    return counted


def _has(one: Any, name: str) -> bool:
    return isinstance(one, dict) and name in one


def together(env: Any, run: WatchedLoop, seed: int) -> Counted:
    """A parallel environment, in the loop of its documentation."""
    from pettingzoo import ParallelEnv

    watched = watch(env, run)
    assert isinstance(watched, ParallelEnv)
    counted: Counted = []
    chance = random.Random(seed)
    for again in range(2):
        watched.reset(seed=seed + again)
        steps, total, ended = 0, 0.0, False
        while watched.agents:
            actions = {one: chance.randrange(int(watched.action_space(one).n)) for one in watched.agents}
            _, rewards, terminations, _, _ = watched.step(actions=actions)
            steps += 1
            total += sum(map(float, rewards.values()))
            ended = any(terminations.values())
        counted.append((how(ended, True), steps, total))
    watched.close()
    return counted


@form("pettingzoo", "AEC, tictactoe")
def pettingzoo_turns(run: WatchedLoop) -> Counted:
    from pettingzoo.classic import tictactoe_v3

    return in_turns(tictactoe_v3.env(), run, 3)


@form("pettingzoo", "AEC, rps with rewards in every round")
def pettingzoo_rounds(run: WatchedLoop) -> Counted:
    from pettingzoo.classic import rps_v2

    return in_turns(rps_v2.env(max_cycles=6), run, 4)


@form("pettingzoo", "AEC, agents that come and go")
def pettingzoo_generated(run: WatchedLoop) -> Counted:
    from pettingzoo.test.example_envs import generated_agents_env_v0

    return in_turns(generated_agents_env_v0.raw_env(max_cycles=20), run, 5)


@form("pettingzoo", "parallel, rps")
def pettingzoo_parallel(run: WatchedLoop) -> Counted:
    from pettingzoo.classic import rps_v2

    return together(rps_v2.parallel_env(max_cycles=6), run, 6)


# TimeSteps


@form("dm-env", "environment")
def dm_environment(run: WatchedLoop) -> Counted:
    import dm_env
    from dm_env import specs

    class Corridor(dm_env.Environment):  # type: ignore[misc]
        """Three steps to the right; five steps at most."""

        def reset(self) -> dm_env.TimeStep:
            self.at = self.steps = 0
            return dm_env.restart(self.at)

        def step(self, action: int) -> dm_env.TimeStep:
            if getattr(self, "over", True):
                self.over = False
                return self.reset()
            self.at, self.steps = self.at + action, self.steps + 1
            self.over = self.at == 3 or self.steps == 5
            if self.at == 3:
                return dm_env.termination(1.0, self.at)
            return (dm_env.truncation if self.over else dm_env.transition)(-0.25, self.at)

        def observation_spec(self) -> Any:
            return specs.Array((), int)

        def action_spec(self) -> Any:
            return specs.DiscreteArray(2)

    counted: Counted = []
    with watch(Corridor(), run) as env:
        assert isinstance(env, dm_env.Environment)
        for action in (1, 1, 0, 1, 1) + (0,) * 6 + (1,) * 8:
            step = env.step(action)
            if step.first():
                steps, total = 0, 0.0
                continue
            steps, total = steps + 1, total + step.reward
            if step.last():
                counted.append((how(step.discount == 0, True), steps, total))
    return [*counted, *([] if step.last() or not steps else [("open", steps, None)])]


def spiel(game: str, run: WatchedLoop) -> Counted:
    """A game of OpenSpiel, in its own environment; a step after the last begins the next game."""
    from open_spiel.python import rl_environment

    env = watch(rl_environment.Environment(game), run)
    assert isinstance(env, rl_environment.Environment)
    env.seed(3)
    chance, counted = random.Random(8), Counted()
    step, steps, total = env.reset(), 0, 0.0
    while len(counted) < 3:
        legal = step.observations["legal_actions"]
        seats = range(env.num_players) if step.is_simultaneous_move() else [step.current_player()]
        over = step.last()
        step = env.step([0] * (1 if env.is_turn_based else env.num_players) if over else [
            chance.choice(legal[seat]) for seat in seats
        ])  # fmt: skip
        if step.first():
            steps, total = 0, 0.0
            continue
        steps, total = steps + 1, total + sum(step.rewards)
        if step.last():
            counted.append(("finished", steps, total))
    return counted


@form("open-spiel", "rl_environment, turns")
def spiel_turns(run: WatchedLoop) -> Counted:
    return [*spiel("tic_tac_toe", run), *spiel("kuhn_poker(players=3)", run)]


@form("open-spiel", "rl_environment, simultaneous")
def spiel_together(run: WatchedLoop) -> Counted:
    return spiel("coop_box_pushing", run)


@form("open-spiel", "pyspiel")
def spiel_itself(run: WatchedLoop) -> Counted:
    import pyspiel

    game = pyspiel.load_game("tic_tac_toe")
    watch(game.new_initial_state(), run)
    return []


# TextArena


@form("textarena", "game of two")
def textarena_two(run: WatchedLoop) -> Counted:
    import textarena

    counted: Counted = []
    for seed in range(2):
        env = watch(textarena.make("TicTacToe-v0-raw"), run)
        assert isinstance(env, textarena.Env)
        env.reset(num_players=2, seed=seed)
        chance, done, steps = random.Random(seed), False, 0
        while not done:
            env.get_observation()
            done, _ = env.step(action=f"[{chance.randrange(9)}]")
            steps += 1
        rewards, _ = env.close()
        counted.append(("finished", steps, float(sum(rewards.values()))))
    return counted


@form("textarena", "game of one")
def textarena_one(run: WatchedLoop) -> Counted:
    import textarena

    env = watch(textarena.wrappers.LLMObservationWrapper(env=textarena.make("GuessTheNumber-v0-raw")), run)
    env.reset(num_players=1, seed=3)
    done, steps, guesses = False, 0, iter(range(1, 100))
    while not done:
        env.get_observation()
        done, _ = env.step(action=f"[{next(guesses)}]")
        steps += 1
    rewards, _ = env.close()
    return [("finished", steps, float(sum(rewards.values())))]


# EnvPool


def envpool_alone() -> Any:
    """EnvPool with classic control only: the other families need assets, 300 MB in packages of their own."""
    sys.modules.setdefault("envpool.entry", ModuleType("envpool.entry"))
    import envpool
    import envpool.classic_control.registration

    return envpool


@form("envpool", "Gymnasium")
def envpool_gymnasium(run: WatchedLoop) -> Counted:
    import numpy

    env = watch(envpool_alone().make_gymnasium("CartPole-v1", num_envs=3, seed=1, max_episode_steps=20), run)
    env.reset()
    steps, sums, counted = [0] * 3, [0.0] * 3, Counted()
    chance = numpy.random.default_rng(1)
    for _ in range(80):
        _, rewards, ended, cut, info = env.step(chance.integers(0, 2, 3).astype(numpy.int32))
        for index, elapsed in enumerate(info["elapsed_step"]):
            if elapsed == 0:
                steps[index], sums[index] = 0, 0.0
                continue
            steps[index], sums[index] = steps[index] + 1, sums[index] + float(rewards[index])
            assert steps[index] == elapsed
            if ended[index] or cut[index]:
                counted.append((how(ended[index], cut[index]), steps[index], sums[index]))
                steps[index] = 0
    env.close()
    return [*counted, *(("open", n, None) for n in steps if n)]


@form("envpool", "dm_env")
def envpool_dm(run: WatchedLoop) -> Counted:
    import numpy

    env = watch(envpool_alone().make_dm("CartPole-v1", num_envs=2, seed=2, max_episode_steps=20), run)
    env.reset()
    steps, sums, counted = [0] * 2, [0.0] * 2, Counted()
    chance = numpy.random.default_rng(1)
    for _ in range(60):
        found = env.step(chance.integers(0, 2, 2).astype(numpy.int32))
        for index, kind in enumerate(found.step_type):
            if kind == 0:
                steps[index], sums[index] = 0, 0.0
                continue
            steps[index], sums[index] = steps[index] + 1, sums[index] + float(found.reward[index])
            if kind == 2:
                counted.append((how(found.discount[index] == 0, True), steps[index], sums[index]))
                steps[index] = 0
    env.close()
    return [*counted, *(("open", n, None) for n in steps if n)]


@form("envpool", "in parts (batch_size < num_envs)")
def envpool_in_parts(run: WatchedLoop) -> Counted:
    watch(envpool_alone().make_gymnasium("CartPole-v1", num_envs=4, batch_size=2), run)
    return []


def played(folder: str, names: list[str]) -> Iterator[dict[str, Any]]:
    """Play each form in a run of its own name, and yield what it counted."""
    with watch(folder) as run:
        for number, name in enumerate(names):
            package, play = FORMS[name]
            run._about["environment"] = f"form{number}"
            result: dict[str, Any] = {
                "form": name,
                "package": package,
                "version": version(package),
                "recorded_as": f"form{number}",
            }
            try:
                result["counted"] = play(run)
                run._line.read()  # before the next form has another name
            except TypeError as error:
                if "cannot be watched" not in str(error) and "cannot watch" not in str(error):
                    raise
                result["refused"] = str(error)
            yield result


if __name__ == "__main__":
    print(json.dumps(list(played(sys.argv[1], sys.argv[2:] or list(FORMS)))))
