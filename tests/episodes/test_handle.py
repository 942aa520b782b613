"""The handle of an episode: what whoever started it is told."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from spectator.core_events import EpisodeEnded
from spectator.episodes.handle import EpisodeHandle
from spectator.errors import JournalError


class AtOnce:
    """A stream and a driver that are through at once; the beginning may have failed."""

    episode_id, epoch, embargo, open, subscribe, news = "ep-1", "e", None, None, None, None
    ended = EpisodeEnded(
        reason="finished", detail=None, score=1.0, result="done", turns=1, terminated=True, truncated=False
    )

    def __init__(self, failure: JournalError | None = None) -> None:
        self._failure = failure

    async def emit_steps(self, opening: object, *, patient: bool, attachments: object) -> int:
        assert not patient
        if self._failure is not None:
            raise self._failure
        return 0

    async def let_go(self) -> None:
        return

    async def run(self) -> EpisodeEnded:
        return self.ended

    async def settle(self) -> None:
        return


async def played(at_once: AtOnce) -> EpisodeHandle:
    everything: Any = at_once
    episode = EpisodeHandle(
        everything, stream=everything, control=everything, driver=everything, thinking=everything,
        started_at=datetime.now(UTC),
    )  # fmt: skip
    await episode.play([])
    return episode


async def test_whoever_starts_an_episode_that_is_over_at_once_has_started_it() -> None:
    episode = await played(AtOnce())
    await episode.begin()
    assert (await episode.wait()).reason == "finished"


async def test_whoever_starts_one_that_could_not_be_recorded_is_told_why() -> None:
    episode = await played(AtOnce(JournalError("the disk is full")))
    with pytest.raises(JournalError, match="the disk is full"):
        await episode.begin()
