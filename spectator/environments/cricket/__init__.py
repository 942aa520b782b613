"""The cricket world: limited-overs matches between two captains, fitted to ball-by-ball data."""

from spectator.environments.cricket.world import WORLD

__all__ = ["WORLD"]
