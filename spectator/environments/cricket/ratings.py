"""Ratings of real players, shrunk by person, venue and season (empirical Bayes).

Each ball is compared with what the ball model expects of average players in the same situation. A ratio of
what was made to what was expected, with ``K`` expected ones added to both, is the mean of a gamma posterior:
``K`` is ``noise / spread ** 2``, with the true spread between professionals from ``data/player_skill.json``.
Few balls leave a rating near 1; many move it to the person's own ratio.

First every match has a log ratio of all its runs. Seasons and venues take their shrunk means of it: an effect
is the sum of the ratios left over by the other, divided by their number plus ``MATCH_SD ** 2 / spread ** 2``.
Then people are rated on what venue and season leave, batters against the bowlers they faced and bowlers
against the batters, in turns.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

MATCH_SD: Final = 0.14
"""Spread of a match's log ratio of runs on one ground in one season (variance.json of the tables' tool)."""
SEASON_SD: Final = 0.06
"""Spread between seasons: first innings made 168 in 2018-22 and 189 in 2023-24."""
VENUE_SD: Final = 0.066
"""Spread between grounds: 11 of 170 runs, see :mod:`.ball.grounds`."""
FULL_RUNS: Final = 300.0
"""Expected runs of a whole match of 20 overs a side; a shorter match counts in proportion."""
RUNS_NOISE: Final = 2.4
"""Variance of a ball's runs divided by its mean."""
ROUNDS: Final = 4
LEAST, MOST = 0.6, 1.7


class LatentSpread(NamedTuple):
    """True spread between professionals of each ratio."""

    bat_runs: float
    bat_out: float
    bowl_runs: float
    bowl_wickets: float
    bowl_extras: float


@cache
def spreads() -> LatentSpread:
    """Return the mean latent spreads of ``player_skill.json`` over all groups."""
    path = Path(__file__).parent / "data" / "player_skill.json"
    skill: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))

    def mean(groups: Mapping[str, Any], ratio: str) -> float:
        found = [one[ratio]["latent_sd"] for one in groups.values() if ratio in one]
        return float(sum(found) / len(found))

    batters, bowlers = skill["batters"], {kind: skill["bowlers"][kind] for kind in ("pace", "spin")}
    return LatentSpread(
        mean(batters, "run_rate_ratio"),
        mean(batters, "dismissal_ratio"),
        mean(bowlers, "runs_conceded_ratio"),
        mean(bowlers, "wicket_ratio"),
        mean(bowlers, "wide_noball_ratio"),
    )


class Duel(NamedTuple):
    """Balls of one bowler to one batter: what was expected of average players, and what happened.

    Args:
        match: Number of the match.
        runs: Expected runs off the bat.
        out: Expected dismissals credited to the bowler.
        extras: Expected wides and no-balls.
    """

    match: int
    batter: str
    bowler: str
    runs: float
    out: float
    extras: float
    made: int
    taken: int
    wild: int
    balls: int = 1


class Rating(NamedTuple):
    """A person's ratios and the balls they rest on."""

    bat_runs: float = 1.0
    bat_out: float = 1.0
    bowl_runs: float = 1.0
    bowl_wickets: float = 1.0
    bowl_extras: float = 1.0
    faced: int = 0
    bowled: int = 0


@dataclass(slots=True)
class Ratings:
    """What all matches say of people, grounds and seasons.

    Args:
        people: Ratings by key.
        venues: Log ratio of runs by ground.
        seasons: The same by season.
    """

    people: dict[str, Rating] = field(default_factory=dict)
    venues: dict[str, float] = field(default_factory=dict)
    seasons: dict[str, float] = field(default_factory=dict)

    def of(self, key: str) -> Rating:
        """Return a person's rating; that of the average for one who is unknown."""
        return self.people.get(key, Rating())

    def scoring(self, venue: str, season: str) -> float:
        """Return the factor on runs at a ground in a season."""
        return math.exp(self.venues.get(venue, 0.0) + self.seasons.get(season, 0.0))


