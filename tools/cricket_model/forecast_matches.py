"""Play matches and compare the displayed forecast with the outcome."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.match.engine import Match, load_model
from spectator.environments.cricket.match.forecasts import PitchReading, forecast_data
from spectator.environments.cricket.match.starts import advance
from spectator.environments.cricket.simulation import open_match, play_out
from spectator.environments.world import derive_seed

SEED: Final = 20_27
OVERS: Final = 20
"""Length of the matches that chances are followed through, by default."""


class Miss(NamedTuple):
    """Forecast less outcome of one match.

    Args:
        total: Total of the first innings, runs.
        start: Chance of the first side.
        chase: Chance of the second side when its innings begins.
    """

    total: float
    start: float
    chase: float


class Change(NamedTuple):
    """Change of the chance of the side batting first by one ball.

    Args:
        innings: Innings of the ball.
        by: Change of the chance.
    """

    innings: int
    by: float


class ChaseState(NamedTuple):
    """One ball of a chase.

    Args:
        balls_left: Valid balls left.
        lost: Wickets lost.
        needed: Runs needed.
        chance: Chance by the forecast.
        won: Outcome: 1, 0, or 0.5 for a tie.
    """

    balls_left: int
    lost: int
    needed: int
    chance: float
    won: float


class _WatchedMatch:
    """A match of two innings, and the forecast that its page shows.

    Args:
        overs: Overs of an innings.
        seed: Its seed.
        futures: Futures per forecast.
        model: The ball model.
        options: Options of ground, form, fatigue and squads.
    """

    def __init__(
        self,
        overs: int,
        seed: int,
        futures: int,
        model: BallModel | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.match: Match = open_match(overs, seed, model=model, super_over=False, options=options)
        self._reading = PitchReading(self.match.model)
        self._futures = futures
        self._rng = random.Random(derive_seed(seed, "forecast"))

    def balls(self) -> Iterator[int]:
        """Play on; yields the number of the current innings after every ball."""
        for played in play_out(self.match):
            self._reading.observe(played.innings, played.delivered)
            yield self.match.number

    def first_innings(self) -> None:
        """Play the first innings, and send in the openers of the chase."""
        for _ in self.balls():
            if self.match.current.closed:
                break
        self.match.close_innings()
        self.openers()

    def openers(self) -> None:
        """Send in the openers."""
        advance(self.match)
        advance(self.match)

    def forecast(self) -> tuple[float, float]:
        """Return the chance of the side batting first, and the mean total of the innings."""
        if self.match.awaited == "innings":
            self.match.close_innings()
        data = forecast_data(self.match, self._futures, self._rng.getrandbits(32), self._reading)
        assert data is not None
        return data[self.match.batting[0]], data["total"]

    def rest(self) -> float:
        """Play to the end; returns 1 if the side batting first won, 0 if not, 0.5 for a tie."""
        for _ in self.balls():
            pass
        result = self.match.result
        assert result is not None
        return 0.5 if result.winner is None else float(result.winner == self.match.batting[0])


def misses(
    overs: int,
    level: str | float,
    profile: str,
    matches: int,
    futures: int,
    options: Mapping[str, Any] | None = None,
) -> Iterator[Miss]:
    """Yield forecast less outcome of many matches, each with its own seed."""
    model = load_model(profile, level)
    for number in range(matches):
        seed = derive_seed(SEED, "before", overs, str(level), profile, number)
        watched = _WatchedMatch(overs, seed, futures, model, options)
        watched.openers()
        start, total = watched.forecast()
        watched.first_innings()
        chase, _ = watched.forecast()
        won = watched.rest()
        yield Miss(total - watched.match.innings[0].runs, start - won, won - chase)


def changes(
    matches: int, futures: int, options: Mapping[str, Any] | None = None, overs: int = OVERS
) -> Iterator[list[Change]]:
    """Yield how one ball of each innings, drawn in advance, changed the chance.

    A match may end before the drawn ball.
    """
    for number in range(matches):
        seed = derive_seed(SEED, "ball", number)
        watched, draw = _WatchedMatch(overs, seed, futures, None, options), random.Random(seed)
        drawn = {innings: draw.randrange(6 * overs) for innings in (1, 2)}
        found: list[Change] = []
        before: tuple[int, float] | None = None
        watched.openers()
        for innings in watched.balls():
            if before is not None:
                found.append(Change(before[0], watched.forecast()[0] - before[1]))
                before = None
            current = watched.match.current
            if innings in drawn and current.balls >= drawn[innings] and not current.closed:
                before = innings, watched.forecast()[0]
                del drawn[innings]
        yield found


def chases(matches: int, futures: int) -> Iterator[ChaseState]:
    """Yield one random ball of the chase of each match that lasts that long."""
    for number in range(matches):
        seed = derive_seed(SEED, "chase", number)
        watched, at = _WatchedMatch(OVERS, seed, futures), random.Random(seed).randrange(110)
        watched.first_innings()
        for _ in watched.balls():
            innings = watched.match.current
            if innings.balls >= at and innings.needed is not None and not innings.closed:
                first, _ = watched.forecast()
                state = innings.balls_left, innings.wickets, innings.needed
                yield ChaseState(*state, round(1.0 - first, 4), 1.0 - watched.rest())
                break
