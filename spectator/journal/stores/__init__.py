"""Journals in databases: SQLite today."""
