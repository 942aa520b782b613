"""Build the services of a server, and close them in reverse order.

Only ``app`` imports this module.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, NamedTuple

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
from spectator.errors import ConfigurationError
from spectator.evaluation.figure_store import FILE as FIGURES_FILE
from spectator.evaluation.figure_store import FigureStore
from spectator.evaluation.standings import Scorekeeper
from spectator.evaluation.votes import VOTES_FILE, VoteTable
from spectator.journal.commands import Commands
from spectator.journal.notes import FILE as NOTES_FILE
from spectator.journal.notes import NoteStore
from spectator.journal.retention import Keep
from spectator.policies.model_presets import preload
from spectator.policies.spending import SpendLedger
from spectator.runs.run_records import RunRecords

from .background.child_processes import AlternativesProcess, ReadingProcess
from .background.exhibition import Exhibition
from .background.housekeeping import Deletions, Housekeeper, LongRecordScanner, UnfinishedQuota
from .background.league import CaptainLeague, league_captains
from .background.live_notices import open_notices
from .background.narration import Narration, open_narration
from .background.recovery import CommandPoller, Readiness, Takeover, UnplayedEpisodes
from .background.router_models import RouterModels
from .background.voting import Voting
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


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Build the services; close them in reverse order.

    Raises:
        ConfigurationError: The default world does not exist, the captains file is invalid, or another
            process writes the journal.
        JournalError: The journal cannot be opened.
    """
    clock, timings = SystemClock(), Timings()
    cast = await _loaded_cast(settings, clock)
    async with AsyncExitStack() as stack:
        journal = await _open_record(settings, clock, stack)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        lifetime = _Lifetime(settings, clock, timings, journal, cast, stack, tasks)
        lifetime.measure()
        play = await _open_play(lifetime)
        access = await _open_access(lifetime, play)
        audience = _open_audience(lifetime, access.orders)
        background = _start_background(lifetime, play, access, audience)
        watching = _open_watching(lifetime, play, access, audience)
        services = _gather(lifetime, play, access, background, watching)
        if play.commands is not None:
            poll = CommandPoller(play.commands, lambda command: carry_out(command, services), clock, tasks)
            lifetime.start("commands", poll.run())
        yield services


