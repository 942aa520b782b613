"""Owns the cricket world: limited-overs matches between two captains, fitted to real ball-by-ball data."""

from spectator.environments.cricket.world import WORLD

__all__ = ["WORLD"]
