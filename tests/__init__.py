"""The tests; helpers are imported as `tests.serving`."""
