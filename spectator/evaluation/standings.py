"""The standings of captains, and the task that keeps them up to date."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from spectator.environments.contract import DECISION_VALUE, OUTCOME
from spectator.errors import SpectatorError
from spectator.evaluation.figure_store import FigureStore
from spectator.evaluation.figures import EXHIBITION, MOST_LOST, EpisodeFigures, Reading, SeatFigures
from spectator.evaluation.intervals import Interval, Mean, student_interval, wilson
from spectator.journal.contract import EpisodeFilter, Journal

RECENT: Final = 3
"""Episodes of a captain that a look names, the newest."""

MOST_RESAMPLED: Final = 1000
"""Most seeds that are resampled; Student's interval differs little with more."""


class Place(NamedTuple):
    """What figures are kept apart by; those of two versions of a world, or of other options, do not mix."""

    environment: str
    environment_version: str
    pack: str
    options: str
    """Every option of the world, as JSON with sorted keys."""
    failed_decisions: str


class Entrant(NamedTuple):
    """Who has a row: a captain, as it was asked, in evaluations or outside of them."""

    captain: str
    fingerprint: str
    evaluated: bool


Unranked = Literal["history", "failed decisions"]
"""Why a captain has no rank: not in an evaluation, or too many failures that are not its own."""


@dataclass(slots=True)
class Sums:
    """Sums over the episodes of one captain against one opponent, or of several such.

    An unfinished episode counts only as an episode and by its decisions; so does one in which either captain
    was not reached (``unreached``).
    """

    label: str = ""
    source: str = ""
    models: Sequence[str] = ()
    episodes: int = 0
    unfinished: int = 0
    unreached: int = 0
    decisions: int = 0
    own: int = 0
    lost: int = 0
    mirrored: int = 0
    wins: int = 0
    ties: int = 0
    losses: int = 0
    means: dict[str, Mean] = field(default_factory=dict)
    recent: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=RECENT))
    last: str = ""
    repeats: int = 0
    won: dict[int, tuple[float, int]] = field(default_factory=dict)
    edges: dict[int, tuple[float, int]] = field(default_factory=dict)

    @property
    def games(self) -> int:
        """Matches against others with a result."""
        return self.wins + self.ties + self.losses

    @property
    def own_share(self) -> float | None:
        """Share of the decisions that the captain made itself; ``None`` where it was asked for none."""
        return self.own / self.decisions if self.decisions else None

    @property
    def ranked(self) -> bool:
        """Whether few enough decisions say nothing about the captain, see :data:`MOST_LOST`."""
        return self.lost <= MOST_LOST * self.decisions

    def mean(self, name: str) -> float | None:
        """Mean of a measure over the episodes in which it was measured."""
        found = self.means.get(name)
        return None if found is None else found.value

    @property
    def share(self) -> Interval | None:
        """Share of matches won; the interval counts seeds, whose matches are not independent."""
        means = [total / count for total, count in self.won.values()]
        return wilson(math.fsum(means), len(means)) if means else None

    @property
    def resampled_share(self) -> Interval | None:
        """The same by the method of an evaluation's report, which resamples seeds."""
        means = tuple(total / count for total, count in self.won.values())
        return _resampled(means) if means else None

    @property
    def edge(self) -> Interval | None:
        """What its decisions were worth beyond its opponents', a mean a match; from two seeds on."""
        means = [total / count for total, count in self.edges.values()]
        return student_interval(means) if len(means) > 1 else None

    def add(self, figures: EpisodeFigures, seat: SeatFigures, rival: SeatFigures | None) -> None:
        """Add one episode of this captain against ``rival``; against itself, or alone, that is ``None``."""
        self.label, self.source, self.models = seat.label, seat.source, seat.models
        mirrored = rival is None and len(figures.seats) > 1
        self.episodes += 1
        self.mirrored += mirrored
        if figures.ended_at >= self.last:
            self.last = figures.ended_at
        self.recent.append((figures.ended_at, figures.episode_id))
        self.decisions += seat.decisions
        self.own += seat.own
        self.lost += seat.lost(figures.failed_decisions)
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
            _add_to(self.won, figures.seed, outcome)
        value = seat.figures.get(DECISION_VALUE)
        other = None if rival is None else rival.figures.get(DECISION_VALUE)
        if value is not None and other is not None:
            _add_to(self.edges, figures.seed, value - other)
        for name, value in seat.figures.items():
            self._add_mean(name, Mean(value))

    def merge(self, other: Sums) -> None:
        """Add all that ``other`` holds."""
        if other.last >= self.last:
            self.label, self.source, self.last = other.label, other.source, other.last
            self.models = other.models
        self.episodes += other.episodes
        self.unfinished += other.unfinished
        self.unreached += other.unreached
        self.decisions += other.decisions
        self.own += other.own
        self.lost += other.lost
        self.mirrored += other.mirrored
        self.repeats += other.repeats
        for kept, more in ((self.won, other.won), (self.edges, other.edges)):
            for seed, (total, count) in more.items():
                _add_to(kept, seed, total, count)
        self.wins, self.ties, self.losses = (
            self.wins + other.wins,
            self.ties + other.ties,
            self.losses + other.losses,
        )
        for name, mean in other.means.items():
            self._add_mean(name, mean)
        self.recent = deque(sorted([*self.recent, *other.recent])[-RECENT:], maxlen=RECENT)

    def _add_mean(self, name: str, mean: Mean) -> None:
        known = self.means.get(name)
        self.means[name] = mean if known is None else known.plus(mean)


