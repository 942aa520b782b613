"""The HTML pages: templates, the lobby, the watch page and error pages."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlencode

from fastapi import APIRouter, FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from spectator import __version__
from spectator.catalog import load_world, world_names
from spectator.core_events import IMPORTED
from spectator.episodes.plan import EpisodePlan
from spectator.errors import EpisodeNotFound, JournalError
from spectator.journal.contract import EpisodeFilter, EpisodeSummary
from spectator.text import clean_text

from ..security.faults import http_problem
from ..services import Services, services_of
from ..viewers.wall import side_names
from ..viewers.wire import EPISODE_ID
from .league import PATIENCE_S, LeagueView, league_view
from .previews import headline_now, public_root
from .templates import Page, Templates, static_path

MOST_RUNNING: Final = 4
MOST_PLAYED: Final = 5


@dataclass(frozen=True, slots=True)
class LobbyEpisode:
    """An episode in the lobby."""

    episode_id: str
    headline: str
    who: str


@dataclass(frozen=True, slots=True)
class SuggestedCaptain:
    """A captain of the suggested match."""

    name: str
    label: str
    summary: str


@dataclass(frozen=True, slots=True)
class LobbyPage(Page):
    """Context of ``lobby.html``.

    Args:
        trained: Whether the first of them is the world's own model, which a visitor can play against.
        played: Newest ended episodes, newest first; ``None`` if the journal cannot be read now.
    """

    version: str
    modules: list[str]
    world: str
    captains: Sequence[SuggestedCaptain]
    trained: bool
    league: LeagueView | None
    running: Sequence[LobbyEpisode]
    played: Sequence[LobbyEpisode] | None


async def lobby_page(request: Request) -> LobbyPage:
    """Collect what the lobby shows before its script runs."""
    services = services_of(request)
    world = load_world(services.settings.environment)
    captain, opponent = world.pairings()[0]
    presets = [world.captains[captain], *([] if opponent is None else [world.opponents[opponent]])]
    return LobbyPage(
        root="./",
        static=f"./{static_path(request)}",
        title="Spectator: watch agents play",
        version=__version__,
        modules=request.app.state.modules["lobby.js"],
        world=world.title,
        captains=[SuggestedCaptain(one.name, one.label, one.summary) for one in presets],
        trained=presets[0].source == "model" and captain in world.opponents,
        league=await league_view(services),
        running=await _running(services),
        played=await _played(services),
    )


def who_played(summary: EpisodeSummary, services: Services) -> str:
    """Return the captains of a recorded episode, by their names for people, and which of them won."""
    captain = clean_text(summary.captain_label, 60)
    opponent = services.cast.opponent_label(summary.environment, summary.opponent)
    figures = services.scorekeeper.by_id.get(summary.episode_id)
    verbs = {1.0: "beat", 0.5: "tied with", 0.0: "lost to"}
    outcome = None if figures is None else figures.outcome
    met = "against" if outcome is None else verbs.get(outcome, "against")
    return f"{captain} {met} {clean_text(opponent, 60)}" if opponent else captain


async def _running(services: Services) -> list[LobbyEpisode]:
    mask = services.operator_orders.mask.text
    found = []
    for episode in services.supervisor.showing()[:MOST_RUNNING]:
        headline = await headline_now(services, episode)
        seats = [seat for seat in (episode.plan.captain, episode.plan.opponent) if seat is not None]
        sides = side_names(episode.plan.world, episode.state.get("world", {})) if headline else ()
        named = [
            f"{clean_text(seat.label, 60)} ({clean_text(side, 40)})" if side else clean_text(seat.label, 60)
            for seat, side in zip(seats, sides or [""] * len(seats), strict=False)
        ]
        who = mask(" against ".join(named))
        found.append(LobbyEpisode(episode.episode_id, headline or who, who if headline else ""))
    return found


async def _played(services: Services) -> list[LobbyEpisode] | None:
    mask = services.operator_orders.mask.text
    try:
        async with asyncio.timeout(PATIENCE_S):
            ended = await services.journal.episodes(EpisodeFilter(ended=True, limit=MOST_PLAYED))
    except (JournalError, TimeoutError):
        return None  # the page's script shows the problem
    return [
        LobbyEpisode(
            one.episode_id, mask(clean_text(one.result or one.title, 120)), mask(who_played(one, services))
        )
        for one in ended
    ]


SEQ: Final = re.compile(r"\d{1,16}")


@dataclass(frozen=True, slots=True)
class ScriptPage(Page):
    """Context of a page that is drawn by its script."""

    modules: list[str]


@dataclass(frozen=True, slots=True)
class ComparePage(ScriptPage):
    """Context of ``compare.html``.

    Args:
        pictured: The worlds whose panel has ``tile.js``.
    """

    pictured: Sequence[str]


@dataclass(frozen=True, slots=True)
class WallPage(ScriptPage):
    """Context of ``wall.html``.

    Args:
        tiles: The live episodes, as in the first frame of ``/live/wall``, for browsers without JavaScript.
    """

    tiles: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Preview:
    """The preview of a link to an episode."""

    title: str
    environment: str
    headline: str
    description: str


@dataclass(frozen=True, slots=True)
class WatchPage(Page):
    """Context of ``watch.html``.

    Args:
        first: The current state in words, shown until the page's script runs; empty if the page does not
            start at the newest event.
        panel: Relative path to the folder of its world's panel; ``None`` without one.
        beats: Beats that each event type lasts.
        chapters: Names of the chapters that each of these event types ends.
        replay: Whether it is shown from the beginning.
        events: Number of its events, as far as known without reading it.
        card: Absolute URL of its card.
        moment: Absolute URL of its clips, without suffix; empty in worlds without clips.
        seq: The event that the link leads to; empty for none.
        oembed: Absolute URL of its oEmbed answer.
        panel_modules: The same for the panel, its entry first.
    """

    episode_id: str
    preview: Preview
    first: str
    panel: str | None
    beats: str
    chapters: str
    running: bool
    replay: bool
    events: int
    card: str
    moment: str
    analyst: bool
    seq: str
    oembed: str
    modules: list[str]
    panel_modules: list[str]


@dataclass(frozen=True, slots=True)
class ReaderPage(ScriptPage):
    """Context of ``reader.html``, the page of an episode that another program played.

    Args:
        card: Absolute URL of its card.
        oembed: Absolute URL of its oEmbed answer.
        owner: Whether the visitor may read prompts without a token.
    """

    episode_id: str
    preview: Preview
    card: str
    oembed: str
    owner: bool


@dataclass(frozen=True, slots=True)
class ErrorPage(Page):
    """Context of ``error.html``.

    Args:
        instead: Path, from the lobby, of the episode that the page belongs to; empty for none.
    """

    status: int
    message: str
    instead: str


def pages_router(templates: Templates) -> APIRouter:
    """Return the routes of lobby, wall, runs, groups, episodes and operator."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    @router.get("/web")
    async def lobby(request: Request) -> Response:
        services_of(request).exhibition.note_visit()
        deep_link = _deep_link(request.query_params)
        if deep_link is not None:
            return RedirectResponse(deep_link, status_code=303)
        return await run_in_threadpool(templates.render, "lobby.html", await lobby_page(request))

    @router.get("/wall")
    async def wall(request: Request) -> Response:
        services = services_of(request)
        services.exhibition.note_visit()
        with suppress(JournalError, TimeoutError):  # connected viewers see the problem
            async with asyncio.timeout(PATIENCE_S):
                await services.wall.bring_up_to_date()
        tiles = json.loads(services.wall.now().text)["tiles"]
        return await run_in_threadpool(
            _script_page, request, templates, "wall", "The wall", partial(WallPage, tiles=tiles)
        )

    @router.get("/compare")
    def compare(request: Request) -> Response:
        load = services_of(request).cast.load
        pictured = [name for name in world_names() if load(name).picture is not None]
        page = partial(ComparePage, pictured=pictured)
        return _script_page(request, templates, "compare", "Side by side", page)

    @router.get("/rollouts")
    def rollouts(request: Request) -> Response:
        return _script_page(request, templates, "rollouts", "Rollout runs")

    @router.get("/rollouts/{run}")
    def run(request: Request, run: str) -> Response:
        return _script_page(request, templates, "run", clean_text(run, 64), deep=True)

    @router.get("/group/{group}")
    def group(request: Request, group: str) -> Response:
        return _script_page(request, templates, "group", f"Group {clean_text(group, 64)}", deep=True)

    @router.get("/operator")
    def operator(request: Request) -> Response:
        return _script_page(request, templates, "operator", "Operator")

    @router.get("/watch/{episode_id}")
    async def watch(request: Request, episode_id: str) -> Response:
        return await _episode_page(request, templates, episode_id, replay=False)

    @router.get("/replay/{episode_id}")
    async def replay(request: Request, episode_id: str) -> Response:
        return await _episode_page(request, templates, episode_id, replay=True)

    return router


