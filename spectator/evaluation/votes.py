"""Score what viewers called before a decision, and keep each day's table.

Regret is what a call lost against the best call that was weighed, in points: hundredths of a chance to win.
Brier scores the shares of the cards as a forecast of which card is best: half the sum of squared differences,
so 0 is certain and right, 1 certain and wrong, and even shares of three cards give a third.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Final

from spectator.errors import JournalError

TIED: Final = 1e-9
"""Difference in chance below which cards are equally good."""


@dataclass(frozen=True, slots=True)
class CallScore:
    """The score of a call, or the mean of several calls.

    Args:
        regret: In points, at least 0.
        brier: 0 to 1.
    """

    regret: float
    brier: float


@dataclass(frozen=True, slots=True)
class VoteScores:
    """The scores of one decision.

    Args:
        cards: The score of a viewer who called each card.
        best: Whether each card is the best of the cards; several are if they are equally good.
        crowd: The score of all votes together.
    """

    cards: Sequence[CallScore]
    best: Sequence[bool]
    crowd: CallScore
    captain: CallScore


def score_votes(
    chances: Sequence[float], best: float, played: float, called: int | None, votes: Sequence[int]
) -> VoteScores:
    """Score the votes on a decision.

    Args:
        chances: Chance to win after each card.
        best: Chance after the best call that was weighed.
        played: Chance after what the captain decided.
        called: The card that the captain decided on; ``None`` if it called something else, which forecasts
            even shares.
        votes: Votes for each card, at least one in all.

    >>> found = score_votes([0.50, 0.52, 0.51], 0.53, 0.52, None, [1, 3, 0])
    >>> [round(one.regret, 6) for one in found.cards], [one.brier for one in found.cards]
    ([3.0, 1.0, 2.0], [1.0, 0.0, 1.0])
    >>> round(found.crowd.regret, 6), found.crowd.brier, round(found.captain.brier, 3)
    (1.5, 0.0625, 0.333)
    """
    least = max(chances) - TIED
    right = [chance >= least for chance in chances]
    regrets = [_points(best - chance) for chance in chances]
    total, count = sum(votes), len(chances)

    def brier(shares: Sequence[float]) -> float:
        truth = [is_best / sum(right) for is_best in right]
        return sum((share - one) ** 2 for share, one in zip(shares, truth, strict=True)) / 2

    def alone(card: int) -> list[float]:
        return [float(place == card) for place in range(count)]

    shares = [one / total for one in votes]
    mean = sum(share * regret for share, regret in zip(shares, regrets, strict=True))
    own = [1 / count] * count if called is None else alone(called)
    return VoteScores(
        [CallScore(regret, brier(alone(card))) for card, regret in enumerate(regrets)],
        right,
        CallScore(mean, brier(shares)),
        CallScore(_points(best - played), brier(own)),
    )


def _points(chance: float) -> float:
    return max(0.0, 100.0 * chance)


def voter_id(token: str) -> str:
    """Return the public id of the viewer who holds a secret token."""
    return hashlib.sha256(f"spectator voter {token}".encode()).hexdigest()[:16]


VOTES_FILE: Final = "votes.db"

KEPT_DAYS: Final = 30
"""Days whose tables are kept."""

MOST_VOTERS: Final = 100_000
"""Voters of a day; further ones are not added to its table."""

LEAST_CALLS: Final = 6
"""Calls from which on a viewer is ranked."""

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS votes (
    day TEXT NOT NULL, voter TEXT NOT NULL, name TEXT NOT NULL, calls INTEGER NOT NULL, best INTEGER NOT NULL,
    regret REAL NOT NULL, brier REAL NOT NULL, streak INTEGER NOT NULL, longest INTEGER NOT NULL,
    PRIMARY KEY (day, voter)
) WITHOUT ROWID
"""

