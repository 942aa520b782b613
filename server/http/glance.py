"""What can be said of an episode in a few words: for cards, strips on other pages and links."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spectator.catalog import load_world, world_names
from spectator.episodes.host.handle import EpisodeHandle
from spectator.errors import EnvironmentFault, EpisodeNotFound, JournalError
from spectator.text import clean_text

from ..services import Services
from .archive import summary_of

LONGEST: Final = 160
"""Characters of a headline and of a line of commentary."""

PATIENCE_S: Final = 0.25
"""How long a page waits for how its episode stands; then it comes without."""


@dataclass(frozen=True, slots=True)
class Glance:
    """An episode in a few words, without names that are hidden.

    Args:
        episode_id: Which.
        title: Its world's name as shown to people.
        headline: The result, or how it stands.
        seats: Who plays.
        status: ``live``, ``paused`` or ``ended``.
        at: Where in the game it is; empty where that is not known.
        progress: How much of it is over, in [0, 1]; ``None`` where that is not known.
        chances: The agent's chances to win, each in [0, 1], oldest first; empty in worlds without them.
        line: The newest line of commentary that says more than the headline.
        head_seq: Number of the last event that is in it.
    """

    episode_id: str
    title: str
    headline: str
    seats: tuple[str, ...]
    status: str
    at: str
    progress: float | None
    chances: tuple[float, ...]
    line: str
    head_seq: int


async def glance_of(services: Services, episode_id: str) -> Glance:
    """The episode as its viewers see it now.

    Raises:
        EpisodeNotFound: There is none.
        JournalError: Its record cannot be read.
    """
    return read_glance(services, episode_id, *await state_of(services, episode_id))


async def state_of(services: Services, episode_id: str) -> tuple[Mapping[str, Any], int]:
    """What viewers of an episode see now, and the number of the last event in it.

    Raises:
        EpisodeNotFound: There is none.
        JournalError: Its record cannot be read.
    """
    live = services.supervisor.live(episode_id)
    if live is not None and live.head_seq:
        await live.open()
        return live.state, live.head_seq
    summary = await summary_of(services, episode_id)
    if not summary.head_seq:
        raise EpisodeNotFound(episode_id)
    frame = await services.finals.of(summary)
    return (await asyncio.to_thread(json.loads, frame.text))["state"], summary.head_seq


async def headline_now(services: Services, running: EpisodeHandle) -> str:
    """How what runs stands, for a page that is to be shown at once.

    Empty before its first event, and where its record cannot be read now or not within :data:`PATIENCE_S`.
    """
    try:
        async with asyncio.timeout(PATIENCE_S):
            await running.open()
    except (EnvironmentFault, JournalError, TimeoutError):
        return ""  # the viewers who connect are told
    if not running.head_seq:
        return ""
    return read_glance(services, running.episode_id, running.state, running.head_seq).headline


def read_glance(services: Services, episode_id: str, state: Mapping[str, Any], head_seq: int) -> Glance:
    """What a viewer's state says."""
    mask = services.orders.mask
    episode, world, feed = mask.value(state["episode"]), state.get("world", {}), state.get("feed", {})
    glance = world.get("glance")
    seen = glance if isinstance(glance, Mapping) else {}
    seats = tuple(clean_text(str(seat["label"]), 60) for seat in episode["seats"].values())
    headline = str(episode.get("result") or world.get("headline") or " against ".join(seats))
    told = (str(feed[key]["text"]) for key in sorted(feed, reverse=True))
    newest = next((text for text in told if text.rstrip(".") != headline), "")
    return Glance(
        episode_id=episode_id,
        title=clean_text(str(episode["title"]), 60),
        headline=clean_text(mask.text(headline), LONGEST),
        seats=seats,
        status=str(episode["status"]),
        at=clean_text(mask.text(str(seen.get("at", ""))), 40),
        progress=_share(seen.get("progress")),
        chances=_chances(str(episode["environment"]), world),
        line=clean_text(mask.text(newest), LONGEST),
        head_seq=head_seq,
    )


def _chances(environment: str, seen: Mapping[str, Any]) -> tuple[float, ...]:
    world = load_world(environment) if environment in world_names() else None
    if world is None or world.chances is None:
        return ()
    return tuple(chance for one in world.chances(seen) if (chance := _share(one)) is not None)


def _share(value: object) -> float | None:
    """``value`` if it is in [0, 1]."""
    return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else None
