"""Builds the services and closes them in reverse; only ``app`` imports it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from ulid import ULID

from spectator.bus.memory import MemoryBus
from spectator.cast import Cast
from spectator.catalog import world_names
from spectator.clock import Clock, SystemClock
from spectator.environments.seeds import MAX_SEED
from spectator.episodes.host.recovery import Recovery
from spectator.episodes.host.resuming import SuspendedEpisodes
from spectator.episodes.host.stop_requests import FILE as STOPS_FILE
from spectator.episodes.host.stop_requests import StopRequests
from spectator.episodes.host.supervisor import Supervisor
from spectator.episodes.record.public_reader import PublicReader
from spectator.episodes.record.reader import ViewReader
from spectator.episodes.record.state_file import FILE as STATES_FILE
from spectator.episodes.record.state_file import StateFile
from spectator.episodes.record.usage import spent_on
from spectator.episodes.run.limits import EpisodeLimits
from spectator.errors import ConfigurationError
from spectator.evaluation.scorekeeping import Scorekeeper
from spectator.evaluation.store import FILE as FIGURES_FILE
from spectator.evaluation.store import FigureStore
from spectator.following.run_records import RunRecords
from spectator.journal.base import Journal
from spectator.journal.notes import FILE as NOTES_FILE
from spectator.journal.notes import NoteBook
from spectator.journal.stores.commands import Commands
from spectator.journal.stores.retention import Keep
from spectator.policies.model_presets import preload
from spectator.policies.spending import SpendLedger

from .background.command_rounds import CommandRounds
from .background.deletions import Deletions
from .background.exchange import exchange_notices
from .background.exhibition import Exhibition
from .background.housekeeping import Housekeeper
from .background.joined_journal import JoinedJournal
from .background.journal_opening import journal_url, open_journal
from .background.long_records import LongRecords
from .background.narration import open_narration
from .background.readiness import Readiness
from .background.reading_process import ReadingProcess
from .background.takeover import Takeover
from .background.unended_room import UnendedRoom
from .http.commanded import carry_out
from .metrics.exporting import open_tracing
from .metrics.loop_lag import LoopLag
from .metrics.timings import Timings
from .security.budget import Budget
from .security.guard import Guard
from .security.kept_starters import KeptStarters
from .security.offer import Offer
from .security.orders import OperatorOrders
from .security.seat_keys import SeatKeys
from .security.shared_limits import SharedSpending, SharedStarts
from .security.slot_queue import SlotQueue
from .security.slot_tickets import QueueLimits
from .services import Services
from .settings import Settings
from .transport import Keepalive, TransportPorts, choose_sends
from .viewers.audience import Audience, AudienceLimits
from .viewers.broadcaster import Broadcaster
from .viewers.episode_signals import EpisodeSignals
from .viewers.episodes_elsewhere import EpisodesElsewhere
from .viewers.feed import FeedSources
from .viewers.finals import FinalStates
from .viewers.followed_episodes import FollowedEpisodes
from .viewers.next_episode import Waiters
from .viewers.run_boards import RunBoards
from .viewers.shown_episodes import ShownEpisodes
from .viewers.wall import Wall


@dataclass(frozen=True, slots=True)
class _Playing:
    """What episodes are played, recorded and watched with."""

    clock: Clock
    cast: Cast
    ledger: SpendLedger
    journal: JoinedJournal
    tasks: asyncio.TaskGroup
    timings: Timings
    signals: EpisodeSignals
    supervisor: Supervisor
    readiness: Readiness
    audience: Audience
    orders: OperatorOrders
    commands: Commands | None
    takeover: Takeover | None
    shared: SharedSpending | None


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Build the services; on the way out they are closed in reverse.

    Raises:
        ConfigurationError: The default world does not exist, the captains file is wrong, or another process
            writes the journal.
        JournalError: The journal cannot be opened.
    """
    async with _open_playing(settings) as playing, AsyncExitStack() as stack:
        clock, journal, supervisor = playing.clock, playing.journal, playing.supervisor
        guard, orders, load = Guard(settings, clock), playing.orders, playing.cast.load
        budget = Budget(settings, clock, guard, playing.ledger, orders, lambda: bool(supervisor.showing()))
        if playing.shared is not None:
            budget.characters = playing.shared.characters
        if settings.recorded_mb_per_hour:
            journal.recorded = budget.recorded.note
        queue = _queue(settings, supervisor, budget, clock)
        playing.signals.on_finish(queue.look)
        loop_lag = LoopLag(clock, playing.timings.loop_lag)
        narration = open_narration(settings, clock, budget.characters, orders)
        stack.push_async_callback(narration.aclose)
        seat_keys = await _seat_keys(settings, playing.commands)
        shared_starts = SharedStarts.of(playing.shared, settings, clock, seat_keys, budget.too_often)
        starters = await _starters(settings, seat_keys, playing)
        scorekeeper = _scorekeeper(settings, journal)
        playing.signals.on_end(scorekeeper.note_ended)
        keepalive = Keepalive(clock)
        housekeeper = Housekeeper(journal, _keep(settings), clock)
        unended = UnendedRoom(journal, settings.keep_mb, supervisor, clock)
        exhibition = _exhibition(settings, playing, queue)
        works = {
            "scorekeeper": scorekeeper.run(),
            "narration": narration.attend(playing.signals, supervisor, playing.audience),
            "keepalive": keepalive.run(),
            "housekeeping": housekeeper.run(playing.readiness.over),
            "unended room": unended.run(),
            "loop lag": loop_lag.run(),
            "queue for slots": queue.run(),
            "exhibition": exhibition.run(),
        }
        _begin(works, stack, playing.tasks)
        views = ViewReader(journal, load, states=journal.states, turn=budget.reading.take)
        stack.push_async_callback(views.aclose)
        long_records = LongRecords(journal, views)
        playing.signals.on_end(long_records.ended.put_nowait)
        _begin({"long records": long_records.run(playing.readiness.over)}, stack, playing.tasks)
        reading = ReadingProcess(journal_url(settings), journal)
        stack.push_async_callback(reading.aclose)
        records, recorded = PublicReader(views, load), PublicReader(journal, load)
        boards = RunBoards(journal.runs, views, records, clock, playing.tasks, orders)
        others = _follow_others(stack, settings, playing, views, records)
        feeds = _feeds(playing, records, FinalStates(views), boards, others)
        services = Services(
            settings=settings, clock=clock, journal=journal, reading=reading, records=records,
            commands=playing.commands, takeover=playing.takeover, recorded=recorded, views=views,
            signals=playing.signals, supervisor=supervisor, suspended=SuspendedEpisodes(journal, supervisor),
            readiness=playing.readiness, audience=playing.audience, feeds=feeds,
            transport=TransportPorts(playing.audience, keepalive, clock), guard=guard, budget=budget,
            queue=queue, orders=orders, deletions=Deletions(journal, settings.data_dir, clock),
            notes=NoteBook(settings.data_dir / NOTES_FILE),
            exhibition=exhibition, seat_keys=seat_keys, starters=starters, shared_starts=shared_starts,
            loop_lag=loop_lag, unended=unended, offer=Offer.of(settings), finals=feeds.finals,
            wall=Wall(supervisor, clock, playing.tasks, orders, others), elsewhere=others, runs=boards,
            cast=playing.cast, ledger=playing.ledger,
            narration=narration, scorekeeper=scorekeeper, housekeeper=housekeeper, timings=playing.timings,
        )  # fmt: skip
        if playing.commands is not None:
            _begin({"commands": _command_rounds(playing.commands, services, playing)}, stack, playing.tasks)
        yield services


