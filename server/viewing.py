"""What episodes are read, followed and shown with: opened for a server, and closed in reverse."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass

from spectator.episodes.record.public_reader import PublicReader
from spectator.episodes.record.reader import ViewReader

from .background.exchange import exchange_notices
from .background.long_records import LongRecords
from .playing import Playing, begin
from .security.budget import Budget
from .settings import Settings
from .viewers.episodes_elsewhere import EpisodesElsewhere
from .viewers.feed import FeedSources
from .viewers.finals import FinalStates
from .viewers.followed_episodes import FollowedEpisodes
from .viewers.group_boards import GroupBoards
from .viewers.next_episode import Waiters
from .viewers.paced_board import Lookouts
from .viewers.run_boards import RunBoards
from .viewers.shown_episodes import ShownEpisodes
from .viewers.wall import Wall


@dataclass(frozen=True, slots=True)
class Viewing:
    """What episodes are read, followed and shown with; see :class:`.services.Services`."""

    views: ViewReader
    records: PublicReader
    elsewhere: EpisodesElsewhere | None
    feeds: FeedSources
    runs: RunBoards
    groups: GroupBoards
    wall: Wall


async def open_viewing(
    stack: AsyncExitStack, settings: Settings, playing: Playing, budget: Budget
) -> Viewing:
    """Open what shows the episodes of ``playing`` and those of other servers; it is closed with ``stack``."""
    clock, journal, tasks, orders = playing.clock, playing.journal, playing.tasks, playing.orders
    views = _views(stack, playing, budget)
    records = PublicReader(views, playing.cast.load)
    lookouts = Lookouts(clock, tasks)
    runs = RunBoards(journal.runs, views, records, clock, lookouts, orders)
    groups = GroupBoards(runs, journal, clock, lookouts, orders, budget.reading.take)
    others = _follow_others(stack, settings, playing, views, records)
    feeds = _feeds(playing, records, FinalStates(views), runs, others)
    wall = Wall(playing.supervisor, clock, tasks, orders, others)
    return Viewing(views, records, others, feeds, runs, groups, wall)


def _views(stack: AsyncExitStack, playing: Playing, budget: Budget) -> ViewReader:
    """Reads records as viewers see them, and goes through long ones before anybody opens them."""
    journal = playing.journal
    views = ViewReader(journal, playing.cast.load, states=journal.states, turn=budget.reading.take)
    stack.push_async_callback(views.aclose)
    long_records = LongRecords(journal, views)
    playing.signals.on_end(long_records.ended.put_nowait)
    begin({"long records": long_records.run(playing.readiness.over)}, stack, playing.tasks)
    return views


def _follow_others(
    stack: AsyncExitStack,
    settings: Settings,
    playing: Playing,
    views: ViewReader,
    records: PublicReader,
) -> EpisodesElsewhere | None:
    """The episodes of other servers on the same journal, where there may be any."""
    if playing.journal.ownership is None:
        return None
    clock, tasks, journal = playing.clock, playing.tasks, playing.journal
    played, signals = playing.supervisor, playing.signals
    followed = FollowedEpisodes(journal, views, records, clock, tasks)
    stack.callback(followed.stop)
    others = EpisodesElsewhere(
        journal, followed, lambda episode_id: played.live(episode_id) is not None, signals.wake, clock
    )
    exchange_notices(stack, settings, journal, played, others, playing.audience, clock, tasks)
    return others


def _feeds(
    playing: Playing,
    records: PublicReader,
    finals: FinalStates,
    boards: RunBoards,
    others: EpisodesElsewhere | None,
) -> FeedSources:
    waiters = Waiters(playing.signals.next_start, playing.tasks)
    followed, listed = (None, tuple) if others is None else (others.followed, others.listed)
    shown = ShownEpisodes(playing.supervisor, playing.readiness.recovery, playing.journal, boards, followed)
    return FeedSources(shown, records, finals, playing.audience, waiters, shown, playing.orders, listed)
