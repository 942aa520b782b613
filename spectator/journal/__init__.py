"""Record events in the journal: durable, append-only, in SQLite or PostgreSQL."""

from __future__ import annotations

from typing import Final

JOURNAL_FILE: Final = "journal.db"
"""Name of an SQLite journal in its folder."""
