"""A league of captains: its fixtures, table and records, all derived from the matches in the journal.

A league's matches are ordinary episodes of the run :data:`.figures.LEAGUE`. Their group is the season and the
fixture, such as ``3.12`` or ``3.final``; fixtures are numbered from 1 in the order of play. Nothing else is
stored: a season is a pure function of its captains and its matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Final, NamedTuple

from spectator.environments.contract import DECISION_VALUE
from spectator.evaluation.figures import EpisodeFigures
from spectator.evaluation.standings import Sums
from spectator.journal.contract import EpisodeSummary

MOST_CAPTAINS: Final = 16
"""Most captains of a league."""

TRIES: Final = 3
"""Matches of a fixture that may fail before it stays without a result."""

WIN, TIE = 2, 1
"""Points."""

FINAL: Final = 1000
"""Number of the final, after those of all other fixtures."""


class Fixture(NamedTuple):
    """A match of a season, played or not.

    Args:
        number: From 1, in the order of play.
        home: Captain in the agent's seat.
        away: The other captain.
    """

    number: int
    home: str
    away: str

    def group(self, season: int) -> str:
        """Return the group of its matches.

        >>> Fixture(12, "a", "b").group(3), Fixture(FINAL, "a", "b").group(3)
        ('3.12', '3.final')
        """
        return f"{season}.{'final' if self.number == FINAL else self.number}"


def round_robin(captains: Sequence[str], legs: int) -> list[Fixture]:
    """Return the fixtures by rounds; no captain plays twice in one, and the legs swap seats.

    >>> [(one.home, one.away) for one in round_robin(["a", "b", "c"], 1)]
    [('c', 'b'), ('c', 'a'), ('a', 'b')]
    """
    ring: list[str | None] = [*captains, *([None] if len(captains) % 2 else [])]
    half, pairs = len(ring) // 2, list[tuple[str, str]]()
    for turn in range(len(ring) - 1):
        for place in range(half):
            first, second = ring[place], ring[-1 - place]
            if first is not None and second is not None:
                pairs.append((second, first) if (place or turn) % 2 else (first, second))
        ring = [ring[0], ring[-1], *ring[1:-1]]
    played = [*pairs, *((away, home) for home, away in pairs)] if legs == 2 else pairs
    return [Fixture(number, *pair) for number, pair in enumerate(played, 1)]


@dataclass(frozen=True, slots=True)
class LeagueMatch:
    """A recorded match of a league.

    Args:
        season: From 1.
        fixture: Its fixture, from 1.
        summary: Its entry in the journal's index.
        figures: What was measured in it; ``None`` while it runs, and until its record is read.
    """

    season: int
    fixture: int
    summary: EpisodeSummary
    figures: EpisodeFigures | None

    @property
    def is_over(self) -> bool:
        """Whether it was played to its end."""
        forfeited = self.figures is not None and self.figures.forfeited is not None
        return self.summary.reason == "finished" or forfeited

    @property
    def failed(self) -> bool:
        """Whether it ended without a result for another reason than a stop."""
        return not self.is_over and self.summary.reason not in (None, "stopped")

    @property
    def outcome(self) -> float | None:
        """1 if the home captain won, 0 if the other did, 0.5 for a tie; ``None`` without a result.

        A match in which a captain made no decision itself has no result.
        """
        return None if self.figures is None else self.figures.outcome

    @property
    def winner(self) -> str | None:
        """The captain that won, if any."""
        by_outcome = {None: None, 1.0: self.summary.captain, 0.0: self.summary.opponent}
        return by_outcome.get(self.outcome)

    @property
    def margin(self) -> float | None:
        """By how much the home captain's decisions were worth more, in hundredths of a win."""
        if self.figures is None or len(self.figures.seats) != 2:
            return None
        home, away = (seat.figures.get(DECISION_VALUE) for seat in self.figures.seats)
        return None if home is None or away is None else home - away


def league_matches(
    summaries: Iterable[EpisodeSummary], figures: Mapping[str, EpisodeFigures]
) -> list[LeagueMatch]:
    """Return the matches of a league, oldest first; entries of other groups are ignored."""
    found = []
    for summary in summaries:
        season, _, fixture = (summary.group_id or "").partition(".")
        if season.isdecimal() and (fixture == "final" or fixture.isdecimal()):
            number = FINAL if fixture == "final" else int(fixture)
            found.append(LeagueMatch(int(season), number, summary, figures.get(summary.episode_id)))
    return sorted(found, key=lambda one: one.summary.episode_id)


@dataclass(slots=True)
class TableRow:
    """A captain's line of the table.

    Args:
        sums: Wins, ties, losses, the share of matches won with its interval, and decisions.
        form: Its last matches, oldest first: W, T or L, and N for one without a result.
    """

    captain: str
    sums: Sums = field(default_factory=Sums)
    form: list[str] = field(default_factory=list)

    @property
    def points(self) -> int:
        """Two for a win, one for a tie."""
        return WIN * self.sums.wins + TIE * self.sums.ties

    @property
    def longest_run(self) -> int:
        """Most wins in a row."""
        return max((len(list(run)) for mark, run in groupby(self.form) if mark == "W"), default=0)


