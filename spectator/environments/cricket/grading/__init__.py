"""Grades: the score of a game and the figures of a captain."""
