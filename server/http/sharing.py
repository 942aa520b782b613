"""Routes that show episodes elsewhere: cards, clips, tiles, the embedded strip, oEmbed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from html import escape
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote, unquote, urlsplit

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from spectator.errors import EpisodeNotFound

from ..security import faults
from ..security.budget import Held
from ..security.faults import documented
from ..security.middleware import content_security_policy
from ..services import Services, ServicesDep
from ..viewers.wall import tile_of
from ..viewers.wire import EPISODE_ID, MAX_SEQ
from .moments import Moment, NoMoment, moment_of
from .previews import (
    DEFAULT_CLIP_S,
    HEIGHT,
    LONGEST_CLIP_S,
    SHORTEST_CLIP_S,
    WIDTH,
    CannotDraw,
    Cards,
    ClipKind,
    EpisodePreview,
    MomentClips,
    NoClips,
    NoFont,
    NothingToDraw,
    WantedClip,
    preview_of,
    public_root,
    state_of,
)
from .templates import Page, Templates, static_path

STRIP: Final = (560, 132)
"""Default width and height of the strip in pixels."""

CLIP: Final = (640, 360)
"""Width and height of a clip in pixels."""

SMALLEST: Final = (200, 96)
"""Smallest legible size of the strip."""

SHOWN: Final = re.compile(r"/(?:(?:watch|replay|embed)/([^/]+)|moment/([^/]+)/(\d{1,16}))/?")
"""Paths of pages that show one episode, or a moment of it."""

router = APIRouter(tags=["sharing"])


class PreviewAnswer(BaseModel):
    """A summary of an episode."""

    episode_id: str
    title: str = Field(description="Title of its world")
    headline: str = Field(description="The result, or the current state")
    seats: list[str] = Field(description="The captains")
    sides: list[str] = Field(description="Their sides, such as teams; empty if unknown")
    status: Literal["live", "paused", "ended"]
    at: str = Field(description="Position in the game; empty if unknown")
    progress: float | None = Field(ge=0, le=1, description="Completed share of the game; null if unknown")
    chance: float | None = Field(ge=0, le=1, description="The agent's chance to win; null if unknown")
    line: str = Field(description="The newest line of commentary")
    head_seq: int = Field(description="Number of the last event it includes")


class EmbedAnswer(BaseModel):
    """The oEmbed 1.0 answer for the page of an episode or a moment."""

    version: Literal["1.0"] = "1.0"
    type: Literal["rich"] = "rich"
    title: str
    provider_name: Literal["Spectator"] = "Spectator"
    provider_url: str
    html: str = Field(description="An iframe with the strip; of a moment its clip, as a link")
    width: int
    height: int
    cache_age: int = Field(description="Seconds for which this may be cached")
    thumbnail_url: str
    thumbnail_width: int
    thumbnail_height: int


COURSE: Final = 120
"""Most chances that an embedded frame draws."""


@dataclass(frozen=True, slots=True)
class EmbedPage(Page):
    """Context of ``embed.html``.

    Args:
        chance: The agent's chance to win in percent; empty if unknown.
        course: Its chances so far in percent, at most :data:`COURSE`, for a large frame.
    """

    glance: EpisodePreview
    chance: str
    course: Sequence[int]


@router.get(
    "/api/episodes/{episode_id}/glance",
    responses=documented(faults.NO_EPISODE, faults.INVALID, faults.TOO_MANY, faults.CROWDED),
)
async def glance(
    request: Request, response: Response, episode_id: str, services: ServicesDep
) -> PreviewAnswer:
    """Summarize an episode, for other pages."""
    seen = await _seen(services, request, episode_id)
    response.headers["Cache-Control"] = "public, max-age=2"
    response.headers["Access-Control-Allow-Origin"] = "*"
    known = asdict(seen)
    chances = known.pop("chances")
    return PreviewAnswer(**known, chance=chances[-1] if chances else None)


@router.get(
    "/api/episodes/{episode_id}/tile",
    responses=documented(faults.NO_EPISODE, faults.INVALID, faults.TOO_MANY, faults.CROWDED),
)
async def tile(
    request: Request, response: Response, episode_id: str, services: ServicesDep
) -> dict[str, Any]:
    """Return an episode's tile as on the wall, also after its end."""
    async with _reading(services, request, episode_id):
        state, _ = await state_of(services, episode_id)
        shown = await run_in_threadpool(tile_of, state, services.operator_orders.mask)
    response.headers["Cache-Control"] = "public, max-age=2"
    return shown


