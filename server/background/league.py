"""The league of this server's captains: who plays in it, how it stands, and which match comes next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from spectator.clock import Clock
from spectator.environments.world import World
from spectator.episodes.controls import Pace
from spectator.episodes.plan import EpisodePlan, EpisodeRequest
from spectator.episodes.supervisor import Supervisor
from spectator.errors import ConfigurationError
from spectator.evaluation.figures import LEAGUE
from spectator.evaluation.league import (
    MOST_CAPTAINS,
    LeagueMatch,
    Season,
    last_final,
    league_matches,
    newest_season,
)
from spectator.evaluation.standings import Scorekeeper
from spectator.journal.contract import EpisodeFilter
from spectator.journal.coordination import BeginLimit, Reservations
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.policy import Preset

KEPT_SEASONS: Final = 2
"""Seasons whose records are kept: the one that is played and the one before."""

FRESH_S: Final = 1.0
"""Seconds for which pages share one state."""

MOST_MATCHES: Final = 1000
"""Most recorded matches that are read."""

ONE_START: Final = BeginLimit(1, 300.0)
"""Limit for one attempt at a fixture by all servers; one that dies before the start delays it for so long."""

NO_LIMIT: Final = BeginLimit(0, ONE_START.period_s)


def league_captains(world: World, named: Sequence[str]) -> dict[str, Preset]:
    """Return the captains of a league, by name.

    Args:
        world: The world with everyone who can play it.
        named: The operator's choice; if empty, the world's own captains worth watching, free of charge.

    Raises:
        ConfigurationError: One of those named cannot play in a league; says why.
    """
    if len(named) > MOST_CAPTAINS:
        raise ConfigurationError(
            f"SPECTATOR_LEAGUE_CAPTAINS: names {len(named)} captains; use at most {MOST_CAPTAINS}"
        )
    able = {name: one for name, one in world.captains.items() if name in world.opponents and _can_play(one)}
    for name in named:
        if name not in able:
            preset = world.captains.get(name)
            why = (preset and preset.missing) or "cannot take both seats of a league"
            raise ConfigurationError(f"SPECTATOR_LEAGUE_CAPTAINS: {name!r} {why}; use {', '.join(able)}")
    watched = [name for pair in (*world.pairings(), *world.showcase) for name in pair]
    return {name: able[name] for name in dict.fromkeys(named or watched) if name in able}


def _can_play(preset: Preset) -> bool:
    return preset.missing is None and preset.source not in ("human", "oracle") and not preset.mirrors


@dataclass(frozen=True, slots=True)
class LeagueState:
    """The league now.

    Args:
        season: The newest season.
        champions: The final of the season before, if it had a winner.
    """

    season: Season
    champions: LeagueMatch | None


class CaptainLeague:
    """Derives the league's state and its next match from the journal.

    Args:
        captains: See :func:`league_captains`.
        legs: How often each captain meets each other one in a season.
        pace: The pace of its matches.
        reservations: Reservations of all servers on the journal; ``None`` if only one server writes it.
    """

    def __init__(
        self,
        world: World,
        captains: Mapping[str, Preset],
        legs: int,
        pace: Pace,
        supervisor: Supervisor,
        journal: SqlJournal,
        scorekeeper: Scorekeeper,
        clock: Clock,
        reservations: Reservations | None,
    ) -> None:
        self.world = world
        self.captains = captains
        self.legs = legs
        self.pace = pace
        self._supervisor = supervisor
        self._journal = journal
        self._scorekeeper = scorekeeper
        self._clock = clock
        self._reservations = reservations
        self._read: tuple[float, LeagueState] | None = None

    @property
    def can_play(self) -> bool:
        """Whether it has the two captains that a match needs."""
        return len(self.captains) > 1

    def team(self, captain: str) -> str:
        """Return the team that a captain leads in every match; empty in worlds without team names."""
        names, place = self.world.team_names, list(self.captains).index(captain)
        return names[5 * place % len(names)] if names else ""  # 5: not all from the same end of the alphabet

    async def state(self) -> LeagueState:
        """Return the state of the league, at most :data:`FRESH_S` old.

        Raises:
            JournalError: The journal cannot be read.
        """
        now = self._clock.monotonic()
        if self._read is None or now - self._read[0] > FRESH_S:
            matches = await self._matches()
            season = newest_season(list(self.captains), self.legs, matches)
            self._read = now, LeagueState(season, last_final(season, matches))
        return self._read[1]

    async def begin(self) -> bool:
        """Start the next match, if there is one and no other server starts it; return whether it started.

        Raises:
            SpectatorError: The match cannot be planned or started, or the journal cannot be used.
        """
        plan = await self._next_plan()
        if plan is None:
            return False
        if self._reservations is None:
            await self._supervisor.start(plan)
            return True
        match = f"{plan.group_id} {plan.attempt}"
        claim = await self._reservations.begin(LEAGUE, match, of_one=ONE_START, of_all=NO_LIMIT)
        if claim.number is None:
            return False
        try:
            plan = await self._next_plan()  # a server whose claim is over has recorded its match
            if plan is None or match != f"{plan.group_id} {plan.attempt}":
                return False
            await self._supervisor.start(plan)
        except BaseException:
            await self._reservations.undo(claim.number)
            raise
        return True

    async def _next_plan(self) -> EpisodePlan | None:
        """Plan the next match; ``None`` while one is played or results are still being read.

        A fixture whose match was stopped or failed is played again, with the same seed.

        Raises:
            InvalidRequest: The match cannot be planned.
            JournalError: The journal cannot be read.
        """
        matches = await self._matches()
        if any(one.summary.ended_at is None for one in matches):
            return None
        season = newest_season(list(self.captains), self.legs, matches)
        if season.is_over:
            season = Season(season.number + 1, list(self.captains), self.legs, ())
        if not season.upcoming:
            return None
        fixture = season.upcoming[0]
        before = [one.summary for one in season.matches if one.fixture == fixture.number]
        names = zip(self.world.actors, (fixture.home, fixture.away), strict=True)
        teams = {f"{actor}_team": self.team(name) for actor, name in names if self.world.team_names}
        request = EpisodeRequest(
            self.world.name,
            fixture.home,
            fixture.away,
            seed=before[0].seed if before else None,
            pace=self.pace,
            narration=False,
            options=teams,
        )
        plan = self._supervisor.plan(request)
        return replace(plan, run_id=LEAGUE, group_id=fixture.group(season.number), attempt=len(before) + 1)

    async def tidy(self) -> None:
        """Remove the records of old seasons, and of matches that were played again.

        Raises:
            JournalError: It failed, possibly after some removals.
        """
        matches = await self._matches()
        season = newest_season(list(self.captains), self.legs, matches)
        settled = {one.summary.episode_id for one in season.played.values()}
        for match in matches:
            replaced = match.season == season.number and match.fixture in season.played
            is_old = match.season <= season.number - KEPT_SEASONS
            superseded = replaced and match.summary.episode_id not in settled
            if match.summary.ended_at is not None and (is_old or superseded):
                await self._journal.remove(match.summary.episode_id)

    async def _matches(self) -> list[LeagueMatch]:
        summaries = await self._journal.episodes(EpisodeFilter(run_id=LEAGUE, limit=MOST_MATCHES))
        matches = league_matches(summaries, self._scorekeeper.by_id)
        for match in matches:
            if match.is_over and match.figures is None:  # such as one that another server played
                self._scorekeeper.note_ended(match.summary.episode_id)
        return matches
