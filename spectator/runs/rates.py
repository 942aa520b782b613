"""How fast the episodes of a run come to their ends, by its record alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from statistics import median


def ended_a_second(spans: Sequence[tuple[str, str]], under_way: int) -> float | None:
    """Episodes that end a second: those under way, over the median time that one takes.

    Ends are not counted by the clock: episodes that are begun together end together, and the first of them
    would tell of hundreds a second.

    Args:
        spans: When the newest that ended began and ended, RFC 3339.
        under_way: Episodes that are being played.

    Returns:
        The rate; ``None`` where nothing is under way, or nothing ended that took any time.

    >>> ended_a_second([("2026-11-24T12:00:00Z", "2026-11-24T12:00:40Z")], under_way=8)
    0.2
    """
    took = [
        (datetime.fromisoformat(end) - datetime.fromisoformat(begun)).total_seconds() for begun, end in spans
    ]
    usual_s = median(took) if took else 0.0
    return under_way / usual_s if under_way and usual_s > 0 else None