def _begin(
    works: Mapping[str, Coroutine[Any, Any, None]], stack: AsyncExitStack, tasks: asyncio.TaskGroup
) -> None:
    """Begin work in the background, which ends with ``stack``."""
    for name, work in works.items():
        stack.callback(tasks.create_task(work, name=name).cancel)


def _command_rounds(commands: Commands, services: Services, playing: _Playing) -> Coroutine[Any, Any, None]:
    rounds = CommandRounds(
        commands, lambda command: carry_out(command, services), playing.clock, playing.tasks
    )
    return rounds.run()


def _exhibition(settings: Settings, playing: _Playing, queue: SlotQueue) -> Exhibition:
    environment = settings.environment if settings.exhibition else None
    ready = playing.readiness.over.is_set
    return Exhibition(
        environment, playing.supervisor, playing.journal, queue, playing.orders, ready, playing.clock
    )


@asynccontextmanager
async def _open_playing(settings: Settings) -> AsyncIterator[_Playing]:
    """Open the journal, find what has not ended, and close all of it in reverse."""
    clock = SystemClock()
    cast = await _loaded_cast(settings, clock)
    async with AsyncExitStack() as stack:
        journal = await open_journal(settings, clock)
        stack.push_async_callback(journal.aclose)
        journal.states, journal.runs = _state_file(settings), RunRecords(settings.runs_dir)
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
            _begin({f"cap of {at}": part.keep_up() for at, part in enumerate(spending.parts)}, stack, tasks)
        supervisor = _supervisor(settings, journal, signals, clock, tasks, cast, ledger)
        stack.push_async_callback(supervisor.suspend)
        commands = None if shared is None else Commands(journal, shared.name)
        takeover = None
        if shared is not None and commands is not None:
            takeover = Takeover(shared, commands, journal, supervisor, clock)
        readiness = await _readiness(journal, clock, supervisor, signals, ledger, takeover)
        if takeover is not None:
            works = {"signs of life": takeover.show_life(), "takeover": takeover.play_on(readiness.recovery)}
            _begin(works, stack, tasks)
        tasks.create_task(readiness.run(), name="readiness")
        stack.push_async_callback(readiness.aclose)
        orders = OperatorOrders(settings.data_dir)
        audience = _audience(settings, tasks, clock, timings, orders)
        stack.push_async_callback(audience.close_all, settings.shutdown_grace_s)
        yield _Playing(
            clock, cast, ledger, journal, tasks, timings, signals, supervisor, readiness, audience, orders,
            commands, takeover, spending,
        )  # fmt: skip