class _Lifetime(NamedTuple):
    """What every step builds on, and where it leaves what to stop and close.

    Args:
        stack: Closed before the task group and the journal.
    """

    settings: Settings
    clock: Clock
    timings: Timings
    journal: JoinedJournal
    cast: Cast
    stack: AsyncExitStack
    tasks: asyncio.TaskGroup

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Start background work, which is cancelled with ``stack``."""
        self.stack.callback(self.tasks.create_task(work, name=name).cancel)

    def measure(self) -> None:
        """Time commits and export traces, if the settings say so."""
        self.journal.commit = self.timings.commit
        if (tracing := open_tracing(self.settings)) is not None:
            self.journal.traced = tracing.tracer.note
            self.stack.push_async_callback(tracing.aclose)


async def _open_record(settings: Settings, clock: Clock, stack: AsyncExitStack) -> JoinedJournal:
    """Open the journal with its states and runs."""
    journal = await open_journal(settings, clock)
    stack.push_async_callback(journal.aclose)
    journal.states = StateFile(settings.data_dir / STATES_FILE, STATES_BYTES)
    journal.runs = RunRecords(settings.runs_dir, None if journal.ownership is None else journal)
    stack.push_async_callback(journal.runs.aclose)
    return journal


class _Play(NamedTuple):
    """What plays episodes; ``spending``, ``commands`` and ``takeover`` only if servers share the journal."""

    signals: EpisodeSignals
    ledger: SpendLedger
    supervisor: Supervisor
    public: PublicReader
    readiness: Readiness
    spending: SharedSpending | None
    commands: Commands | None
    takeover: Takeover | None


async def _open_play(lifetime: _Lifetime) -> _Play:
    """Open the supervisor and start recovery; closing suspends the episodes."""
    settings, clock, journal = lifetime.settings, lifetime.clock, lifetime.journal
    stack, load, shared = lifetime.stack, lifetime.cast.load, lifetime.journal.ownership
    signals = EpisodeSignals(MemoryBus(), lifetime.timings.note)
    spending = None if shared is None else SharedSpending(settings, clock, journal)
    ledger = settings.ledger(clock) if spending is None else spending.ledger
    if spending is not None:
        stack.push_async_callback(spending.give_back)
        for part in spending.parts:
            lifetime.start("daily cap", part.keep_up())
    supervisor = _supervisor(lifetime, signals, ledger)
    stack.push_async_callback(supervisor.suspend)
    public = PublicReader(journal, load)
    commands, takeover = None, None
    if shared is not None:
        commands = Commands(journal, shared.name)
        takeover = Takeover(shared, commands, journal, supervisor, public, clock)
    recovery = Recovery(journal, clock, supervisor, played_on=lambda episode: signals.wake(), shared=takeover)
    await recovery.find()

    async def count_spending() -> None:
        await ledger.begin_shared(await spent_on(journal, ledger.today))

    readiness = Readiness(recovery, count_spending, clock)
    if takeover is not None:
        lifetime.start("heartbeats", takeover.send_heartbeats())
        lifetime.start("takeover", takeover.play_on(recovery))
    lifetime.tasks.create_task(readiness.run(), name="readiness")
    stack.push_async_callback(readiness.aclose)
    return _Play(signals, ledger, supervisor, public, readiness, spending, commands, takeover)


def _supervisor(lifetime: _Lifetime, signals: EpisodeSignals, ledger: SpendLedger) -> Supervisor:
    settings, cast = lifetime.settings, lifetime.cast
    crashes = CrashLog(settings.data_dir / CRASHES_FILE)
    lifetime.stack.callback(crashes.close)
    return Supervisor(
        journal=lifetime.journal,
        bus=signals,
        clock=lifetime.clock,
        tasks=lifetime.tasks,
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


class _Access(NamedTuple):
    """What a client may do, and how often."""

    orders: OperatorOrders
    guard: Guard
    seat_keys: SeatKeys
    budget: Budget
    queue: SlotQueue
    starters: StarterRegistry | None


async def _open_access(lifetime: _Lifetime, play: _Play) -> _Access:
    """Open rights and limits; nothing here needs closing."""
    settings, clock, supervisor = lifetime.settings, lifetime.clock, play.supervisor
    orders = OperatorOrders(settings.data_dir)
    guard = Guard(settings, clock)
    seat_keys = SeatKeys(settings.data_dir)
    if play.commands is not None:  # all servers on one journal derive the same keys
        offered = await asyncio.to_thread(seat_keys.offered)
        seat_keys = SeatKeys(settings.data_dir, await play.commands.secret("seat keys", offered))
    budget = Budget(settings, clock, guard, play.ledger, orders, playing=lambda: bool(supervisor.showing()))
    if play.spending is not None:
        budget.characters = play.spending.characters
        reservations = play.spending.reservations
        budget.shared = SharedRates(settings, clock, reservations, seat_keys, budget.too_often)
    if settings.recorded_mb_per_hour:
        lifetime.journal.recorded = budget.note_recorded
    limits = QueueLimits(settings.max_waiting, settings.max_waiting_per_address, settings.slot_hold_s)
    queue = SlotQueue(supervisor, limits, budget.starters, clock)
    play.signals.on_finish(queue.look)
    starters = None
    if settings.profile == "public":  # only the starters of episodes may control them
        starters = await asyncio.to_thread(StarterRegistry, settings.data_dir, seat_keys, play.commands)
        play.signals.on_end(starters.forget)
    return _Access(orders, guard, seat_keys, budget, queue, starters)


def _open_audience(lifetime: _Lifetime, orders: OperatorOrders) -> Audience:
    """Open the viewers' connections; closing sends them away."""
    settings = lifetime.settings
    audience = Audience(
        tasks=lifetime.tasks,
        clock=lifetime.clock,
        limits=AudienceLimits(
            settings.max_viewers, settings.max_viewers_per_address, settings.viewer_backlog_bytes
        ),
        broadcaster=Broadcaster(choose_sends()),
        observe=lifetime.timings.publish.observe,
        names=orders,
    )
    lifetime.stack.push_async_callback(audience.close_all, settings.shutdown_grace_s)
    return audience


