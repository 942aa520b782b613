"""Build the services of a server, and close them in reverse order.

Only ``app`` imports this module.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from ulid import ULID

from spectator.bus import MemoryBus
from spectator.cast import Cast
from spectator.catalog import world_names
from spectator.clock import Clock, SystemClock
from spectator.environments.world import MAX_SEED
from spectator.episodes.controls import EpisodeLimits, Pace
from spectator.episodes.crash_log import FILE as CRASHES_FILE
from spectator.episodes.crash_log import CrashLog
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
from spectator.evaluation.votes import VOTES_FILE, VoteTable
from spectator.journal.commands import Commands
from spectator.journal.contract import Journal
from spectator.journal.coordination import Reservations
from spectator.journal.notes import FILE as NOTES_FILE
from spectator.journal.notes import NoteStore
from spectator.journal.retention import Keep
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.model_presets import preload
from spectator.policies.spending import SpendLedger
from spectator.runs.run_records import RunRecords

from .background.child_processes import AlternativesProcess, ReadingProcess
from .background.exhibition import Exhibition
from .background.housekeeping import Deletions, Housekeeper, LongRecordScanner, UnfinishedQuota
from .background.league import CaptainLeague, league_captains
from .background.live_notices import open_notices
from .background.narration import open_narration
from .background.recovery import CommandPoller, Readiness, Takeover, UnplayedEpisodes
from .background.router_models import RouterModels
from .background.voting import Voting
from .http.command_handlers import carry_out
from .journal import journal_url, open_journal
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


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Build the services; close them in reverse order.

    Raises:
        ConfigurationError: The default world does not exist, the captains file is invalid, or another
            process writes the journal.
        JournalError: The journal cannot be opened.
    """
    clock = SystemClock()
    cast = await _loaded_cast(settings, clock)
    async with AsyncExitStack() as stack:
        journal = await open_journal(settings, clock)
        stack.push_async_callback(journal.aclose)
        shared = journal.ownership  # None unless several servers share the journal
        journal.states = StateFile(settings.data_dir / STATES_FILE, STATES_BYTES)
        journal.runs = RunRecords(settings.runs_dir, None if shared is None else journal)
        stack.push_async_callback(journal.runs.aclose)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())

        def start(name: str, work: Coroutine[Any, Any, None]) -> None:
            """Start background work, which is cancelled with ``stack``."""
            stack.callback(tasks.create_task(work, name=name).cancel)

        timings = Timings()
        journal.commit = timings.commit
        if (tracing := open_tracing(settings)) is not None:
            journal.traced = tracing.tracer.note
            stack.push_async_callback(tracing.aclose)
        signals = EpisodeSignals(MemoryBus(), timings.note)
        spending = None if shared is None else SharedSpending(settings, clock, journal)
        ledger = settings.ledger(clock) if spending is None else spending.ledger
        if spending is not None:
            stack.push_async_callback(spending.give_back)
            for part in spending.parts:
                start("daily cap", part.keep_up())
        crashes = CrashLog(settings.data_dir / CRASHES_FILE)
        stack.callback(crashes.close)
        supervisor = _supervisor(settings, journal, signals, clock, tasks, cast, ledger, crashes)
        stack.push_async_callback(supervisor.suspend)
        public = PublicReader(journal, cast.load)
        commands = None if shared is None else Commands(journal, shared.name)
        takeover = None
        if shared is not None and commands is not None:
            takeover = Takeover(shared, commands, journal, supervisor, public, clock)
        readiness = await _readiness(journal, clock, supervisor, signals, ledger, takeover)
        recovery = readiness.recovery
        if takeover is not None:
            start("heartbeats", takeover.send_heartbeats())
            start("takeover", takeover.play_on(recovery))
        tasks.create_task(readiness.run(), name="readiness")
        stack.push_async_callback(readiness.aclose)

        orders = OperatorOrders(settings.data_dir)
        audience = _audience(settings, tasks, clock, timings, orders)
        stack.push_async_callback(audience.close_all, settings.shutdown_grace_s)
        guard = Guard(settings, clock)
        seat_keys = await _seat_keys(settings, commands)
        budget = Budget(settings, clock, guard, ledger, orders, playing=lambda: bool(supervisor.showing()))
        if spending is not None:
            budget.characters = spending.characters
            budget.shared = SharedRates(settings, clock, spending.reservations, seat_keys, budget.too_often)
        if settings.recorded_mb_per_hour:
            journal.recorded = budget.note_recorded
        queue = SlotQueue(
            supervisor,
            QueueLimits(settings.max_waiting, settings.max_waiting_per_address, settings.slot_hold_s),
            budget.starters,
            clock,
        )
        signals.on_finish(queue.look)
        starters = None
        if settings.profile == "public":  # only the starters of episodes may control them
            starters = await asyncio.to_thread(StarterRegistry, settings.data_dir, seat_keys, commands)
            signals.on_end(starters.forget)
        scorekeeper = Scorekeeper(journal, FigureStore(settings.data_dir / FIGURES_FILE))
        signals.on_end(scorekeeper.note_ended)
        narration = open_narration(settings, clock, budget.characters, orders)
        stack.push_async_callback(narration.aclose)
        loop_lag = LoopLag(clock, timings.loop_lag)
        keepalive = Keepalive(clock)
        keep = Keep(settings.keep_episodes, settings.keep_days, settings.keep_mb)
        housekeeper = Housekeeper(journal, keep, clock)
        unfinished = UnfinishedQuota(journal, settings.keep_mb, supervisor, clock)
        environment = settings.environment if settings.exhibition else None
        counts = None if spending is None else spending.reservations
        league = _league(settings, cast, supervisor, journal, scorekeeper, clock, counts)
        ready = readiness.over.is_set
        exhibition = Exhibition(environment, league, supervisor, journal, queue, orders, ready, clock)
        start("scorekeeper", scorekeeper.run())
        start("narration", narration.attend(signals, supervisor, audience))
        start("keepalive", keepalive.run())
        start("housekeeping", housekeeper.run(readiness.over))
        start("unfinished quota", unfinished.run())
        start("loop lag", loop_lag.run())
        start("queue for slots", queue.run())
        start("exhibition", exhibition.run())
        provider = settings.openid_provider
        visitors = VisitorSessions(
            clock, secure=provider is not None and provider.public_url.startswith("https:")
        )
        stack.callback(visitors.end_all)
        reading = ReadingProcess(journal_url(settings), journal)
        stack.push_async_callback(reading.aclose)
        alternatives = AlternativesProcess(clock)
        stack.push_async_callback(alternatives.aclose)

        views = ViewReader(journal, cast.load, states=journal.states, turn=budget.reading_turn)
        stack.push_async_callback(views.aclose)
        long_records = LongRecordScanner(journal, views)
        signals.on_end(long_records.ended.put_nowait)
        start("long records", long_records.run(readiness.over))
        records = PublicReader(views, cast.load)
        unplayed = UnplayedEpisodes(journal, shared, supervisor, recovery, records, clock)
        start("unplayed episodes", unplayed.run())
        poller = BoardPoller(clock, tasks)
        runs = RunBoards(journal.runs, views, records, clock, poller, orders)
        groups = GroupBoards(runs, journal, clock, poller, orders, budget.reading_turn)
        others = None
        if shared is not None and takeover is not None:
            followed = FollowedEpisodes(journal, views, records, clock, tasks)
            stack.callback(followed.stop)
            others = RemoteEpisodes(
                journal, followed, lambda one: supervisor.live(one) is not None, signals.wake, clock
            )
            open_notices(stack, settings, journal, supervisor, others, audience, clock, tasks, takeover.wake)
        shown = WatchableEpisodes(
            supervisor, recovery, journal, runs, None if others is None else others.followed
        )
        votes = VoteTable(settings.data_dir / VOTES_FILE)
        voting = Voting(audience, public, alternatives, votes, budget.count_vote, clock, tasks)
        stack.callback(voting.stop)
        feeds = FeedSources(
            episodes=shown,
            records=records,
            finals=FinalSnapshots(views),
            audience=audience,
            waiters=NextEpisodeWaiters(signals.next_start, tasks),
            names=orders,
            cast=voting.cast,
            elsewhere=tuple if others is None else others.listed,
        )
        services = Services(
            settings=settings,
            clock=clock,
            journal=journal,
            reading_process=reading,
            alternatives_process=alternatives,
            commands=commands,
            takeover=takeover,
            episode_views=views,
            public_views=records,
            public_journal=public,
            bus=signals,
            supervisor=supervisor,
            suspended_episodes=SuspendedEpisodes(journal, supervisor),
            readiness=readiness,
            audience=audience,
            feeds=feeds,
            transport=TransportPorts(audience, keepalive, clock),
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
            voting=voting,
            exhibition=exhibition,
            loop_lag=loop_lag,
            unfinished_quota=unfinished,
            unplayed_episodes=unplayed,
            snapshots=feeds.finals,
            wall=Wall(supervisor, clock, tasks, orders, others),
            remote_episodes=others,
            run_boards=runs,
            group_boards=groups,
            cast=cast,
            model_ledger=ledger,
            narration=narration,
            scorekeeper=scorekeeper,
            housekeeper=housekeeper,
            timings=timings,
        )
        if commands is not None:
            poll = CommandPoller(commands, lambda command: carry_out(command, services), clock, tasks)
            start("commands", poll.run())
        yield services


