"""Owns the tests of the pages in a real browser."""
