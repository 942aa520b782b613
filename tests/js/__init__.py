"""Owns the tests of the page's pure modules."""