class _Background(NamedTuple):
    """What runs until the server closes."""

    scorekeeper: Scorekeeper
    narration: Narration
    keepalive: Keepalive
    housekeeper: Housekeeper
    unfinished: UnfinishedQuota
    loop_lag: LoopLag
    exhibition: Exhibition


def _start_background(lifetime: _Lifetime, play: _Play, access: _Access, audience: Audience) -> _Background:
    """Start what runs until the server closes; closing cancels it, then closes the narration."""
    settings, clock, journal = lifetime.settings, lifetime.clock, lifetime.journal
    over, supervisor = play.readiness.over, play.supervisor
    scorekeeper = Scorekeeper(journal, FigureStore(settings.data_dir / FIGURES_FILE))
    play.signals.on_end(scorekeeper.note_ended)
    narration = open_narration(settings, clock, access.budget.characters, access.orders)
    lifetime.stack.push_async_callback(narration.aclose)
    keepalive = Keepalive(clock)
    keep = Keep(settings.keep_episodes, settings.keep_days, settings.keep_mb)
    housekeeper = Housekeeper(journal, keep, clock)
    unfinished = UnfinishedQuota(journal, settings.keep_mb, supervisor, clock)
    loop_lag = LoopLag(clock, lifetime.timings.loop_lag)
    environment = settings.environment if settings.exhibition else None
    league, queue, orders = _league(lifetime, play, scorekeeper), access.queue, access.orders
    exhibition = Exhibition(environment, league, supervisor, journal, queue, orders, over.is_set, clock)
    lifetime.start("scorekeeper", scorekeeper.run())
    lifetime.start("narration", narration.attend(play.signals, supervisor, audience))
    lifetime.start("keepalive", keepalive.run())
    lifetime.start("housekeeping", housekeeper.run(over))
    lifetime.start("unfinished quota", unfinished.run())
    lifetime.start("loop lag", loop_lag.run())
    lifetime.start("queue for slots", queue.run())
    lifetime.start("exhibition", exhibition.run())
    return _Background(scorekeeper, narration, keepalive, housekeeper, unfinished, loop_lag, exhibition)


def _league(lifetime: _Lifetime, play: _Play, scorekeeper: Scorekeeper) -> CaptainLeague | None:
    """Return the league, if it is on and the world has captains for it."""
    settings = lifetime.settings
    if not settings.league:
        return None
    world, pace = lifetime.cast.load(settings.environment), Pace(settings.league_pace)
    captains = league_captains(world, settings.league_captains)
    counts = None if play.spending is None else play.spending.reservations
    supervisor, journal, clock, legs = play.supervisor, lifetime.journal, lifetime.clock, settings.league_legs
    league = CaptainLeague(world, captains, legs, pace, supervisor, journal, scorekeeper, clock, counts)
    return league if captains else None


class _Watching(NamedTuple):
    """What viewers see: records, runs, live episodes and votes."""

    visitors: VisitorSessions
    reading: ReadingProcess
    alternatives: AlternativesProcess
    views: ViewReader
    records: PublicReader
    unplayed: UnplayedEpisodes
    runs: RunBoards
    groups: GroupBoards
    others: RemoteEpisodes | None
    voting: Voting
    audience: Audience
    feeds: FeedSources


