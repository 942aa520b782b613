"""Worlds made of games of OpenSpiel, PettingZoo and TextArena."""

from spectator.environments.foreign_games.games import OpenSpielGame, PettingZooGame, TextArenaGame
from spectator.environments.foreign_games.world import game_world

__all__ = ["OpenSpielGame", "PettingZooGame", "TextArenaGame", "game_world"]
