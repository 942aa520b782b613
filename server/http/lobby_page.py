"""The lobby's page: what is on, what was played, and the match that one button starts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from spectator import __version__
from spectator.catalog import load_world
from spectator.errors import JournalError
from spectator.journal.base import EpisodeFilter, EpisodeSummary
from spectator.text import clean_text

from ..services import Services, services_of
from .glance import headline_now
from .templates import Page, static_path

MOST_RUNNING: Final = 4
MOST_PLAYED: Final = 5
PATIENCE_S: Final = 2.0
"""How long the page waits for the record; then it comes without what was played."""


@dataclass(frozen=True, slots=True)
class LobbyEpisode:
    """An episode in a line.

    Args:
        episode_id: Which.
        headline: How it stands or ended.
        who: The captains.
    """

    episode_id: str
    headline: str
    who: str


@dataclass(frozen=True, slots=True)
class SuggestedCaptain:
    """A captain of the match that one button starts.

    Args:
        name: Its preset.
        label: Its name for people.
        summary: How it plays.
    """

    name: str
    label: str
    summary: str


@dataclass(frozen=True, slots=True)
class LobbyPage(Page):
    """What ``lobby.html`` is given.

    Args:
        version: Version of this software.
        modules: What the page's script imports.
        world: Title of the world of the match that one button starts.
        captains: Who plays in it, one or two.
        running: What is on, the oldest first.
        played: What ended last, the newest first; ``None`` where the record cannot be read now.
    """

    version: str
    modules: list[str]
    world: str
    captains: Sequence[SuggestedCaptain]
    running: Sequence[LobbyEpisode]
    played: Sequence[LobbyEpisode] | None


async def lobby_page(request: Request) -> LobbyPage:
    """Collect what the lobby shows before its script has asked for anything."""
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
        running=await _running(services),
        played=await _played(services),
    )


def who_played(summary: EpisodeSummary, services: Services) -> str:
    """The captains of a recorded episode, by their names for people."""
    captain = clean_text(summary.captain_label, 60)
    opponent = services.cast.opponent_label(summary.environment, summary.opponent)
    return f"{captain} against {clean_text(opponent, 60)}" if opponent else captain


async def _running(services: Services) -> list[LobbyEpisode]:
    mask = services.orders.mask.text
    found = []
    for episode in services.supervisor.showing()[:MOST_RUNNING]:
        seats = (episode.plan.captain, episode.plan.opponent)
        who = mask(" against ".join(clean_text(seat.label, 60) for seat in seats if seat is not None))
        headline = await headline_now(services, episode)
        found.append(LobbyEpisode(episode.episode_id, headline or who, who if headline else ""))
    return found


async def _played(services: Services) -> list[LobbyEpisode] | None:
    mask = services.orders.mask.text
    try:
        async with asyncio.timeout(PATIENCE_S):
            ended = await services.journal.episodes(EpisodeFilter(ended=True, limit=MOST_PLAYED))
    except (JournalError, TimeoutError):
        return None  # the script says what is wrong, once it asks
    return [
        LobbyEpisode(
            one.episode_id, mask(clean_text(one.result or one.title, 120)), mask(who_played(one, services))
        )
        for one in ended
    ]