def _open_watching(lifetime: _Lifetime, play: _Play, access: _Access, audience: Audience) -> _Watching:
    """Open what viewers see; closing ends the sessions and the processes that read."""
    settings, clock, journal = lifetime.settings, lifetime.clock, lifetime.journal
    stack, tasks, load = lifetime.stack, lifetime.tasks, lifetime.cast.load
    supervisor, signals, recovery = play.supervisor, play.signals, play.readiness.recovery
    budget, orders = access.budget, access.orders
    provider = settings.openid_provider
    secure = provider is not None and provider.public_url.startswith("https:")
    visitors = VisitorSessions(clock, secure=secure)
    stack.callback(visitors.end_all)
    reading = ReadingProcess(journal_url(settings), journal)
    stack.push_async_callback(reading.aclose)
    alternatives = AlternativesProcess(clock)
    stack.push_async_callback(alternatives.aclose)
    views = ViewReader(journal, load, states=journal.states, turn=budget.reading_turn)
    stack.push_async_callback(views.aclose)
    long_records = LongRecordScanner(journal, views)
    signals.on_end(long_records.ended.put_nowait)
    lifetime.start("long records", long_records.run(play.readiness.over))
    records = PublicReader(views, load)
    unplayed = UnplayedEpisodes(journal, journal.ownership, supervisor, recovery, records, clock)
    lifetime.start("unplayed episodes", unplayed.run())
    poller = BoardPoller(clock, tasks)
    runs = RunBoards(journal.runs, views, records, clock, poller, orders)
    groups = GroupBoards(runs, journal, clock, poller, orders, budget.reading_turn)
    others = _open_others(lifetime, play, views, records, audience)
    votes = VoteTable(settings.data_dir / VOTES_FILE)
    voting = Voting(audience, play.public, alternatives, votes, budget.count_vote, clock, tasks)
    stack.callback(voting.stop)
    followed = None if others is None else others.followed
    feeds = FeedSources(
        episodes=WatchableEpisodes(supervisor, recovery, journal, runs, followed),
        records=records,
        finals=FinalSnapshots(views),
        audience=audience,
        waiters=NextEpisodeWaiters(signals.next_start, tasks),
        names=orders,
        cast=voting.cast,
        elsewhere=tuple if others is None else others.listed,
    )
    return _Watching(
        visitors,
        reading,
        alternatives,
        views,
        records,
        unplayed,
        runs,
        groups,
        others,
        voting,
        audience,
        feeds,
    )


def _open_others(
    lifetime: _Lifetime, play: _Play, views: ViewReader, records: PublicReader, audience: Audience
) -> RemoteEpisodes | None:
    """Follow the episodes of the other servers; ``None`` if this server is alone."""
    if play.takeover is None:
        return None
    settings, clock, journal = lifetime.settings, lifetime.clock, lifetime.journal
    stack, tasks, supervisor = lifetime.stack, lifetime.tasks, play.supervisor
    followed = FollowedEpisodes(journal, views, records, clock, tasks)
    stack.callback(followed.stop)
    others = RemoteEpisodes(
        journal, followed, lambda one: supervisor.live(one) is not None, play.signals.wake, clock
    )
    open_notices(stack, settings, journal, supervisor, others, audience, clock, tasks, play.takeover.wake)
    return others


def _gather(
    lifetime: _Lifetime, play: _Play, access: _Access, background: _Background, watching: _Watching
) -> Services:
    """Return the services of the parts, with those that need neither starting nor closing."""
    settings, clock, journal = lifetime.settings, lifetime.clock, lifetime.journal
    return Services(
        settings=settings,
        clock=clock,
        journal=journal,
        reading_process=watching.reading,
        alternatives_process=watching.alternatives,
        commands=play.commands,
        takeover=play.takeover,
        episode_views=watching.views,
        public_views=watching.records,
        public_journal=play.public,
        bus=play.signals,
        supervisor=play.supervisor,
        suspended_episodes=SuspendedEpisodes(journal, play.supervisor),
        readiness=play.readiness,
        audience=watching.audience,
        feeds=watching.feeds,
        transport=TransportPorts(watching.audience, background.keepalive, clock),
        guard=access.guard,
        budget=access.budget,
        slot_queue=access.queue,
        public_offer=Offer.of(settings),
        operator_orders=access.orders,
        seat_keys=access.seat_keys,
        visitor_sessions=watching.visitors,
        sign_in=None if (provider := settings.openid_provider) is None else SignIn(provider, clock),
        router_models=RouterModels(settings.router_url, clock),
        starters=access.starters,
        deletions=Deletions(journal, settings.data_dir, clock),
        notes=NoteStore(settings.data_dir / NOTES_FILE),
        voting=watching.voting,
        exhibition=background.exhibition,
        loop_lag=background.loop_lag,
        unfinished_quota=background.unfinished,
        unplayed_episodes=watching.unplayed,
        snapshots=watching.feeds.finals,
        wall=Wall(play.supervisor, clock, lifetime.tasks, access.orders, watching.others),
        remote_episodes=watching.others,
        run_boards=watching.runs,
        group_boards=watching.groups,
        cast=lifetime.cast,
        model_ledger=play.ledger,
        narration=background.narration,
        scorekeeper=background.scorekeeper,
        housekeeper=background.housekeeper,
        timings=lifetime.timings,
    )


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
