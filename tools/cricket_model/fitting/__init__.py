"""Estimates the ball model from the count tables."""
