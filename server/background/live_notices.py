"""Notices between servers on one PostgreSQL: thoughts, viewer counts, troubles.

Notices are not recorded, and losing one is harmless. They use a separate channel and connections and are
sent at a bounded rate, those of an episode only while it has viewers at another server.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from itertools import islice
from typing import Any, Final

from spectator.clock import Clock, timestamp
from spectator.episodes.episode_view import EpisodeView
from spectator.episodes.stream import JournalTrouble
from spectator.episodes.supervisor import Supervisor
from spectator.errors import JournalError
from spectator.journal import postgres
from spectator.journal.postgres import LARGEST, CommitNotices, NoticeListener, NoticeSender

from ..journal import TimedJournal
from ..settings import Settings
from ..viewers.audience import Audience
from ..viewers.other_servers import FollowedEpisodes, RemoteEpisodes, ThoughtSender

KEPT_S: Final = 15.0
"""Seconds that a viewer count is valid without a new notice."""

MOST_AUDIENCES: Final = 100_000
"""Most viewer counts kept; further ones are ignored."""


class OtherAudiences:
    """Viewer counts of episodes at other servers, from their notices.

    Args:
        changed: Called with an episode's id when its count may have changed.
    """

    def __init__(self, clock: Clock, changed: Callable[[str], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._watching: dict[str, dict[str, tuple[int, float]]] = {}  # by episode and server: number, until
        self._size = 0

    def note(self, server: str, viewers: Mapping[str, int]) -> None:
        """Store viewer counts that a server reported; 0 removes a count."""
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
        """Drop counts that have expired."""
        now = self._clock.monotonic()
        for episode_id, by_server in tuple(self._watching.items()):
            before = self.count(episode_id)
            for server in [name for name, (_, until) in by_server.items() if until <= now]:
                del by_server[server]
                self._size -= 1
            self._tidy(episode_id, before)

    def count(self, episode_id: str) -> int:
        """Return the viewers of an episode at other servers."""
        return sum(number for number, _ in self._watching.get(episode_id, {}).values())

    @property
    def any(self) -> bool:
        """Whether any episode has viewers at other servers."""
        return bool(self._watching)

    def _tidy(self, episode_id: str, before: int) -> None:
        if not self._watching[episode_id]:
            del self._watching[episode_id]
        if self.count(episode_id) != before:
            self._changed(episode_id)


logger = logging.getLogger(__name__)

CHANNEL: Final = "spectator_live"
"""PostgreSQL channel of the notices: JSON objects with the sender's name as ``s``."""

INTERVAL_S: Final = 0.1
"""Least seconds between two rounds of sending while there are viewers."""

IDLE_S: Final = 0.5
"""The same without viewers."""

MOST: Final = 64
"""Most notices in a round; the rest is sent later, or never."""

REPEAT_S: Final = 5.0
"""Seconds after which viewer counts and lasting troubles are sent again."""

COUNTS_S: Final = 1.0
"""Least seconds between two notices with viewer counts."""

COUNTED: Final = 80
"""Episodes in a notice with viewer counts; their ids have at most 64 characters."""


