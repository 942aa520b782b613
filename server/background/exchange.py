"""Opens the channels over which the servers of one PostgreSQL hear of each other."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from spectator.clock import Clock
from spectator.journal.stores import commit_notices
from spectator.journal.stores.commit_notices import CommitNotices
from spectator.journal.stores.notices import NoticeListener, NoticeSender

from ..metrics.timed_journal import TimedJournal
from ..settings import Settings
from ..viewers.audience import Audience
from ..viewers.episodes_elsewhere import EpisodesElsewhere
from . import live_notices
from .live_notices import LiveNotices, Showing


def exchange_notices(
    stack: AsyncExitStack,
    settings: Settings,
    journal: TimedJournal,
    played: Showing,
    others: EpisodesElsewhere,
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
        commit_notices.CHANNEL,
        commit_notices.taking(others.wake, followed.wake),
        of_commits,
        clock,
        "the journal is asked every 0.25 s",
        followed.expect_notices,
    )
    heard_live = NoticeListener(
        direct, live_notices.CHANNEL, live.take, of_live, clock, "their thoughts and viewers are not shown"
    )
    for sender in (of_commits, of_live):
        stack.push_async_callback(sender.aclose)
    for work in (commits.run(), live.run(), heard_commits.run(), heard_live.run(), others.run()):
        stack.callback(tasks.create_task(work, name="notices").cancel)
