"""Notices between servers on one PostgreSQL: thoughts, viewer counts, troubles.

None is recorded, and any may be lost without consequence. They have a channel and connections of their
own and are sent at a bounded rate, those of an episode only while somebody watches it at another server.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from itertools import islice
from typing import Any, Final, Protocol

from spectator.clock import Clock, timestamp
from spectator.episodes.episode_view import EpisodeView
from spectator.episodes.stream import JournalTrouble
from spectator.errors import JournalError
from spectator.journal import postgres
from spectator.journal.postgres import LARGEST, CommitNotices, NoticeListener, NoticeSender

from ..journal import TimedJournal
from ..settings import Settings
from ..viewers.audience import Audience
from ..viewers.other_servers import FollowedEpisodes, RemoteEpisodes, ThoughtSender

KEPT_S: Final = 15.0
"""How long a number of viewers counts that is not told again."""

MOST_AUDIENCES: Final = 100_000
"""Numbers that are kept; further ones are left out."""


class OtherAudiences:
    """How many watch episodes at other servers, as those tell it from time to time.

    Args:
        clock: Time.
        changed: Is told of which episode the number may be another one now.
    """

    def __init__(self, clock: Clock, changed: Callable[[str], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._watching: dict[str, dict[str, tuple[int, float]]] = {}  # by episode and server: number, until
        self._size = 0

    def note(self, server: str, viewers: Mapping[str, int]) -> None:
        """A server told how many watch some episodes there; 0 for nobody any more."""
        until = self._clock.monotonic() + KEPT_S
        for episode_id, number in viewers.items():
            before = self.count(episode_id)
            by_server = self._watching.setdefault(episode_id, {})
            self._size -= by_server.pop(server, None) is not None
            if number > 0 and self._size < MOST_AUDIENCES:
                by_server[server] = (number, until)
                self._size += 1
            self._tidy(episode_id, before)

    def forget_silent(self) -> None:
        """Leave out what was not told again."""
        now = self._clock.monotonic()
        for episode_id, by_server in tuple(self._watching.items()):
            before = self.count(episode_id)
            for server in [name for name, (_, until) in by_server.items() if until <= now]:
                del by_server[server]
                self._size -= 1
            self._tidy(episode_id, before)

    def count(self, episode_id: str) -> int:
        """How many watch an episode at other servers."""
        return sum(number for number, _ in self._watching.get(episode_id, {}).values())

    @property
    def any(self) -> bool:
        """Whether anybody watches anything there."""
        return bool(self._watching)

    def _tidy(self, episode_id: str, before: int) -> None:
        if not self._watching[episode_id]:
            del self._watching[episode_id]
        if self.count(episode_id) != before:
            self._changed(episode_id)


logger = logging.getLogger(__name__)

CHANNEL: Final = "spectator_live"
"""Where they are sent: JSON objects with the sender's name as ``s``."""

INTERVAL_S: Final = 0.1
"""Least time between two sendings, while anybody watches anything."""

IDLE_S: Final = 0.5
"""The same while nobody does."""

MOST: Final = 64
"""Notices in a sending at most; what is left over is sent later, or never."""

REPEAT_S: Final = 5.0
"""Seconds after which the numbers of viewers are told again, and troubles that last."""

COUNTS_S: Final = 1.0
"""Least time between two tellings of the numbers of viewers."""

COUNTED: Final = 80
"""Episodes in a notice with the numbers of their viewers; their ids have 64 characters at most."""


class Showing(Protocol):
    """Knows which episodes are played here."""

    def showing(self) -> Sequence[EpisodeView]:
        """All of them."""
        ...


