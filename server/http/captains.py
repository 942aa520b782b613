"""The page of a captain: its style, its record, its best and its worst call."""

from __future__ import annotations

import asyncio
import heapq
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from spectator.catalog import world_names
from spectator.environments.world import World
from spectator.episodes.plan import EpisodePlan
from spectator.errors import ConfigurationError, EpisodeNotFound, JournalError
from spectator.evaluation.bundles.board import VerifiedBundle, VerifiedCaptain
from spectator.evaluation.figures import EpisodeFigures
from spectator.evaluation.intervals import Interval
from spectator.evaluation.standings import Sums
from spectator.events import Event
from spectator.policies.policy import Preset
from spectator.text import clean_text, emblem

from ..lru_cache import LruCache
from ..security.budget import Held
from ..services import Services, ServicesDep
from .leaderboard import results_shown, unusual_options
from .league import PATIENCE_S, LeagueView, Meeting, TableLine, league_view
from .pages import missing_page
from .templates import Page, Templates, static_path

MATCHES: Final = 6
"""Matches of a captain that its page lists, the newest."""

READ: Final = 3
"""Matches whose calls are compared, the newest in which calls were valued."""

MOST_EVENTS: Final = 8_000
"""Events of a match that are read for its calls."""

BATCH: Final = 500
"""Events that are read at once."""

KEPT: Final = 64
"""Matches whose calls are cached."""

KINDS: Final[Mapping[str, str]] = {
    "heuristic": "scripted",
    "oracle": "sees the truth",
    "human": "person",
}
"""What kinds of decision makers are called, unless it is their name."""


@dataclass(frozen=True, slots=True)
class ValuedCall:
    """A call and what it was worth.

    Args:
        points: Hundredths of a win, against the usual call.
        call: In words, such as ``plan delivery: length yorker``.
        reason: The captain's reason; empty without one.
        at: Position in the game; empty if unknown.
        seq: Number of the event that shows what came of it.
        match: Who played.
    """

    points: float
    call: str
    reason: str
    at: str
    episode_id: str
    seq: int
    match: str


@dataclass(frozen=True, slots=True)
class CaptainMatch:
    """A match of the captain.

    Args:
        result: Such as ``Lost to``; ``Met`` without a result.
    """

    episode_id: str
    against: str
    result: str
    words: str


@dataclass(frozen=True, slots=True)
class RecordLine:
    """Results of the captain on this server."""

    where: str
    ranked: bool
    sums: Sums
    share: Interval | None


@dataclass(frozen=True, slots=True)
class CaptainPage(Page):
    """Context of ``captain.html``.

    Args:
        letters: Letters of its emblem.
        look: Look of its emblem, 0 to 11.
        kind: What kind of decision maker it is; empty if unknown.
        style: One sentence about how it plays; empty if this server does not know the captain.
        missing: What it needs before it can play here; empty if it can.
        elsewhere: Other worlds that it plays in, by name with their titles.
        place: Its place in the league, from 1; 0 if it does not play there.
        meetings: Its league matches of this season, newest first.
        record: Its results here: each evaluation, and the matches outside of them by version.
        results: Verified results with the captain's line in them.
        calls: Its best and its worst call; empty if none was valued.
        no_call: Why there is none, as the end of a sentence.
        calls_valued: Whether another match of this world can bring one.
    """

    name: str
    label: str
    letters: str
    look: int
    kind: str
    style: str
    missing: str
    environment: str
    world: str
    elsewhere: Sequence[tuple[str, str]]
    league: LeagueView | None
    place: int
    line: TableLine | None
    meetings: Sequence[Meeting]
    record: Sequence[RecordLine]
    results: Sequence[tuple[VerifiedBundle, VerifiedCaptain]]
    calls: Sequence[ValuedCall]
    no_call: str
    calls_valued: bool
    matches: Sequence[CaptainMatch]


class _Valued(NamedTuple):
    points: float
    seq: int
    at: str
    made: Mapping[str, Any]


def _worth(one: _Valued) -> float:
    return one.points


class _ValuedCalls:
    """Collects the best and the worst call of a captain in one match."""

    def __init__(self, world: World, actors: set[str]) -> None:
        self._world = world
        self._actors = actors
        self._made: dict[str, Mapping[str, Any]] = {}
        self._at = ""
        self.ends: list[_Valued] = []

    def take(self, events: Sequence[Event]) -> None:
        """Take the next events."""
        value_of = self._world.call_values
        for event in events:
            glance = (event.patch.get("world") or {}).get("glance") or {}
            self._at = str(glance.get("at") or self._at)
            if event.type == "decision.made":
                self._made[event.data["actor"]] = event.data
            for actor, points in (value_of(event) if value_of else {}).items():
                if actor in self._actors and actor in self._made:
                    found = [*self.ends, _Valued(points, event.seq, self._at, self._made[actor])]
                    self.ends = [min(found, key=_worth), max(found, key=_worth)]


