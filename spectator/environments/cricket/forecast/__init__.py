"""Forecasts: simulated futures, par scores, resources."""
