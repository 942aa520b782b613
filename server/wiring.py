"""Builds the services and closes them in reverse; only ``app`` imports it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from spectator.clock import Clock
from spectator.episodes.host.resuming import SuspendedEpisodes
from spectator.episodes.host.supervisor import Supervisor
from spectator.episodes.record.public_reader import PublicReader
from spectator.episodes.record.reader import ViewReader
from spectator.evaluation.scorekeeping import Scorekeeper
from spectator.evaluation.store import FILE as FIGURES_FILE
from spectator.evaluation.store import FigureStore
from spectator.following.newest_reader import NewestReader
from spectator.journal.base import Journal
from spectator.journal.notes import FILE as NOTES_FILE
from spectator.journal.notes import NoteBook
from spectator.journal.stores.commands import Commands
from spectator.journal.stores.event_cache import EventCache
from spectator.journal.stores.retention import Keep

from .background.alternatives_process import AlternativesProcess
from .background.cache_opening import open_cache
from .background.command_rounds import CommandRounds
from .background.deletions import Deletions
from .background.exchange import exchange_notices
from .background.exhibition import Exhibition
from .background.housekeeping import Housekeeper
from .background.journal_opening import journal_url
from .background.long_records import LongRecords
from .background.narration import open_narration
from .background.reading_process import ReadingProcess
from .background.unended_room import UnendedRoom
from .http.commanded import carry_out
from .metrics.loop_lag import LoopLag
from .playing import Playing, begin, open_playing
from .security.budget import Budget
from .security.guard import Guard
from .security.kept_starters import KeptStarters
from .security.offer import Offer
from .security.seat_keys import SeatKeys
from .security.shared_rates import SharedRates
from .security.slot_queue import SlotQueue
from .security.slot_tickets import QueueLimits
from .services import Services
from .settings import Settings
from .transport import Keepalive, TransportPorts
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


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Build the services; on the way out they are closed in reverse.

    Raises:
        ConfigurationError: The default world does not exist, the captains file is wrong, or another process
            writes the journal.
        JournalError: The journal cannot be opened.
    """
    async with open_playing(settings) as playing, AsyncExitStack() as stack:
        clock, journal, supervisor = playing.clock, playing.journal, playing.supervisor
        guard, orders = Guard(settings, clock), playing.orders
        budget = _budget(settings, playing, guard)
        queue = _queue(settings, supervisor, budget, clock)
        playing.signals.on_finish(queue.look)
        loop_lag = LoopLag(clock, playing.timings.loop_lag)
        narration = open_narration(settings, clock, budget.characters, orders)
        stack.push_async_callback(narration.aclose)
        seat_keys = await _seat_keys(settings, playing.commands)
        if playing.shared is not None:
            counted = playing.shared.reservations
            budget.shared = SharedRates(settings, clock, counted, seat_keys, budget.too_often)
        starters = await _starters(settings, seat_keys, playing)
        scorekeeper = _scorekeeper(settings, journal)
        playing.signals.on_end(scorekeeper.note_ended)
        keepalive = Keepalive(clock)
        housekeeper = Housekeeper(journal, _keep(settings), clock)
        unended = UnendedRoom(journal, settings.keep_mb, supervisor, clock)
        exhibition = _exhibition(settings, playing, queue)
        begin({
            "scorekeeper": scorekeeper.run(),
            "narration": narration.attend(playing.signals, supervisor, playing.audience),
            "keepalive": keepalive.run(),
            "housekeeping": housekeeper.run(playing.readiness.over),
            "unended room": unended.run(),
            "loop lag": loop_lag.run(),
            "queue for slots": queue.run(),
            "exhibition": exhibition.run(),
        }, stack, playing.tasks)  # fmt: skip
        views = _views(stack, playing, budget)
        reading = ReadingProcess(journal_url(settings), journal)
        stack.push_async_callback(reading.aclose)
        alternatives = AlternativesProcess(clock)
        stack.push_async_callback(alternatives.aclose)
        records = PublicReader(views, playing.cast.load)
        lookouts = Lookouts(clock, playing.tasks)
        boards = RunBoards(journal.runs, views, records, clock, lookouts, orders)
        groups = GroupBoards(boards, journal, clock, lookouts, orders, budget.reading.take)
        cache = await open_cache(stack, settings, clock, playing.tasks)
        others, shown = _follow_others(stack, settings, playing, views, records, cache)
        feeds = _feeds(playing, shown, FinalStates(views), boards, others)
        services = Services(
            settings=settings, clock=clock, journal=journal, reading=reading, records=records,
            alternatives=alternatives,
            commands=playing.commands, takeover=playing.takeover, views=views,
            signals=playing.signals, supervisor=supervisor, suspended=SuspendedEpisodes(journal, supervisor),
            readiness=playing.readiness, audience=playing.audience, feeds=feeds,
            transport=TransportPorts(playing.audience, keepalive, clock), guard=guard, budget=budget,
            queue=queue, orders=orders, deletions=Deletions(journal, settings.data_dir, clock),
            notes=NoteBook(settings.data_dir / NOTES_FILE), recorded=PublicReader(journal, playing.cast.load),
            exhibition=exhibition, seat_keys=seat_keys, starters=starters,
            loop_lag=loop_lag, unended=unended, offer=Offer.of(settings), finals=feeds.finals,
            cache=cache, wall=Wall(supervisor, clock, playing.tasks, orders, others), elsewhere=others,
            runs=boards, groups=groups, cast=playing.cast, ledger=playing.ledger,
            narration=narration, scorekeeper=scorekeeper, housekeeper=housekeeper, timings=playing.timings,
        )  # fmt: skip
        if playing.commands is not None:
            begin({"commands": _command_rounds(playing.commands, services, playing)}, stack, playing.tasks)
        yield services


