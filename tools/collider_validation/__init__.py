"""Validate the collider analysis on toys and real data, and write docs/reports/collider-physics.md."""
