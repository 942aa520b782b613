"""What viewers cost the match that they watch: the step of its driver with and without them.

Two episodes of one server take turns. One has all the viewers, the other has none; while one plays the
other is paused. What is noted, and where, is in ``benchmarks.stepping``.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from benchmarks.figures import Figure, ms, percentile
from benchmarks.staging import Stage, stage

VIEWERS: Final = 5_000
ROUNDS: Final = 5
WINDOW_S: Final = 8.0


class Step(NamedTuple):
    """What one step of a driver took, from the question to the policy until its events were published.

    Args:
        took_s: Seconds on the clock, the journal's commit included.
        cpu_s: CPU seconds of the loop's thread in the driver, and of the world's thread.
    """

    took_s: float
    cpu_s: float


def measure() -> list[Figure]:
    """Both episodes in turns."""
    with (
        TemporaryDirectory() as folder,
        stage(
            nursery=("benchmarks.stepping", str(notes := Path(folder) / "notes")), SPECTATOR_MAX_EPISODES="2"
        ) as ours,
    ):
        watched, alone = (ours.start(pace="broadcast") for _ in range(2))
        for episode in (watched, alone):
            ours.say("pause", episode_id=episode)
        ours.viewers.join(ours.port, VIEWERS, f"/live/{watched}")
        ours.viewers.settle(1.5)
        for _ in range(ROUNDS):
            for episode in (alone, watched):
                _play(ours, episode)
        text = notes.read_text()
    return _figures(_steps(text, alone), _steps(text, watched))


def _play(ours: Stage, episode: str) -> None:
    ours.say("resume", episode_id=episode)
    time.sleep(WINDOW_S)
    ours.say("pause", episode_id=episode)
    ours.viewers.settle(0.2)


def _steps(notes: str, episode: str) -> list[Step]:
    """The steps of an episode, but for the first few, which load what is needed later."""
    lines = [line.split() for line in notes.splitlines()]
    return [
        Step(float(took), float(loop) + float(world)) for name, took, loop, world in lines if name == episode
    ][3:]


def _figures(alone: Sequence[Step], watched: Sequence[Step]) -> list[Figure]:
    return [
        Figure(
            f"{name} of the driver's step, {VIEWERS:,} viewers",
            _range(with_viewers),
            "within noise",
            f"no viewer: {_range(without)}",
        )
        for name, with_viewers, without in (
            ("CPU", [step.cpu_s for step in watched], [step.cpu_s for step in alone]),
            ("time", [step.took_s for step in watched], [step.took_s for step in alone]),
        )
    ]


def _range(values: Sequence[float]) -> str:
    low, high = percentile(values, 0.25), percentile(values, 0.75)
    return f"median {ms(statistics.median(values))}, half within {ms(low)} and {ms(high)}, of {len(values)}"
