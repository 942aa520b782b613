"""Owns the tests of the process edge."""