async def _seat_keys(settings: Settings, commands: Commands | None) -> SeatKeys:
    """The keys of seats, which all servers on one journal derive alike."""
    own = SeatKeys(settings.data_dir)
    if commands is None:
        return own
    offered = await asyncio.to_thread(own.offered)
    return SeatKeys(settings.data_dir, await commands.secret("seat keys", offered))


async def _starters(settings: Settings, seat_keys: SeatKeys, playing: _Playing) -> KeptStarters | None:
    """Who started which episodes, where only they may stop them."""
    if settings.profile != "public":
        return None
    starters = await asyncio.to_thread(KeptStarters, settings.data_dir, seat_keys, playing.commands)
    playing.signals.on_end(starters.forget)
    return starters


def _follow_others(
    stack: AsyncExitStack, settings: Settings, playing: _Playing, views: ViewReader, records: PublicReader
) -> EpisodesElsewhere | None:
    """The episodes of other servers that record into the same journal, where others may."""
    if playing.journal.ownership is None:
        return None
    clock, tasks, journal = playing.clock, playing.tasks, playing.journal
    played, signals = playing.supervisor, playing.signals
    followed = FollowedEpisodes(journal, views, records, clock, tasks)
    others = EpisodesElsewhere(
        journal, followed, lambda episode_id: played.live(episode_id) is not None, signals.wake, clock
    )
    exchange_notices(stack, settings, journal, played, others, playing.audience, clock, tasks)
    return others


def _state_file(settings: Settings) -> StateFile | None:
    most = int(settings.states_mb * 1e6)
    return StateFile(settings.data_dir / STATES_FILE, most) if most else None


def _feeds(
    playing: _Playing,
    records: PublicReader,
    finals: FinalStates,
    boards: RunBoards,
    others: EpisodesElsewhere | None,
) -> FeedSources:
    waiters = Waiters(playing.signals.next_start, playing.tasks)
    followed, listed = (None, tuple) if others is None else (others.followed, others.listed)
    shown = ShownEpisodes(playing.supervisor, playing.readiness.recovery, playing.journal, boards, followed)
    return FeedSources(shown, records, finals, playing.audience, waiters, shown, playing.orders, listed)


async def _loaded_cast(settings: Settings, clock: Clock) -> Cast:
    """Who can play here, with the default world and the presets of all imported."""
    if settings.environment not in world_names():
        raise ConfigurationError(
            f"SPECTATOR_ENVIRONMENT: there is no world {settings.environment!r}; "
            f"there are {', '.join(world_names())}"
        )
    cast = read_cast(settings, clock)
    await asyncio.to_thread(cast.load, settings.environment)
    await run_in_threadpool(preload)  # and with it the pool's own modules, before the first request
    return cast


def _audience(
    settings: Settings, tasks: asyncio.TaskGroup, clock: Clock, timings: Timings, orders: OperatorOrders
) -> Audience:
    limits = AudienceLimits(
        settings.max_viewers, settings.max_viewers_per_address, settings.viewer_backlog_bytes
    )
    broadcaster = Broadcaster(choose_sends(compiled_wanted=settings.compiled_sends))
    return Audience(
        tasks=tasks,
        clock=clock,
        limits=limits,
        broadcaster=broadcaster,
        observe=timings.publish.observe,
        names=orders,
    )


def _queue(settings: Settings, supervisor: Supervisor, budget: Budget, clock: Clock) -> SlotQueue:
    limits = QueueLimits(settings.max_waiting, settings.max_waiting_per_address, settings.slot_hold_s)
    return SlotQueue(supervisor, limits, budget.starters, clock)


def _scorekeeper(settings: Settings, journal: Journal) -> Scorekeeper:
    return Scorekeeper(journal, FigureStore(settings.data_dir / FIGURES_FILE))


def _keep(settings: Settings) -> Keep:
    return Keep(settings.keep_episodes, settings.keep_days, settings.keep_mb)


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
    )


def read_cast(settings: Settings, clock: Clock) -> Cast:
    """Who can play here.

    Raises:
        ConfigurationError: The captains file is wrong, or lacks the captain that is to be `llm_live`; or a
            cap of money was set that cannot limit one of the captains.
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
        await ledger.begin_day(await spent_on(journal, ledger.today))

    return Readiness(recovery, count_spending, clock)


def _limits(settings: Settings) -> EpisodeLimits:
    return EpisodeLimits(
        decision_s=settings.decision_timeout_s,
        step_s=settings.step_timeout_s,
        reset_s=settings.reset_timeout_s,
        episode_s=settings.episode_timeout_s,
        characters=settings.episode_mb * 1e6,
    )
