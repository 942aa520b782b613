"""The page of a moment: its picture, its clip and its words, and the fork that changes the ending.

A moment is the turn in which an event happened. If nothing was said about that turn, it is the last one
before it about which something was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from spectator.catalog import load_world, world_names
from spectator.environments.world import World, plays_free
from spectator.episodes.fork import ForkRequest, plan_fork
from spectator.errors import ConfigurationError, EpisodeNotFound, FieldError, InvalidRequest, SpectatorError
from spectator.events import Event
from spectator.json_values import apply_patch
from spectator.policies.policy import Preset
from spectator.text import clean_text, emblem

from ..security import faults
from ..security.budget import Held
from ..security.faults import Refused, kind_of
from ..security.masking import NameMask
from ..services import Services, ServicesDep, services_of
from ..viewers.wall import side_names
from ..viewers.wire import EPISODE_ID
from .commands import Rights
from .episodes import summary_of
from .league import Side
from .pages import missing_page
from .previews import public_root
from .start_routes import start_fork
from .templates import Page, Templates, static_path

SEQ: Final = re.compile(r"[0-9]{1,16}")

BACK: Final = 120
"""Events read before the one asked for: enough for its turn and the last watched one before it."""

AHEAD: Final = 60
"""Events read after it: enough for the rest of its turn."""

LONGEST: Final = 300
"""Most characters of the words of a moment."""

MOST_FORM_BYTES: Final = 1024
"""Longest body of the form, in bytes."""

TOO_EARLY: Final = "Nothing was decided before this moment, so there is nothing to change."
BUSY: Final = "Other matches take all places on this server. Try again when one has ended."
PAUSED: Final = "The operator has paused starts: its ending cannot be changed now. Come back later."


class NoMoment(SpectatorError):
    """The episode has no event of that number."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment of an episode, without hidden names.

    Args:
        seq: Number of the event that stands for it: the same for every event of its turn.
        fork_seq: Last event that a fork keeps, so that the moment is decided again; ``None`` without one.
        title: Such as ``HAT-TRICK, 41 % to 3 % for Blackwater``.
        at: Position in the game; empty if unknown.
        words: What was said about it; empty if nothing was.
        match: The title of its episode.
        result: How the episode ended; empty while it goes on.
        sides: Teams and captains; the agent's is the first.
        losing: Index of the side that lost by it.
    """

    episode_id: str
    environment: str
    seq: int
    fork_seq: int | None
    title: str
    at: str
    words: str
    match: str
    result: str
    ended: bool
    sides: tuple[Side, ...]
    losing: int
    has_clip: bool

    @property
    def description(self) -> str:
        """What was said about it, and who plays against whom."""
        who = " against ".join(", ".join(filter(None, (one.team, one.label))) for one in self.sides)
        return f"{self.words} {who}, {self.match}.".strip()


async def moment_of(services: Services, episode_id: str, seq: int) -> Moment:
    """Return the moment of event ``seq``.

    Raises:
        EpisodeNotFound: The episode is unknown here.
        NoMoment: It has no such event, or viewers may not see it yet.
    """
    summary = await summary_of(services, episode_id)
    if not 1 <= seq <= summary.head_seq:
        raise NoMoment(f"It has the events 1 to {summary.head_seq}, and no event {seq}.")
    known: list[Event] = []
    while True:
        after = max(0, seq - 1 - BACK)
        read = await services.public_views.read(episode_id, after_seq=after, limit=seq - after + AHEAD)
        known = [one.event for one in read]
        here = next(one for one in known if one.seq == seq)
        said = [one for one in known if one.type == "narration.line"]
        if any(one.turn == here.turn for one in said) or not any(one.seq < seq for one in said):
            break
        seq = max(one.seq for one in said if one.seq < seq)
    events = [one for one in known if one.turn == here.turn]
    before: Mapping[str, Any] = {}
    if events[0].seq > 1:
        before = await services.episode_views.state_after(summary, events[0].seq - 1)
    after_it = before
    for event in events:
        after_it = apply_patch(after_it, event.patch)
    world = load_world(summary.environment) if summary.environment in world_names() else None
    turn = _Turn(world, events, before, after_it)
    mask = services.operator_orders.mask
    return turn.moment(mask, _fork_seq(world, known, events[0].seq), summary.result)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn, with the viewers' states before and after it."""

    world: World | None
    events: Sequence[Event]
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    def moment(self, mask: NameMask, fork_seq: int | None, result: str | None) -> Moment:
        """Return what pages show of it."""
        episode, own = mask.value(self.after["episode"]), self.after.get("world", {})
        lines = [one for one in self.events if one.type == "narration.line"]
        call = min(lines, key=lambda one: (one.data.get("priority", 3), one.seq), default=self.events[0])
        said = call.data if lines else {}
        words = clean_text(mask.text(str(said.get("text") or "")), LONGEST)
        title = mask.text((self._name(call) if lines else "") or str(own.get("headline", "")))
        actors = list(episode["seats"])
        sides = self._sides(mask, episode["seats"])
        deciding = self._deciding(actors)
        chances = self._chance(self.before, deciding), self._chance(self.after, deciding)
        losing = deciding
        if chances[0] is not None and chances[1] is not None:
            title += f", {chances[0]} % to {chances[1]} % for {sides[deciding].team or sides[deciding].label}"
            losing = deciding if len(actors) != 2 or chances[1] <= chances[0] else 1 - deciding
        glance = own.get("glance")
        at = glance.get("at", "") if isinstance(glance, Mapping) else said.get("at") or ""
        return Moment(
            episode_id=call.episode_id,
            environment=str(episode["environment"]),
            seq=call.seq,
            fork_seq=fork_seq,
            title=clean_text(title or words, 120),
            at=clean_text(mask.text(str(at)), 40),
            words=words if title else "",
            match=clean_text(str(episode["title"]), 60),
            result=clean_text(mask.text(result or ""), 160),
            sides=sides,
            losing=losing,
            ended=result is not None,
            has_clip=self.world is not None and self.world.scenes is not None,
        )

    def _name(self, call: Event) -> str:
        """Return what its world or its commentary calls it, in capitals; empty if it has no name."""
        about = next((one for one in self.events if one.seq == call.data.get("for_seq")), call)
        own = self.after.get("world", {})
        name = (
            "" if self.world is None or self.world.moment_name is None else self.world.moment_name(about, own)
        )
        name = clean_text(name or str(call.data.get("label") or ""), 24).upper()
        return name if any(letter.isalpha() for letter in name) else ""

    def _sides(self, mask: NameMask, seats: Mapping[str, Mapping[str, Any]]) -> tuple[Side, ...]:
        own = self.after.get("world", {})
        teams = () if self.world is None else side_names(self.world, own)
        named = [clean_text(mask.text(one), 40) for one in teams]
        labels = [clean_text(str(seat["label"]), 60) for seat in seats.values()]
        named += [""] * (len(labels) - len(named))
        return tuple(
            Side("", label, team, *emblem(label)) for label, team in zip(labels, named, strict=False)
        )

    def _deciding(self, actors: Sequence[str]) -> int:
        """Return the index of the actor that decided; of the agent where a chance cannot be another's."""
        agent = self.after["episode"]["agent"]
        made = (one.data["actor"] for one in self.events if one.type == "decision.made")
        actor = next(made, agent) if len(actors) == 2 else agent
        return actors.index(actor if actor in actors else agent)

    def _chance(self, state: Mapping[str, Any], side: int) -> int | None:
        """Return a side's chance to win in percent, if known."""
        own, world = state.get("world"), self.world
        chances = world.chances(own) if own and world is not None and world.chances is not None else ()
        if not chances:
            return None
        is_agent = list(self.after["episode"]["seats"])[side] == self.after["episode"]["agent"]
        return round(100 * (chances[-1] if is_agent else 1 - chances[-1]))


