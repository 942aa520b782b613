"""Reliability of told chances: what was promised against what happened, by tenths, over whole records."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from spectator.environments.contract import OUTCOME
from spectator.evaluation.exact_intervals import Interval, wilson
from spectator.evaluation.figures import PROMISES, EpisodeFigures

EVEN: Final = 0.25
"""The Brier score of whoever always says one half."""


@dataclass(frozen=True, slots=True)
class PromisedTenth:
    """The chances that were told within one tenth.

    Args:
        low: Its lower end; the upper one is a tenth above.
        told: How often such a chance was told.
        matches: In how many matches.
        promised: Mean of what was told; ``None`` where nothing was.
        happened: Share of them that came true, a tie as half. Chances of one match share its outcome, so the
            interval counts as many independent ones as matches of equal length would make.
    """

    low: float
    told: int
    matches: int
    promised: float | None
    happened: Interval | None


class Reliability:
    """Sums up finished matches of one world; see :meth:`tenths`."""

    def __init__(self) -> None:
        self.matches = 0
        self._told: dict[int, list[tuple[int, float, float]]] = defaultdict(list)
        self._squares = 0.0
        self._all = 0

    def add(self, figures: EpisodeFigures) -> None:
        """Add a match; one without told chances, cut short, forked or forfeited counts for nothing."""
        outcome = figures.seats[0].figures.get(OUTCOME)
        if not figures.promised or figures.reason != "finished" or figures.forked or outcome is None:
            return
        self.matches += 1
        for tenth, (count, total, squares) in enumerate(figures.promised):
            if count:
                self._told[tenth].append((count, total, outcome))
                self._all += count
                self._squares += squares - 2 * outcome * total + count * outcome**2

    @property
    def brier(self) -> float | None:
        """Mean square of promise less outcome: 0 is perfect, :data:`EVEN` is what one half earns."""
        return self._squares / self._all if self._all else None

    def tenths(self) -> Sequence[PromisedTenth]:
        """All ten, the least likely first.

        >>> [one.told for one in Reliability().tenths()]
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        """
        return [_tenth(tenth / PROMISES, self._told.get(tenth, [])) for tenth in range(PROMISES)]


def reliability_of(episodes: Iterable[EpisodeFigures]) -> dict[str, Reliability]:
    """By world; those in which no finished match told chances have none."""
    found: dict[str, Reliability] = defaultdict(Reliability)
    for figures in episodes:
        if figures.promised:
            found[figures.environment].add(figures)
    return {name: one for name, one in found.items() if one.matches}


def _tenth(low: float, told: Sequence[tuple[int, float, float]]) -> PromisedTenth:
    count = sum(one for one, _, _ in told)
    if not count:
        return PromisedTenth(low, 0, 0, None, None)
    share = math.fsum(one * outcome for one, _, outcome in told) / count
    units = max(1, int(count**2 / sum(one**2 for one, _, _ in told)))
    interval = wilson(share * units, units)
    promised = math.fsum(total for _, total, _ in told) / count
    return PromisedTenth(low, count, len(told), promised, interval)
