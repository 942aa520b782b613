"""What to do first after winning the toss, by the length of the innings and the evening."""

from __future__ import annotations

from typing import Final, Literal

from spectator.environments.cricket.ball.matchups import Evening

FirstTask = Literal["bat", "field"]
"""What the winner of a toss may elect to do first."""

TOSS_FIELD_SHARE: Final = 0.70
"""Winners of the toss who field first in real matches (innings_summary.json)."""

SHORT_OVERS: Final = 5
"""Overs of an innings up to which the side that knows its target is ahead, whatever the evening."""
LONG_OVERS: Final = 20
"""Overs of an innings up to which an even evening favours neither; in longer ones it is better to bat."""

_BY_EVENING: Final[dict[Evening, FirstTask]] = {"dew": "field", "wearing": "bat"}


def better_first(overs: int, evening: Evening) -> FirstTask | None:
    """What wins more matches between equal captains; ``None`` where nothing is in it.

    Args:
        overs: Overs of an innings.
        evening: The evening of the match.

    Measured by simulation (docs/cricket-game.md, the toss).

    >>> better_first(5, "wearing"), better_first(20, "wearing"), better_first(20, "even")
    ('field', 'bat', None)
    """
    if overs <= SHORT_OVERS:
        return "field"
    if evening == "even":
        return "bat" if overs > LONG_OVERS else None
    return _BY_EVENING[evening]