def _budget(settings: Settings, playing: Playing, guard: Guard) -> Budget:
    """What costly requests draw on; voices on the characters of all servers, where there are several."""
    supervisor = playing.supervisor
    budget = Budget(
        settings, playing.clock, guard, playing.ledger, playing.orders, lambda: bool(supervisor.showing())
    )
    if playing.shared is not None:
        budget.characters = playing.shared.characters
    if settings.recorded_mb_per_hour:
        playing.journal.recorded = budget.recorded.note
    return budget


def _views(stack: AsyncExitStack, playing: Playing, budget: Budget) -> ViewReader:
    """Reads records as viewers see them, and goes through long ones before anybody opens them."""
    journal = playing.journal
    views = ViewReader(journal, playing.cast.load, states=journal.states, turn=budget.reading.take)
    stack.push_async_callback(views.aclose)
    long_records = LongRecords(journal, views)
    playing.signals.on_end(long_records.ended.put_nowait)
    begin({"long records": long_records.run(playing.readiness.over)}, stack, playing.tasks)
    return views


def _command_rounds(commands: Commands, services: Services, playing: Playing) -> Coroutine[Any, Any, None]:
    rounds = CommandRounds(
        commands, lambda command: carry_out(command, services), playing.clock, playing.tasks
    )
    return rounds.run()


def _exhibition(settings: Settings, playing: Playing, queue: SlotQueue) -> Exhibition:
    environment = settings.environment if settings.exhibition else None
    ready = playing.readiness.over.is_set
    return Exhibition(
        environment, playing.supervisor, playing.journal, queue, playing.orders, ready, playing.clock
    )


async def _seat_keys(settings: Settings, commands: Commands | None) -> SeatKeys:
    """The keys of seats, which all servers on one journal derive alike."""
    own = SeatKeys(settings.data_dir)
    if commands is None:
        return own
    offered = await asyncio.to_thread(own.offered)
    return SeatKeys(settings.data_dir, await commands.secret("seat keys", offered))


async def _starters(settings: Settings, seat_keys: SeatKeys, playing: Playing) -> KeptStarters | None:
    """Who started which episodes, where only they may stop them."""
    if settings.profile != "public":
        return None
    starters = await asyncio.to_thread(KeptStarters, settings.data_dir, seat_keys, playing.commands)
    playing.signals.on_end(starters.forget)
    return starters


def _follow_others(
    stack: AsyncExitStack,
    settings: Settings,
    playing: Playing,
    views: ViewReader,
    records: PublicReader,
    cache: EventCache | None,
) -> tuple[EpisodesElsewhere | None, PublicReader]:
    """The episodes of other servers on the same journal, where there may be any, and what reads them too."""
    if playing.journal.ownership is None:
        return None, records
    clock, tasks, journal = playing.clock, playing.tasks, playing.journal
    played, signals = playing.supervisor, playing.signals
    if cache is not None:
        newest = NewestReader(views, cache, lambda episode_id: followed.epoch_of(episode_id))
        records = PublicReader(newest, playing.cast.load)
    followed = FollowedEpisodes(journal, views, records, clock, tasks)
    stack.callback(followed.stop)
    others = EpisodesElsewhere(
        journal, followed, lambda episode_id: played.live(episode_id) is not None, signals.wake, clock
    )
    exchange_notices(stack, settings, journal, played, others, playing.audience, cache, clock, tasks)
    return others, records


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


def _queue(settings: Settings, supervisor: Supervisor, budget: Budget, clock: Clock) -> SlotQueue:
    limits = QueueLimits(settings.max_waiting, settings.max_waiting_per_address, settings.slot_hold_s)
    return SlotQueue(supervisor, limits, budget.starters, clock)


def _scorekeeper(settings: Settings, journal: Journal) -> Scorekeeper:
    return Scorekeeper(journal, FigureStore(settings.data_dir / FIGURES_FILE))


def _keep(settings: Settings) -> Keep:
    return Keep(settings.keep_episodes, settings.keep_days, settings.keep_mb)
