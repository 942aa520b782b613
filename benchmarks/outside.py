"""The worlds from outside that measurements need, found by their entry points."""

from __future__ import annotations

from pathlib import Path

HEAD = """
import dataclasses, time
from spectator.environments.counting import WORLD as COUNTING
from spectator.environments.counting.world import CountingEnvironment
"""

SLOW = """
class SlowEnvironment(CountingEnvironment):
    def step(self, action):
        time.sleep({seconds})
        return super().step(action)

WORLD = dataclasses.replace(COUNTING, name="slow", title="Slow", environment=SlowEnvironment)
"""

MEASURED = """
class RepeatingEnvironment(CountingEnvironment):
    def facts(self):
        return [fact for fact in super().facts() for _ in range({events} - 2)]

WORLD = dataclasses.replace(
    COUNTING,
    name="measured",
    title="Measured",
    environment=RepeatingEnvironment,
    beats={{"counting.number_said": {beats} / ({events} - 2)}},
)
"""


def install_slow_world(folder: Path, seconds: float) -> None:
    """Make ``folder``, once on the module path, hold the world ``slow``, whose steps take ``seconds``."""
    _install(folder, "slow", SLOW.format(seconds=seconds))


def install_measured_world(folder: Path, events: int, beats: float) -> None:
    """Make ``folder`` hold the world ``measured``.

    Args:
        folder: On the module path later on.
        events: Events of a step, from 3: the decision, the same number said again and again, the step.
        beats: What a step is worth: 2 s each at the pace ``broadcast``.
    """
    _install(folder, "measured", MEASURED.format(events=events, beats=beats))


def _install(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}_world.py").write_text(HEAD + text)
    about = folder / f"{name}_world-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-world\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[spectator.environments]\n{name} = {name}_world:WORLD\n")
