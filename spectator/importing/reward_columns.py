"""Which columns of a TRL table are rewards: its ``advantage`` follows from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final

from spectator.importing.foreign import digest_of, number

ROWS: Final = 256
"""Rows that are compared."""

MOST: Final = 10
"""Columns of which all sums are tried."""


def reward_columns(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the columns whose sum gives the advantage of each row; ``None`` if that is unknown.

    Within a group of equal prompts, the advantage is the sum less the mean of the group, divided by a
    positive number. Of several sets that fit, the one with the most columns is returned.

    >>> rows = [{"prompt": "q", "a": a, "n": n, "advantage": a - 0.5} for a, n in ((0, 9), (1, 4))]
    >>> reward_columns(rows, ("a", "n"))
    ('a',)
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows[:ROWS]:
        if number(row.get("advantage")) is not None:
            groups.setdefault(digest_of([row.get("step"), row.get("prompt")]), []).append(row)
    whole = [group for group in groups.values() if any(abs(row["advantage"]) > 1e-6 for row in group)]
    if not whole or len(names) > MOST:
        return None
    for size in range(len(names), 0, -1):
        for chosen in combinations(names, size):
            if all(_follows(group, chosen) for group in whole):
                return chosen
    return None


def _follows(group: Sequence[Mapping[str, Any]], names: Sequence[str]) -> bool:
    """Whether the advantages of a group are proportional to its centred sums, with a positive factor."""
    sums = [math.fsum(number(row.get(name)) or 0.0 for name in names) for row in group]
    centred = [one - math.fsum(sums) / len(sums) for one in sums]
    given = [float(row["advantage"]) for row in group]
    norm = math.fsum(one * one for one in centred)
    factor = math.fsum(one * other for one, other in zip(centred, given, strict=True)) / norm if norm else 0.0
    worst = max(abs(other - factor * one) for one, other in zip(centred, given, strict=True))
    return factor > 0 and worst <= 1e-3 * max(1.0, *map(abs, given))
