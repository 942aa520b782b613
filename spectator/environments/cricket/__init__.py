"""The cricket world: two captains play limited-overs matches fitted to real data."""

from spectator.environments.cricket.world import WORLD

__all__ = ["WORLD"]