@dataclass(frozen=True, slots=True)
class CaptainStanding:
    """One captain in one place.

    Args:
        place: World, version, pack and options.
        entrant: Who.
        sums: Over every opponent that was asked for.
        share: Matches won against others, with its interval; ``None`` when there was none, or too many
            decisions failed.
        edge: What its decisions were worth beyond the others'; ``None`` where that is not measured.
        against: The same by opponent, the most played first.
        unranked: Why it has no rank; ``None`` where it has.
    """

    place: Place
    entrant: Entrant
    sums: Sums
    share: Interval | None
    edge: Interval | None
    against: Sequence[tuple[str, Sums]]
    unranked: Unranked | None

    @property
    def captain(self) -> str:
        """Its preset."""
        return self.entrant.captain


class Standings:
    """Every captain's sums."""

    def __init__(self) -> None:
        self._cells: dict[tuple[Place, Entrant, str], Sums] = {}
        self._labels: dict[str, str] = {}
        self._played: set[tuple[Place, int, tuple[Entrant, ...]]] = set()
        self.episodes = 0
        """Episodes that are in it."""

    def add(self, figures: EpisodeFigures) -> None:
        """Add one episode for each of its captains; once if a captain played itself.

        Forks are ignored, because others made their first decisions, and so are exhibitions. A repeated match
        of an evaluation, with the same captains, seats and seed, only increases ``repeats``.
        """
        if figures.forked or figures.run_id == EXHIBITION:
            return
        self.episodes += 1
        place = _place(figures)
        entrants = {
            seat.actor: Entrant(seat.captain, seat.fingerprint, figures.evaluated) for seat in figures.seats
        }
        played = (place, figures.seed, tuple(entrants[seat.actor] for seat in figures.seats))
        repeated = figures.evaluated and played in self._played
        self._played.add(played)
        agent, others = figures.seats[0], figures.seats[1:]
        rivals = [seat for seat in others if entrants[seat.actor] != entrants[agent.actor]]
        pairs = [(agent, others[0] if others else None), *((seat, agent) for seat in rivals)]
        for seat, against in pairs:
            self._labels[seat.captain] = seat.label
            entrant, opponent = entrants[seat.actor], "" if against is None else against.captain
            sums = self._cells.setdefault((place, entrant, opponent), Sums())
            if repeated:
                sums.repeats += 1
                continue
            rival = None if against is None or entrants[against.actor] == entrant else against
            sums.add(figures, seat, rival)

    def places(self) -> list[Place]:
        """Every played combination of world, version, pack and options."""
        return sorted({place for place, _, _ in self._cells})

    def label(self, captain: str) -> str:
        """A captain's name for people, as last recorded."""
        return self._labels.get(captain, captain)

    def opponents(self) -> list[str]:
        """All opponents."""
        return sorted({opponent for _, _, opponent in self._cells if opponent})

    def look(
        self, environment: str | None = None, pack: str | None = None, opponent: str | None = None
    ) -> list[CaptainStanding]:
        """Return the standings by place, the best captain first.

        The order is by share where all captains of a place played the same number of seeds, else by the
        lower end of the interval, so that one lucky win does not lead; worlds without opponents are ordered
        by mean score. Unranked captains come last: first those with too many failures, then history.

        Args:
            environment: Only of this world.
            pack: Only of this pack.
            opponent: Only matches against this preset.
        """
        grouped: dict[tuple[Place, Entrant], list[tuple[str, Sums]]] = {}
        for (place, entrant, against), sums in self._cells.items():
            asked = ((environment, place.environment), (pack, place.pack), (opponent, against))
            if all(wanted is None or wanted == found for wanted, found in asked):
                grouped.setdefault((place, entrant), []).append((against, sums))
        found = [_standing(place, entrant, cells) for (place, entrant), cells in grouped.items()]
        seeds: dict[Place, set[int]] = {}
        for one in found:
            if one.unranked is None:
                seeds.setdefault(one.place, set()).add(0 if one.share is None else one.share.n)
        return sorted(found, key=lambda one: _order(one, even=len(seeds.get(one.place, ())) == 1))


