"""A run as far as it is recorded, kept up to date by what came since the last look and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from spectator.errors import JournalError
from spectator.failures import TRIED_AGAIN, FailureClass, failure_of_end, reward_of_end
from spectator.following.run_folder import RunFolder
from spectator.journal.stores.news import EpisodeNews, News
from spectator.journal.stores.sqlite import SqlJournal
from spectator.runs.failure_policy import FailurePolicy

_HEAD: Final = re.compile(r'"seq":\d+,"at":"([^"]{1,40})","turn":(\d{1,12}),"type":"([a-z_.]{1,64})"')

VANISHED: Final = "its record is gone; the folder may have been moved, removed or replaced"


@dataclass(slots=True)
class FollowedEpisode:
    """An attempt at an episode of a run.

    Args:
        episode_id: Its id.
        environment: Its world.
        seed: Its seed.
        group_id: Its group; ``None`` for none.
        attempt: Which attempt it is, from 1.
        parent: The episode that it was forked from.
        started_at: RFC 3339.
        ended_at: The same; ``None`` while it has not ended.
        reason: Why it ended.
        result: The world's result in words.
        detail: What went wrong.
        turns: Turns taken.
        head_seq: Number of its last recorded event; 0 where nobody looked, since it has finished.
        moved_at: When that was recorded, RFC 3339.
        last: The type of that event.
        reward: What it counts for; ``None`` without a verdict, which is not 0.
        failure: Why it came to no verdict.
        again: Whether the run tries it again.
    """

    episode_id: str
    environment: str
    seed: int
    group_id: str | None
    attempt: int
    parent: str | None
    started_at: str
    ended_at: str | None = None
    reason: str | None = None
    result: str | None = None
    detail: str | None = None
    turns: int = 0
    head_seq: int = 0
    moved_at: str = ""
    last: str = "episode.started"
    reward: float | None = None
    failure: FailureClass | None = None
    again: bool = False


class RunTail:
    """The record of one run, looked at from time to time; use :meth:`open`.

    Args:
        folder: The run's.
        journal: Its record, opened to be read.
        run_id: Its name in a journal of many, which somebody else closes; ``None`` where it is the run's own.
    """

    def __init__(self, folder: RunFolder, journal: SqlJournal, run_id: str | None = None) -> None:
        self.folder = folder
        self.journal = journal
        self.episodes: dict[str, FollowedEpisode] = {}
        """By id; those that ended stand in the order in which they did."""
        self._policy = FailurePolicy(retry=TRIED_AGAIN, attempts=folder.attempts)
        self._mark: int | None = None
        self.run_id = run_id
        self._inode = None if run_id is not None else folder.journal.stat().st_ino

    @property
    def lost(self) -> bool:
        """Whether its record is not what it was when it was opened."""
        if self._inode is None:
            return False
        try:
            return self.folder.journal.stat().st_ino != self._inode
        except OSError:
            return True

    def is_of(self, folder: RunFolder) -> bool:
        """Whether this is still the record of what the folder says that it holds."""
        return folder.began_at == self.folder.began_at and folder.attempts == self.folder.attempts

    @classmethod
    async def open(cls, folder: RunFolder) -> Self:
        """Open a run's record; nothing of it is read yet.

        Raises:
            JournalError: It cannot be read, or there is none yet.
            ConfigurationError: It is of a version that this software does not read.
        """
        if not folder.journal.is_file():
            raise JournalError("nothing was played yet")
        try:
            return cls(folder, await SqlJournal.open(f"sqlite:///{folder.journal}", writable=False))
        except OSError as error:
            raise JournalError(VANISHED) from error

    async def look(self) -> list[str]:
        """Take in what came since the last look: the ids of the episodes of which something is new.

        Raises:
            JournalError: The record is gone, or cannot be read.
        """
        if self.lost:
            raise JournalError(VANISHED)
        changed: dict[str, None] = {}
        while True:
            news = await self.journal.news(self._mark, self.run_id)
            changed |= dict.fromkeys(self._take(news))
            if not news.more:
                return list(changed)

    async def aclose(self) -> None:
        """Let go of the record."""
        if self.run_id is None:
            await self.journal.aclose()

    def _take(self, news: News) -> list[str]:
        if news.whole:
            self.episodes.clear()
        self._mark = news.mark
        for one in news.episodes:
            self._note(one)
        return [one.row["episode_id"] for one in news.episodes]

    def _note(self, news: EpisodeNews) -> None:
        row = news.row
        episode = self.episodes.get(row["episode_id"])
        if episode is None:
            episode = FollowedEpisode(
                episode_id=row["episode_id"],
                environment=row["environment"],
                seed=int(row["seed"]),
                group_id=row["group_id"],
                attempt=row["attempt"] or 1,
                parent=row["parent"],
                started_at=row["started_at"],
                moved_at=row["started_at"],
            )
            self.episodes[episode.episode_id] = episode
        if (head := _HEAD.search(news.head)) is not None:
            episode.moved_at, episode.turns, episode.last = head[1], int(head[2]), head[3]
            episode.head_seq = news.head_seq
        if row["reason"] is not None and episode.reason is None:
            self._end(episode, row, news.head)

    def _end(self, episode: FollowedEpisode, row: Mapping[str, Any], text: str) -> None:
        episode.ended_at = episode.moved_at = row["ended_at"]
        episode.reason, episode.result, episode.detail = row["reason"], row["result"], row["detail"]
        episode.turns, episode.last = row["turns"] or 0, "episode.ended"
        data = _data_of(text) or {"reason": row["reason"], "score": row["score"], "total_reward": None}
        episode.reward = reward_of_end(data)
        if episode.reward is None and episode.reason != "finished":
            episode.failure = failure_of_end(data) or "unknown"
            episode.again = self._policy.after(episode.failure, episode.attempt) == "retry"
        self.episodes[episode.episode_id] = self.episodes.pop(episode.episode_id)  # now the last that ended


def _data_of(text: str) -> Mapping[str, Any] | None:
    """Data of an ``episode.ended``; ``None`` where the text is not all of one."""
    try:
        data: Any = json.loads(text)["data"]
    except (ValueError, KeyError, TypeError):
        return None
    return data if isinstance(data, Mapping) and "reason" in data else None
