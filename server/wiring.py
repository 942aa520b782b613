"""Build the services of a server, and close them in reverse order.

Three stages: ``open_playing`` (journal, supervisor, recovery), ``open_viewing`` (feeds, boards, wall) and
``open_services``. Only ``app`` imports this module.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from ulid import ULID

from spectator.bus import MemoryBus
from spectator.cast import Cast
from spectator.catalog import world_names
from spectator.clock import Clock, SystemClock
from spectator.environments.world import MAX_SEED
from spectator.episodes.controls import EpisodeLimits
from spectator.episodes.embargo import PublicReader
from spectator.episodes.past_states import FILE as STATES_FILE
from spectator.episodes.past_states import StateFile
from spectator.episodes.reader import ViewReader
from spectator.episodes.recorded_calls import spent_on
from spectator.episodes.recovery import Recovery, SuspendedEpisodes
from spectator.episodes.restore import FILE as STOPS_FILE
from spectator.episodes.restore import StopRequests
from spectator.episodes.supervisor import Supervisor
from spectator.errors import (
    ConfigurationError,
)
from spectator.evaluation.figures import FILE as FIGURES_FILE
from spectator.evaluation.figures import FigureStore
from spectator.evaluation.standings import Scorekeeper
from spectator.journal.commands import Commands
from spectator.journal.contract import Journal
from spectator.journal.notes import FILE as NOTES_FILE
from spectator.journal.notes import NoteStore
from spectator.journal.retention import Keep
from spectator.policies.model_presets import preload
from spectator.policies.spending import SpendLedger
from spectator.runs.run_records import RunRecords

from .background.child_processes import AlternativesProcess, ReadingProcess
from .background.exhibition import Exhibition
from .background.housekeeping import Deletions, Housekeeper, LongRecordScanner, UnfinishedQuota
from .background.live_notices import open_notices
from .background.narration import open_narration
from .background.recovery import CommandPoller, Readiness, Takeover
from .background.router_models import RouterModels
from .http.command_handlers import carry_out
from .journal import JoinedJournal, journal_url, open_journal
from .security.budget import Budget
from .security.masking import OperatorOrders
from .security.openid import SignIn, VisitorSessions
from .security.permissions import Guard, Offer, SeatKeys, StarterRegistry
from .security.shared_limits import SharedRates, SharedSpending
from .security.slot_queue import QueueLimits, SlotQueue
from .services import Services
from .settings import Settings
from .telemetry import LoopLag, Timings, open_tracing
from .transport import Keepalive, TransportPorts, choose_sends
from .viewers.audience import Audience, AudienceLimits, EpisodeSignals
from .viewers.boards import BoardPoller
from .viewers.broadcast import Broadcaster
from .viewers.feed import FeedSources, FinalSnapshots, NextEpisodeWaiters, WatchableEpisodes
from .viewers.other_servers import FollowedEpisodes, RemoteEpisodes
from .viewers.run_boards import GroupBoards, RunBoards
from .viewers.wall import Wall

STATES_BYTES: Final = 64_000_000
"""Largest size of the file with states of long records; the file may be deleted at any time."""


@dataclass(frozen=True, slots=True)
class PlayingServices:
    """The services that play, record and broadcast episodes.

    See :class:`.services.Services`.
    """

    clock: Clock
    cast: Cast
    model_ledger: SpendLedger
    journal: JoinedJournal
    tasks: asyncio.TaskGroup
    timings: Timings
    bus: EpisodeSignals
    supervisor: Supervisor
    readiness: Readiness
    audience: Audience
    operator_orders: OperatorOrders
    commands: Commands | None
    takeover: Takeover | None
    shared: SharedSpending | None


@asynccontextmanager
async def open_playing(settings: Settings) -> AsyncIterator[PlayingServices]:
    """Open the journal and find unfinished episodes; close all in reverse order."""
    clock = SystemClock()
    cast = await _loaded_cast(settings, clock)
    async with AsyncExitStack() as stack:
        journal = await open_journal(settings, clock)
        stack.push_async_callback(journal.aclose)
        journal.states = StateFile(settings.data_dir / STATES_FILE, STATES_BYTES)
        shared_runs = None if journal.ownership is None else journal
        journal.runs = RunRecords(settings.runs_dir, shared_runs)
        stack.push_async_callback(journal.runs.aclose)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        timings = Timings()
        journal.commit = timings.commit
        if (tracing := open_tracing(settings)) is not None:
            journal.traced = tracing.tracer.note
            stack.push_async_callback(tracing.aclose)
        signals = EpisodeSignals(MemoryBus(), timings.note)
        shared = journal.ownership
        spending = None if shared is None else SharedSpending(settings, clock, journal)
        ledger = settings.ledger(clock) if spending is None else spending.ledger
        if spending is not None:
            stack.push_async_callback(spending.give_back)
            start_background(
                {f"cap of {at}": part.keep_up() for at, part in enumerate(spending.parts)}, stack, tasks
            )
        supervisor = _supervisor(settings, journal, signals, clock, tasks, cast, ledger)
        stack.push_async_callback(supervisor.suspend)
        commands = None if shared is None else Commands(journal, shared.name)
        takeover = None
        if shared is not None and commands is not None:
            takeover = Takeover(shared, commands, journal, supervisor, clock)
        readiness = await _readiness(journal, clock, supervisor, signals, ledger, takeover)
        if takeover is not None:
            work = {
                "heartbeats": takeover.send_heartbeats(),
                "takeover": takeover.play_on(readiness.recovery),
            }
            start_background(work, stack, tasks)
        tasks.create_task(readiness.run(), name="readiness")
        stack.push_async_callback(readiness.aclose)
        orders = OperatorOrders(settings.data_dir)
        audience = _audience(settings, tasks, clock, timings, orders)
        stack.push_async_callback(audience.close_all, settings.shutdown_grace_s)
        yield PlayingServices(
            clock, cast, ledger, journal, tasks, timings, signals, supervisor, readiness, audience, orders,
            commands, takeover, spending,
        )  # fmt: skip


def start_background(
    work: Mapping[str, Coroutine[Any, Any, None]], stack: AsyncExitStack, tasks: asyncio.TaskGroup
) -> None:
    """Start coroutines by task name; they are cancelled with ``stack``."""
    for name, coroutine in work.items():
        stack.callback(tasks.create_task(coroutine, name=name).cancel)


async def _loaded_cast(settings: Settings, clock: Clock) -> Cast:
    if settings.environment not in world_names():
        raise ConfigurationError(
            f"SPECTATOR_ENVIRONMENT: unknown world {settings.environment!r}; use one of "
            f"{', '.join(world_names())}"
        )
    cast = read_cast(settings, clock)
    await asyncio.to_thread(cast.load, settings.environment)
    await run_in_threadpool(preload)  # also imports the thread pool's modules before the first request
    return cast


def _audience(
    settings: Settings, tasks: asyncio.TaskGroup, clock: Clock, timings: Timings, orders: OperatorOrders
) -> Audience:
    limits = AudienceLimits(
        settings.max_viewers, settings.max_viewers_per_address, settings.viewer_backlog_bytes
    )
    broadcaster = Broadcaster(choose_sends())
    return Audience(
        tasks=tasks,
        clock=clock,
        limits=limits,
        broadcaster=broadcaster,
        observe=timings.publish.observe,
        names=orders,
    )


def _supervisor(
    settings: Settings,
    journal: Journal,
    signals: EpisodeSignals,
    clock: Clock,
    tasks: asyncio.TaskGroup,
    cast: Cast,
    ledger: SpendLedger,
) -> Supervisor:
    return Supervisor(
        journal=journal,
        bus=signals,
        clock=clock,
        tasks=tasks,
        slots=settings.max_episodes,
        limits=_limits(settings),
        new_id=lambda: f"ep-{ULID()}",
        new_epoch=lambda: secrets.token_hex(4),
        draw_seed=lambda: secrets.randbelow(MAX_SEED + 1),
        patience_s=settings.journal_patience_s,
        stops=StopRequests.open(settings.data_dir / STOPS_FILE),
        load=cast.load,
        ledger=ledger,
        fair=True,
        load_left=cast.lent_before,
    )


def read_cast(settings: Settings, clock: Clock) -> Cast:
    """Read the worlds and captains of this server.

    Raises:
        ConfigurationError: The captains file is invalid or lacks the captain of `llm_live`, or a cost cap is
            set that cannot limit one of the captains.
    """
    cast = Cast.from_file(
        settings.captains_file,
        live=settings.llm_live,
        variables=settings.variables,
        clock=clock,
        person_s=settings.person_decision_s,
    )
    if (wrong := settings.cannot_bind(cast.unpriced)) is not None and wrong[1]:
        raise ConfigurationError(wrong[0])
    return cast


async def _readiness(
    journal: Journal,
    clock: Clock,
    supervisor: Supervisor,
    signals: EpisodeSignals,
    ledger: SpendLedger,
    takeover: Takeover | None,
) -> Readiness:
    recovery = Recovery(journal, clock, supervisor, played_on=lambda episode: signals.wake(), shared=takeover)
    await recovery.find()

    async def count_spending() -> None:
        await ledger.begin_shared(await spent_on(journal, ledger.today))

    return Readiness(recovery, count_spending, clock)


def _limits(settings: Settings) -> EpisodeLimits:
    return EpisodeLimits(
        decision_s=settings.decision_timeout_s,
        step_s=settings.step_timeout_s,
        reset_s=settings.reset_timeout_s,
        episode_s=settings.episode_timeout_s,
        characters=settings.episode_mb * 1e6,
    )


@dataclass(frozen=True, slots=True)
class ViewingServices:
    """The services that read, follow and show episodes.

    See :class:`.services.Services`.
    """

    episode_views: ViewReader
    public_views: PublicReader
    remote_episodes: RemoteEpisodes | None
    feeds: FeedSources
    run_boards: RunBoards
    group_boards: GroupBoards
    wall: Wall


async def open_viewing(
    stack: AsyncExitStack, settings: Settings, playing: PlayingServices, budget: Budget
) -> ViewingServices:
    """Open the services that show episodes; they are closed with ``stack``."""
    clock, journal, tasks, orders = playing.clock, playing.journal, playing.tasks, playing.operator_orders
    views = _views(stack, playing, budget)
    records = PublicReader(views, playing.cast.load)
    poller = BoardPoller(clock, tasks)
    runs = RunBoards(journal.runs, views, records, clock, poller, orders)
    groups = GroupBoards(runs, journal, clock, poller, orders, budget.reading_turn)
    others = _follow_others(stack, settings, playing, views, records)
    feeds = _feeds(playing, records, FinalSnapshots(views), runs, others)
    wall = Wall(playing.supervisor, clock, tasks, orders, others)
    return ViewingServices(views, records, others, feeds, runs, groups, wall)


def _views(stack: AsyncExitStack, playing: PlayingServices, budget: Budget) -> ViewReader:
    """Return the reader of episode views, and start reading long records in advance."""
    journal = playing.journal
    views = ViewReader(journal, playing.cast.load, states=journal.states, turn=budget.reading_turn)
    stack.push_async_callback(views.aclose)
    long_records = LongRecordScanner(journal, views)
    playing.bus.on_end(long_records.ended.put_nowait)
    start_background({"long records": long_records.run(playing.readiness.over)}, stack, playing.tasks)
    return views


def _follow_others(
    stack: AsyncExitStack,
    settings: Settings,
    playing: PlayingServices,
    views: ViewReader,
    records: PublicReader,
) -> RemoteEpisodes | None:
    """Follow the episodes of other servers, if the journal is shared."""
    if playing.journal.ownership is None:
        return None
    clock, tasks, journal = playing.clock, playing.tasks, playing.journal
    played, signals = playing.supervisor, playing.bus
    followed = FollowedEpisodes(journal, views, records, clock, tasks)
    stack.callback(followed.stop)
    others = RemoteEpisodes(
        journal, followed, lambda episode_id: played.live(episode_id) is not None, signals.wake, clock
    )
    open_notices(stack, settings, journal, played, others, playing.audience, clock, tasks)
    return others


def _feeds(
    playing: PlayingServices,
    records: PublicReader,
    finals: FinalSnapshots,
    boards: RunBoards,
    others: RemoteEpisodes | None,
) -> FeedSources:
    waiters = NextEpisodeWaiters(playing.bus.next_start, playing.tasks)
    followed, listed = (None, tuple) if others is None else (others.followed, others.listed)
    shown = WatchableEpisodes(
        playing.supervisor, playing.readiness.recovery, playing.journal, boards, followed
    )
    return FeedSources(
        shown, records, finals, playing.audience, waiters, shown, playing.operator_orders, listed
    )


logger = logging.getLogger(__name__)


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Build the services; close them in reverse order.

    Raises:
        ConfigurationError: The default world does not exist, the captains file is invalid, or another
            process writes the journal.
        JournalError: The journal cannot be opened.
    """
    async with open_playing(settings) as playing, AsyncExitStack() as stack:
        clock, journal, supervisor = playing.clock, playing.journal, playing.supervisor
        guard, orders = Guard(settings, clock), playing.operator_orders
        seat_keys = await _seat_keys(settings, playing.commands)
        budget = _budget(settings, playing, guard, seat_keys)
        queue = _queue(settings, playing, budget)
        loop_lag = LoopLag(clock, playing.timings.loop_lag)
        narration = open_narration(settings, clock, budget.characters, orders)
        stack.push_async_callback(narration.aclose)
        starters = await _starters(settings, seat_keys, playing)
        scorekeeper = _scorekeeper(settings, playing)
        keepalive = Keepalive(clock)
        housekeeper = Housekeeper(journal, _keep(settings), clock)
        unfinished = UnfinishedQuota(journal, settings.keep_mb, supervisor, clock)
        exhibition = _exhibition(settings, playing, queue)
        start_background({
            "scorekeeper": scorekeeper.run(),
            "narration": narration.attend(playing.bus, supervisor, playing.audience),
            "keepalive": keepalive.run(),
            "housekeeping": housekeeper.run(playing.readiness.over),
            "unfinished quota": unfinished.run(),
            "loop lag": loop_lag.run(),
            "queue for slots": queue.run(),
            "exhibition": exhibition.run(),
        }, stack, playing.tasks)  # fmt: skip
        provider = settings.openid_provider
        visitors = VisitorSessions(
            clock, secure=provider is not None and provider.public_url.startswith("https:")
        )
        stack.callback(visitors.end_all)
        reading = ReadingProcess(journal_url(settings), journal)
        stack.push_async_callback(reading.aclose)
        alternatives = AlternativesProcess(clock)
        stack.push_async_callback(alternatives.aclose)
        viewing = await open_viewing(stack, settings, playing, budget)
        services = Services(
            settings=settings,
            clock=clock,
            journal=journal,
            reading_process=reading,
            alternatives_process=alternatives,
            commands=playing.commands,
            takeover=playing.takeover,
            episode_views=viewing.episode_views,
            public_views=viewing.public_views,
            public_journal=PublicReader(journal, playing.cast.load),
            bus=playing.bus,
            supervisor=supervisor,
            suspended_episodes=SuspendedEpisodes(journal, supervisor),
            readiness=playing.readiness,
            audience=playing.audience,
            feeds=viewing.feeds,
            transport=TransportPorts(playing.audience, keepalive, clock),
            guard=guard,
            budget=budget,
            slot_queue=queue,
            public_offer=Offer.of(settings),
            operator_orders=orders,
            seat_keys=seat_keys,
            visitor_sessions=visitors,
            sign_in=None if provider is None else SignIn(provider, clock),
            router_models=RouterModels(settings.router_url, clock),
            starters=starters,
            deletions=Deletions(journal, settings.data_dir, clock),
            notes=NoteStore(settings.data_dir / NOTES_FILE),
            exhibition=exhibition,
            loop_lag=loop_lag,
            unfinished_quota=unfinished,
            snapshots=viewing.feeds.finals,
            wall=viewing.wall,
            remote_episodes=viewing.remote_episodes,
            run_boards=viewing.run_boards,
            group_boards=viewing.group_boards,
            cast=playing.cast,
            model_ledger=playing.model_ledger,
            narration=narration,
            scorekeeper=scorekeeper,
            housekeeper=housekeeper,
            timings=playing.timings,
        )
        if playing.commands is not None:
            start_background(
                {"commands": _command_rounds(playing.commands, services, playing)}, stack, playing.tasks
            )
        yield services


