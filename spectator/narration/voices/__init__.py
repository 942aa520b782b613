"""Voices: one speech engine a module."""
