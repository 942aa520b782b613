"""Routes of speech: ``/audio/*``, ``/api/voice`` and the clip of a recorded line."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse

from spectator.catalog import load_world
from spectator.narration.base import aloud
from spectator.narration.speech import ANALYST, LEAD, Unspoken

from ..background.narration import AUDIO, Speaks
from ..identifiers import MAX_SEQ
from ..security import faults
from ..security.budget import Held
from ..security.faults import Refused, documented
from ..services import ServicesDep
from .archive import summary_of
from .packing import IMMUTABLE

AGAIN_S: Final = "2"
"""When somebody who found no voice free may ask again, seconds."""

router = APIRouter(tags=["voice"])


class VoiceAnswer(BaseModel):
    """How commentary is spoken on this server."""

    voice: str = Field(description="Name of the voice: cartesia, espeak, browser or silent")
    speaks: Speaks = Field(
        description="`clips` are served, each `browser` speaks for itself, or `nobody` does"
    )
    answers: bool = Field(description="Whether a second commentator is heard too")
    fault: str | None = Field(description="What is wrong with the voice now; captions go on")


class LineClip(BaseModel):
    """The clip of a line."""

    for_seq: int = Field(description="Number of the line's event")
    url: str = Field(description="Path of the sound")
    mime: str = Field(description="Its media type")
    duration_s: float = Field(ge=0, description="How long it lasts")


@router.get("/api/voice")
async def voice(services: ServicesDep) -> VoiceAnswer:
    """How commentary is spoken on this server, and what is wrong with it."""
    return VoiceAnswer(**asdict(services.narration.state))


@router.get(
    "/api/episodes/{episode_id}/lines/{seq}/clip",
    responses=documented(
        faults.NO_EPISODE, faults.NOT_FOUND, faults.INVALID, faults.NO_VOICE, faults.CROWDED
    ),
)
async def line_clip(
    episode_id: str,
    request: Request,
    seq: Annotated[int, Path(ge=1, le=MAX_SEQ, description="Number of the line's event")],
    services: ServicesDep,
    part: Annotated[
        Literal["line", "reply"], Query(description="The line itself, or what the second commentator answers")
    ] = "line",
) -> LineClip:
    """The clip of a recorded line of commentary, or of the answer to it; it is made if that costs nothing."""
    async with services.budget.hold(Held.CLIPS, request):
        summary = await summary_of(services, episode_id)
        found = await services.records.read(summary.episode_id, after_seq=seq - 1, limit=1)
        if not found or found[0].event.seq != seq or found[0].event.type != "narration.line":
            raise HTTPException(404, f"event {seq} is no line of commentary")
        world = await asyncio.to_thread(load_world, summary.environment)
        data = found[0].event.data
        if part == "reply" and not data.get("reply"):
            raise HTTPException(404, f"nobody answered line {seq}")
        words, speaker = (aloud(data), LEAD) if part == "line" else (data["reply"], ANALYST)
        clip = await services.narration.ask(words, world.spoken, speaker)
    if isinstance(clip, Unspoken):
        raise Refused(faults.NO_VOICE, clip.detail or "nobody speaks here", headers={"Retry-After": AGAIN_S})
    return LineClip(for_seq=seq, url=f"{AUDIO}{clip.name}", mime=clip.mime, duration_s=clip.duration_s)


@router.get(
    "/audio/{name}",
    response_class=FileResponse,
    responses=documented(faults.NOT_FOUND, faults.INVALID),
)
async def audio(name: str, services: ServicesDep) -> FileResponse:
    """A clip; its name is a digest of what it says, so it is never to be asked for again."""
    path = await services.narration.clips.file(name)
    if path is None:
        raise HTTPException(404, "there is no such clip; it may have made room for newer ones")
    mime = "audio/mpeg" if name.endswith(".mp3") else "audio/wav"
    return FileResponse(path, media_type=mime, headers={"Cache-Control": IMMUTABLE})
