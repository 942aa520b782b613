"""People's matches on the seeds of an evaluation, beside what the captains did on the same ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

import numpy as np
from pydantic import BaseModel, Field

from spectator.environments.contract import OUTCOME
from spectator.evaluation.cross_table import Found
from spectator.evaluation.figures import EpisodeFigures, SeatFigures, recorded_figures
from spectator.evaluation.results import RESAMPLING_SEED, Estimate
from spectator.evaluation.schedule import Schedule
from spectator.evaluation.statistics import mean_interval
from spectator.journal.contract import EpisodeFilter, Journal
from spectator.policies.human import NAME

FILE: Final = "people.json"
"""Name of the file with the comparison, in the evaluation's folder."""

LEAST_OWN: Final = 0.98
"""Share of the decisions of a match that the person made; the others were made when their time was up."""

PAGE: Final = 500
"""Episodes of the index that are read at once."""


class PersonAndCaptain(BaseModel):
    """People and one captain in the same seat, on the same seed, against the same opponent."""

    captain: str
    matches: int = Field(description="Matches that both played")
    person: Estimate = Field(description="Outcome of the people, a tie half; the score without opponents")
    other: Estimate = Field(description="Of the captain")
    difference: Estimate = Field(description="Mean of the differences, people less captain")


class People(BaseModel):
    """People's finished matches on the seeds of an evaluation."""

    matches: int
    result: Estimate = Field(description="Mean outcome, a tie half; the score without opponents")
    beside: list[PersonAndCaptain] = Field(description="By captain that played the same")

    def lines(self) -> Iterator[str]:
        """The comparison in words."""
        low, high = self.result.low, self.result.high
        played = f"People played {self.matches} of these matches: {self.result.value:.2f} of 1 on average"
        yield f"{played}, 95 % interval {low:.2f} to {high:.2f}."
        for one in self.beside:
            gap, both = one.difference, f"people {one.person.value:.2f}, {one.captain} {one.other.value:.2f}"
            yield (
                f"In the same seat, on the same seed, against the same opponent as {one.captain} "
                f"({one.matches} matches): {both}, difference {gap.value:+.2f}, "
                f"95 % interval {gap.low:+.2f} to {gap.high:+.2f}."
            )


async def people_beside(journal: Journal, schedule: Schedule, found: Found) -> People | None:
    """Find people's matches on the seeds of an evaluation, and compare them with its captains'.

    Args:
        journal: A server's journal.
        schedule: The matches of the evaluation.
        found: Their figures.

    Returns:
        ``None`` if there is no such match: same world, version, pack and options, a seed of the evaluation,
        finished, and decided by a person from the beginning, but for 2 % of the decisions at most.
    """
    played = [one async for one in _matches(journal, schedule)]
    results = [
        (one, seat, value) for one in played for seat in _seats(one) if (value := _value(seat)) is not None
    ]
    if not results:
        return None
    same: dict[str, list[tuple[float, float]]] = {}
    for match, figures in found.items():
        for one, seat, value in results:
            place = one.seats.index(seat)
            if one.seed != match.seed or not figures.counts:
                continue
            if _others(one, place) == _others(figures, place):
                captain = figures.seats[place]
                if (its := _value(captain)) is not None:
                    same.setdefault(captain.captain, []).append((value, its))
    return People(
        matches=len(results),
        result=_mean([value for _, _, value in results]),
        beside=[
            PersonAndCaptain(
                captain=name,
                matches=len(pairs),
                person=_mean([one for one, _ in pairs]),
                other=_mean([other for _, other in pairs]),
                difference=_mean([one - other for one, other in pairs]),
            )
            for name in schedule.captains
            if (pairs := same.get(name))
        ],
    )


async def _matches(journal: Journal, schedule: Schedule) -> AsyncIterator[EpisodeFigures]:
    """The figures of the finished matches in which a person plays, on the seeds of ``schedule``."""
    world, seeds, before = schedule.world, {match.seed for match in schedule.matches}, None
    while page := await journal.episodes(
        EpisodeFilter(environment=world.name, pack=schedule.pack.name, ended=True, before=before, limit=PAGE)
    ):
        before = page[-1].episode_id
        for summary in page:
            if summary.seed not in seeds or NAME not in (summary.captain, summary.opponent):
                continue
            one = await recorded_figures(journal, summary.episode_id)
            if (
                one is not None
                and one.counts
                and not one.forked
                and one.environment_version == world.version
                and one.options == dict(schedule.options)
            ):
                yield one


def _seats(one: EpisodeFigures) -> Iterator[SeatFigures]:
    return (seat for seat in one.seats if seat.source == "human" and seat.own >= LEAST_OWN * seat.decisions)


def _value(seat: SeatFigures) -> float | None:
    return seat.figures.get(OUTCOME, seat.figures.get("score"))


def _others(one: EpisodeFigures, place: int) -> list[str]:
    """The captains in the other seats."""
    return [seat.captain for at, seat in enumerate(one.seats) if at != place]


def _mean(values: Sequence[float]) -> Estimate:
    return Estimate.of(mean_interval(values, np.random.default_rng(RESAMPLING_SEED)))
