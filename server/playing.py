"""What episodes are played, recorded and watched with: opened for a server, and closed in reverse."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from ulid import ULID

from spectator.bus.memory import MemoryBus
from spectator.cast import Cast
from spectator.catalog import world_names
from spectator.clock import Clock, SystemClock
from spectator.environments.seeds import MAX_SEED
from spectator.episodes.host.recovery import Recovery
from spectator.episodes.host.stop_requests import FILE as STOPS_FILE
from spectator.episodes.host.stop_requests import StopRequests
from spectator.episodes.host.supervisor import Supervisor
from spectator.episodes.record.state_file import FILE as STATES_FILE
from spectator.episodes.record.state_file import StateFile
from spectator.episodes.record.usage import spent_on
from spectator.episodes.run.limits import EpisodeLimits
from spectator.errors import ConfigurationError
from spectator.following.run_records import RunRecords
from spectator.journal.base import Journal
from spectator.journal.stores.commands import Commands
from spectator.policies.model_presets import preload
from spectator.policies.spending import SpendLedger

from .background.joined_journal import JoinedJournal
from .background.journal_opening import open_journal
from .background.readiness import Readiness
from .background.takeover import Takeover
from .metrics.exporting import open_tracing
from .metrics.timings import Timings
from .security.orders import OperatorOrders
from .security.shared_limits import SharedSpending
from .settings import Settings
from .transport import choose_sends
from .viewers.audience import Audience, AudienceLimits
from .viewers.broadcaster import Broadcaster
from .viewers.episode_signals import EpisodeSignals

STATES_BYTES: Final = 64_000_000
"""What a file in the data folder may take for what viewers saw at places of long records; it may be deleted
at any time."""


@dataclass(frozen=True, slots=True)
class Playing:
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
async def open_playing(settings: Settings) -> AsyncIterator[Playing]:
    """Open the journal, find what has not ended, and close all of it in reverse."""
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
            begin({f"cap of {at}": part.keep_up() for at, part in enumerate(spending.parts)}, stack, tasks)
        supervisor = _supervisor(settings, journal, signals, clock, tasks, cast, ledger)
        stack.push_async_callback(supervisor.suspend)
        commands = None if shared is None else Commands(journal, shared.name)
        takeover = None
        if shared is not None and commands is not None:
            takeover = Takeover(shared, commands, journal, supervisor, clock)
        readiness = await _readiness(journal, clock, supervisor, signals, ledger, takeover)
        if takeover is not None:
            works = {"signs of life": takeover.show_life(), "takeover": takeover.play_on(readiness.recovery)}
            begin(works, stack, tasks)
        tasks.create_task(readiness.run(), name="readiness")
        stack.push_async_callback(readiness.aclose)
        orders = OperatorOrders(settings.data_dir)
        audience = _audience(settings, tasks, clock, timings, orders)
        stack.push_async_callback(audience.close_all, settings.shutdown_grace_s)
        yield Playing(
            clock, cast, ledger, journal, tasks, timings, signals, supervisor, readiness, audience, orders,
            commands, takeover, spending,
        )  # fmt: skip


def begin(
    works: Mapping[str, Coroutine[Any, Any, None]], stack: AsyncExitStack, tasks: asyncio.TaskGroup
) -> None:
    """Begin work in the background, which ends with ``stack``."""
    for name, work in works.items():
        stack.callback(tasks.create_task(work, name=name).cancel)


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