def _fork_seq(world: World | None, known: Sequence[Event], first: int) -> int | None:
    """Return the end of the last turn before event ``first`` in which there was something to watch."""
    earlier = [one for one in known if one.seq < first]
    beats = {} if world is None else world.beats
    watched = (one.turn for one in reversed(earlier) if not beats or beats.get(one.type, 0) > 0)
    turn = next(watched, earlier[-1].turn if earlier else None)
    return next((one.seq for one in reversed(earlier) if one.turn == turn), None)


@dataclass(frozen=True, slots=True)
class MomentPage(Page):
    """Context of ``moment.html``.

    Args:
        address: Absolute URL of the page.
        clip: Absolute URL of the moment's picture and clip, without suffix and place; empty without them.
        card: Absolute URL of the episode's card.
        oembed: Absolute URL of its oEmbed answer.
        captains: Names and labels of who may decide instead for the side that lost by it, the suggested
            one first.
        cannot: Why the visitor may not change the ending; empty if that is possible.
        wrong: Why the attempt failed; empty without one.
    """

    moment: Moment
    address: str
    clip: str
    card: str
    oembed: str
    captains: Sequence[tuple[str, str]]
    cannot: str
    wrong: str
    modules: list[str]


def moment_pages(templates: Templates) -> APIRouter:
    """Return the routes of ``/moment/{id}/{seq}``: the page, and the start of a fork."""
    router = APIRouter(include_in_schema=False)

    async def found(request: Request, services: Services, episode_id: str, seq: str) -> Moment | Response:
        if not EPISODE_ID.fullmatch(episode_id):
            return await _missing(request, templates, EpisodeNotFound(episode_id[:64]), "")
        try:
            async with services.budget.hold(Held.READS, request):
                if not SEQ.fullmatch(seq):
                    await summary_of(services, episode_id)
                    raise NoMoment("The number of a moment has 1 to 16 digits.")
                return await moment_of(services, episode_id, int(seq))
        except (EpisodeNotFound, NoMoment) as error:
            return await _missing(request, templates, error, episode_id)

    @router.get("/moment/{episode_id}/{seq}")
    async def moment_page(request: Request, episode_id: str, seq: str, services: ServicesDep) -> Response:
        moment = await found(request, services, episode_id, seq)
        return moment if isinstance(moment, Response) else await _page(request, templates, moment)

    @router.post("/moment/{episode_id}/{seq}")
    async def change_ending(request: Request, episode_id: str, seq: str, services: ServicesDep) -> Response:
        moment = await found(request, services, episode_id, seq)
        if isinstance(moment, Response):
            return moment
        try:
            return RedirectResponse(await _changed(request, services, moment), status_code=303)
        except Refused as refused:
            wrong, status = BUSY if refused.kind is faults.BUSY else refused.detail, refused.kind.status
        except InvalidRequest as error:
            wrong, status = (
                "; ".join(f"{one.field} {one.rule}" for one in error.fields),
                faults.INVALID.status,
            )
        except SpectatorError as error:
            if (kind := kind_of(error)) is faults.INTERNAL:
                raise
            wrong, status = str(error), kind.status
        return await _page(request, templates, moment, wrong, status)

    return router


