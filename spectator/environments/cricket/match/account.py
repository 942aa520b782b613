"""What a game tells whoever keeps account of its decisions, ball by ball."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from spectator.environments.cricket.match.engine import BattingIntent, BowlingIntent, Match


class Account(Protocol):
    """Keeps account of a match; told before anything is done, so that it can hold it against the usual."""

    def begun(self, match: Match) -> None:
        """Play is about to begin, at the toss or in the middle of a match."""
        ...

    def choosing_bowler(self, match: Match, bowler: int) -> None:
        """``bowler`` is about to be given the next over."""
        ...

    def choosing_batters(self, match: Match, batters: Sequence[int]) -> None:
        """``batters`` are about to be sent in, in this order."""
        ...

    def deciding(self, match: Match, batting: BattingIntent, bowling: BowlingIntent) -> None:
        """A ball is about to be bowled with these intents."""
        ...

    def dump(self) -> dict[str, Any]:
        """All that :meth:`load` needs, plain JSON."""
        ...

    def load(self, data: Mapping[str, Any]) -> None:
        """Go on from where :meth:`dump` was called."""
        ...

    def happened(self, match: Match) -> None:
        """It was bowled, and what follows from it is done."""
        ...
