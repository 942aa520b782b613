"""What an evaluation would take in calls, tokens, money and time, found out without asking any model.

One match is rehearsed with a scripted captain in each model's place. Its prompts are real; how much a model
writes is not known before it has written, so there are two figures: answers as short as the scripted
captain's, and answers as long as the captain's table allows. Models that act more often than a scripted
captain take more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from spectator.evaluation.rehearsal import Rehearsal, rehearse
from spectator.evaluation.schedule import Schedule
from spectator.llm.chat import Usage
from spectator.llm.endpoints import Price
from spectator.policies.model_presets import ModelBuild

FIRST_TOKEN_S: Final = 0.5
"""Seconds until an answer begins, an assumption: hosted models of 2025 took 0.3 to 1."""

TOKENS_A_SECOND: Final = 60.0
"""Speed of an answer, an assumption: hosted models of 2025 wrote 30 to 150 tokens a second."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one model would take in an evaluation.

    Args:
        captain: Its preset.
        seats: How many seats it has in all matches; both of a match where it plays itself.
        match: What a seat would be asked in one match.
        longest: Tokens that each answer may have at most.
        price: What tokens cost; ``None`` where it is not known.
    """

    captain: str
    seats: int
    match: Rehearsal
    longest: int
    price: Price | None

    @property
    def calls(self) -> int:
        """Questions in all matches."""
        return self.match.calls * self.seats

    @property
    def least(self) -> Usage:
        """Tokens in all matches, with short answers, at an endpoint with a cache."""
        return Usage(
            self.match.tokens_in * self.seats,
            self.match.tokens_out * self.seats,
            cached_in=self.match.cached_in * self.seats,
        )

    @property
    def most(self) -> Usage:
        """Tokens in all matches, with every answer of the greatest length, at an endpoint without a cache."""
        return Usage(self.match.tokens_in * self.seats, self.longest * self.calls)

    def seconds(self, used: Usage, jobs: int) -> float:
        """Time of asking, by :data:`FIRST_TOKEN_S` and :data:`TOKENS_A_SECOND`, ``jobs`` matches at once."""
        at_once = max(1, min(jobs, self.seats))
        return (self.calls * FIRST_TOKEN_S + used.tokens_out / TOKENS_A_SECOND) / at_once

    def lines(self, jobs: int) -> Iterator[str]:
        """The estimate in words."""
        least, most = self.least, self.most
        cached = least.cached_in / max(1, least.tokens_in)
        each = self.match.calls
        yield f"{self.captain}: {self.calls:,} calls in {self.seats:,} seats of a match, {each} in each"
        yield f"  tokens in: {least.tokens_in:,}, of which a cache knows {cached:.0%}"
        yield f"  tokens out: {least.tokens_out:,} (short answers) to {most.tokens_out:,} (longest answers)"
        if self.price is None:
            yield "  money: no price is known; set price_in and price_out in its table, or name its provider"
        else:
            low, high = self.price.cost(least), self.price.cost(most)
            yield f"  money: {low:.4g} (cache, short answers) to {high:.4g} (neither), at {self.price}"
        low, high = self.seconds(least, jobs), self.seconds(most, jobs)
        span = f"{_duration(low)} to {_duration(high)} with {jobs} matches at once"
        pace = f"{FIRST_TOKEN_S:g} s to the first token and {TOKENS_A_SECOND:g} tokens a second"
        yield f"  time: {span}, at {pace}"


def estimate_evaluation(schedule: Schedule) -> list[Demand]:
    """What each model of ``schedule`` would take, matches that are played already included.

    Args:
        schedule: What is to be played.

    Raises:
        ValueError: The world's default captain is not a scripted one.
    """
    world, found = schedule.world, []
    for name in schedule.captains:
        build = world.captains[name].build
        if not isinstance(build, ModelBuild) or not schedule.matches:
            continue
        settings = build.captain.settings()
        asked = rehearse(world, settings, schedule.options, schedule.matches[0].seed)
        heaviest = max((one.rehearsal for one in asked.values()), key=lambda one: one.prompts)
        seats = sum((name == match.home) + (name == match.away) for match in schedule.matches)
        found.append(Demand(name, seats, heaviest, settings.max_tokens, build.captain.price))
    return found


def _duration(seconds: float) -> str:
    """A time as people say it.

    >>> _duration(90), _duration(7_500)
    ('90 s', '2 h 05 min')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"