class ValuedCallReader:
    """Reads and caches the best and the worst calls of captains, by match."""

    def __init__(self) -> None:
        self._kept: LruCache[tuple[str, str], Sequence[_Valued]] = LruCache(KEPT)

    async def of(
        self, services: Services, world: World, name: str, matches: Sequence[EpisodeFigures]
    ) -> list[ValuedCall]:
        """Return the best and the worst call in some matches; empty if none was worth anything."""
        found: list[tuple[_Valued, EpisodeFigures]] = []
        try:
            async with asyncio.timeout(PATIENCE_S):
                for match in matches:
                    found += [(one, match) for one in await self._of_match(services, world, name, match)]
        except (JournalError, TimeoutError):
            pass  # the next visit goes on from there
        ends = [max(found, key=_points), min(found, key=_points)] if found else []
        mask = services.operator_orders.mask.text
        kept = zip(ends, (1, -1), strict=False)
        return [_shown(*one, mask) for one, sign in kept if sign * _points(one) > 0]

    async def _of_match(
        self, services: Services, world: World, name: str, match: EpisodeFigures
    ) -> Sequence[_Valued]:
        key = match.episode_id, name
        if (kept := self._kept.get(key)) is not None:
            return kept
        calls = _ValuedCalls(world, {seat.actor for seat in match.seats if seat.captain == name})
        after = 0
        try:
            while after < MOST_EVENTS:
                async with services.budget.reading_turn():
                    read = await services.public_views.read(match.episode_id, after_seq=after, limit=BATCH)
                    await run_in_threadpool(calls.take, [one.event for one in read])
                if not read:
                    break
                after += len(read)
        except EpisodeNotFound:
            return []
        self._kept.keep(key, calls.ends)
        return calls.ends


def _points(found: tuple[_Valued, EpisodeFigures]) -> float:
    return found[0].points


def _shown(valued: _Valued, match: EpisodeFigures, mask: Callable[[str], str]) -> ValuedCall:
    return ValuedCall(
        valued.points,
        clean_text(mask(_in_words(valued.made["action"] or {})), 120),
        clean_text(mask(str(valued.made.get("reasoning") or "")), 280),
        clean_text(mask(valued.at), 40),
        match.episode_id,
        valued.seq,
        " against ".join(clean_text(mask(seat.label), 60) for seat in match.seats),
    )


def _in_words(action: Mapping[str, Any]) -> str:
    given = action.get("arguments", {}) if "tool" in action else action
    parts = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in given.items()
        if isinstance(value, str | int | float)
    ]
    tool = str(action.get("tool", "says")).replace("_", " ")
    return ": ".join(filter(None, (tool, ", ".join(parts[:3]))))


def captain_pages(templates: Templates) -> APIRouter:
    """Return the route ``/captains/{name}``; it works without JavaScript."""
    router, reader = APIRouter(include_in_schema=False), ValuedCallReader()

    @router.get("/captains/{name:path}")  # names of models may contain slashes, as %2F
    async def captain(
        request: Request,
        name: str,
        services: ServicesDep,
        environment: Annotated[str, Query(max_length=64)] = "",
    ) -> Response:
        async with services.budget.hold(Held.READS, request):
            worlds = await run_in_threadpool(_worlds, services)
            page = await _page(request, services, reader, worlds, name[:100], environment)
        if page is None:
            shown = clean_text(name, 64)
            message = (
                f"No captain is called {shown} here. The leaderboard lists the captains that have played."
            )
            return await missing_page(request, templates, "Captain not found", message)
        return await run_in_threadpool(templates.render, "captain.html", page)

    return router


def _worlds(services: Services) -> dict[str, World]:
    """Return every installed world with all who can play it, the server's own first."""
    found = {}
    for name in sorted(world_names(), key=lambda one: (one != services.settings.environment, one)):
        try:
            found[name] = services.cast.load(name)
        except ConfigurationError:
            continue
    return found