_ADD: Final = """
INSERT INTO votes SELECT ?1, ?2, ?3, 1, ?4, ?5, ?6, ?4, ?4
    WHERE ?7 OR EXISTS (SELECT 1 FROM votes WHERE day = ?1 AND voter = ?2)
ON CONFLICT (day, voter) DO UPDATE SET
    name = CASE WHEN excluded.name = '' THEN name ELSE excluded.name END,
    calls = calls + 1, best = best + excluded.best,
    regret = regret + excluded.regret, brier = brier + excluded.brier,
    streak = CASE WHEN excluded.best THEN streak + 1 ELSE 0 END,
    longest = MAX(longest, CASE WHEN excluded.best THEN streak + 1 ELSE 0 END)
"""

_RANKED: Final = """
SELECT voter, name, calls, best, regret / calls, brier / calls, streak, longest FROM votes WHERE day = ?
"""

_AHEAD: Final = "SELECT COUNT(*) FROM votes WHERE day = ? AND calls >= ? AND regret / calls < ?"


@dataclass(frozen=True, slots=True)
class ScoredVote:
    """A viewer's call, scored.

    Args:
        name: A name of the viewer's own choice; empty for none.
        best: Whether it called the best card.
    """

    voter: str
    name: str
    score: CallScore
    best: bool


@dataclass(frozen=True, slots=True)
class DayOfVoter:
    """What one viewer called on one day.

    Args:
        best: How often it called the best card.
        streak: Best cards in a row up to now.
        longest: The longest such row of the day.
    """

    voter: str
    name: str
    calls: int
    best: int
    mean: CallScore
    streak: int
    longest: int


class VoteTable:
    """The tables of the last days, in a file; synchronous, and safe to use from several threads.

    Args:
        path: The file; made when it is first used.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, day: date, votes: Sequence[ScoredVote]) -> None:
        """Add scored votes to a day, all or none, and remove old days.

        Raises:
            JournalError: The file cannot be written.
        """
        with self._connected() as connection:
            oldest = (day - timedelta(days=KEPT_DAYS)).isoformat()
            connection.execute("DELETE FROM votes WHERE day < ?", (oldest,))
            on = day.isoformat()
            (known,) = connection.execute("SELECT COUNT(*) FROM votes WHERE day = ?", (on,)).fetchone()
            room = known + len(votes) <= MOST_VOTERS
            rows = [
                (on, one.voter, one.name, int(one.best), one.score.regret, one.score.brier, room)
                for one in votes
            ]
            connection.executemany(_ADD, rows)

    def ranked(self, day: date, limit: int = 50) -> list[DayOfVoter]:
        """Return the viewers with enough calls on a day, least mean regret first.

        Raises:
            JournalError: The file cannot be read.
        """
        order = "AND calls >= ? ORDER BY regret / calls, calls DESC, voter LIMIT ?"
        with self._connected() as connection:
            rows = connection.execute(_RANKED + order, (day.isoformat(), LEAST_CALLS, limit)).fetchall()
        return [_day_of(row) for row in rows]

    def of(self, day: date, voter: str) -> tuple[DayOfVoter, int | None] | None:
        """Return one viewer's day and place, ``None`` without enough calls; or ``None`` if it made no call.

        Raises:
            JournalError: The file cannot be read.
        """
        with self._connected() as connection:
            row = connection.execute(_RANKED + "AND voter = ?", (day.isoformat(), voter)).fetchone()
            if row is None:
                return None
            found = _day_of(row)
            if found.calls < LEAST_CALLS:
                return found, None
            (ahead,) = connection.execute(
                _AHEAD, (day.isoformat(), LEAST_CALLS, found.mean.regret)
            ).fetchone()
        return found, ahead + 1

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._path, timeout=10.0)) as connection, connection:
                connection.execute(_SCHEMA)
                yield connection
        except sqlite3.Error as error:
            raise JournalError(
                f"the votes in {self._path} are unusable: {error}; delete the file to create it again"
            ) from error


def _day_of(row: tuple[str, str, int, int, float, float, int, int]) -> DayOfVoter:
    voter, name, calls, best, regret, brier, streak, longest = row
    return DayOfVoter(voter, name, calls, best, CallScore(regret, brier), streak, longest)
