"""Owns the worlds that agents play in."""
