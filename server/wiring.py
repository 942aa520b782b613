"""Builds the services and closes them in reverse; only ``app`` imports it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from spectator.episodes.host.resuming import SuspendedEpisodes
from spectator.episodes.record.public_reader import PublicReader
from spectator.evaluation.scorekeeping import Scorekeeper
from spectator.evaluation.store import FILE as FIGURES_FILE
from spectator.evaluation.store import FigureStore
from spectator.journal.notes import FILE as NOTES_FILE
from spectator.journal.notes import NoteBook
from spectator.journal.stores.commands import Commands
from spectator.journal.stores.retention import Keep

from .background.alternatives_process import AlternativesProcess
from .background.command_rounds import CommandRounds
from .background.deletions import Deletions
from .background.exhibition import Exhibition
from .background.housekeeping import Housekeeper
from .background.journal_opening import journal_url
from .background.narration import open_narration
from .background.reading_process import ReadingProcess
from .background.router_models import RouterModels
from .background.unended_room import UnendedRoom
from .http.commanded import carry_out
from .metrics.loop_lag import LoopLag
from .playing import Playing, begin, open_playing
from .security.budget import Budget
from .security.guard import Guard
from .security.kept_starters import KeptStarters
from .security.offer import Offer
from .security.seat_keys import SeatKeys
from .security.shared_limits import SharedRates
from .security.sign_in import SignIn
from .security.slot_queue import QueueLimits, SlotQueue
from .security.visitor_sessions import VisitorSessions
from .services import Services
from .settings import Settings
from .transport import Keepalive, TransportPorts
from .viewing import open_viewing


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
            settings=settings, clock=clock, journal=journal, reading=reading, alternatives=alternatives,
            commands=playing.commands, takeover=playing.takeover, signals=playing.signals,
            supervisor=supervisor, suspended=SuspendedEpisodes(journal, supervisor),
            readiness=playing.readiness, audience=playing.audience, feeds=viewing.feeds,
            views=viewing.views, records=viewing.records,
            transport=TransportPorts(playing.audience, keepalive, clock), guard=guard, budget=budget,
            queue=queue, orders=orders, deletions=Deletions(journal, settings.data_dir, clock),
            notes=NoteBook(settings.data_dir / NOTES_FILE), recorded=PublicReader(journal, playing.cast.load),
            exhibition=exhibition, seat_keys=seat_keys, starters=starters, visitors=visitors,
            sign_in=None if provider is None else SignIn(provider, clock),
            router_models=RouterModels(settings.router_url, clock),
            loop_lag=loop_lag, unended=unended, offer=Offer.of(settings), finals=viewing.feeds.finals,
            wall=viewing.wall, elsewhere=viewing.elsewhere,
            runs=viewing.runs, groups=viewing.groups, cast=playing.cast, ledger=playing.ledger,
            narration=narration, scorekeeper=scorekeeper, housekeeper=housekeeper, timings=playing.timings,
        )  # fmt: skip
        if playing.commands is not None:
            begin({"commands": _command_rounds(playing.commands, services, playing)}, stack, playing.tasks)
        yield services


def _budget(settings: Settings, playing: Playing, guard: Guard, seat_keys: SeatKeys) -> Budget:
    """What costly requests draw on, shared with other servers where there are any."""
    clock, supervisor, shared = playing.clock, playing.supervisor, playing.shared
    budget = Budget(
        settings, clock, guard, playing.ledger, playing.orders, lambda: bool(supervisor.showing())
    )
    if shared is not None:
        budget.characters = shared.characters
        budget.shared = SharedRates(settings, clock, shared.reservations, seat_keys, budget.too_often)
    if settings.recorded_mb_per_hour:
        playing.journal.recorded = budget.recorded.note
    return budget


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


def _queue(settings: Settings, playing: Playing, budget: Budget) -> SlotQueue:
    limits = QueueLimits(settings.max_waiting, settings.max_waiting_per_address, settings.slot_hold_s)
    queue = SlotQueue(playing.supervisor, limits, budget.starters, playing.clock)
    playing.signals.on_finish(queue.look)
    return queue


def _scorekeeper(settings: Settings, playing: Playing) -> Scorekeeper:
    scorekeeper = Scorekeeper(playing.journal, FigureStore(settings.data_dir / FIGURES_FILE))
    playing.signals.on_end(scorekeeper.note_ended)
    return scorekeeper


def _keep(settings: Settings) -> Keep:
    return Keep(settings.keep_episodes, settings.keep_days, settings.keep_mb)