def install_error_pages(app: FastAPI, templates: Templates) -> None:
    """Answer unknown paths with a page for browsers, else a problem document."""

    async def not_found(request: Request, error: HTTPException) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return await http_problem(request, error)
        path = clean_text(request.url.path, 200)
        message = f"There is no page at {path}. The lobby lists live and earlier episodes."
        return await run_in_threadpool(error_page, request, templates, "Page not found", message, 404)

    app.add_exception_handler(HTTPStatus.NOT_FOUND, not_found)  # type: ignore[arg-type]


async def missing_page(
    request: Request, templates: Templates, title: str, message: str, instead: str = ""
) -> Response:
    """Answer 404 with a page for browsers, else with a problem document."""
    if "text/html" not in request.headers.get("accept", ""):
        raise HTTPException(404, message)
    return await run_in_threadpool(error_page, request, templates, title, message, 404, instead)


def error_page(
    request: Request, templates: Templates, title: str, message: str, status: int, instead: str = ""
) -> Response:
    """Return a page that says what went wrong, and what to do now."""
    path = request.url.path.removeprefix(request.scope.get("root_path", ""))
    root = "../" * (path.count("/") - 1) or "./"
    page = ErrorPage(root, f"{root}{static_path(request)}", title, status, message, instead)
    return templates.render("error.html", page, status=status)


