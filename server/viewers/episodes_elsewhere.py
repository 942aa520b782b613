"""Which episodes other servers play now, kept in memory for the lobby, the wall and ``/live``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, Protocol

from spectator.clock import Clock, first_of
from spectator.episodes.host.episode_view import EpisodeView
from spectator.errors import EpisodeError, JournalError
from spectator.journal.base import EpisodeSummary

from .followed_episodes import FollowedEpisodes

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 2.0
"""Seconds between two looks at what is played elsewhere; one query tells it."""

LEAST_S: Final = 0.25
"""The same at least, where notices tell of episodes that are not known yet."""


class TellsPlayed(Protocol):
    """A journal that tells what other processes record in it."""

    async def held_elsewhere(self) -> list[EpisodeSummary]:
        """The episodes without an end of which other processes hold leases, oldest first."""
        ...


class EpisodesElsewhere:
    """The episodes that other servers play, as the journal told when it was looked at last.

    Whoever asks is answered from memory. They are followed only while somebody wants to see all of them.

    Args:
        journal: Tells which they are.
        followed: Follows them.
        plays: Whether an episode is played here.
        started: Is called when others play one that was not known.
        clock: Time.
    """

    def __init__(
        self,
        journal: TellsPlayed,
        followed: FollowedEpisodes,
        plays: Callable[[str], bool],
        started: Callable[[], None],
        clock: Clock,
    ) -> None:
        self.followed = followed
        """Those of them that somebody watches here."""
        self._journal = journal
        self._plays = plays
        self._started = started
        self._clock = clock
        self._listed: dict[str, EpisodeSummary] = {}
        self._tried: set[str] = set()
        self._wake = asyncio.Event()
        followed.on_end(self._forget)

    def listed(self) -> Sequence[EpisodeSummary]:
        """All of them, oldest first, as the index has them."""
        return [one for name, one in self._listed.items() if not self._plays(name)]

    def view(self, episode_id: str) -> EpisodeView | None:
        """One that is followed here and brought up to its record."""
        view = self.followed.live(episode_id)
        return view if view is not None and view.head_seq and not view.ended else None

    def views(self) -> Iterator[EpisodeView]:
        """Those of all that are; see :meth:`follow_all`."""
        return (view for one in self.listed() if (view := self.view(one.episode_id)) is not None)

    def wake(self, episode_ids: Collection[str]) -> None:
        """Something was recorded of these episodes; returns at once.

        What is followed is read, and what is not known yet is looked up.
        """
        self.followed.wake(episode_ids)
        if any(name not in self._listed and not self._plays(name) for name in episode_ids):
            self._wake.set()

    async def run(self) -> None:
        """Look, until cancelled."""
        works = True
        while True:
            try:
                await self.look()
                works = True
            except JournalError as error:
                if works:
                    logger.warning("what other servers play is not known: %s", error)
                works = False
            await self._clock.sleep(LEAST_S)
            await first_of(self._clock.sleep(INTERVAL_S - LEAST_S), self._wake.wait())
            self._wake.clear()

    async def look(self) -> None:
        """Ask the journal what they are.

        Raises:
            JournalError: It cannot be read now.
        """
        before = self._listed
        self._listed = {one.episode_id: one for one in await self._journal.held_elsewhere()}
        self._tried.clear()
        if any(name not in before for name in self._listed):
            self._started()

    async def follow_all(self) -> None:
        """Follow all of them for the next seconds; costs no query where they are followed already."""
        for one in self.listed():
            known = self.followed.live(one.episode_id)
            if known is None and one.episode_id in self._tried:
                continue
            self._tried.add(one.episode_id)
            try:
                await self.followed.follow(one.episode_id)
                if (view := self.followed.live(one.episode_id)) is not None:
                    await view.open()
            except EpisodeError as error:
                logger.warning("episode %s of another server is not shown: %s", one.episode_id, error)

    def _forget(self, episode_id: str) -> None:
        self._listed.pop(episode_id, None)
