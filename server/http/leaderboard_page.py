"""The page of the leaderboard, ``/leaderboard``: world by world, with a glossary of what is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from spectator.catalog import load_world, world_names
from spectator.environments.base import Measure
from spectator.errors import ConfigurationError
from spectator.evaluation.bundles.board import VerifiedBundle
from spectator.evaluation.measures import measures_of

from ..security.budget import Held
from ..services import Services, services_of
from .leaderboard import BoardRow, Leaderboard, NameQuery, board_of
from .option_words import unusual_options
from .templates import Page, Templates, static_path
from .verified_board import with_options


@dataclass(frozen=True, slots=True)
class BoardFigure:
    """A measure as the page shows it.

    Args:
        label: Its name for people.
        shown: Its value in words.
    """

    label: str
    shown: str


@dataclass(frozen=True, slots=True)
class BoardLine:
    """One captain on the page.

    Args:
        row: What is known.
        figures: Its measures.
    """

    row: BoardRow
    figures: Sequence[BoardFigure]


@dataclass(frozen=True, slots=True)
class BoardGroup:
    """One world, version, pack and options on the page.

    Args:
        title: What is played.
        environment: Name of the world.
        version: Its version.
        pack: The pack.
        options: The options that are not the default.
        ranked: The captains that rank, the best first.
        unranked: The others, with the reason.
    """

    title: str
    environment: str
    version: str
    pack: str
    options: Sequence[str]
    ranked: Sequence[BoardLine]
    unranked: Sequence[BoardLine]


@dataclass(frozen=True, slots=True)
class LeaderboardPage(Page):
    """What ``leaderboard.html`` is given.

    Args:
        board: What was found.
        groups: The same, group by group.
        verified: Verified results, each with the options that are not the default, and the version of its
            world here where that is another.
        glossary: The measures in it.
        environments: Worlds that can be chosen, with their titles.
        packs: Packs likewise.
        opponents: Opponents likewise, with their labels.
        asked: What was chosen, by field.
    """

    board: Leaderboard
    groups: Sequence[BoardGroup]
    verified: Sequence[tuple[VerifiedBundle, Sequence[str], str]]
    glossary: Sequence[Measure]
    environments: Sequence[tuple[str, str]]
    packs: Sequence[tuple[str, str]]
    opponents: Sequence[tuple[str, str]]
    asked: dict[str, str]


def leaderboard_page(templates: Templates) -> APIRouter:
    """The route ``/leaderboard``; it works without a script."""
    pages = APIRouter(include_in_schema=False)

    @pages.get("/leaderboard")
    async def show(
        request: Request, environment: NameQuery = None, pack: NameQuery = None, opponent: NameQuery = None
    ) -> Response:
        services = services_of(request)
        async with services.budget.hold(Held.READS, request):
            return await whole(request, services, environment, pack, opponent)

    async def whole(
        request: Request, services: Services, environment: str | None, pack: str | None, opponent: str | None
    ) -> Response:
        board = await board_of(services, environment, pack, opponent)
        standings = services.scorekeeper.standings
        places = standings.places()
        page = LeaderboardPage(
            root="./",
            static=f"./{static_path(request)}",
            title="Leaderboard · Spectator",
            board=board,
            groups=await run_in_threadpool(_groups, board.rows),
            verified=await run_in_threadpool(with_options, board.verified),
            glossary=await run_in_threadpool(_glossary, board.rows),
            environments=sorted({(place.environment, _world(place.environment)[0]) for place in places}),
            packs=sorted({(place.pack, place.pack) for place in places}),
            opponents=[
                (name, services.orders.mask.text(standings.label(name))) for name in standings.opponents()
            ],
            asked={"environment": environment or "", "pack": pack or "", "opponent": opponent or ""},
        )
        return await run_in_threadpool(templates.render, "leaderboard.html", page)

    return pages


def _groups(rows: Sequence[BoardRow]) -> list[BoardGroup]:
    alike: list[list[BoardRow]] = []
    for row in rows:  # which come place by place
        if alike and _place_of(alike[-1][0]) == _place_of(row):
            alike[-1].append(row)
        else:
            alike.append([row])
    return [_group(of) for of in alike]


def _place_of(row: BoardRow) -> tuple[str, str, str, dict[str, Any], str]:
    return row.environment, row.environment_version, row.pack, row.options, row.failed_decisions


def _group(rows: Sequence[BoardRow]) -> BoardGroup:
    environment, version, pack, options, failed = _place_of(rows[0])
    title, measures = _world(environment)
    lines = [BoardLine(row, [*_figures(row, measures)]) for row in rows]
    shown = unusual_options(environment, options)
    if failed != "fallback":
        shown.append(f"failed decisions: {failed}")
    return BoardGroup(
        title,
        environment,
        version,
        pack,
        shown,
        [line for line in lines if line.row.ranked],
        [line for line in lines if not line.row.ranked],
    )


def _world(name: str) -> tuple[str, Sequence[Measure]]:
    """Title and measures; of a world that is not here any more, its name and the measures of all."""
    if name not in world_names():
        return name, measures_of(None)
    try:
        world = load_world(name)
    except ConfigurationError:
        return name, measures_of(None)
    return world.title, measures_of(world)


def _figures(row: BoardRow, measures: Sequence[Measure]) -> list[BoardFigure]:
    return [
        BoardFigure(measure.label, measure.shown(found.mean))
        for measure in measures
        if (found := row.measures.get(measure.name)) is not None
    ]


def _glossary(rows: Sequence[BoardRow]) -> list[Measure]:
    """Every measure that a row has, once."""
    shown = {(row.environment, name) for row in rows for name in row.measures}
    worlds = dict.fromkeys(row.environment for row in rows)
    known = {
        measure.name: measure
        for world in worlds
        for measure in _world(world)[1]
        if (world, measure.name) in shown
    }
    return list(known.values())
