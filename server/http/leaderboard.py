"""The leaderboard, as JSON and as a page with a glossary.

It shows captains' results in recorded episodes, and verified results of published evaluations.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from spectator.catalog import load_world, world_names
from spectator.core_events import FailedDecisions
from spectator.environments.contract import OUTCOME, Measure
from spectator.errors import ConfigurationError, InvalidRequest
from spectator.evaluation.bundles.board import (
    VerifiedBundle,
    VerifiedCaptain,
    shipped_results,
    verified_results,
)
from spectator.evaluation.figures import measures_of
from spectator.evaluation.standings import CaptainStanding, Unranked

from ..security import faults
from ..security.budget import Held
from ..security.faults import documented
from ..services import Services, ServicesDep, services_of
from .responses import MaskedRoute
from .templates import Page, Templates, static_path


def unusual_options(environment: str, options: Mapping[str, Any]) -> list[str]:
    """Return the options that differ from their world's defaults, in words.

    >>> unusual_options("counting", {"turns": 7, "payload_bytes": 0})
    ['turns 7']
    """
    try:
        usual = load_world(environment).options_type().model_dump(mode="json")
    except (ConfigurationError, InvalidRequest, ValidationError):  # the world is not installed
        usual = {}
    changed = {
        name: value
        for name, value in options.items()
        if usual.get(name) != value and not isinstance(value, Mapping)
    }
    return [
        f"{name.replace('_', ' ')} {str(one).lower() if isinstance(one, bool) else one}"
        for name, one in changed.items()
    ]


def results_shown(
    data_dir: Path, mask: Callable[[str], str], environment: str | None, pack: str | None, captain: str | None
) -> list[VerifiedBundle]:
    """Return matching verified results, newest first, shipped ones last."""
    return [
        one.model_copy(update={"captains": [_masked(captain, mask) for captain in one.captains]})
        for one in [*verified_results(data_dir), *shipped_results()]
        if environment in (None, "", one.environment)
        and pack in (None, "", one.pack)
        and (not captain or any(captain == played.name for played in one.captains))
    ]


def with_options(results: Sequence[VerifiedBundle]) -> list[tuple[VerifiedBundle, Sequence[str], str]]:
    """Return each result with its non-default options and installed version.

    The version is empty if it is the result's, or if the world is not installed.
    """
    return [(one, unusual_options(one.environment, one.options), _other_version(one)) for one in results]


def _other_version(result: VerifiedBundle) -> str:
    if result.environment not in world_names():
        return ""
    now = load_world(result.environment).version
    return "" if now == result.environment_version else now


def _masked(captain: VerifiedCaptain, mask: Callable[[str], str]) -> VerifiedCaptain:
    return captain.model_copy(
        update={"label": mask(captain.label), "models": [mask(model) for model in captain.models]}
    )


NAME_LENGTH: Final = 64


class BoardShare(BaseModel):
    """A share of matches with its 95 % interval over seeds.

    A tie counts as half a win. Seeds are resampled, as in the report; outside evaluations it is Wilson's.
    """

    value: float = Field(ge=0, le=1)
    low: float = Field(ge=0, le=1)
    high: float = Field(ge=0, le=1)


class BoardEdge(BaseModel):
    """Mean difference in `decision_value` to the opponents per match.

    The 95 % interval is over seeds.
    """

    value: float
    low: float
    high: float
    seeds: int = Field(ge=2)


class BoardMeasure(BaseModel):
    """A mean over episodes."""

    mean: float
    error: float | None = Field(description="Standard error of the mean; null for one episode")
    episodes: int = Field(description="Number of episodes in which it was measured")


class BoardOpponent(BaseModel):
    """Results against one opponent."""

    opponent: str
    label: str
    wins: int
    ties: int
    losses: int


class BoardRow(BaseModel):
    """One captain's configuration in one world, version, pack and options."""

    environment: str
    environment_version: str
    pack: str
    options: dict[str, Any] = Field(description="Every option of the world")
    failed_decisions: FailedDecisions = Field(description="What counted if a captain did not decide")
    captain: str
    fingerprint: str = Field(
        description="Of a model: a digest of endpoint, reported model, prompt, style and sampling"
    )
    models: list[str] = Field(
        description="The models that answered, as reported by the endpoint, in the newest match"
    )
    label: str
    source: str = Field(description="Kind of decision maker")
    episodes: int = Field(description="All that ended, without forks")
    mirrored: int = Field(description="Of these, against itself; not counted in shares")
    unfinished: int = Field(description="Of these, cut short; not counted in shares and measures")
    unreached: int = Field(
        description="Of these, finished although a captain was not reached; not counted either"
    )
    own_share: float | None = Field(
        description="Share of all decisions that the captain made itself; null without decisions"
    )
    ranked: bool = Field(
        description="Whether it was evaluated, and at most 2 % of its decisions failed for reasons other "
        "than its answers"
    )
    unranked: Unranked | None = Field(
        description="Why not: `history` was played outside of evaluations, too many `failed decisions` were "
        "not its own fault"
    )
    repeats: int = Field(description="Repeated matches of evaluations; each seed counts once")
    wins: int
    ties: int
    losses: int
    share: BoardShare | None = Field(
        description="Share won against others; null without opponents, or if too many decisions failed"
    )
    edge: BoardEdge | None = Field(
        description="Value of its decisions above its opponents'; null if not measured"
    )
    measures: dict[str, BoardMeasure] = Field(description="By measure; docs/evaluation.md explains each")
    against: list[BoardOpponent] = Field(description="Most played first")
    recent: list[str] = Field(description="Its newest episodes, newest first")
    last_ended_at: str = Field(description="RFC 3339")


