"""Owns a world from outside, found by its entry point, whose steps take as long as asked."""

from __future__ import annotations

from pathlib import Path

MODULE = """
import dataclasses, time
from spectator.environments.counting import WORLD as COUNTING
from spectator.environments.counting.environment import CountingEnvironment

class SlowEnvironment(CountingEnvironment):
    def step(self, action):
        time.sleep({seconds})
        return super().step(action)

WORLD = dataclasses.replace(COUNTING, name="slow", title="Slow", environment=SlowEnvironment)
"""


def install_slow_world(folder: Path, seconds: float) -> None:
    """Make ``folder``, once on the module path, hold the world ``slow`` and its entry point."""
    (folder / "slow_world.py").write_text(MODULE.format(seconds=seconds))
    about = folder / "slow_world-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-world\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[spectator.environments]\nslow = slow_world:WORLD\n")
