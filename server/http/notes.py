"""Routes of the notes that people give to episodes and decisions: ``/api/episodes/{id}/notes``."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field
from starlette.requests import Request
from ulid import ULID

from spectator.clock import timestamp
from spectator.errors import FieldError, InvalidRequest
from spectator.journal.notes import MOST_TEXT, Note

from ..security import faults
from ..security.bodies import Body, body_of, documented_body
from ..security.budget import Costly
from ..security.faults import documented
from ..services import ServicesDep
from .archive import summary_of
from .control import ALWAYS
from .masked_route import MaskedRoute


class GiveNote(Body):
    """What somebody notes on an episode, or on one of its decisions."""

    turn: int | None = Field(default=None, description="The decision's turn; left out for the whole episode")
    label: str = Field(default="", description="A word; `good` and `bad` make preferences")
    text: str = Field(default="", description=f"At most {MOST_TEXT} characters; needed without a label")
    author: str = Field(default="", description="Who says so, at most 64 characters; nobody proves it")


class NoteEntry(BaseModel):
    """A note."""

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
    unread: int = Field(description="Lines of the notes' file that hold none")


router = APIRouter(prefix="/api/episodes", tags=["history"], route_class=MaskedRoute)
GivenNote = Annotated[GiveNote, Depends(body_of(GiveNote))]


@router.get("/{episode_id}/notes", responses=documented(faults.NO_EPISODE, faults.INVALID, faults.NO_JOURNAL))
async def list_notes(episode_id: str, services: ServicesDep) -> NoteList:
    """The notes on an episode, for everybody who may see it."""
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
    """Note something on an episode: whoever may delete it may, as the record itself stays as it is."""
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
    """Take a note back; that it was there stays in the notes' file."""
    services.guard.require_deleter(request)
    found = await asyncio.to_thread(services.notes.of, episode_id)
    note = next((one for one in found if one.note_id == note_id), None)
    if note is None:
        raise InvalidRequest([FieldError("note_id", "is no note on this episode")])
    await asyncio.to_thread(services.notes.remove, note)
    return NoteEntry(**asdict(note))