def _place(figures: EpisodeFigures) -> Place:
    options = json.dumps(dict(figures.options), sort_keys=True)
    return Place(
        figures.environment, figures.environment_version, figures.pack, options, figures.failed_decisions
    )


def _standing(place: Place, entrant: Entrant, cells: Iterable[tuple[str, Sums]]) -> CaptainStanding:
    against = sorted(cells, key=lambda cell: (-cell[1].episodes, cell[0]))
    sums = Sums()
    for _, one in against:
        sums.merge(one)
    named = [cell for cell in against if cell[0]]
    unranked: Unranked | None = None
    if not entrant.evaluated:
        unranked = "history"
    elif not sums.ranked:
        unranked = "failed decisions"
    share = sums.share if unranked == "history" else None if unranked else sums.resampled_share
    return CaptainStanding(place, entrant, sums, share, sums.edge, named, unranked)


def _order(standing: CaptainStanding, *, even: bool) -> tuple[Place, int, float, float, float, Entrant]:
    """Return the sort key; ``even`` if all ranked captains of its place played the same number of seeds."""
    score = standing.sums.mean("score")
    low = -1.0 if standing.share is None else standing.share.low
    best = standing.share.value if even and standing.share is not None else low
    last = (None, "failed decisions", "history").index(standing.unranked)
    return standing.place, last, -best, -low, -1.0 if score is None else -score, standing.entrant


@lru_cache(maxsize=1024)
def _resampled(means: tuple[float, ...]) -> Interval:
    if len(means) > MOST_RESAMPLED:
        return student_interval(means)
    import numpy as np

    from spectator.evaluation.results import RESAMPLING_SEED
    from spectator.evaluation.statistics import share_interval

    return share_interval(means, np.random.default_rng(RESAMPLING_SEED))


def _add_to(sums: dict[int, tuple[float, int]], seed: int, total: float, count: int = 1) -> None:
    known = sums.get(seed, (0.0, 0))
    sums[seed] = known[0] + total, known[1] + count


logger = logging.getLogger(__name__)

BATCH: Final = 64
"""Events that are read and taken before others of the process get a turn."""

SAVED: Final = 20
"""Episodes whose figures are written at once."""

PAGE: Final = 500
"""Episodes of the index that are read at once."""

RECHECK_S: Final = 600.0
"""Seconds after which the journal's index is compared again, for episodes that were taken out of it."""


