"""Plays a suspended episode on in the process that runs, where recovery does so only after a start."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

from spectator.episodes.host.handle import EpisodeHandle
from spectator.episodes.host.supervisor import Supervisor
from spectator.episodes.replay.restore import CannotRebuild, rebuild
from spectator.episodes.replay.unended import UnendedRecord
from spectator.episodes.run.plan import EpisodePlan
from spectator.errors import EpisodeNotFound, EpisodeOver, FieldError, InvalidRequest
from spectator.journal.base import Journal


class SuspendedEpisodes:
    """Plays suspended episodes on, each by one caller at a time.

    Args:
        journal: Where they are recorded.
        supervisor: Who plays on.
        limit_s: Seconds that rebuilding one may take.
    """

    def __init__(self, journal: Journal, supervisor: Supervisor, *, limit_s: float = 60.0) -> None:
        self._journal = journal
        self._supervisor = supervisor
        self._limit_s = limit_s
        self._resuming: set[str] = set()

    async def play_on(
        self, episode_id: str, may_play: Callable[[EpisodePlan], Awaitable[None]]
    ) -> EpisodeHandle:
        """Play a suspended episode on; returns once that is recorded.

        Args:
            episode_id: Which.
            may_play: Raises where what is played may not be.

        Raises:
            EpisodeNotFound: There is none.
            EpisodeOver: It has ended, or is not suspended.
            InvalidRequest: It cannot be played on, or somebody else is about to.
            EpisodeBusy: Every slot is taken.
            JournalError: Its record cannot be read, or not be written.
            StepTimeout: Rebuilding it took too long.
        """
        if episode_id in self._resuming:
            raise _wrong("is being resumed already")
        self._resuming.add(episode_id)
        try:
            return await self._play_on(episode_id, may_play)
        finally:
            self._resuming.discard(episode_id)

    async def _play_on(
        self, episode_id: str, may_play: Callable[[EpisodePlan], Awaitable[None]]
    ) -> EpisodeHandle:
        summary = await self._journal.episode(episode_id)
        if summary is None:
            raise EpisodeNotFound(episode_id)
        running = self._supervisor.live(episode_id) is not None
        left = (
            None
            if running or summary.ended_at is not None
            else await UnendedRecord.read(self._journal, summary)
        )
        if left is None or left.last.type != "episode.suspended":
            raise EpisodeOver(episode_id)
        supervisor = self._supervisor
        try:
            rebuilt = await rebuild(
                left,
                limit_s=self._limit_s,
                load=supervisor.load_left(left.first.data),
                attempts=math.inf,
                open_stepper=supervisor.open_stepper,
            )
        except CannotRebuild as error:
            raise _wrong(f"cannot be played on: {error}") from error
        try:
            await may_play(rebuilt.plan)
        except BaseException:
            await rebuilt.stepper.aclose()
            raise
        return await supervisor.play_on(rebuilt)


def _wrong(rule: str) -> InvalidRequest:
    return InvalidRequest([FieldError("episode_id", rule)])
