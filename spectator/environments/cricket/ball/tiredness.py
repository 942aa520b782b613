"""How tired a bowler is, and what it costs him: pace, control and runs.

Every over that he bowls adds to his load and every over that he rests takes some of it off. The sizes are an
assumption: no table of ours follows a spell. What tired bowlers concede on average is in the tables already,
so that a match in which this counts sees a few runs more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

RECOVERS: Final = 0.4
"""Load that an over's rest takes off, where bowling one puts on 1."""
TIRED_RUNS: Final = {False: 0.06, True: 0.03}
"""Log ratio of runs for each over of load, against pace and against spin (``True``)."""
TIRED_EXTRAS: Final = 0.10
"""Log ratio of wides and no-balls for each over of load."""
TIRED_KMH: Final = {False: 1.5, True: 0.4}
"""Speed lost for each over of load, in km/h."""


def loads(starters: Sequence[int], players: int = 11) -> list[float]:
    """The load of everybody before the next over.

    Args:
        starters: Who bowled each over so far.
        players: How many there are.

    >>> loads([0, 1, 0], players=3)
    [1.6, 0.6, 0.0]
    """
    found = [0.0] * players
    for bowler in starters:
        found = next_loads(found, bowler)
    return found


def next_loads(before: Sequence[float], bowler: int) -> list[float]:
    """Everybody's load one over later, in tenths of an over."""
    return [
        round(load + 1.0 if player == bowler else max(0.0, load - RECOVERS), 1)
        for player, load in enumerate(before)
    ]


def load_by_over(plan: Sequence[int], players: int = 11) -> list[float]:
    """The load that each over's bowler begins it with.

    >>> load_by_over([0, 1, 0, 1, 2], players=3)
    [0.0, 0.0, 0.6, 0.6, 0.0]
    """
    now = [0.0] * players
    found = []
    for bowler in plan:
        found.append(now[bowler])
        now = next_loads(now, bowler)
    return found


def tired_runs(spin: bool, load: float) -> float:
    """Log ratio of runs off a bowler with this load."""
    return TIRED_RUNS[spin] * load


def tired_extras(load: float) -> float:
    """Ratio of wides and no-balls of a bowler with this load."""
    return math.exp(TIRED_EXTRAS * load)