class Scorekeeper:
    """Reads the figures of ended episodes in the background; :attr:`standings` may be looked at any time.

    Args:
        journal: Where episodes are.
        store: Where their figures are kept.
    """

    def __init__(self, journal: Journal, store: FigureStore) -> None:
        self.standings = Standings()
        self._journal = journal
        self._store = store
        self._known: dict[str, EpisodeFigures] = {}
        self._unreadable: set[str] = set()
        self._pending: dict[str, None] = {}
        self._news = asyncio.Event()

    @property
    def by_id(self) -> Mapping[str, EpisodeFigures]:
        """The same figures by episode."""
        return self._known

    @property
    def known(self) -> Collection[EpisodeFigures]:
        """The figures of all episodes that are in the standings."""
        return self._known.values()

    @property
    def pending(self) -> int:
        """Ended episodes that are not in the standings yet."""
        return len(self._pending)

    def note_ended(self, episode_id: str) -> None:
        """Take note that an episode has ended; returns at once."""
        if episode_id not in self._unreadable:
            self._pending[episode_id] = None
            self._news.set()

    async def run(self) -> None:
        """Read ended episodes until cancelled."""
        await self._recall()
        while True:
            await self._guarded_compare()
            try:
                async with asyncio.timeout(RECHECK_S):
                    while True:
                        await self._read_pending()
                        await self._news.wait()
            except TimeoutError:
                continue

    async def _recall(self) -> None:
        try:
            kept = await asyncio.to_thread(self._store.load)
        except SpectatorError as error:
            logger.warning("the stored figures are unreadable; rebuilding the leaderboard: %s", error)
            kept = []
        self._known = {one.episode_id: one for one in kept}
        self._sum_up()

    async def _guarded_compare(self) -> None:
        try:
            await self._compare()
        except SpectatorError as error:
            logger.warning("the leaderboard could not be compared with the journal: %s", error)

    async def _compare(self) -> None:
        """Queue unknown episodes of the journal's index, and forget those that left it."""
        there: set[str] = set()
        before = None
        while page := await self._journal.episodes(EpisodeFilter(ended=True, before=before, limit=PAGE)):
            there.update(summary.episode_id for summary in page)
            before = page[-1].episode_id
        gone = self._known.keys() - there - self._pending.keys()
        if gone:
            for episode_id in gone:
                del self._known[episode_id]
            self._sum_up()
            await asyncio.to_thread(self._store.drop, gone)
        self._pending |= dict.fromkeys(sorted(there - self._known.keys() - self._unreadable))

    def _sum_up(self) -> None:
        standings = Standings()
        for figures in sorted(self._known.values(), key=lambda one: one.ended_at):
            standings.add(figures)
        self.standings = standings

    async def _read_pending(self) -> None:
        self._news.clear()
        pending = list(self._pending)
        for first in range(0, len(pending), SAVED):
            batch = pending[first : first + SAVED]
            await self._save([figures for one in batch if (figures := await self._take(one)) is not None])
            for episode_id in batch:
                self._pending.pop(episode_id, None)

    async def _take(self, episode_id: str) -> EpisodeFigures | None:
        """Read one episode into the standings; nothing when that cannot be done, or was."""
        if episode_id in self._known:
            return None
        figures = await self._figures(episode_id)
        if figures is None:
            self._unreadable.add(episode_id)
            return None
        self._known[episode_id] = figures
        self.standings.add(figures)
        return figures

    async def _figures(self, episode_id: str) -> EpisodeFigures | None:
        reading, seq = Reading(), 0
        try:
            while True:
                batch = await self._journal.read(episode_id, after_seq=seq, limit=BATCH)
                for recorded in batch:
                    reading.take(recorded)
                if len(batch) < BATCH:
                    return reading.figures()
                seq = batch[-1].event.seq
        except SpectatorError as error:
            logger.warning("the leaderboard skips %s: %s", episode_id, error)
            return None

    async def _save(self, figures: Sequence[EpisodeFigures]) -> None:
        try:
            if figures:
                await asyncio.to_thread(self._store.save, figures)
        except SpectatorError as error:
            logger.warning("cannot store the figures of %d episodes: %s", len(figures), error)
