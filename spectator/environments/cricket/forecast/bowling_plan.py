"""Who bowls next when a side has no particular plan: one rule for captains, simulations and forecasts."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Final

from spectator.environments.cricket.people.players import Player
from spectator.environments.cricket.people.team import best_quick, bowling_worth

_DATA: Final = Path(__file__).parent.parent / "data"

SPELL: Final = 0.35
"""Preference for the bowler of the over before last, who goes on from his end (bowler_usage.json)."""
RESERVE: Final = 0.6
"""Reluctance to spend the last overs of the best quick bowlers before the death, as many as it can use."""
FRESH_AT_DEATH: Final = 0.8
"""Reluctance to begin a bowler's work in the last fifth of an innings."""
FEW_OVERS: Final = 10
"""Innings of fewer overs end with pace; in longer ones it depends on who has overs left."""
SECOND_OVER: Final = 0.5
"""Preference for those who have one over left of two: five overs are usually bowled 2-2-1, eight 2-2-2-2. Few
such innings are known, so the figure is chosen by hand."""


@dataclass(slots=True)
class BowlingAttack:
    """A side's bowling between two overs of an innings; players are indices into its eleven.

    Args:
        overs: Overs of the innings.
        limit: Overs that a bowler may bowl in it.
        extra: How many bowlers may bowl one more (Law O5).
        starters: Who began each over so far.
        left: Overs that each may still begin.
        worth: Worth of each as a bowler, see `Team.bowling_worth`.
        bowls: Whether each usually bowls.
        spins: Whether each bowls spin when he has to.
        death_bowlers: The best quick bowlers, best first.
        habit: How late the side turns to spin, 0 to 1.
    """

    overs: int
    limit: int
    extra: int
    starters: list[int]
    left: list[int]
    worth: Sequence[float]
    bowls: Sequence[bool]
    spins: Sequence[bool]
    death_bowlers: Sequence[int]
    habit: float = 0.5

    @classmethod
    def of(
        cls, players: Sequence[Player], overs: int, limit: int, extra: int = 0, habit: float = 0.5
    ) -> BowlingAttack:
        """The bowling of an eleven before an innings; who does not usually bowl has no overs.

        Args:
            players: The eleven.
            overs: Overs of the innings.
            limit: Overs that a bowler may bowl.
            extra: How many bowlers may bowl one more.
            habit: How late the side turns to spin, 0 to 1.
        """
        share = limit + (1 if extra else 0)
        return cls(
            overs,
            limit,
            extra,
            [],
            [share if player.bowls else 0 for player in players],
            tuple(bowling_worth(player) for player in players),
            tuple(player.bowls is not None for player in players),
            tuple(player.bowls != "pace" for player in players),
            best_quick(players),
            habit,
        )

    def copy(self) -> BowlingAttack:
        """An independent copy."""
        return replace(self, starters=self.starters.copy(), left=self.left.copy())

    def take(self, bowler: int) -> None:
        """Let ``bowler`` begin the next over."""
        self.starters.append(bowler)
        self.left[bowler] -= 1
        if self.extra and self.starters.count(bowler) > self.limit:
            self.extra -= 1
            if not self.extra:
                begun = [self.starters.count(player) for player in range(len(self.left))]
                self.left = [
                    min(left, max(0, self.limit - overs))
                    for left, overs in zip(self.left, begun, strict=True)
                ]


def choose_bowler(attack: BowlingAttack, eligible: Sequence[int]) -> int:
    """The bowler of the next over.

    It keeps to the real share of spin by over, prefers the better bowlers, lets a spell go on, keeps the best
    quick bowlers for the end, and never leaves overs that nobody may bowl.

    Args:
        attack: Where the innings stands.
        eligible: Who may bowl the over; not empty.
    """
    over, overs, limit, left = len(attack.starters), attack.overs, attack.limit, attack.left
    death = max(1, overs // 5)
    pace_to_end = overs < FEW_OVERS and over == overs - 1
    wants_spin = not pace_to_end and _wants_spin(attack, over)
    late = over >= overs - death
    reserved = () if late else attack.death_bowlers[: max(1, 2 * death // limit)]
    from_this_end = attack.starters[-2] if over > 1 else None
    scores: list[tuple[float, int]] = []
    for player in eligible:
        score = attack.worth[player]
        if attack.spins[player] == wants_spin:
            score += 1.0
        if player == from_this_end:
            score += SPELL
        if limit == 2 and left[player] == 1:
            score += SECOND_OVER
        if late and player not in attack.starters:
            score -= FRESH_AT_DEATH
        if player in reserved and 2 * left[player] <= limit:
            score -= RESERVE
        scores.append((score, -player))
    scores.sort(reverse=True)
    own = [overs if bowls else 0 for overs, bowls in zip(left, attack.bowls, strict=True)]
    for _, player in scores:
        if can_finish(own, -player, overs - over - 1):
            return -player
    return -scores[0][1]


def bowl_out(attack: BowlingAttack, last: int | None) -> list[int]:
    """Who bowls each over from here to the end of the innings; ``attack`` is used up.

    Args:
        attack: Where the innings stands, between two overs.
        last: Who bowled the over before, and may not bowl the next.
    """
    chosen: list[int] = []
    for _ in range(len(attack.starters), attack.overs):
        eligible = [player for player, overs in enumerate(attack.left) if overs > 0 and player != last]
        if not eligible:
            eligible = [player for player in range(len(attack.left)) if player != last]
        last = choose_bowler(attack, eligible)
        attack.take(last)
        chosen.append(last)
    return chosen


@cache
def _spin_shares() -> tuple[float, ...]:
    with (_DATA / "bowler_kind_share_by_over.csv").open(encoding="utf-8", newline="") as file:
        return tuple(float(row["spin"]) for row in csv.DictReader(file))


@cache
def _spin_due(overs: int) -> tuple[float, ...]:
    """Overs of spin that real sides have bowled after each over of an innings of ``overs``, in proportion."""
    shares = _spin_shares()
    return tuple(accumulate(shares[over * len(shares) // overs] for over in range(overs)))


def _wants_spin(attack: BowlingAttack, over: int) -> bool:
    """Whether spin has bowled less so far than real sides would have, give or take the side's habit."""
    spins = attack.spins
    bowled = sum([spins[player] for player in attack.starters])
    return bool(bowled + 0.1 + 0.8 * attack.habit <= _spin_due(attack.overs)[over])


@lru_cache(maxsize=1024)
def spin_habit(name: str, innings: int) -> float:
    """How late the side of this name turns to spin, from 0 to 1: its own, yet never the same in two innings
    of a match."""
    return zlib.crc32(f"{name}:{innings}".encode()) / 2**32


def can_finish(left: Sequence[int], chosen: int, rest: int) -> bool:
    """Whether the side's own bowlers can bowl the ``rest`` of the overs once ``chosen`` has bowled one."""
    half = (rest + 1) // 2
    capacity = min(max(0, left[chosen] - 1), rest // 2) - min(left[chosen], half)
    for overs in left:
        capacity += overs if overs < half else half
    return capacity >= rest
