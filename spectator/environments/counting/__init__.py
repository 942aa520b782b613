"""The counting world: the whole contract in a page, and the load source of the benchmarks."""

from spectator.environments.counting.world import WORLD

__all__ = ["WORLD"]
