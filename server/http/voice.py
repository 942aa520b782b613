"""Speech: ``/audio/*``, ``/api/voice``, clips of lines, the page ``/voice``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from spectator.catalog import load_world
from spectator.narration.commentary import ANALYST, LEAD, Speaker, SpeechFailure, aloud

from ..background.narration import AUDIO, VoiceAnswer
from ..security import faults
from ..security.budget import Held
from ..security.faults import Refused, documented
from ..services import ServicesDep
from ..viewers.wire import MAX_SEQ
from .episodes import summary_of
from .responses import IMMUTABLE
from .templates import Page, Templates, static_path

AGAIN_S: Final = "2"
"""Retry-After in seconds if no voice is free."""

router = APIRouter(tags=["voice"])


class LineClip(BaseModel):
    """The clip of a line."""

    for_seq: int = Field(description="Number of the line's event")
    url: str = Field(description="Path of the audio")
    mime: str = Field(description="Its media type")
    duration_s: float = Field(ge=0, description="Its duration")


@router.get("/api/voice")
async def voice(services: ServicesDep) -> VoiceAnswer:
    """Report how commentary is spoken on this server, and its current fault."""
    return services.narration.state


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
        Literal["line", "reply"], Query(description="The line itself, or the second commentator's reply")
    ] = "line",
) -> LineClip:
    """Return the clip of a recorded line or of its reply.

    Missing clips are made by free voices.
    """
    async with services.budget.hold(Held.CLIPS, request):
        summary = await summary_of(services, episode_id)
        found = await services.public_views.read(summary.episode_id, after_seq=seq - 1, limit=1)
        if not found or found[0].event.seq != seq or found[0].event.type != "narration.line":
            raise HTTPException(404, f"event {seq} is not a line of commentary")
        world = await asyncio.to_thread(load_world, summary.environment)
        data = found[0].event.data
        if part == "reply" and not data.get("reply"):
            raise HTTPException(404, f"line {seq} has no reply")
        words, speaker = (aloud(data), LEAD) if part == "line" else (data["reply"], ANALYST)
        clip = await services.narration.ask(words, world.spoken, speaker)
    if isinstance(clip, SpeechFailure):
        detail = clip.detail or "this server has no voice"
        raise Refused(faults.NO_VOICE, detail, headers={"Retry-After": AGAIN_S})
    return LineClip(for_seq=seq, url=f"{AUDIO}{clip.name}", mime=clip.mime, duration_s=clip.duration_s)


@router.get(
    "/audio/{name}",
    response_class=FileResponse,
    responses=documented(faults.NOT_FOUND, faults.INVALID),
)
async def audio(name: str, services: ServicesDep) -> FileResponse:
    """Return a clip; its name is a digest of its text, so clients cache it forever."""
    path = await services.narration.clips.file(name)
    if path is None:
        raise HTTPException(404, "unknown clip; it may have been removed for newer ones")
    mime = "audio/mpeg" if name.endswith(".mp3") else "audio/wav"
    return FileResponse(path, media_type=mime, headers={"Cache-Control": IMMUTABLE})


SAMPLES: Final[dict[Speaker, tuple[str, ...]]] = {
    "lead": (
        "Good evening, and welcome. Everybody is in their seat, and here we go.",
        "That is it! Twelve to get, and only six left.",
    ),
    "analyst": (
        "They were at forty per cent before that, and they are at sixty-one now.",
        "He asked for everything, and this is the price of it.",
    ),
}
"""Sample texts by speaker."""

NAMES: Final = {"neural": "Neural voice", "espeak": "espeak-ng"}

SAYS: Final[dict[Speaker, str]] = {
    "lead": "Says what happened.",
    "analyst": "Says what it means, after overs and wickets.",
}
"""What each commentator says."""


@dataclass(frozen=True, slots=True)
class VoiceSample:
    """A sample sentence."""

    text: str
    address: str


@dataclass(frozen=True, slots=True)
class VoiceRow:
    """A voice of this server."""

    title: str
    says: str
    samples: Sequence[VoiceSample]


@dataclass(frozen=True, slots=True)
class VoicePage(Page):
    """Context of ``voice.html``."""

    voices: Sequence[VoiceRow]
    fault: str


def voice_page(templates: Templates) -> APIRouter:
    """Return the routes ``/voice`` and its samples.

    Samples are at ``/voice/{voice}/{speaker}/{number}``.
    """
    pages = APIRouter(include_in_schema=False)

    @pages.get("/voice")
    async def voices(request: Request, services: ServicesDep) -> Response:
        narration = services.narration
        page = VoicePage(
            root="./",
            static=f"./{static_path(request)}",
            title="Voice · Spectator",
            voices=[
                VoiceRow(
                    f"{NAMES.get(name, name)}, {speaker}",
                    SAYS[speaker],
                    [
                        VoiceSample(text, f"voice/{name}/{speaker}/{number}")
                        for number, text in enumerate(SAMPLES[speaker])
                    ],
                )
                for name, speaker in narration.voices_that_speak()
            ],
            fault=narration.state.fault or "",
        )
        return await run_in_threadpool(templates.render, "voice.html", page)

    @pages.get("/voice/{voice}/{speaker}/{number}")
    async def sample(
        request: Request,
        voice: str,
        speaker: Speaker,
        number: Annotated[int, Path(ge=0, le=1)],
        services: ServicesDep,
    ) -> Response:
        narration = services.narration
        if (voice, speaker) not in narration.voices_that_speak():
            raise HTTPException(404, "unknown voice")
        async with services.budget.hold(Held.CLIPS, request):
            clip = await narration.sample(voice, speaker, SAMPLES[speaker][number])
        path = None if isinstance(clip, SpeechFailure) else narration.clips.path(clip.name)
        if isinstance(clip, SpeechFailure) or path is None:
            detail = clip.detail if isinstance(clip, SpeechFailure) else "the clip was removed"
            raise HTTPException(503, detail, headers={"Retry-After": AGAIN_S})
        return FileResponse(path, media_type=clip.mime, headers={"Cache-Control": "public, max-age=3600"})

    return pages
