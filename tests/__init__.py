"""Owns the tests; helpers are imported as `tests.serving`."""