def rate(duels: Sequence[Duel], grounds: Sequence[str], seasons: Sequence[str]) -> Ratings:
    """Rate everyone by all their duels.

    Args:
        grounds: The ground of each match, by number.
        seasons: The season of each match, by number.

    >>> balls = [Duel(0, "a", "b", 1.2, 0.05, 0.04, 2, 0, 0)] * 6
    >>> 1.0 < rate(balls, ["g"], ["2024"]).of("a").bat_runs < 1.05
    True
    """
    found = _scoring(duels, grounds, seasons)
    day = [found.scoring(ground, season) for ground, season in zip(grounds, seasons, strict=True)]
    found.people = _people(duels, day)
    return found


def _scoring(duels: Sequence[Duel], grounds: Sequence[str], seasons: Sequence[str]) -> Ratings:
    """Share the runs of whole matches between season and ground."""
    made, expected = Counter[int](), [0.0] * len(grounds)
    for one in duels:
        made[one.match] += one.made
        expected[one.match] += one.runs
    logs = {
        match: math.log((made[match] + 5.0) / (runs + 5.0))
        for match, runs in enumerate(expected)
        if runs > 0.0
    }
    shares = [min(1.0, runs / FULL_RUNS) for runs in expected]
    by_season, by_venue = dict[str, float](), dict[str, float]()
    for _ in range(ROUNDS):
        by_season = _effects(
            ((seasons[one], log - by_venue.get(grounds[one], 0.0), shares[one]) for one, log in logs.items()),
            SEASON_SD,
        )
        by_venue = _effects(
            ((grounds[one], log - by_season[seasons[one]], shares[one]) for one, log in logs.items()),
            VENUE_SD,
        )
    return Ratings({}, by_venue, by_season)


def _people(duels: Sequence[Duel], day: Sequence[float]) -> dict[str, Rating]:
    """Rate batters against the bowlers they faced, and bowlers against the batters.

    Args:
        day: The factor on runs in each match, by number.
    """
    spread = spreads()
    bat_runs, bat_out = dict[str, float](), dict[str, float]()
    bowl_runs, bowl_out = dict[str, float](), dict[str, float]()
    for _ in range(ROUNDS):
        bat_runs = _ratios(
            (
                (one.batter, one.made, one.runs * day[one.match] * bowl_runs.get(one.bowler, 1.0))
                for one in duels
            ),
            RUNS_NOISE / spread.bat_runs**2,
        )
        bat_out = _ratios(
            ((one.batter, one.taken, one.out * bowl_out.get(one.bowler, 1.0)) for one in duels),
            1.0 / spread.bat_out**2,
        )
        bowl_runs = _ratios(
            ((one.bowler, one.made, one.runs * day[one.match] * bat_runs[one.batter]) for one in duels),
            RUNS_NOISE / spread.bowl_runs**2,
        )
        bowl_out = _ratios(
            ((one.bowler, one.taken, one.out * bat_out[one.batter]) for one in duels),
            1.0 / spread.bowl_wickets**2,
        )
    extras = _ratios(((one.bowler, one.wild, one.extras) for one in duels), 1.0 / spread.bowl_extras**2)
    faced, bowled = Counter[str](), Counter[str]()
    for one in duels:
        faced[one.batter] += one.balls
        bowled[one.bowler] += one.balls
    return {
        key: Rating(
            bat_runs.get(key, 1.0), bat_out.get(key, 1.0), bowl_runs.get(key, 1.0), bowl_out.get(key, 1.0),
            extras.get(key, 1.0), faced[key], bowled[key],
        )
        for key in faced.keys() | bowled.keys()
    }  # fmt: skip


def _effects(logs: Iterable[tuple[str, float, float]], spread: float) -> dict[str, float]:
    """Return shrunk means by name, of log ratios with their weights."""
    total, weight = dict[str, float](), dict[str, float]()
    for name, log, share in logs:
        total[name] = total.get(name, 0.0) + share * log
        weight[name] = weight.get(name, 0.0) + share
    return {name: value / (weight[name] + (MATCH_SD / spread) ** 2) for name, value in total.items()}


def _ratios(balls: Iterable[tuple[str, int, float]], prior: float) -> dict[str, float]:
    """Return shrunk ratios of what happened to what was expected, by person."""
    made, expected = dict[str, float](), dict[str, float]()
    for who, happened, likely in balls:
        made[who] = made.get(who, prior) + happened
        expected[who] = expected.get(who, prior) + likely
    return {who: min(MOST, max(LEAST, made[who] / expected[who])) for who in made}
