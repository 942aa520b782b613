"""Standings: what captains have shown over all recorded episodes, summed up so that a look costs nothing.

Episodes are added one by one; a look costs by the number of captains, never by that of episodes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from spectator.environments.base import OUTCOME
from spectator.evaluation.figures import EpisodeFigures, SeatFigures
from spectator.evaluation.measures import RANKED_SHARE
from spectator.evaluation.statistics import Interval, wilson

RECENT: Final = 3
"""Episodes of a captain that a look names, the newest."""


class Place(NamedTuple):
    """What figures are kept apart by; those of two versions of a world do not mix."""

    environment: str
    environment_version: str
    pack: str


@dataclass(slots=True)
class Sums:
    """Sums over the episodes of one captain against one opponent, or of several such.

    An episode that did not finish counts for nothing but its number and its decisions; nor does one in which
    a captain made no decision of its own (``unreached``), for whoever it was against.
    """

    label: str = ""
    source: str = ""
    episodes: int = 0
    unfinished: int = 0
    unreached: int = 0
    decisions: int = 0
    own: int = 0
    mirrored: int = 0
    wins: int = 0
    ties: int = 0
    losses: int = 0
    totals: dict[str, tuple[float, int]] = field(default_factory=dict)
    recent: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=RECENT))
    last: str = ""

    @property
    def games(self) -> int:
        """Finished matches against others that somebody won, or that were tied."""
        return self.wins + self.ties + self.losses

    @property
    def own_share(self) -> float | None:
        """Share of the decisions that the captain made itself; ``None`` where it was asked for none."""
        return self.own / self.decisions if self.decisions else None

    @property
    def ranked(self) -> bool:
        """Whether enough of the decisions are the captain's own, see :data:`RANKED_SHARE`."""
        return self.own_share is None or self.own_share >= RANKED_SHARE

    def mean(self, name: str) -> float | None:
        """Mean of a measure over the episodes in which it was measured."""
        total, count = self.totals.get(name, (0.0, 0))
        return total / count if count else None

    def count(self, name: str) -> int:
        """Episodes in which a measure was measured."""
        return self.totals.get(name, (0.0, 0))[1]

    def add(self, figures: EpisodeFigures, seat: SeatFigures, mirrored: bool) -> None:
        """Add one episode of this captain."""
        self.label, self.source = seat.label, seat.source
        self.episodes += 1
        self.mirrored += mirrored
        if figures.ended_at >= self.last:
            self.last = figures.ended_at
        self.recent.append((figures.ended_at, figures.episode_id))
        self.decisions += seat.decisions
        self.own += seat.own
        if not figures.finished:
            self.unfinished += 1
            return
        if not figures.reached:
            self.unreached += 1
            return
        outcome = seat.figures.get(OUTCOME)
        if outcome is not None and not mirrored:
            self.wins += outcome > 0.5
            self.ties += outcome == 0.5
            self.losses += outcome < 0.5
        for name, value in seat.figures.items():
            total, count = self.totals.get(name, (0.0, 0))
            self.totals[name] = total + value, count + 1

    def merge(self, other: Sums) -> None:
        """Add all that ``other`` holds."""
        if other.last >= self.last:
            self.label, self.source, self.last = other.label, other.source, other.last
        self.episodes += other.episodes
        self.unfinished += other.unfinished
        self.unreached += other.unreached
        self.decisions += other.decisions
        self.own += other.own
        self.mirrored += other.mirrored
        self.wins, self.ties, self.losses = (
            self.wins + other.wins,
            self.ties + other.ties,
            self.losses + other.losses,
        )
        for name, (total, count) in other.totals.items():
            mine = self.totals.get(name, (0.0, 0))
            self.totals[name] = mine[0] + total, mine[1] + count
        self.recent = deque(sorted([*self.recent, *other.recent])[-RECENT:], maxlen=RECENT)


@dataclass(frozen=True, slots=True)
class CaptainStanding:
    """One captain in one place.

    Args:
        place: World, version and pack.
        captain: Preset.
        sums: Over every opponent that was asked for.
        share: Matches won against others, with its interval; ``None`` when there was none.
        against: The same by opponent, the most played first.
    """

    place: Place
    captain: str
    sums: Sums
    share: Interval | None
    against: Sequence[tuple[str, Sums]]


class Standings:
    """Every captain's sums."""

    def __init__(self) -> None:
        self._cells: dict[tuple[Place, str, str], Sums] = {}
        self._labels: dict[str, str] = {}
        self.episodes = 0
        """Episodes that are in it."""

    def add(self, figures: EpisodeFigures) -> None:
        """Add one episode, for everybody who played in it; once for who played against itself.

        One that was forked counts for nobody: others made its first decisions.
        """
        if figures.forked:
            return
        self.episodes += 1
        place = Place(figures.environment, figures.environment_version, figures.pack)
        agent, others = figures.seats[0], figures.seats[1:]
        rivals = [seat for seat in others if seat.captain != agent.captain]
        pairs = [(agent, others[0] if others else None), *((seat, agent) for seat in rivals)]
        for seat, against in pairs:
            self._labels[seat.captain] = seat.label
            opponent = "" if against is None else against.captain
            sums = self._cells.setdefault((place, seat.captain, opponent), Sums())
            sums.add(figures, seat, mirrored=opponent == seat.captain)

    def places(self) -> list[Place]:
        """Every world, version and pack in which somebody has played."""
        return sorted({place for place, _, _ in self._cells})

    def label(self, captain: str) -> str:
        """A captain's name for people, as last recorded."""
        return self._labels.get(captain, captain)

    def opponents(self) -> list[str]:
        """Everybody who was played against."""
        return sorted({opponent for _, _, opponent in self._cells if opponent})

    def look(
        self, environment: str | None = None, pack: str | None = None, opponent: str | None = None
    ) -> list[CaptainStanding]:
        """Who stands where, place by place, the best first.

        The order is by the lower end of the interval, so that one lucky win does not lead; where nobody plays
        against anybody, by mean score. Captains whose decisions are not their own stand last, unranked.

        Args:
            environment: Only of this world.
            pack: Only of this pack.
            opponent: Only matches against this preset.
        """
        grouped: dict[tuple[Place, str], list[tuple[str, Sums]]] = {}
        for (place, captain, against), sums in self._cells.items():
            asked = ((environment, place.environment), (pack, place.pack), (opponent, against))
            if all(wanted is None or wanted == found for wanted, found in asked):
                grouped.setdefault((place, captain), []).append((against, sums))
        found = [_standing(place, captain, cells) for (place, captain), cells in grouped.items()]
        return sorted(found, key=_order)


def _standing(place: Place, captain: str, cells: Iterable[tuple[str, Sums]]) -> CaptainStanding:
    against = sorted(cells, key=lambda cell: (-cell[1].episodes, cell[0]))
    sums = Sums()
    for _, one in against:
        sums.merge(one)
    share = wilson(sums.wins + sums.ties / 2, sums.games) if sums.games else None
    return CaptainStanding(place, captain, sums, share, [cell for cell in against if cell[0]])


def _order(standing: CaptainStanding) -> tuple[str, str, str, bool, float, float, str]:
    place, score = standing.place, standing.sums.mean("score")
    low = -1.0 if standing.share is None else standing.share.low
    return (*place, not standing.sums.ranked, -low, -1.0 if score is None else -score, standing.captain)
