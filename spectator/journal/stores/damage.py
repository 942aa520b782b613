"""Damaged journals: a file that is no journal any more is set aside, never written over."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from spectator.journal.stores.database import file_of


def set_aside(url: str, now: datetime) -> Path | None:
    """Give the file of a damaged embedded journal, and what belongs to it, another name beside it.

    Args:
        url: The journal's.
        now: Told by the new name.

    Returns:
        Its new place; ``None`` where the journal is not embedded.

    Raises:
        OSError: It cannot be renamed.
    """
    path = file_of(url)
    if path is None:
        return None
    stem = f"{path.name}.damaged-{now:%Y%m%dT%H%M%S}"
    names = (stem, *(f"{stem}-{number}" for number in range(2, 1000)))
    place = next(path.with_name(name) for name in names if not path.with_name(name).exists())
    for suffix in ("", "-wal", "-shm"):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(place.with_name(place.name + suffix))
    return place