@router.get(
    "/oembed", responses=documented(faults.NO_EPISODE, faults.INVALID, faults.TOO_MANY, faults.CROWDED)
)
async def oembed(
    request: Request,
    response: Response,
    services: ServicesDep,
    url: Annotated[
        str, Query(max_length=2000, description="Address of an episode's or a moment's page on this server")
    ],
    maxwidth: Annotated[int, Query(ge=1, le=10_000, description="Largest width in pixels")] = 10_000,
    maxheight: Annotated[int, Query(ge=1, le=10_000, description="Largest height in pixels")] = 10_000,
    format: Annotated[Literal["json"], Query(description="Only JSON is supported")] = "json",
) -> EmbedAnswer:
    """Describe how to embed an episode or a moment, by the oEmbed 1.0 specification."""
    home = public_root(request)
    episode_id, seq = _place_at(url, home, request.url.netloc)
    response.headers["Access-Control-Allow-Origin"] = "*"
    if seq is not None:
        try:
            async with _reading(services, request, episode_id):
                moment = await moment_of(services, episode_id, seq)
        except NoMoment as error:
            raise HTTPException(404, str(error)) from error
        if moment.has_clip:
            return _clip_answer(moment, home, min(1.0, maxwidth / CLIP[0], maxheight / CLIP[1]))
    seen = await _seen(services, request, episode_id)
    width, height = max(SMALLEST[0], min(STRIP[0], maxwidth)), max(SMALLEST[1], min(STRIP[1], maxheight))
    place = f"{home}/embed/{quote(episode_id)}"
    return EmbedAnswer(
        title=f"{seen.headline} · {seen.title}",
        provider_url=f"{home}/",
        html=f'<iframe src="{place}" width="{width}" height="{height}" title="An episode on Spectator" '
        'style="border:0" loading="lazy"></iframe>',
        width=width,
        height=height,
        cache_age=60 if seen.status != "ended" else 86_400,
        thumbnail_url=f"{home}/card/{quote(episode_id)}.png",
        thumbnail_width=WIDTH,
        thumbnail_height=HEIGHT,
    )


def _clip_answer(moment: Moment, home: str, scale: float) -> EmbedAnswer:
    """Return how a moment is embedded: its clip, which plays by itself and links to its page."""
    width, height = max(1, int(scale * CLIP[0])), max(1, int(scale * CLIP[1]))
    name = quote(moment.episode_id)
    clip = f"{home}/clip/{name}"
    return EmbedAnswer(
        title=f"{moment.title} · {moment.match}",
        provider_url=f"{home}/",
        html=f'<a href="{home}/moment/{name}/{moment.seq}"><img src="{clip}.webp?from={moment.seq}" '
        f'width="{width}" height="{height}" alt="{escape(moment.words or moment.title)}"></a>',
        width=width,
        height=height,
        cache_age=86_400 if moment.ended else 60,
        thumbnail_url=f"{clip}.png?from={moment.seq}",
        thumbnail_width=CLIP[0],
        thumbnail_height=CLIP[1],
    )


