"""The page ``/voice``: everybody can hear the voices of this server before turning the sound on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Path
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from spectator.narration.speech import Speaker, Unspoken

from ..security.budget import Held
from ..services import ServicesDep
from .audio import AGAIN_S
from .templates import Page, Templates, static_path

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
"""What is said, by speaker."""

NAMES: Final = {"neural": "Neural voice", "espeak": "espeak-ng"}


@dataclass(frozen=True, slots=True)
class VoiceSample:
    """A sentence that can be heard.

    Args:
        text: Its words.
        address: Where it is, below the root.
    """

    text: str
    address: str


@dataclass(frozen=True, slots=True)
class HeardVoice:
    """A voice of this server.

    Args:
        title: What it is called.
        samples: What it can be heard to say.
    """

    title: str
    samples: Sequence[VoiceSample]


@dataclass(frozen=True, slots=True)
class VoicePage(Page):
    """What ``voice.html`` is given.

    Args:
        voices: Those that can be heard, the best of each speaker first.
        fault: What is wrong with the voice now; empty when nothing is.
    """

    voices: Sequence[HeardVoice]
    fault: str


def voice_page(templates: Templates) -> APIRouter:
    """Routes ``/voice`` and ``/voice/{voice}/{speaker}/{number}``, its samples."""
    pages = APIRouter(include_in_schema=False)

    @pages.get("/voice")
    async def voices(request: Request, services: ServicesDep) -> Response:
        narration = services.narration
        page = VoicePage(
            root="./",
            static=f"./{static_path(request)}",
            title="Voice · Spectator",
            voices=[_heard(name, speaker) for name, speaker in narration.voices_that_speak()],
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
            raise HTTPException(404, "nobody here has that voice")
        async with services.budget.hold(Held.CLIPS, request):
            clip = await narration.sample(voice, speaker, SAMPLES[speaker][number])
        path = None if isinstance(clip, Unspoken) else narration.clips.path(clip.name)
        if isinstance(clip, Unspoken) or path is None:
            detail = clip.detail if isinstance(clip, Unspoken) else "there is no such clip"
            raise HTTPException(503, detail, headers={"Retry-After": AGAIN_S})
        return FileResponse(path, media_type=clip.mime, headers={"Cache-Control": "public, max-age=3600"})

    return pages


def _heard(voice: str, speaker: Speaker) -> HeardVoice:
    samples = [
        VoiceSample(text, f"voice/{voice}/{speaker}/{number}") for number, text in enumerate(SAMPLES[speaker])
    ]
    return HeardVoice(f"{NAMES.get(voice, voice)}, {speaker}", samples)
