"""Owns the running of episodes: one loop, whoever plays and whoever watches."""