def _script_page(
    request: Request,
    templates: Templates,
    name: str,
    title: str,
    page_type: Callable[..., ScriptPage] = ScriptPage,
    *,
    deep: bool = False,
) -> Response:
    root = "../" if deep else "./"
    page = page_type(
        root=root,
        static=f"{root}{static_path(request)}",
        title=f"{title} · Spectator",
        modules=request.app.state.modules[f"{name}.js"],
    )
    return templates.render(f"{name}.html", page)


async def _episode_page(request: Request, templates: Templates, episode_id: str, *, replay: bool) -> Response:
    services = services_of(request)
    running = services.supervisor.live(episode_id)
    is_foreign = False
    if running is not None:
        title = str(running.state["episode"]["title"])
        preview, events = _preview_of_running(running.plan, title), running.head_seq
    else:
        summary = await services.journal.episode(episode_id) if EPISODE_ID.fullmatch(episode_id) else None
        if summary is None:
            accepted = request.headers.get("accept", "")
            if "json" in accepted and "text/html" not in accepted:
                raise EpisodeNotFound(episode_id[:64])
            message = (
                f"This server has no episode {clean_text(episode_id, 64)}. It may have been played on "
                "another server, or the link is incomplete. The lobby lists live and earlier episodes."
            )
            return await run_in_threadpool(error_page, request, templates, "Episode not found", message, 404)
        preview, events = _preview_of(summary, who_played(summary, services)), summary.head_seq
        is_foreign = summary.captain == IMPORTED
    mask = services.operator_orders.mask.text
    preview = replace(
        preview,
        title=mask(preview.title), headline=mask(preview.headline), description=mask(preview.description),
    )  # fmt: skip
    if running is not None:
        services.voting.of(running)  # viewers of this page are asked from now on
    first = preview.headline if running is None else await headline_now(services, running)
    if replay or {"seq", "at"} & request.query_params.keys():
        first = ""
    runs = running is not None or services.readiness.recovery.awaits_recovery(episode_id)
    runs = runs or await services.run_boards.is_played(episode_id)
    if is_foreign and not (runs or replay):
        return await run_in_threadpool(_reader_page, request, templates, episode_id, preview)
    return await run_in_threadpool(
        _watch_page, request, templates, episode_id, preview, first, runs, replay, events
    )