async def _page(
    request: Request, templates: Templates, moment: Moment, wrong: str = "", status: int = 200
) -> Response:
    services = services_of(request)
    captains, mask = await _captains(services, moment), services.operator_orders.mask.text
    cannot = await _why_not(request, services, moment, captains)
    home, name = public_root(request), quote(moment.episode_id)
    address = f"{home}/moment/{name}/{moment.seq}"
    shown = MomentPage(
        root="../../",
        static=f"../../{static_path(request)}",
        title=f"{moment.title} · {moment.match} · Spectator",
        moment=moment,
        address=address,
        clip=f"{home}/clip/{name}" if moment.has_clip else "",
        card=f"{home}/card/{name}.png",
        oembed=f"{home}/oembed?{urlencode({'url': address})}",
        captains=[
            (one.name, "You" if one.source == "human" else clean_text(mask(one.label), 60))
            for one in captains
        ],
        cannot=mask(cannot),
        wrong=mask(wrong),
        modules=request.app.state.modules["moment.js"],
    )
    return await run_in_threadpool(templates.render, "moment.html", shown, status=status)


async def _missing(
    request: Request, templates: Templates, error: SpectatorError, episode_id: str
) -> Response:
    if isinstance(error, EpisodeNotFound):
        title, instead = "Episode not found", ""
        message = "This server has no such episode. The link is incomplete, or of another server."
    else:
        title, instead = "Moment not found", f"watch/{quote(episode_id)}"
        message = f"This episode has no such moment. {error} Watch it, and choose a moment of it."
    return await missing_page(request, templates, title, message, instead)


async def _changed(request: Request, services: Services, moment: Moment) -> str:
    """Start the fork that the form asks for; return the path of its page, with the seat if one is taken."""
    sent = await request.body()
    fields = dict(parse_qsl(sent[:MOST_FORM_BYTES].decode("utf-8", "replace"), keep_blank_values=True))
    names = [one.name for one in await _captains(services, moment)]
    captain = fields.get("captain", names[0] if names else "")
    if captain not in names:
        raise InvalidRequest([FieldError("captain", f"must be one of {', '.join(names) or 'none'}")])
    if moment.fork_seq is None:
        raise InvalidRequest([FieldError("seq", f"cannot be changed: {TOO_EARLY}")])
    started = await start_fork(_wanted(moment, captain), request, services)
    seats = list(started.seats.values())
    return seats[0].url if seats else started.watch_url


def _wanted(moment: Moment, captain: str) -> ForkRequest:
    wanted = ForkRequest(moment.episode_id, moment.fork_seq or 0)
    return replace(wanted, opponent=captain) if moment.losing else replace(wanted, captain=captain)


async def _captains(services: Services, moment: Moment) -> list[Preset]:
    """Return who may decide for the side that lost: a person first, then all who cost nothing."""
    try:
        world = services.cast.load(moment.environment)
    except (InvalidRequest, ConfigurationError):
        return []
    presets = (world.opponents if moment.losing else world.captains).values()
    people = [one for one in presets if one.source == "human" and one.missing is None]
    return people + [one for one in presets if plays_free(one)]


async def _why_not(request: Request, services: Services, moment: Moment, captains: Sequence[Preset]) -> str:
    """Return why the visitor may not change the ending; empty if that is possible."""
    if moment.fork_seq is None:
        return TOO_EARLY
    if services.operator_orders.paused:
        return PAUSED
    try:
        plan = await plan_fork(services.journal, _wanted(moment, captains[0].name), services.cast.load)
        await Rights.of(request, services).need(plan, services)
    except InvalidRequest as error:
        return f"Its ending cannot be changed here: {'; '.join(one.rule for one in error.fields)}."
    except Refused as refused:
        return f"Its ending cannot be changed here: {refused.detail}"
    except (IndexError, ConfigurationError):
        return "Its ending cannot be changed here: this server cannot play its world."
    return ""
