"""Owns who decides."""