class Season:
    """A season of a league.

    Args:
        number: From 1.
        captains: Who plays in it.
        legs: How often each captain meets each other one.
        matches: Its recorded matches, oldest first.
    """

    def __init__(
        self, number: int, captains: Sequence[str], legs: int, matches: Sequence[LeagueMatch]
    ) -> None:
        self.number = number
        self.captains = tuple(captains)
        self.fixtures = round_robin(captains, legs)
        self.matches = tuple(matches)

    @property
    def fits(self) -> bool:
        """Whether every recorded match is one of these captains' fixtures."""
        pairs = {one.number: (one.home, one.away) for one in self.fixtures}
        recorded = ((one.fixture, (one.summary.captain, one.summary.opponent)) for one in self.matches)
        return all(number == FINAL or pairs.get(number) == pair for number, pair in recorded)

    @cached_property
    def played(self) -> Mapping[int, LeagueMatch]:
        """By fixture, the match that counts: the first that was over, else the newest that failed."""
        found: dict[int, LeagueMatch] = {}
        for match in self.matches:
            known = found.get(match.fixture)
            if match.is_over and (known is None or not known.is_over):
                found[match.fixture] = match
            elif match.failed and self._failures(match.fixture) >= TRIES and (not known or not known.is_over):
                found[match.fixture] = match
        return found

    def _failures(self, fixture: int) -> int:
        return sum(one.failed for one in self.matches if one.fixture == fixture)

    @property
    def live(self) -> LeagueMatch | None:
        """The match that is being played."""
        running = (one for one in self.matches if one.summary.ended_at is None)
        return next(running, None)

    @property
    def results(self) -> list[LeagueMatch]:
        """The matches that count, newest first."""
        return sorted(self.played.values(), key=lambda one: -one.fixture)

    @property
    def is_read(self) -> bool:
        """Whether every finished match was measured."""
        return all(one.figures is not None for one in self.played.values() if one.is_over)

    @property
    def final(self) -> Fixture | None:
        """The final, as soon as it is known who plays it."""
        known = next((one.summary for one in self.matches if one.fixture == FINAL), None)
        if known is not None:
            return Fixture(FINAL, known.captain, known.opponent)
        kept_from = min(
            (one.fixture for one in self.matches), default=1
        )  # older records may have been removed
        if self.is_read and all(
            one.number in self.played for one in self.fixtures if one.number >= kept_from
        ):
            return Fixture(FINAL, *(row.captain for row in self.table[:2]))
        return None

    @property
    def upcoming(self) -> list[Fixture]:
        """The fixtures to be played, the next one first; with the final once it is known."""
        last = max((one.fixture for one in self.matches), default=0)
        final = self.final
        listed = [*self.fixtures, *([] if final is None else [final])]
        return [one for one in listed if one.number >= last and one.number not in self.played]

    @property
    def is_over(self) -> bool:
        """Whether its final was played, or stays without a result."""
        return FINAL in self.played

    @property
    def champion(self) -> str | None:
        """The winner of the final; if that has no winner, the first of the table."""
        if not self.is_over:
            return None
        return self.played[FINAL].winner or self.table[0].captain

    @cached_property
    def table(self) -> list[TableRow]:
        """Captains by points, then by points against those level with them, then in the order of entry."""
        rows = {name: TableRow(name) for name in self.captains}
        for number in sorted(self.played):
            if number != FINAL:
                _add(rows, self.played[number])

        def among_equals(row: TableRow) -> int:
            level = (one.captain for one in rows.values() if one.points == row.points)
            met = (self.head_to_head.get((row.captain, other), (0, 0, 0)) for other in level)
            return sum(WIN * won + TIE * tied for won, tied, _ in met)

        return sorted(rows.values(), key=lambda row: (-row.points, -among_equals(row)))

    @cached_property
    def head_to_head(self) -> Mapping[tuple[str, str], tuple[int, int, int]]:
        """By captain and opponent: matches won, tied and lost, without the final."""
        found: dict[tuple[str, str], tuple[int, int, int]] = {}
        for match in self.played.values():
            outcome, pair = match.outcome, (match.summary.captain, match.summary.opponent)
            if outcome is None or match.fixture == FINAL:
                continue
            for key, share in ((pair, outcome), (pair[::-1], 1.0 - outcome)):
                won, tied, lost = found.get(key, (0, 0, 0))
                found[key] = won + (share > 0.5), tied + (share == 0.5), lost + (share < 0.5)
        return found

    @property
    def best_decisions(self) -> tuple[LeagueMatch, float] | None:
        """The match in which one captain's decisions were worth most beyond the other's, and by how much."""
        known = [(one, margin) for one in self.played.values() if (margin := one.margin) is not None]
        return max(known, key=lambda one: abs(one[1]), default=None)


def _add(rows: Mapping[str, TableRow], match: LeagueMatch) -> None:
    figures, outcome = match.figures, match.outcome
    for place, name in enumerate((match.summary.captain, match.summary.opponent)):
        row = rows.get(name)
        if row is None:
            continue
        if figures is not None and len(figures.seats) == 2:
            row.sums.add(figures, figures.seats[place], figures.seats[1 - place])
        share = outcome if outcome is None or place == 0 else 1.0 - outcome
        mark = "N" if share is None else "W" if share > 0.5 else "L" if share < 0.5 else "T"
        if figures is not None or match.failed:
            row.form.append(mark)


def newest_season(captains: Sequence[str], legs: int, matches: Sequence[LeagueMatch]) -> Season:
    """Return the newest season of the league, which has no match yet if it is about to begin.

    A season ends with its final, and without one if the captains or the legs have changed.
    """
    number = max((one.season for one in matches), default=1)
    season = Season(number, captains, legs, [one for one in matches if one.season == number])
    return season if season.fits else Season(number + 1, captains, legs, ())


def last_final(season: Season, matches: Sequence[LeagueMatch]) -> LeagueMatch | None:
    """Return the newest final before ``season`` that had a winner."""
    finals = (one for one in reversed(matches) if one.fixture == FINAL and one.season < season.number)
    return next((one for one in finals if one.winner is not None), None)
