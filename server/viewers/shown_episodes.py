"""The episodes that are shown live here: those that this process plays, and those that it follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from spectator.episodes.host.episode_view import EpisodeView

from .feed import LiveEpisodes
from .followed_episodes import FollowedEpisodes
from .run_boards import RunBoards
from .shared_work import SharedWork


class FindsRuns(Protocol):
    """Knows which episodes are a watched run's."""

    async def run_of(self, episode_id: str) -> str | None:
        """The run that has this episode; ``None`` where none has."""
        ...


class Recovers(Protocol):
    """The episodes that an earlier process left."""

    async def settled(self, episode_id: str) -> None:
        """Wait until it is known what becomes of one; at once for every other."""
        ...


class ShownEpisodes:
    """The episodes that are shown live here.

    Args:
        played: Those of this process.
        left: Those that an earlier process left.
        finder: Knows which are a watched run's.
        boards: Follows these.
        others: Follows those that other servers play, where they record into the same journal.
    """

    def __init__(
        self,
        played: LiveEpisodes,
        left: Recovers,
        finder: FindsRuns,
        boards: RunBoards,
        others: FollowedEpisodes | None = None,
    ) -> None:
        self._played = played
        self._left = left
        self._finder = finder
        self._boards = boards
        self._others = others
        self._beginnings = SharedWork(self._begin)

    def live(self, episode_id: str) -> EpisodeView | None:
        """The episode of this id, if it is live."""
        played = self._played.live(episode_id) or self._boards.live(episode_id)
        return played or (None if self._others is None else self._others.live(episode_id))

    def showing(self) -> Sequence[EpisodeView]:
        """Those that this process plays, oldest first."""
        return self._played.showing()

    async def settled(self, episode_id: str, seen_seq: int = 0) -> None:
        """Wait until it is known what becomes of one, and follow it where it is played elsewhere.

        Args:
            episode_id: Which.
            seen_seq: The last event that whoever waits has seen, maybe at a server that was further.
        """
        await self._left.settled(episode_id)
        if self._played.live(episode_id) is not None:
            return
        if self._others is None or self._others.live(episode_id) is None:
            await self._beginnings.of(episode_id)
        if self._others is not None and seen_seq:
            await self._others.reach(episode_id, seen_seq)

    async def _begin(self, episode_id: str) -> None:
        """Find out whose an episode is, and follow it from now on, once for all who come meanwhile."""
        run = await self._finder.run_of(episode_id)
        if run is not None and (self._others is None or await self._boards.in_folder(run)):
            await self._boards.follow(episode_id)
        elif self._others is not None:
            await self._others.follow(episode_id)
