"""Routes of recorded episodes: ``/api/episodes*``.

Lists, events, past states, exports, notes, a world's truth after the end, and, for the operator, model
calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from ulid import ULID

from spectator.clock import timestamp
from spectator.errors import EndReason, EpisodeNotFound, FieldError, InvalidRequest
from spectator.exports.tables import row_of_call
from spectator.journal.contract import EpisodeFilter, EpisodeSummary, Journal
from spectator.journal.encoding import json_bytes
from spectator.journal.notes import MAX_TEXT, Note
from spectator.journal.outline import outline_of

from ..security import faults
from ..security.bodies import Body, body_of, documented_body
from ..security.budget import Costly
from ..security.faults import Refused, documented
from ..security.masking import DIGEST_HEADER, NDJSON
from ..services import Services, ServicesDep
from ..viewers.wire import EPISODE_ID, MAX_SEQ
from .control import ALWAYS, SeatUsage, usage_of
from .responses import Download, MaskedRoute, download, download_in_process, lines_of, part_of, reading

MAX_ATTEMPT: Final = 2**31 - 1

MOST_AT_ONCE: Final = 10_000
"""Most events in one part of a record."""


class EpisodeEntry(BaseModel):
    """An episode in the history."""

    episode_id: str
    epoch: str = Field(description="Identity of its event numbering")
    environment: str
    title: str
    captain: str = Field(description="Preset in the agent's seat")
    captain_label: str
    opponent: str = Field(description="Preset in the other seats; empty in worlds without opponents")
    opponent_label: str = Field(description="Its current name for people")
    pack: str
    seed: int
    started_at: str = Field(description="RFC 3339")
    ended_at: str | None = Field(description="RFC 3339; null before the end")
    reason: EndReason | None = Field(description="Why it ended")
    score: float | None = Field(
        description="The sum of all rewards, if it finished; in [0, 1] in most worlds"
    )
    result: str | None = Field(description="The result in words, if it finished")
    outcome: float | None = Field(
        description="1 if the captain won, 0 if it lost, 0.5 for a tie; null if unknown, and until it is read"
    )
    turns: int | None = Field(description="Turns taken, after the end")
    head_seq: int = Field(description="Number of its last event")
    detail: str | None = Field(description="What went wrong, if anything, after the end")
    digest: str | None = Field(
        description="The chain's digest up to its last event, 64 hexadecimal digits; see docs/journal.md"
    )
    parent: str | None = Field(description="The episode that it was forked from, if any")
    run_id: str | None = Field(description="The run that it belongs to, if any")
    group_id: str | None = Field(description="Its group within the run")
    attempt: int | None = Field(description="Number of the attempt within the run, from 1")


class EpisodeDetail(EpisodeEntry):
    """One episode with its usage."""

    usage: dict[str, SeatUsage] = Field(description="Usage of models, by actor")


class EpisodePage(BaseModel):
    """A page of the history, newest first."""

    episodes: list[EpisodeEntry]
    next: str | None = Field(description="`before` of the next page; null on the last")


class PastState(BaseModel):
    """The state that viewers saw after an event."""

    epoch: str = Field(description="Identity of the numbering")
    seq: int = Field(description="Number of the event")
    head_seq: int = Field(description="Number of the newest event")
    state: dict[str, Any] = Field(description="The patches of all events up to it, applied")


PROBLEMS: Final = documented(faults.NO_EPISODE, faults.INVALID, faults.NO_JOURNAL, faults.DAMAGED)
STREAMED: Final = {
    **PROBLEMS,
    **documented(faults.TOO_MANY, faults.CROWDED, faults.NO_JOURNAL),
    200: {"description": "One event envelope per line", "content": {NDJSON: {"schema": {"type": "string"}}}},
}

router = APIRouter(prefix="/api/episodes", tags=["history"], route_class=MaskedRoute)


class EpisodeQuery(BaseModel):
    """Which episodes to list."""

    environment: str | None = Field(default=None, max_length=64, description="Only of this world")
    captain: str | None = Field(default=None, max_length=64, description="Only with this captain")
    opponent: str | None = Field(default=None, max_length=64, description="Only against this opponent")
    pack: str | None = Field(default=None, max_length=64, description="Only of this evaluation pack")
    seed: int | None = Field(default=None, ge=0, le=MAX_SEQ, description="Only with this seed")
    reason: EndReason | None = Field(default=None, description="Only episodes that ended for this reason")
    parent: str | None = Field(default=None, max_length=64, description="Only forks of this episode")
    run_id: str | None = Field(default=None, max_length=64, description="Only of this run")
    group_id: str | None = Field(default=None, max_length=64, description="Only of this group")
    attempt: int | None = Field(
        default=None, ge=1, le=MAX_ATTEMPT, description="Only attempts with this number"
    )
    text: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="Only episodes whose result, names, seed or id contain it",
    )
    ended: bool | None = Field(default=None, description="Only ended, or only unfinished episodes")
    before: str | None = Field(
        default=None, pattern=f"^{EPISODE_ID.pattern}$", description="`next` of the previous page"
    )
    limit: int = Field(default=50, ge=1, le=200, description="Most episodes on the page")


@router.get("", responses=documented(faults.INVALID, faults.NO_JOURNAL))
async def list_episodes(services: ServicesDep, asked: Annotated[EpisodeQuery, Query()]) -> EpisodePage:
    """List running and recorded episodes, newest first."""
    limit = asked.limit
    wanted = EpisodeFilter(**{**asked.model_dump(), "limit": limit + 1})
    found = await services.journal.episodes(wanted)
    following = found[limit - 1].episode_id if len(found) > limit else None
    shown = [await services.public_journal.summary(summary) for summary in found[:limit]]
    return EpisodePage(episodes=[_entry(summary, services) for summary in shown], next=following)


@router.get("/{episode_id}", responses=PROBLEMS)
async def get_episode(episode_id: str, services: ServicesDep) -> EpisodeDetail:
    """Return one episode."""
    summary = await summary_of(services, episode_id)
    entry = _entry(summary, services)
    return EpisodeDetail(**dict(entry), usage=await usage_of(summary, services))


@router.get("/{episode_id}/events", response_class=StreamingResponse, responses=STREAMED)
async def get_events(
    episode_id: str,
    request: Request,
    services: ServicesDep,
    after_seq: Annotated[int, Query(ge=0, le=MAX_SEQ, description="Only later events")] = 0,
    limit: Annotated[int | None, Query(ge=1, le=MOST_AT_ONCE, description="Most events to return")] = None,
) -> Download:
    """Return an episode's event envelopes for viewers, one per line.

    Lines are byte for byte those of the live protocol.
    """
    async with reading(services, request) as held:
        headers = {"Cache-Control": "no-cache"}
        summary = await summary_of(services, episode_id)
        if limit is not None:
            lines = part_of(services.public_views, episode_id, after_seq, limit, services.budget.reading_turn)
            return await download(held, lines, headers)
        if await _is_plain(services, summary):
            return await download_in_process(held, services, request, episode_id, after_seq, headers)
        lines = lines_of(services.public_views, episode_id, after_seq, services.budget.reading_turn)
        return await download(held, lines, headers)


@router.get("/{episode_id}/state", responses={**PROBLEMS, **documented(faults.TOO_MANY, faults.CROWDED)})
async def get_state(
    episode_id: str,
    request: Request,
    services: ServicesDep,
    at: Annotated[
        int | None, Query(ge=0, le=MAX_SEQ, description="Number of the event; the newest if omitted")
    ] = None,
) -> PastState:
    """Return the state after an event, as viewers saw it.

    Larger numbers than the newest event's mean the newest.
    """
    async with reading(services, request):
        summary = await summary_of(services, episode_id)
        newest = summary.head_seq
        seq = newest if at is None else min(at, newest)
        if seq == newest:
            state = await services.episode_views.state(summary)
        else:
            state = await services.episode_views.state_after(summary, seq)
    return PastState(epoch=summary.epoch, seq=seq, head_seq=newest, state=dict(state))


@router.get("/{episode_id}/export", response_class=StreamingResponse, responses=STREAMED)
async def export_events(
    episode_id: str,
    request: Request,
    services: ServicesDep,
    recorded: Annotated[
        bool, Query(description="As recorded, without derived patches and commentary")
    ] = False,
) -> Download:
    """Return an episode's events as a file.

    For an ended episode, the header `Spectator-Digest` has the last digest.

    A record without patches and commentary is exported with both, and without a digest, unless `recorded` is
    set. While the operator hides a name, only requests with the token get it, and the digest.
    """
    headers = {
        "Cache-Control": "no-cache",
        "Content-Disposition": f'attachment; filename="{episode_id}.ndjson"',
    }
    async with reading(services, request) as held:
        summary = await summary_of(services, episode_id)
        plain = recorded or not await services.episode_views.derives(episode_id)
        if plain and summary.ended_at is not None and summary.digest is not None:
            headers[DIGEST_HEADER] = summary.digest
        if await _is_plain(services, summary, recorded=recorded):
            return await download_in_process(held, services, request, episode_id, 0, headers)
        records = services.public_journal if recorded else services.public_views
        lines = lines_of(records, episode_id, 0, services.budget.reading_turn)
        return await download(held, lines, headers)


async def summary_of(services: Services, episode_id: str) -> EpisodeSummary:
    """Return the journal's summary of an episode."""
    summary = await services.public_views.episode(episode_id) if EPISODE_ID.fullmatch(episode_id) else None
    if summary is None:
        raise EpisodeNotFound(episode_id[:64])
    return summary


