"""Owns the words spoken about an episode."""
