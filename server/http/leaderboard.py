"""The leaderboard: what captains have shown over all that is recorded."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from spectator.environments.base import OUTCOME
from spectator.evaluation.bundles.board import VerifiedBundle
from spectator.evaluation.standings import CaptainStanding, Sums, Unranked
from spectator.events import FailedDecisions

from ..security import faults
from ..security.budget import Held
from ..security.faults import documented
from ..services import Services, ServicesDep
from .masked_route import MaskedRoute
from .verified_board import results_shown

NAME_LENGTH: Final = 64


class BoardShare(BaseModel):
    """A share of matches with Wilson's 95 % interval over seeds; a tie is half a win."""

    value: float = Field(ge=0, le=1)
    low: float = Field(ge=0, le=1)
    high: float = Field(ge=0, le=1)


class BoardEdge(BaseModel):
    """A mean difference of `decision_value` to the opponents a match, with its 95 % interval over seeds."""

    value: float
    low: float
    high: float
    seeds: int = Field(ge=2)


class BoardMeasure(BaseModel):
    """A mean over episodes."""

    mean: float
    episodes: int = Field(description="In how many it was measured")


class BoardOpponent(BaseModel):
    """What was played against one opponent."""

    opponent: str
    label: str
    wins: int
    ties: int
    losses: int


class BoardRow(BaseModel):
    """One captain, as it was asked, in one world, version, pack and options."""

    environment: str
    environment_version: str
    pack: str
    options: dict[str, Any] = Field(description="Every option of the world")
    failed_decisions: FailedDecisions = Field(description="What counted where a captain did not decide")
    captain: str
    fingerprint: str = Field(
        description="Of a model: a digest of endpoint, model by its own account, prompt, style and sampling"
    )
    models: list[str] = Field(
        description="The models that answered, by their own account, in the newest match"
    )
    label: str
    source: str = Field(description="Kind of decision maker")
    episodes: int = Field(description="All that ended, forks left out")
    mirrored: int = Field(description="Of these, against itself; they count for no share")
    unfinished: int = Field(description="Of these, cut short; they count for no share and no measure")
    unreached: int = Field(
        description="Of these, finished although a captain made no decision of its own; they count likewise"
    )
    own_share: float | None = Field(
        description="Share of all decisions that the captain made itself; null where it was asked for none"
    )
    ranked: bool = Field(
        description="Whether it was evaluated, and made at least 98 % of the decisions itself"
    )
    unranked: Unranked | None = Field(
        description="Why not: `history` was played outside of evaluations, `failed decisions` are not its own"
    )
    repeats: int = Field(description="Matches of evaluations that were played before; a seed counts once")
    wins: int
    ties: int
    losses: int
    share: BoardShare | None = Field(description="Won against others; null when there was nobody to beat")
    edge: BoardEdge | None = Field(
        description="What its decisions were worth beyond its opponents'; null where that is not measured"
    )
    measures: dict[str, BoardMeasure] = Field(description="By measure; docs/evaluation.md explains each")
    against: list[BoardOpponent] = Field(description="The most played first")
    recent: list[str] = Field(description="Its newest episodes, the newest first")
    last_ended_at: str = Field(description="RFC 3339")


class Leaderboard(BaseModel):
    """What captains have shown over all episodes recorded here."""

    rows: list[BoardRow] = Field(
        description="By world, version, pack, options; within these by the lower end of the share's interval"
    )
    episodes: int = Field(description="Episodes in all of it, whatever was asked for")
    owed: int = Field(description="Ended episodes that are not in it yet")
    verified: list[VerifiedBundle] = Field(
        default_factory=list,
        description="Results of published evaluations that the operator verified, the newest first; their "
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
    """Captains by what they have shown: of one world, of one pack, against one opponent, or all."""
    async with services.budget.hold(Held.READS, request):
        return await board_of(services, environment, pack, opponent)


async def board_of(
    services: Services, environment: str | None, pack: str | None, opponent: str | None
) -> Leaderboard:
    """The leaderboard of one world, of one pack, against one opponent, or of all."""
    keeper = services.scorekeeper
    found = keeper.standings.look(environment or None, pack or None, opponent or None)
    return Leaderboard(
        rows=[_row(standing, services) for standing in found],
        episodes=keeper.standings.episodes,
        owed=keeper.owed,
        verified=await run_in_threadpool(
            results_shown,
            services.settings.data_dir,
            services.orders.mask.text,
            environment,
            pack,
            opponent,
        ),
    )


def _row(standing: CaptainStanding, services: Services) -> BoardRow:
    sums, share, edge = standing.sums, standing.share, standing.edge
    return BoardRow(
        **{**standing.place._asdict(), "options": json.loads(standing.place.options)},
        captain=standing.captain,
        fingerprint=standing.entrant.fingerprint,
        models=[services.orders.mask.text(model) for model in sums.models],
        label=services.orders.mask.text(sums.label),
        source=sums.source,
        episodes=sums.episodes,
        mirrored=sums.mirrored,
        unfinished=sums.unfinished,
        unreached=sums.unreached,
        own_share=sums.own_share,
        ranked=standing.unranked is None,
        unranked=standing.unranked,
        repeats=sums.repeats,
        wins=sums.wins,
        ties=sums.ties,
        losses=sums.losses,
        share=None if share is None else BoardShare(value=share.value, low=share.low, high=share.high),
        edge=None
        if edge is None
        else BoardEdge(value=edge.value, low=edge.low, high=edge.high, seeds=edge.n),
        measures={
            name: BoardMeasure(mean=total / count, episodes=count)
            for name, (total, count) in sums.totals.items()
            if name != OUTCOME
        },
        against=[_against(name, one, services) for name, one in standing.against],
        recent=[episode_id for _, episode_id in reversed(sums.recent)],
        last_ended_at=sums.last,
    )


def _against(name: str, sums: Sums, services: Services) -> BoardOpponent:
    label = services.orders.mask.text(services.scorekeeper.standings.label(name))
    return BoardOpponent(opponent=name, label=label, wins=sums.wins, ties=sums.ties, losses=sums.losses)