async def _is_plain(services: Services, summary: EpisodeSummary, *, recorded: bool = False) -> bool:
    """Whether viewers get the record unchanged: ended, nothing derived or hidden."""
    if summary.ended_at is None or services.operator_orders.mask.names:
        return False
    if services.run_boards.records.run_of(summary.episode_id) is not None:
        return False  # the reading process reads only the server's own journal
    return recorded or not await services.episode_views.derives(summary.episode_id)


def _entry(summary: EpisodeSummary, services: Services) -> EpisodeEntry:
    label = services.cast.opponent_label(summary.environment, summary.opponent)
    figures = services.scorekeeper.by_id.get(summary.episode_id)
    fields = {name: getattr(summary, name, None) for name in EpisodeEntry.model_fields}
    return EpisodeEntry(
        **fields | {"opponent_label": label, "outcome": None if figures is None else figures.outcome}
    )


PRIVATE: Final = "no-store, private"


class EpisodeTruth(BaseModel):
    """What the world hid during an ended episode."""

    episode_id: str
    truth: dict[str, Any] = Field(description="In the world's own terms")


@router.get(
    "/{episode_id}/truth",
    response_model=EpisodeTruth,
    responses=documented(
        faults.NO_EPISODE, faults.NO_TRUTH, faults.SEALED, faults.INVALID, faults.NO_JOURNAL
    ),
)
async def get_truth(episode_id: str, services: ServicesDep) -> Response:
    """Return what the world hid; 409 before the end, 404 if nothing was recorded."""
    await summary_of(services, episode_id)
    truth = await services.journal.truth(episode_id)
    if truth is None:
        raise Refused(faults.NO_TRUTH, f"no hidden truth is recorded for {episode_id}")
    whole = f'{{"episode_id":"{episode_id}","truth":{truth}}}'
    return Response(whole, media_type="application/json", headers={"Cache-Control": "no-cache"})