class LiveNotices:
    """Exchanges with other servers what their viewers cannot read in the record."""

    def __init__(
        self,
        name: str,
        sender: NoticeSender,
        played: Supervisor,
        followed: FollowedEpisodes,
        audience: Audience,
        clock: Clock,
    ) -> None:
        self.elsewhere = OtherAudiences(clock, audience.recount)
        """Viewer counts at other servers."""
        audience.elsewhere = self.elsewhere.count
        self._name = name
        self._sender = sender
        self._played = played
        self._followed = followed
        self._audience = audience
        self._clock = clock
        self._thought_senders: dict[str, ThoughtSender] = {}
        self._troubles: dict[str, tuple[JournalTrouble, float]] = {}
        self._counts: dict[str, int] = {}
        self._counted_s = -REPEAT_S

    async def run(self) -> None:
        """Send notices until cancelled."""
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
                        logger.warning("cannot send thoughts to viewers at other servers: %s", error)
                    works = False
            watched = self.elsewhere.any or self._counts or len(self._audience)
            await self._clock.sleep(INTERVAL_S if watched and works else IDLE_S)

    def take(self, notice: str) -> None:
        """Handle a notice; unreadable ones, such as of another version, are ignored."""
        try:
            fields = json.loads(notice)
            if fields["s"] == self._name:
                return
            if "viewers" in fields:
                viewers = {name: int(number) for name, number in fields["viewers"].items()}
                self.elsewhere.note(str(fields["s"]), viewers)
            elif (view := self._followed.live(str(fields["e"]))) is not None:
                if "trouble" in fields:
                    sent = fields["trouble"]
                    since = None if sent is None else datetime.fromisoformat(sent["since"])
                    view.show_trouble(None if since is None else JournalTrouble(str(sent["message"]), since))
                else:
                    self._followed.thoughts_of(view).take(fields["thought"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            logger.debug("ignoring a notice of another server: %r", error)

    def _notices(self) -> Iterator[str]:
        now = self._clock.monotonic()
        yield from self._viewers(now)
        wanted = [one for one in self._played.showing() if self.elsewhere.count(one.episode_id)]
        here = {one.episode_id for one in wanted}
        self._thought_senders = {
            name: sender for name, sender in self._thought_senders.items() if name in here
        }
        self._troubles = {name: sent for name, sent in self._troubles.items() if name in here}
        for live in wanted:
            if (trouble := self._trouble(live, now)) is not None:
                yield self._notice(e=live.episode_id, **trouble)
            sender = self._thought_senders.get(live.episode_id)
            if sender is None:
                sender = ThoughtSender(live.thinking, withheld=live.withholds)
                self._thought_senders[live.episode_id] = sender
            if (fields := sender.next()) is not None:
                yield self._notice(e=live.episode_id, thought=fields)

    def _viewers(self, now: float) -> Iterator[str]:
        counts = self._audience.counts()
        age_s = now - self._counted_s
        if age_s < COUNTS_S or (counts == self._counts and (not counts or age_s < REPEAT_S)):
            return
        changed = counts | {name: 0 for name in self._counts if name not in counts}
        self._counts, self._counted_s = counts, now
        left = iter(changed.items())
        while some := dict(islice(left, COUNTED)):
            yield self._notice(viewers=some)

    def _trouble(self, live: EpisodeView, now: float) -> dict[str, Any] | None:
        trouble, sent = live.trouble, self._troubles.get(live.episode_id)
        if trouble is None:
            return None if self._troubles.pop(live.episode_id, None) is None else {"trouble": None}
        if sent is not None and sent[0] == trouble and now - sent[1] < REPEAT_S:
            return None
        self._troubles[live.episode_id] = (trouble, now)
        return {"trouble": {"message": trouble.message[:500], "since": timestamp(trouble.since)}}

    def _notice(self, **fields: Any) -> str:
        text = json.dumps({"s": self._name, **fields}, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace").decode()


def open_notices(
    stack: AsyncExitStack,
    settings: Settings,
    journal: TimedJournal,
    played: Supervisor,
    others: RemoteEpisodes,
    audience: Audience,
    clock: Clock,
    tasks: asyncio.TaskGroup,
    freed: Callable[[], None],
) -> None:
    """Exchange notices until ``stack`` is closed, if the journal is shared.

    Args:
        freed: Called when another server has released an episode.
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
        postgres.taking(others.wake, followed.wake, freed),
        of_commits,
        clock,
        "polling the journal every 0.25 s",
        followed.expect_notices,
    )
    heard_live = NoticeListener(
        direct, CHANNEL, live.take, of_live, clock, "not showing their thoughts and viewers"
    )
    for sender in (of_commits, of_live):
        stack.push_async_callback(sender.aclose)
    for work in (commits.run(), live.run(), heard_commits.run(), heard_live.run(), others.run()):
        stack.callback(tasks.create_task(work, name="notices").cancel)