def _budget(settings: Settings, playing: PlayingServices, guard: Guard, seat_keys: SeatKeys) -> Budget:
    clock, supervisor, shared = playing.clock, playing.supervisor, playing.shared
    budget = Budget(
        settings,
        clock,
        guard,
        playing.model_ledger,
        playing.operator_orders,
        playing=lambda: bool(supervisor.showing()),
    )
    if shared is not None:
        budget.characters = shared.characters
        budget.shared = SharedRates(settings, clock, shared.reservations, seat_keys, budget.too_often)
    if settings.recorded_mb_per_hour:
        playing.journal.recorded = budget.note_recorded
    return budget


def _command_rounds(
    commands: Commands, services: Services, playing: PlayingServices
) -> Coroutine[Any, Any, None]:
    rounds = CommandPoller(
        commands, lambda command: carry_out(command, services), playing.clock, playing.tasks
    )
    return rounds.run()


def _exhibition(settings: Settings, playing: PlayingServices, queue: SlotQueue) -> Exhibition:
    environment = settings.environment if settings.exhibition else None
    ready = playing.readiness.over.is_set
    return Exhibition(
        environment, playing.supervisor, playing.journal, queue, playing.operator_orders, ready, playing.clock
    )


async def _seat_keys(settings: Settings, commands: Commands | None) -> SeatKeys:
    """Build the seat keys; all servers on one journal derive the same keys."""
    own = SeatKeys(settings.data_dir)
    if commands is None:
        return own
    offered = await asyncio.to_thread(own.offered)
    return SeatKeys(settings.data_dir, await commands.secret("seat keys", offered))


async def _starters(
    settings: Settings, seat_keys: SeatKeys, playing: PlayingServices
) -> StarterRegistry | None:
    """Build the registry of starters, if only they may control their episodes."""
    if settings.profile != "public":
        return None
    starters = await asyncio.to_thread(StarterRegistry, settings.data_dir, seat_keys, playing.commands)
    playing.bus.on_end(starters.forget)
    return starters


def _queue(settings: Settings, playing: PlayingServices, budget: Budget) -> SlotQueue:
    limits = QueueLimits(settings.max_waiting, settings.max_waiting_per_address, settings.slot_hold_s)
    queue = SlotQueue(playing.supervisor, limits, budget.starters, playing.clock)
    playing.bus.on_finish(queue.look)
    return queue


def _scorekeeper(settings: Settings, playing: PlayingServices) -> Scorekeeper:
    scorekeeper = Scorekeeper(playing.journal, FigureStore(settings.data_dir / FIGURES_FILE))
    playing.bus.on_end(scorekeeper.note_ended)
    return scorekeeper


def _keep(settings: Settings) -> Keep:
    return Keep(settings.keep_episodes, settings.keep_days, settings.keep_mb)