class LiveNotices:
    """Sends what the viewers of other servers cannot read in the record, and takes it from those.

    Args:
        name: Of this server, unlike any other.
        sender: Sends.
        played: What is played here.
        followed: What others play and is watched here.
        audience: Who watches here.
        clock: Time.
    """

    def __init__(
        self,
        name: str,
        sender: NoticeSender,
        played: Showing,
        followed: FollowedEpisodes,
        audience: Audience,
        clock: Clock,
    ) -> None:
        self.elsewhere = OtherAudiences(clock, audience.recount)
        """How many watch at other servers."""
        audience.elsewhere = self.elsewhere.count
        self._name = name
        self._sender = sender
        self._played = played
        self._followed = followed
        self._audience = audience
        self._clock = clock
        self._tellers: dict[str, ThoughtSender] = {}
        self._troubles: dict[str, tuple[JournalTrouble, float]] = {}
        self._counts: dict[str, int] = {}
        self._counted_s = -REPEAT_S

    async def run(self) -> None:
        """Send, until cancelled."""
        works = True
        while True:
            self.elsewhere.forget_silent()
            fitting = (one for one in self._notices() if len(one.encode()) <= LARGEST)
            if notices := list(islice(fitting, MOST)):
                try:
                    await self._sender.send(CHANNEL, notices)
                    works = True
                except JournalError as error:
                    if works:
                        logger.warning("viewers at other servers see no thoughts from here: %s", error)
                    works = False
            watched = self.elsewhere.any or self._counts or len(self._audience)
            await self._clock.sleep(INTERVAL_S if watched and works else IDLE_S)

    def take(self, notice: str) -> None:
        """Take a notice; one that cannot be read, of another version, say, is left out."""
        try:
            told = json.loads(notice)
            if told["s"] == self._name:
                return
            if "viewers" in told:
                viewers = {name: int(number) for name, number in told["viewers"].items()}
                self.elsewhere.note(str(told["s"]), viewers)
            elif (view := self._followed.live(str(told["e"]))) is not None:
                if "trouble" in told:
                    view.show_trouble(_trouble_of(told["trouble"]))
                else:
                    self._followed.thoughts_of(view).take(told["thought"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            logger.debug("a notice of another server is left out: %r", error)

    def _notices(self) -> Iterator[str]:
        now = self._clock.monotonic()
        yield from self._viewers(now)
        wanted = [one for one in self._played.showing() if self.elsewhere.count(one.episode_id)]
        here = {one.episode_id for one in wanted}
        self._tellers = {name: teller for name, teller in self._tellers.items() if name in here}
        self._troubles = {name: told for name, told in self._troubles.items() if name in here}
        for live in wanted:
            if (told := self._trouble(live, now)) is not None:
                yield self._notice(e=live.episode_id, **told)
            teller = self._tellers.get(live.episode_id)
            if teller is None:
                teller = ThoughtSender(live.thinking, withheld=live.withholds)
                self._tellers[live.episode_id] = teller
            if (fields := teller.next()) is not None:
                yield self._notice(e=live.episode_id, thought=fields)

    def _viewers(self, now: float) -> Iterator[str]:
        counts = self._audience.counts()
        age_s = now - self._counted_s
        if age_s < COUNTS_S or (counts == self._counts and (not counts or age_s < REPEAT_S)):
            return
        told = counts | {name: 0 for name in self._counts if name not in counts}
        self._counts, self._counted_s = counts, now
        left = iter(told.items())
        while some := dict(islice(left, COUNTED)):
            yield self._notice(viewers=some)

    def _trouble(self, live: EpisodeView, now: float) -> dict[str, Any] | None:
        trouble, told = live.trouble, self._troubles.get(live.episode_id)
        if trouble is None:
            return None if self._troubles.pop(live.episode_id, None) is None else {"trouble": None}
        if told is not None and told[0] == trouble and now - told[1] < REPEAT_S:
            return None
        self._troubles[live.episode_id] = (trouble, now)
        return {"trouble": {"message": trouble.message[:500], "since": timestamp(trouble.since)}}

    def _notice(self, **fields: Any) -> str:
        text = json.dumps({"s": self._name, **fields}, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace").decode()


def _trouble_of(told: Any) -> JournalTrouble | None:
    return (
        None if told is None else JournalTrouble(str(told["message"]), datetime.fromisoformat(told["since"]))
    )


def open_notices(
    stack: AsyncExitStack,
    settings: Settings,
    journal: TimedJournal,
    played: Showing,
    others: RemoteEpisodes,
    audience: Audience,
    clock: Clock,
    tasks: asyncio.TaskGroup,
) -> None:
    """Send and take notices from here on, until ``stack`` is closed.

    Args:
        stack: Closes the connections.
        settings: Say where the database is; one it must be.
        journal: Whose commits are told of.
        played: What is played here.
        others: What others play.
        audience: Who watches here.
        clock: Time.
        tasks: The group that it is done in.
    """
    if settings.journal_url is None or journal.ownership is None:
        return
    url = settings.journal_url.get_secret_value()
    direct = (settings.journal_listen_url or settings.journal_url).get_secret_value()
    followed = others.followed
    of_commits, of_live = NoticeSender(url), NoticeSender(url)
    commits = CommitNotices(of_commits, clock)
    journal.appended = lambda events: commits.note(events[-1].episode_id)
    live = LiveNotices(journal.ownership.name, of_live, played, followed, audience, clock)
    heard_commits = NoticeListener(
        direct,
        postgres.CHANNEL,
        postgres.taking(others.wake, followed.wake),
        of_commits,
        clock,
        "the journal is asked every 0.25 s",
        followed.expect_notices,
    )
    heard_live = NoticeListener(
        direct, CHANNEL, live.take, of_live, clock, "their thoughts and viewers are not shown"
    )
    for sender in (of_commits, of_live):
        stack.push_async_callback(sender.aclose)
    for work in (commits.run(), live.run(), heard_commits.run(), heard_live.run(), others.run()):
        stack.callback(tasks.create_task(work, name="notices").cancel)
