"""Measure what recording costs a training loop: ``python -m benchmarks watched_loop``.

A loop alone and the same loop recorded take turns: one of ``watch``, whose step works for about a
millisecond, as a small simulator does; a Gymnasium environment whose step takes 0.4 ms, and a vector of four
with a small network, watched; and one of ``TextEpisode``, without and with ``run=``, whose answers take the
time of a small language model. Counted are the processor time of the loop's thread and of its process, and
wall time. The recorder of ``watch`` is another process; that of ``run=`` is a thread.
"""

from __future__ import annotations

import json
import logging
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import gymnasium
import numpy

from benchmarks.figures import Figure, spread
from spectator.training.recorded_run import RecordedRun
from spectator.training.text_episode import TextEpisode
from spectator.watchable import WatchedLoop, watch

ROUNDS: Final = 7
PAIRS: Final = 30
"""Rounds of environments, which are shorter."""

EPISODE: Final = 100
"""Steps of an episode."""

WORK: Final = 20_000
"""Additions of a step that takes about a millisecond."""


@dataclass(frozen=True, slots=True)
class LoopCost:
    """Cost of a step.

    Args:
        cpu_us: Processor time a step, all threads, microseconds.
        loop_us: That of the loop's thread.
        wall_us: Time on the clock.
    """

    cpu_us: float
    loop_us: float
    wall_us: float


def _counted(work: Callable[[], object], steps: int) -> LoopCost:
    clocks = (time.process_time, time.thread_time, time.perf_counter)
    began = [clock() for clock in clocks]
    work()
    return LoopCost(*(1e6 * (clock() - at) / steps for clock, at in zip(clocks, began, strict=True)))


def _step(work: int) -> dict[str, float]:
    total = 0
    for number in range(work):
        total += number
    return {"position": float(total), "velocity": 0.5}


def _bare(steps: int, work: int) -> None:
    for _ in range(steps):
        _step(work)