def sharing_pages(templates: Templates) -> APIRouter:
    """Return the routes ``/card/{id}.png``, ``/clip/{id}.*`` and ``/embed/{id}``."""
    pages = APIRouter(include_in_schema=False)
    cards = Cards()

    @pages.get("/card/{episode_id}.png")
    async def card(request: Request, episode_id: str, services: ServicesDep) -> Response:
        seen = await _seen(services, request, episode_id)
        try:
            picture = await cards.of(seen)
        except NoFont as error:
            raise HTTPException(404, str(error)) from error
        except CannotDraw as error:
            raise HTTPException(503, str(error)) from error
        kept = "public, max-age=86400" if seen.status == "ended" else "public, max-age=30"
        return Response(picture, media_type="image/png", headers={"Cache-Control": kept})

    clips = MomentClips(cards)

    @pages.get("/clip/{episode_id}.{kind}")
    async def clip(
        request: Request,
        episode_id: str,
        kind: ClipKind,
        services: ServicesDep,
        from_seq: Annotated[int, Query(alias="from", ge=0, le=MAX_SEQ)] = MAX_SEQ,
        seconds: Annotated[int, Query(ge=SHORTEST_CLIP_S, le=LONGEST_CLIP_S)] = DEFAULT_CLIP_S,
    ) -> Response:
        if not EPISODE_ID.fullmatch(episode_id):
            raise EpisodeNotFound(episode_id[:64])
        wanted = WantedClip(episode_id, from_seq, 0 if kind == "png" else seconds, kind)
        async with services.budget.hold(Held.READS, request):
            try:
                picture = await clips.of(services, wanted)
            except (NoFont, NoClips, NothingToDraw) as error:
                raise HTTPException(404, str(error)) from error
            except CannotDraw as error:
                raise HTTPException(503, str(error)) from error
        kept = "public, max-age=30" if services.supervisor.live(episode_id) else "public, max-age=86400"
        media = "video/webm" if kind == "webm" else f"image/{kind}"
        return Response(picture, media_type=media, headers={"Cache-Control": kept})

    @pages.get("/embed/{episode_id}")
    async def embed(request: Request, episode_id: str, services: ServicesDep) -> Response:
        seen = await _seen(services, request, episode_id)
        page = EmbedPage(
            root="../",
            static=f"../{static_path(request)}",
            title=f"{seen.headline} · {seen.title}",
            glance=seen,
            chance=f"{100 * seen.chances[-1]:.0f}" if seen.chances else "",
            course=[round(100 * one) for one in seen.chances[:: 1 + len(seen.chances) // COURSE]],
        )
        answer = await run_in_threadpool(templates.render, "embed.html", page)
        anywhere = services.settings.model_copy(update={"frame_ancestors": ("*",)})
        answer.headers["Content-Security-Policy"] = content_security_policy(anywhere)
        return answer

    return pages


def _place_at(url: str, home: str, host: str) -> tuple[str, int | None]:
    """Return the episode whose page is at ``url``, of this server by its own name or ``host``.

    With it comes the moment if the page shows one.
    """
    try:
        asked, own = urlsplit(url), urlsplit(home)
    except ValueError:
        raise EpisodeNotFound(url[:64]) from None
    found = SHOWN.fullmatch(asked.path.removeprefix(own.path))
    episode_id = unquote(found[1] or found[2]) if found else ""
    is_ours = asked.scheme in ("http", "https") and asked.netloc in (own.netloc, host)
    if not is_ours or not asked.path.startswith(own.path) or not EPISODE_ID.fullmatch(episode_id):
        raise EpisodeNotFound(url[:64])
    return episode_id, int(found[3]) if found and found[3] else None


async def _seen(services: Services, request: Request, episode_id: str) -> EpisodePreview:
    async with _reading(services, request, episode_id):
        return await preview_of(services, episode_id)


def _reading(services: Services, request: Request, episode_id: str) -> AbstractAsyncContextManager[None]:
    """Hold a place for reading, since ended episodes are read from their record."""
    if not EPISODE_ID.fullmatch(episode_id):
        raise EpisodeNotFound(episode_id[:64])
    return services.budget.hold(Held.READS, request)