def _watch_page(
    request: Request,
    templates: Templates,
    episode_id: str,
    preview: Preview,
    first: str,
    running: bool,
    replay: bool,
    events: int,
) -> Response:
    name, home = preview.environment, public_root(request)
    world = load_world(name) if name in world_names() else None
    path = None if world is None else request.app.state.panels.path(world.name)
    page = WatchPage(
        root="../",
        static=f"../{static_path(request)}",
        title=f"{preview.headline} · {preview.title} · Spectator",
        episode_id=episode_id,
        preview=preview,
        first=first,
        panel=path and f"../{path}",
        beats=json.dumps({} if world is None else dict(world.beats)),
        chapters=json.dumps({} if world is None else dict(world.chapters)),
        running=running,
        replay=replay,
        events=events,
        card=f"{home}/card/{quote(episode_id)}.png",
        moment="" if world is None or world.scenes is None else f"{home}/clip/{quote(episode_id)}",
        analyst=world is not None and world.analyst is not None,
        seq=seq if SEQ.fullmatch(seq := request.query_params.get("seq", "")) else "",
        oembed=f"{home}/oembed?{urlencode({'url': f'{home}/watch/{quote(episode_id)}'})}",
        modules=request.app.state.modules["watch.js"],
        panel_modules=[] if world is None else request.app.state.panels.modules(world.name),
    )
    return templates.render("watch.html", page)


def _reader_page(request: Request, templates: Templates, episode_id: str, preview: Preview) -> Response:
    home = public_root(request)
    page = ReaderPage(
        root="../",
        static=f"../{static_path(request)}",
        title=f"{preview.headline} · {preview.title} · Spectator",
        modules=request.app.state.modules["reader.js"],
        episode_id=episode_id,
        preview=preview,
        card=f"{home}/card/{quote(episode_id)}.png",
        oembed=f"{home}/oembed?{urlencode({'url': f'{home}/watch/{quote(episode_id)}'})}",
        owner=services_of(request).guard.may_spend(request),
    )
    return templates.render("reader.html", page)


def _preview_of_running(plan: EpisodePlan, title: str) -> Preview:
    who = " against ".join(seat.label for seat in (plan.captain, plan.opponent) if seat is not None)
    live = "Live now: every decision next to its result."
    return Preview(title, plan.world.name, clean_text(who, 120), live)


def _preview_of(summary: EpisodeSummary, who: str) -> Preview:
    reward = "" if summary.score is None else f" Reward {summary.score:.2f}."
    return Preview(
        summary.title,
        summary.environment,
        clean_text(summary.result or who, 120),
        f"{who}.{reward} Replay it: every decision next to its result.",
    )


def _deep_link(query: Mapping[str, str]) -> str | None:
    """Return the page for ``?ep=&seq=``: a Space passes only the query to the lobby in its frame."""
    episode_id, seq = query.get("ep", ""), query.get("seq", "")
    if not EPISODE_ID.fullmatch(episode_id):
        return None
    place = f"?{urlencode({'seq': seq})}" if SEQ.fullmatch(seq) else ""
    return f"./watch/{quote(episode_id)}{place}"