def _league(
    settings: Settings,
    cast: Cast,
    supervisor: Supervisor,
    journal: SqlJournal,
    scorekeeper: Scorekeeper,
    clock: Clock,
    reservations: Reservations | None,
) -> CaptainLeague | None:
    """Return the league, if it is on and the world has captains for it."""
    if not settings.league:
        return None
    world = cast.load(settings.environment)
    captains = league_captains(world, settings.league_captains)
    pace = Pace(settings.league_pace)
    league = CaptainLeague(
        world, captains, settings.league_legs, pace, supervisor, journal, scorekeeper, clock, reservations
    )
    return league if captains else None


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
        data_dir=settings.data_dir,
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


def _audience(
    settings: Settings, tasks: asyncio.TaskGroup, clock: Clock, timings: Timings, orders: OperatorOrders
) -> Audience:
    limits = AudienceLimits(
        settings.max_viewers, settings.max_viewers_per_address, settings.viewer_backlog_bytes
    )
    return Audience(
        tasks=tasks,
        clock=clock,
        limits=limits,
        broadcaster=Broadcaster(choose_sends()),
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
    crashes: CrashLog,
) -> Supervisor:
    return Supervisor(
        journal=journal,
        bus=signals,
        clock=clock,
        tasks=tasks,
        slots=settings.max_episodes,
        limits=EpisodeLimits(
            decision_s=settings.decision_timeout_s,
            step_s=settings.step_timeout_s,
            reset_s=settings.reset_timeout_s,
            episode_s=settings.episode_timeout_s,
            characters=settings.episode_mb * 1e6,
        ),
        new_id=lambda: f"ep-{ULID()}",
        new_epoch=lambda: secrets.token_hex(4),
        draw_seed=lambda: secrets.randbelow(MAX_SEED + 1),
        patience_s=settings.journal_patience_s,
        stops=StopRequests.open(settings.data_dir / STOPS_FILE),
        crashes=crashes,
        load=cast.load,
        ledger=ledger,
        fair=True,
        load_left=cast.lent_before,
    )


async def _seat_keys(settings: Settings, commands: Commands | None) -> SeatKeys:
    """Build the seat keys; all servers on one journal derive the same keys."""
    own = SeatKeys(settings.data_dir)
    if commands is None:
        return own
    offered = await asyncio.to_thread(own.offered)
    return SeatKeys(settings.data_dir, await commands.secret("seat keys", offered))