@router.get(
    "/{episode_id}/calls",
    response_class=StreamingResponse,
    responses={
        **documented(
            faults.UNAUTHENTICATED, faults.NOT_HERE, faults.NO_EPISODE, faults.INVALID, faults.TOO_MANY,
            faults.NO_JOURNAL, faults.CROWDED,
        ),
        200: {
            "description": "One call per line, as `spectator export --format messages` writes it",
            "content": {NDJSON: {"schema": {"type": "string"}}},
        },
    },
)  # fmt: skip
async def get_calls(
    episode_id: str,
    request: Request,
    services: ServicesDep,
    after_seq: Annotated[int, Query(ge=0, le=MAX_SEQ, description="Only calls of later decisions")] = 0,
    until_seq: Annotated[
        int, Query(ge=0, le=MAX_SEQ, description="Only calls of decisions up to this event")
    ] = MAX_SEQ,
    turn: Annotated[
        int | None,
        Query(ge=0, le=MAX_SEQ, description="Only calls of this turn, which is the same in record and view"),
    ] = None,
) -> Download:
    """Return model calls with their prompts, for the operator only.

    A prompt contains what its seat sees.

    The operator may play a seat too: while an episode runs, calls appear once viewers may see their decision.
    """
    services.guard.require_owner(request)
    async with reading(services, request) as held:
        summary = await summary_of(services, episode_id)
        last = await services.public_journal.last_seen(episode_id)
        last = until_seq if last is None else min(last, until_seq)
        lines = _lines(services.journal, summary, after_seq, last, turn)
        return await download(held, lines, {"Cache-Control": PRIVATE})


