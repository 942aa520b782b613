"""What all formats of JSON Lines share: a line that cannot be read is told of, and the others are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from spectator.importing.foreign import ForeignEpisode, NotReadable
from spectator.importing.reading import Entries, FileRow, LeftOut, Source, rows

UNEXPECTED = (TypeError, ValueError, LookupError, AttributeError, RecursionError, OverflowError)
"""What reading a member comes to that has a shape nobody thought of."""


def each_row(source: Source, episodes: Callable[[FileRow, Source], Iterator[ForeignEpisode]]) -> Entries:
    """The episodes on each line of a file, as ``episodes`` reads them."""
    for row in rows(source):
        if isinstance(row, LeftOut):
            yield row
            continue
        yield from guarded(f"line {row.number}", lambda row=row: episodes(row, source))  # type: ignore[misc]


def guarded(place: str, episodes: Callable[[], Iterator[ForeignEpisode]]) -> Entries:
    """What ``episodes`` reads at one place of a file; what it cannot read comes as :class:`LeftOut`."""
    try:
        yield from episodes()
    except NotReadable as error:
        yield LeftOut(place, str(error))
    except UNEXPECTED as error:
        yield LeftOut(place, f"it is not as its format has it: {error!r}"[:300])
