"""Forecasts: simulated futures, win tables, and the outlook of a kind of match."""