async def _lines(
    journal: Journal, summary: EpisodeSummary, after_seq: int, last: int, turn: int | None
) -> AsyncIterator[bytes]:
    outline = await outline_of(journal, summary)
    seats = {one.agent: one for one in outline.of_seats()}
    async for one in journal.calls(summary.episode_id):
        if one.decided.seq > last:
            return
        asked = outline.asked(one.decided.seq)
        if asked is not None and after_seq < one.decided.seq and turn in (None, asked.turn):
            yield json_bytes(row_of_call(seats.get(asked.actor, outline), one)) + b"\n"


class GiveNote(Body):
    """A note on an episode, or on one of its decisions."""

    turn: int | None = Field(default=None, description="The decision's turn; omit it for the whole episode")
    label: str = Field(default="", description="A word; `good` and `bad` make preferences")
    text: str = Field(default="", description=f"At most {MAX_TEXT} characters; required without a label")
    author: str = Field(default="", description="Name of the author, at most 64 characters; not verified")


class NoteEntry(BaseModel):
    """A stored note."""

    note_id: str
    episode_id: str
    turn: int | None
    label: str
    text: str
    author: str
    at: str = Field(description="RFC 3339")


class NoteList(BaseModel):
    """The notes on an episode, oldest first."""

    notes: list[NoteEntry]
    unread: int = Field(description="Invalid lines of the notes' file")


GivenNote = Annotated[GiveNote, Depends(body_of(GiveNote))]


@router.get("/{episode_id}/notes", responses=documented(faults.NO_EPISODE, faults.INVALID, faults.NO_JOURNAL))
async def list_notes(episode_id: str, services: ServicesDep) -> NoteList:
    """List the notes on an episode, for everyone who may see it."""
    await summary_of(services, episode_id)
    found = await asyncio.to_thread(services.notes.of, episode_id)
    return NoteList(notes=[NoteEntry(**asdict(one)) for one in found], unread=len(services.notes.unread))


@router.post(
    "/{episode_id}/notes",
    status_code=201,
    responses=documented(*ALWAYS, faults.NOT_HERE, faults.NO_EPISODE, faults.PAUSED),
    openapi_extra=documented_body(GiveNote),
)
async def give_note(episode_id: str, given: GivenNote, request: Request, services: ServicesDep) -> NoteEntry:
    """Add a note to an episode; needs the right to delete it.

    The record itself does not change.
    """
    services.guard.require_deleter(request)
    await summary_of(services, episode_id)
    note = Note(
        note_id=f"n-{ULID()}",
        episode_id=episode_id,
        turn=given.turn,
        label=given.label,
        text=given.text,
        author=given.author.strip(),
        at=timestamp(services.clock.now()),
    )
    async with services.budget.account(request).spend(Costly.NOTES):
        await asyncio.to_thread(services.notes.add, note)
    return NoteEntry(**asdict(note))


@router.delete(
    "/{episode_id}/notes/{note_id}",
    responses=documented(*ALWAYS, faults.NOT_HERE, faults.NO_EPISODE),
)
async def take_note_back(episode_id: str, note_id: str, request: Request, services: ServicesDep) -> NoteEntry:
    """Remove a note; the notes' file keeps a line about it."""
    services.guard.require_deleter(request)
    found = await asyncio.to_thread(services.notes.of, episode_id)
    note = next((one for one in found if one.note_id == note_id), None)
    if note is None:
        raise InvalidRequest([FieldError("note_id", "is not a note on this episode")])
    await asyncio.to_thread(services.notes.remove, note)
    return NoteEntry(**asdict(note))