def _watched(run: WatchedLoop, steps: int, work: int) -> None:
    for number in range(steps // EPISODE):
        with run.episode(seed=number) as episode:
            for _ in range(EPISODE):
                episode.step(observation=_step(work), action="left", reward=0.5)


def _rounds(folder: Path, steps: int, work: int) -> list[tuple[LoopCost, LoopCost]]:
    with watch(folder) as run:
        _watched(run, steps, work)
        return [
            (
                _counted(lambda: _bare(steps, work), steps),
                _counted(lambda: _watched(run, steps, work), steps),
            )
            for _ in range(ROUNDS)
        ]


class WalkingRobot(gymnasium.Env[numpy.ndarray, numpy.ndarray]):
    """A simulator in NumPy, with observations and actions of the size that a walking robot has.

    Args:
        work: Small steps of a step, about 5 microseconds each.
    """

    observation_space = gymnasium.spaces.Box(-10.0, 10.0, (17,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (6,))

    def __init__(self, work: int) -> None:
        self._work, self._steps = work, 0
        chance = numpy.random.default_rng(1)
        self._forces, self._motors = 0.05 * chance.normal(size=(17, 17)), 0.1 * chance.normal(size=(17, 6))

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[numpy.ndarray, dict[str, object]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self._steps, self._at, self._speed = 0, self.np_random.normal(size=17), numpy.zeros(17)
        return self._at.copy(), {}

    def step(self, action: numpy.ndarray) -> tuple[numpy.ndarray, float, bool, bool, dict[str, object]]:
        """Move, and return the speed as reward."""
        self._steps += 1
        push = self._motors @ action
        for _ in range(self._work):
            self._speed += 0.01 * (self._forces @ self._at - 0.1 * self._speed + push)
            self._at += 0.01 * self._speed
            numpy.clip(self._at, -10.0, 10.0, out=self._at)
        return self._at.copy(), float(self._speed[0]), False, self._steps == EPISODE, {}


def _play(env: gymnasium.Env[numpy.ndarray, numpy.ndarray], steps: int) -> None:
    for seed in range(steps // EPISODE):
        env.reset(seed=seed)
        over = False
        while not over:
            _, _, _, over, _ = env.step(env.action_space.sample())


def _played(folder: Path, steps: int, work: int) -> list[tuple[LoopCost, LoopCost]]:
    return _in_turns(WalkingRobot(work), watch(WalkingRobot(work), folder), _play, steps)


def _in_turns(bare: Any, watched: Any, play: Callable[[Any, int], None], steps: int) -> list[Any]:
    """Play both in turns, each first in every other pair; close the watched one."""
    play(bare, EPISODE)
    play(watched, EPISODE)
    rounds, some = [], max(EPISODE, steps // 10)
    for number in range(PAIRS):
        order = (bare, watched) if number % 2 else (watched, bare)
        cost = {env is watched: _counted(partial(play, env, some), some) for env in order}
        rounds.append((cost[False], cost[True]))
    watched.close()
    return rounds


def _play_batch(env: Any, steps: int) -> None:
    """Step four environments with a small network, which takes most of the time."""
    chance = numpy.random.default_rng(1)
    first, second = chance.normal(size=(4, 64)), chance.normal(size=(64, 64))
    seen, _ = env.reset(seed=1)
    for _ in range(steps):
        for _ in range(110):
            thought = numpy.tanh(numpy.tanh(seen @ first) @ second)
        seen, *_ = env.step(thought[:, :2].argmax(1))


def _batch_played(folder: Path, steps: int, work: int) -> list[tuple[LoopCost, LoopCost]]:
    bare, inside = (
        gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 4) for _ in range(2)
    )
    return _in_turns(bare, watch(inside, folder), _play_batch, steps)


ANSWER_S: Final = 0.03
"""How long the model of a trainer's loop writes an answer: 40 tokens at about 1,300 a second."""

TURNS: Final = 20
"""Answers of an episode of a trainer's loop."""


def _trainer(run: RecordedRun | None, episodes: int, answer_s: float) -> None:
    """Play episodes; an answer takes processor time, as of a model on the same processor."""
    for seed in range(episodes):
        episode = TextEpisode("counting", {"turns": TURNS}, run=run)
        episode.reset(seed)
        for number in range(1, TURNS + 1):
            until = time.thread_time() + answer_s
            while time.thread_time() < until:
                pass
            episode.answer(json.dumps({"tool": "say", "arguments": {"text": f"ACTION: {number}"}}))
        episode.close()


def _trained(folder: Path, episodes: int, answer_s: float) -> list[tuple[LoopCost, LoopCost]]:
    with RecordedRun(folder) as run:
        _trainer(run, 1, 0.0)
        return [
            (
                _counted(lambda: _trainer(None, episodes, answer_s), episodes * TURNS),
                _counted(lambda: _trainer(run, episodes, answer_s), episodes * TURNS),
            )
            for _ in range(ROUNDS)
        ]


def _of_a_trainer(folder: Path) -> Iterable[Figure]:
    """Measure what ``run=`` costs an answer."""
    real, empty = _trained(folder / "trainer", 1, ANSWER_S), _trained(folder / "answers", 10, 0.0)
    for name, target, of in (
        (
            f"CPU of an answer of {1000 * ANSWER_S:.0f} ms with run=, over the same without",
            "<= 1.05 x",
            "cpu_us",
        ),
        ("the same on the clock", "-", "wall_us"),
    ):
        alone_us = statistics.median(getattr(alone, of) for alone, _ in real)
        shares = [getattr(recorded, of) / getattr(alone, of) for alone, recorded in real]
        yield Figure(name, f"{spread(shares)} x", target, f"{alone_us:.0f} us")
    for name, rounds in (("such an answer", real), ("an answer that takes no time", empty)):
        added = [recorded.cpu_us - alone.cpu_us for alone, recorded in rounds]
        alone_us = statistics.median(alone.cpu_us for alone, _ in rounds)
        yield Figure(f"CPU that run= adds to {name}", f"{spread(added)} us", "-", f"{alone_us:.0f} us")


class RecorderWarnings(logging.Handler):
    """Keeps the messages that ``watch`` logs, such as that its recorder is too slow."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []
        """The messages since the last figures."""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message."""
        self.messages.append(record.getMessage())

    def figures(self, of: str) -> Iterable[Figure]:
        """Yield a row for each message about ``of``, whose figures are of an incomplete record."""
        for message in self.messages:
            yield Figure(f"incomplete: {of}", message, "-", "-")
        self.messages.clear()


def measure() -> Iterable[Figure]:
    """Measure the cost of a recorded step, and of a recorded answer; each figure once it is known."""
    warnings = RecorderWarnings()
    log = logging.getLogger("spectator.watchable")
    log.addHandler(warnings)
    try:
        # A recorder that is too slow may still write when its folder is removed.
        with TemporaryDirectory(prefix="spectator-", ignore_cleanup_errors=True) as kept:
            yield from _of_a_loop(Path(kept), warnings)
            yield from _of_a_trainer(Path(kept))
    finally:
        log.removeHandler(warnings)


def _of_a_loop(folder: Path, warnings: RecorderWarnings) -> Iterable[Figure]:
    """Measure what ``watch`` costs a step."""
    began = time.perf_counter()
    with watch(folder / "open"):
        opened_s = time.perf_counter() - began
    yield Figure("to open a run, on the clock", f"{opened_s:.1f} s", "-", "-")
    for of, rounds, kind, work in (
        ("a loop", _rounds, "recorded", WORK),
        ("a Gymnasium environment", _played, "watched", 80),
        ("four CartPoles in a vector", _batch_played, "watched-batch", 0),
    ):
        real = rounds(folder / kind, 2_000, work)
        for name, target, clock in (
            (
                f"CPU of the loop's thread in a step of {of}, {kind}, over the same by itself",
                "<= 1.05 x",
                "loop_us",
            ),
            ("the same of all its threads", "-", "cpu_us"),
            ("the same on the clock", "<= 1.05 x", "wall_us"),
        ):
            alone_us = statistics.median(getattr(alone, clock) for alone, _ in real)
            shares = sorted(getattr(ours, clock) / getattr(alone, clock) for alone, ours in real)
            middle, reach = len(shares) / 2, len(shares) ** 0.5  # 95 % of the median
            near = shares[max(0, round(middle - reach)) : round(middle + reach)]
            yield Figure(name, f"{spread(near)} x", target, f"{alone_us:.0f} us")
        yield from warnings.figures(f"{of} whose step takes its time")
        if rounds is _batch_played:
            continue
        empty = rounds(folder / f"{kind}-empty", 400, 1)
        added = [ours.cpu_us - alone.cpu_us for alone, ours in empty]
        empty_us = statistics.median(alone.cpu_us for alone, _ in empty)
        yield Figure(f"CPU that {kind} steps of {of} add", f"{spread(added)} us", "-", f"{empty_us:.1f} us")
        yield from warnings.figures(f"{of} whose step takes no time")
