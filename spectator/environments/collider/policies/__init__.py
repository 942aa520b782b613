"""Physicists that need no model: at random, by the textbook, by the data, and one that knows the truth."""
