"""Owns the browser's half: ES modules and styles, served as written."""
