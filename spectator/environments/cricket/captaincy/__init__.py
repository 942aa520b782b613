"""Captains: their tools, their observations, and the captains without a model."""