class Leaderboard(BaseModel):
    """Captains' results over all episodes recorded here."""

    rows: list[BoardRow] = Field(
        description="By world, version, pack, options; within these by share, or by the lower end of its "
        "interval where captains played different numbers of seeds"
    )
    episodes: int = Field(description="Episodes in the whole leaderboard, regardless of the filter")
    pending: int = Field(description="Ended episodes that are not counted yet")
    verified: list[VerifiedBundle] = Field(
        default_factory=list,
        description="Results of published evaluations that the operator verified, newest first; their "
        "matches were played elsewhere and are not in the rows",
    )


NameQuery = Annotated[str | None, Query(max_length=NAME_LENGTH)]

router = APIRouter(tags=["history"], route_class=MaskedRoute)


@router.get("/api/leaderboard", responses=documented(faults.INVALID, faults.TOO_MANY, faults.CROWDED))
async def leaderboard(
    request: Request,
    services: ServicesDep,
    environment: NameQuery = None,
    pack: NameQuery = None,
    opponent: NameQuery = None,
) -> Leaderboard:
    """Rank captains by their results.

    Results can be limited to one world, one pack or one opponent.
    """
    async with services.budget.hold(Held.READS, request):
        return await board_of(services, environment, pack, opponent)


async def board_of(
    services: Services, environment: str | None, pack: str | None, opponent: str | None
) -> Leaderboard:
    """Return the leaderboard of one world, one pack, against one opponent, or of all."""
    keeper = services.scorekeeper
    found = keeper.standings.look(environment or None, pack or None, opponent or None)
    return Leaderboard(
        rows=[_row(standing, services) for standing in found],
        episodes=keeper.standings.episodes,
        pending=keeper.pending,
        verified=await run_in_threadpool(
            results_shown,
            services.settings.data_dir,
            services.operator_orders.mask.text,
            environment,
            pack,
            opponent,
        ),
    )


def _row(standing: CaptainStanding, services: Services) -> BoardRow:
    sums, share, edge, mask = standing.sums, standing.share, standing.edge, services.operator_orders.mask.text
    same = (
        "source", "episodes", "mirrored", "unfinished", "unreached", "own_share", "repeats", "wins", "ties",
        "losses",
    )  # fmt: skip
    return BoardRow(
        **{**standing.place._asdict(), "options": json.loads(standing.place.options)},
        **{name: getattr(sums, name) for name in same},
        captain=standing.captain,
        fingerprint=standing.entrant.fingerprint,
        models=[mask(model) for model in sums.models],
        label=mask(sums.label),
        ranked=standing.unranked is None,
        unranked=standing.unranked,
        share=None if share is None else BoardShare.model_validate(share, from_attributes=True),
        edge=edge and BoardEdge(value=edge.value, low=edge.low, high=edge.high, seeds=edge.n),
        measures={
            name: BoardMeasure(mean=mean.value, error=mean.error, episodes=mean.n)
            for name, mean in sums.means.items()
            if name != OUTCOME
        },
        against=[
            BoardOpponent(
                opponent=name,
                label=mask(services.scorekeeper.standings.label(name)),
                wins=one.wins, ties=one.ties, losses=one.losses,
            )
            for name, one in standing.against
        ],
        recent=[episode_id for _, episode_id in reversed(sums.recent)],
        last_ended_at=sums.last,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class BoardFigure:
    """A measure on the page."""

    measure: Measure
    found: BoardMeasure

    @property
    def shown(self) -> str:
        """The mean and its standard error, formatted."""
        mean, error = self.measure.shown(self.found.mean), self.found.error
        return mean if error is None else f"{mean} ± {self.measure.shown(error).lstrip('+')}"


@dataclass(frozen=True, slots=True)
class BoardLine:
    """One captain on the page."""

    row: BoardRow
    figures: Sequence[BoardFigure]


@dataclass(frozen=True, slots=True)
class BoardGroup:
    """One world, version, pack and options on the page."""

    title: str
    environment: str
    version: str
    pack: str
    options: Sequence[str]
    ranked: Sequence[BoardLine]
    unranked: Sequence[BoardLine]


@dataclass(frozen=True, slots=True)
class LeaderboardPage(Page):
    """Context of ``leaderboard.html``.

    Args:
        verified: Verified results, each with its non-default options, and its world's installed version if
            different.
        asked: The selection, by field.
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
    """Return the route ``/leaderboard``; it works without JavaScript."""
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
                (name, services.operator_orders.mask.text(standings.label(name)))
                for name in standings.opponents()
            ],
            asked={"environment": environment or "", "pack": pack or "", "opponent": opponent or ""},
        )
        return await run_in_threadpool(templates.render, "leaderboard.html", page)

    return pages


def _groups(rows: Sequence[BoardRow]) -> list[BoardGroup]:
    alike: list[list[BoardRow]] = []
    for row in rows:  # ordered by place
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
    """Return title and measures; generic ones for a world not installed."""
    if name not in world_names():
        return name, measures_of(None)
    try:
        world = load_world(name)
    except ConfigurationError:
        return name, measures_of(None)
    return world.title, measures_of(world)


def _figures(row: BoardRow, measures: Sequence[Measure]) -> list[BoardFigure]:
    return [
        BoardFigure(measure, found)
        for measure in measures
        if (found := row.measures.get(measure.name)) is not None
    ]


def _glossary(rows: Sequence[BoardRow]) -> list[Measure]:
    shown = {(row.environment, name) for row in rows for name in row.measures}
    worlds = dict.fromkeys(row.environment for row in rows)
    known = {
        measure.name: measure
        for world in worlds
        for measure in _world(world)[1]
        if (world, measure.name) in shown
    }
    return list(known.values())
