"""The journal: the durable, append-only record of events."""

from typing import Final

JOURNAL_FILE: Final = "journal.db"
"""Name of an SQLite journal in its folder."""
