"""Owns the durable, append-only record of events."""
