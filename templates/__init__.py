"""Owns the HTML of the pages."""
