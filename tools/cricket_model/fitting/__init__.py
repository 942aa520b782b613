"""Owns the estimation of the ball model from the count tables."""
