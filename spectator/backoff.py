"""How waits grow while something keeps failing; each user holds its own figures.

Those of a lost connection are ``RECONNECT`` (`terminal`), ``DATABASE_PAUSES`` (`journal.outage`),
``LISTEN_PAUSES`` (`journal.postgres`) and ``SERVER_PAUSES`` (`runs.actors`); those of the pages are in
``static/live/protocol.js``.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that double with each failure in a row, up to a longest one.

    Args:
        first_s: The longest first wait, seconds, at least 0.
        longest_s: The longest wait of all, at least ``first_s``.

    >>> [Backoff(0.5, 3.0).limit(failures) for failures in range(4)]
    [0.5, 1.0, 2.0, 3.0]
    """

    first_s: float
    longest_s: float = math.inf

    def __post_init__(self) -> None:
        if not 0 <= self.first_s <= self.longest_s:
            raise ValueError("waits must satisfy 0 <= first_s <= longest_s")

    def limit(self, failures: int) -> float:
        """The longest wait after ``failures`` earlier ones, for those who are alone in waiting."""
        return min(self.longest_s, self.first_s * 2.0 ** min(failures, 40))

    def draw(self, failures: int, rng: random.Random) -> float:
        """A wait drawn evenly from 0 to :meth:`limit`, so that clients that failed together spread out."""
        return rng.uniform(0.0, self.limit(failures))
