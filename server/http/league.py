"""The league for the lobby and for its own page: what is on, what comes next, results, table, records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from spectator.errors import JournalError
from spectator.evaluation.league import FINAL, Fixture, LeagueMatch, Season, TableRow
from spectator.text import clean_text, emblem

from ..background.league import CaptainLeague, LeagueState
from ..services import Services, services_of
from .templates import Page, Templates, static_path

PATIENCE_S: Final = 2.0
"""Seconds that a page waits for the journal, before it is shown without the record."""


@dataclass(frozen=True, slots=True)
class Side:
    """A captain and its team.

    Args:
        letters: Letters of its emblem.
        look: Look of its emblem, 0 to 11.
        team: Empty in worlds without team names.
    """

    captain: str
    label: str
    team: str
    letters: str
    look: int


@dataclass(frozen=True, slots=True)
class Meeting:
    """A match of the league, played or not.

    Args:
        name: Such as ``Match 12`` or ``Final``.
        won: ``home``, ``away``, ``tie``, or empty without a result.
        said: The result in words, or why there is none; empty before the match.
        episode_id: Its episode; empty before the match.
    """

    name: str
    home: Side
    away: Side
    won: str = ""
    said: str = ""
    episode_id: str = ""


@dataclass(frozen=True, slots=True)
class TableLine:
    """A line of the table.

    Args:
        own: Share of its decisions that it made itself; ``None`` if that is all of them.
        met: By opponent, in the table's order: matches won and lost, or ``None`` where they have not met.
    """

    side: Side
    row: TableRow
    own: float | None
    met: Sequence[tuple[int, int] | None]


@dataclass(frozen=True, slots=True)
class LeagueView:
    """The league as the pages show it.

    Args:
        lacks: Why there is nothing to show; empty if there is.
        played: Matches of the season that are settled.
        of: Matches of the season with its final.
        upcoming: All fixtures left, the next one first.
        results: All results, newest first.
        champion: The champion of this season once it is over, else of the season before.
        crowned: The season of that champion.
        records: Pairs of a record and what it is, with the match's episode.
    """

    lacks: str = ""
    season: int = 1
    played: int = 0
    of: int = 0
    live: Meeting | None = None
    upcoming: Sequence[Meeting] = ()
    results: Sequence[Meeting] = ()
    table: Sequence[TableLine] = ()
    champion: Side | None = None
    crowned: int = 0
    records: Sequence[tuple[str, str, str]] = ()


async def league_view(services: Services) -> LeagueView | None:
    """Return the league for a page; ``None`` if it is off."""
    league = services.exhibition.league
    if league is None:
        return None
    if not league.can_play:
        lacks = "A league needs two captains, but only one can play here. Exhibitions are played instead."
        return LeagueView(lacks=lacks)
    try:
        async with asyncio.timeout(PATIENCE_S):
            state = await league.state()
    except (JournalError, TimeoutError):
        return LeagueView(lacks="The record is unavailable right now, and with it the table.")
    return _LeagueDrawing(league, state, services).view()


class _LeagueDrawing:
    """Renders one state of the league."""

    def __init__(self, league: CaptainLeague, state: LeagueState, services: Services) -> None:
        self._league = league
        self._season: Season = state.season
        self._before = state.champions
        self._labels = services.cast.opponent_label
        self._mask: Callable[[str], str] = services.operator_orders.mask.text

    def view(self) -> LeagueView:
        """Return what the pages show."""
        season, live = self._season, self._season.live
        upcoming = [
            self._fixture(one) for one in season.upcoming if live is None or one.number != live.fixture
        ]
        champion, crowned = season.champion, season.number
        if champion is None and self._before is not None:
            champion, crowned = self._before.winner, self._before.season
        return LeagueView(
            season=season.number,
            played=len(season.played),
            of=len(season.fixtures) + 1,
            live=None if live is None else self._match(live),
            upcoming=upcoming,
            results=[self._match(one) for one in season.results],
            table=[self._standing(row) for row in season.table],
            champion=None if champion is None else self._side(champion),
            crowned=crowned,
            records=self._records(),
        )

    def _side(self, captain: str, label: str = "") -> Side:
        preset = self._league.captains.get(captain)
        if preset is None:
            label = label or self._labels(self._league.world.name, captain)
        shown = clean_text(self._mask(label if preset is None else preset.label), 60)
        team = "" if preset is None else self._mask(self._league.team(captain))
        return Side(captain, shown, team, *emblem(shown))

    def _fixture(self, fixture: Fixture) -> Meeting:
        return Meeting(_name(fixture.number), self._side(fixture.home), self._side(fixture.away))

    def _match(self, match: LeagueMatch) -> Meeting:
        summary, outcome = match.summary, match.outcome
        said = clean_text(self._mask(summary.result or ""), 120)
        if summary.ended_at is not None and outcome is None:
            unread = match.is_over and match.figures is None
            said = "The result is being read." if unread else f"No result: {_why_none(match)}."
        won = {1.0: "home", 0.5: "tie", 0.0: "away"}.get(-1.0 if outcome is None else outcome, "")
        home, away = self._side(summary.captain, summary.captain_label), self._side(summary.opponent)
        return Meeting(_name(match.fixture), home, away, won, said, summary.episode_id)

    def _standing(self, row: TableRow) -> TableLine:
        met = (self._season.head_to_head.get((row.captain, other.captain)) for other in self._season.table)
        own = row.sums.own_share
        return TableLine(
            self._side(row.captain),
            row,
            None if own == 1.0 else own,
            [None if cell is None else (cell[0], cell[2]) for cell in met],
        )

    def _records(self) -> list[tuple[str, str, str]]:
        found = []
        runs = max(self._season.table, key=lambda row: row.longest_run)
        if runs.longest_run > 1:
            found.append(("Most wins in a row", f"{self._side(runs.captain).label}, {runs.longest_run}", ""))
        if (best := self._season.best_decisions) is not None:
            match, margin = best
            name = match.summary.captain if margin > 0 else match.summary.opponent
            said = (
                f"{self._side(name).label}, {abs(margin):.0f} hundredths of a win better than the opponent's"
            )
            found.append(("Best decisions in a match", said, match.summary.episode_id))
        return found


def _name(number: int) -> str:
    return "Final" if number == FINAL else f"Match {number}"


def _why_none(match: LeagueMatch) -> str:
    if match.is_over:
        return "a captain made no decision itself"
    return "it was stopped" if match.summary.reason == "stopped" else "it failed three times"


@dataclass(frozen=True, slots=True)
class LeaguePage(Page):
    """Context of ``league.html``."""

    league: LeagueView | None


def league_page(templates: Templates) -> APIRouter:
    """Return the route of the league's page."""
    router = APIRouter(include_in_schema=False)

    @router.get("/league")
    async def league(request: Request) -> Response:
        page = LeaguePage(
            root="./",
            static=f"./{static_path(request)}",
            title="League · Spectator",
            league=await league_view(services_of(request)),
        )
        return await run_in_threadpool(templates.render, "league.html", page)

    return router