async def _page(
    request: Request,
    services: Services,
    reader: ValuedCallReader,
    worlds: Mapping[str, World],
    name: str,
    environment: str,
) -> CaptainPage | None:
    """Return a captain's page in one world: the one asked for, else the first that it plays in."""
    mask = services.operator_orders.mask.text
    live = services.supervisor.showing()
    presets = {one.plan.world.name: seat for one in live for seat in _seats(one.plan, name)}
    presets |= {world.name: one for world in worlds.values() if (one := _preset(world, name)) is not None}
    played = await run_in_threadpool(_played, services, name)
    homes = list(dict.fromkeys([*presets, *(one.environment for one in played)]))
    home = environment if environment in homes else next(iter(homes), "")
    if not home:
        return None
    preset, world = presets.get(home), worlds.get(home)
    matches = [one for one in played if one.environment == home]
    label = preset.label if preset else services.scorekeeper.standings.label(name)
    shown = clean_text(mask(label), 60)
    letters, look = emblem(shown)
    league = await league_view(services) if home == services.settings.environment else None
    table = league.table if league else ()
    place = next((place for place, one in enumerate(table, 1) if one.side.captain == name), 0)
    meetings = [*((league.live,) if league and league.live else ()), *(league.results if league else ())]
    valued = [one for one in matches if one.promised][:READ]
    results = await run_in_threadpool(results_shown, services.settings.data_dir, mask, home, None, name)
    return CaptainPage(
        root="../",
        static=f"../{static_path(request)}",
        title=f"{shown} · Captains · Spectator",
        name=name,
        label=shown,
        letters=letters,
        look=look,
        kind=KINDS.get(preset.source, preset.source) if preset else "",
        style=clean_text(mask(preset.summary), 300) if preset else "",
        missing=clean_text(mask(preset.missing), 200) if preset and preset.missing else "",
        environment=home,
        world=world.title if world else home,
        elsewhere=[(one, worlds[one].title if one in worlds else one) for one in homes if one != home],
        league=league,
        place=place,
        line=table[place - 1] if place else None,
        meetings=[one for one in meetings if name in (one.home.captain, one.away.captain)][:MATCHES],
        record=_record(services, home, name),
        results=[(one, line) for one in results for line in one.captains if line.name == name][:MATCHES],
        calls=await reader.of(services, world, name, valued) if world else [],
        no_call=_why_no_call(world, matches, valued),
        calls_valued=world is not None and world.call_values is not None,
        matches=[_match(one, name, mask) for one in matches[:MATCHES]],
    )


def _why_no_call(
    world: World | None, matches: Sequence[EpisodeFigures], valued: Sequence[EpisodeFigures]
) -> str:
    if world is None or world.call_values is None:
        return "single calls are not valued in this world"
    if not matches:
        return "it has not finished a match here"
    if not valued:
        return "its matches here ran at full speed, where calls are not valued"
    return "no call in its newest matches changed the chance to win"


def _preset(world: World, name: str) -> Preset | None:
    return world.captains.get(name) or world.opponents.get(name)


def _seats(plan: EpisodePlan, name: str) -> list[Preset]:
    return [one for one in (plan.captain, plan.opponent) if one is not None and one.name == name]


def _played(services: Services, name: str) -> list[EpisodeFigures]:
    """Return the measured matches of a captain with a result, newest first."""
    known = list(services.scorekeeper.known)
    own = (one for one in known if one.finished and any(seat.captain == name for seat in one.seats))
    return heapq.nlargest(100, own, key=lambda one: one.ended_at)


def _record(services: Services, environment: str, name: str) -> list[RecordLine]:
    """Return the results by evaluation, then those of other matches by version of the world."""
    lines, others = list[RecordLine](), dict[str, Sums]()
    for one in services.scorekeeper.standings.look(environment):
        if one.captain != name:
            continue
        if one.entrant.evaluated:
            options = unusual_options(environment, json.loads(one.place.options))
            played = f"Evaluated here, version {one.place.environment_version}, pack {one.place.pack}"
            lines.append(RecordLine(", ".join((played, *options)), one.unranked is None, one.sums, one.share))
        else:
            others.setdefault(one.place.environment_version, Sums()).merge(one.sums)
    newest = sorted(others.items(), reverse=True)
    lines += [
        RecordLine(f"Other matches here, version {version}", False, sums, sums.share)
        for version, sums in newest
    ]
    return lines[:MATCHES]


def _match(match: EpisodeFigures, name: str, mask: Callable[[str], str]) -> CaptainMatch:
    first = match.seats[0].captain == name
    rivals = match.seats[1:] if first else match.seats[:1]
    outcome = match.outcome if first or match.outcome is None else 1 - match.outcome
    mirrored = bool(rivals) and rivals[0].captain == name
    result = (
        "Met"
        if outcome is None or mirrored or not rivals
        else ("Lost to", "Tied with", "Beat")[round(2 * outcome)]
    )
    against = ", ".join(clean_text(mask(seat.label), 60) for seat in rivals)
    return CaptainMatch(match.episode_id, against, result, clean_text(mask(match.result or ""), 120))
