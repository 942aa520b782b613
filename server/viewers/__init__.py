"""Viewers of live episodes: frames, feeds, broadcaster, boards and the wall."""
