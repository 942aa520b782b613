"""Routes of the history of episodes: ``/api/episodes*``."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import StreamingResponse

from spectator.errors import EpisodeNotFound
from spectator.events import EndReason
from spectator.journal.base import EpisodeFilter, EpisodeSummary

from ..identifiers import EPISODE_ID, MAX_SEQ
from ..security import faults
from ..security.faults import documented
from ..security.masking import DIGEST_HEADER, NDJSON
from ..services import Services, ServicesDep
from .downloads import Download, download, download_aside, lines_of, part_of, reading
from .masked_route import MaskedRoute
from .usage import SeatUsage, usage_of

MAX_ATTEMPT: Final = 2**31 - 1

MOST_AT_ONCE: Final = 10_000
"""Events that are asked for as a part of a record, at most."""


class EpisodeEntry(BaseModel):
    """An episode in the history."""

    episode_id: str
    epoch: str = Field(description="Identity of its numbering")
    environment: str
    title: str
    captain: str = Field(description="Preset in the agent's seat")
    captain_label: str
    opponent: str = Field(description="Preset in the other seats; empty in worlds without opponents")
    opponent_label: str = Field(description="Its name for people today")
    pack: str
    seed: int
    started_at: str = Field(description="RFC 3339")
    ended_at: str | None = Field(description="RFC 3339; null while it has not ended")
    reason: EndReason | None = Field(description="Why it ended")
    score: float | None = Field(
        description="The sum of all rewards, when it finished; in [0, 1] in most worlds"
    )
    result: str | None = Field(description="The result in words, when it finished")
    turns: int | None = Field(description="Turns taken, once it has ended")
    head_seq: int = Field(description="Number of its last event")
    detail: str | None = Field(description="What went wrong, when something did, once it has ended")
    digest: str | None = Field(
        description="The chain's digest up to its last event, 64 hexadecimal digits; see docs/journal.md"
    )
    parent: str | None = Field(description="The episode that it was forked from; null for most")
    run_id: str | None = Field(description="The run that it was played for; null for most")
    group_id: str | None = Field(description="Its group within the run")
    attempt: int | None = Field(description="Which attempt it is at its place in the run, from 1")


class EpisodeDetail(EpisodeEntry):
    """An episode by itself."""

    usage: dict[str, SeatUsage] = Field(description="What models took, by actor")


class EpisodePage(BaseModel):
    """A page of the history, newest first."""

    episodes: list[EpisodeEntry]
    next: str | None = Field(description="`before` of the next page; null on the last")


class PastState(BaseModel):
    """What viewers saw after an event."""

    epoch: str = Field(description="Identity of the numbering")
    seq: int = Field(description="Number of the event")
    head_seq: int = Field(description="Number of the newest event")
    state: dict[str, Any] = Field(description="What the patches of all events up to it come to")


PROBLEMS: Final = documented(faults.NO_EPISODE, faults.INVALID, faults.NO_JOURNAL, faults.DAMAGED)
STREAMED: Final = {
    **PROBLEMS,
    **documented(faults.TOO_MANY, faults.CROWDED, faults.NO_JOURNAL),
    200: {"description": "One event envelope a line", "content": {NDJSON: {"schema": {"type": "string"}}}},
}

router = APIRouter(prefix="/api/episodes", tags=["history"], route_class=MaskedRoute)


@router.get("", responses=documented(faults.INVALID, faults.NO_JOURNAL))
async def list_episodes(
    services: ServicesDep,
    environment: Annotated[str | None, Query(max_length=64, description="Only of this world")] = None,
    captain: Annotated[str | None, Query(max_length=64, description="Only with this captain")] = None,
    opponent: Annotated[str | None, Query(max_length=64, description="Only against this opponent")] = None,
    pack: Annotated[str | None, Query(max_length=64, description="Only of this evaluation pack")] = None,
    seed: Annotated[int | None, Query(ge=0, le=MAX_SEQ, description="Only with this seed")] = None,
    reason: Annotated[EndReason | None, Query(description="Only those that ended for this reason")] = None,
    parent: Annotated[str | None, Query(max_length=64, description="Only forks of this episode")] = None,
    run_id: Annotated[str | None, Query(max_length=64, description="Only of this run")] = None,
    group_id: Annotated[str | None, Query(max_length=64, description="Only of this group")] = None,
    attempt: Annotated[
        int | None, Query(ge=1, le=MAX_ATTEMPT, description="Only attempts with this number")
    ] = None,
    text: Annotated[
        str | None,
        Query(min_length=1, max_length=100, description="Only those whose result, names, seed or id hold it"),
    ] = None,
    ended: Annotated[bool | None, Query(description="Only ended ones, or only unended ones")] = None,
    before: Annotated[
        str | None, Query(pattern=f"^{EPISODE_ID.pattern}$", description="`next` of the page before")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="Most episodes on the page")] = 50,
) -> EpisodePage:
    """Episodes that ran or run, newest first."""
    wanted = EpisodeFilter(
        environment=environment,
        captain=captain,
        opponent=opponent,
        pack=pack,
        seed=seed,
        reason=reason,
        parent=parent,
        run_id=run_id,
        group_id=group_id,
        attempt=attempt,
        text=text,
        ended=ended,
        before=before,
        limit=limit + 1,
    )
    found = await services.journal.episodes(wanted)
    following = found[limit - 1].episode_id if len(found) > limit else None
    shown = [await services.recorded.summary(summary) for summary in found[:limit]]
    return EpisodePage(episodes=[_entry(summary, services) for summary in shown], next=following)


@router.get("/{episode_id}", responses=PROBLEMS)
async def get_episode(episode_id: str, services: ServicesDep) -> EpisodeDetail:
    """One episode."""
    summary = await summary_of(services, episode_id)
    entry = _entry(summary, services)
    return EpisodeDetail(**dict(entry), usage=await usage_of(summary, services))


@router.get("/{episode_id}/events", response_class=StreamingResponse, responses=STREAMED)
async def get_events(
    episode_id: str,
    request: Request,
    services: ServicesDep,
    after_seq: Annotated[int, Query(ge=0, le=MAX_SEQ, description="Only later events")] = 0,
    limit: Annotated[int | None, Query(ge=1, le=MOST_AT_ONCE, description="At most so many")] = None,
) -> Download:
    """What viewers see of an episode: its event envelopes, one a line, byte for byte."""
    async with reading(services, request) as held:
        headers = {"Cache-Control": "no-cache"}
        summary = await summary_of(services, episode_id)
        if limit is not None:
            lines = part_of(services.records, episode_id, after_seq, limit, services.budget.reading)
            return await download(held, lines, headers)
        if await _is_plain(services, summary):
            return await download_aside(held, services, request, episode_id, after_seq, headers)
        lines = lines_of(services.records, episode_id, after_seq, services.budget.reading)
        return await download(held, lines, headers)


@router.get("/{episode_id}/state", responses={**PROBLEMS, **documented(faults.TOO_MANY, faults.CROWDED)})
async def get_state(
    episode_id: str,
    request: Request,
    services: ServicesDep,
    at: Annotated[
        int | None, Query(ge=0, le=MAX_SEQ, description="Number of the event; the newest if left out")
    ] = None,
) -> PastState:
    """What viewers saw after one event of an episode; later numbers than the newest are the newest."""
    async with reading(services, request):
        summary = await summary_of(services, episode_id)
        newest = summary.head_seq
        seq = newest if at is None else min(at, newest)
        if seq == newest:
            state = await services.views.state(summary)
        else:
            state = await services.views.state_after(summary, seq)
    return PastState(epoch=summary.epoch, seq=seq, head_seq=newest, state=dict(state))


@router.get("/{episode_id}/export", response_class=StreamingResponse, responses=STREAMED)
async def export_events(
    episode_id: str,
    request: Request,
    services: ServicesDep,
    recorded: Annotated[
        bool, Query(description="As recorded, where patches and commentary are otherwise derived")
    ] = False,
) -> Download:
    """The same, as a file; of an ended one, `Spectator-Digest` tells the last digest.

    A record without patches and commentary is exported with both, and without a digest, unless `recorded`
    is set. While the operator hides a name, only whoever sends the token is given it, and the digest.
    """
    headers = {
        "Cache-Control": "no-cache",
        "Content-Disposition": f'attachment; filename="{episode_id}.ndjson"',
    }
    async with reading(services, request) as held:
        summary = await summary_of(services, episode_id)
        plain = recorded or not await services.views.derives(episode_id)
        if plain and summary.ended_at is not None and summary.digest is not None:
            headers[DIGEST_HEADER] = summary.digest
        if await _is_plain(services, summary, recorded=recorded):
            return await download_aside(held, services, request, episode_id, 0, headers)
        records = services.recorded if recorded else services.records
        lines = lines_of(records, episode_id, 0, services.budget.reading)
        return await download(held, lines, headers)


async def summary_of(services: Services, episode_id: str) -> EpisodeSummary:
    """What the journal knows of an episode.

    Raises:
        EpisodeNotFound: Nothing.
    """
    summary = await services.records.episode(episode_id) if EPISODE_ID.fullmatch(episode_id) else None
    if summary is None:
        raise EpisodeNotFound(episode_id[:64])
    return summary


async def _is_plain(services: Services, summary: EpisodeSummary, *, recorded: bool = False) -> bool:
    """Whether everybody is given the record byte for byte: it has ended, and nothing is derived or hidden."""
    if summary.ended_at is None or services.orders.mask.names:
        return False
    if services.runs.records.run_of(summary.episode_id) is not None:
        return False  # the process that reads long records reads the server's own
    return recorded or not await services.views.derives(summary.episode_id)


def _entry(summary: EpisodeSummary, services: Services) -> EpisodeEntry:
    label = services.cast.opponent_label(summary.environment, summary.opponent)
    told = {name: getattr(summary, name) for name in EpisodeEntry.model_fields if name != "opponent_label"}
    return EpisodeEntry(**told, opponent_label=label)
