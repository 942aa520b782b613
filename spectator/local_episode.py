"""Play one episode in this process, from Python or from the command line."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from ulid import ULID

from spectator.bus import MemoryBus, Overflow
from spectator.catalog import LoadWorld
from spectator.clock import Clock, SystemClock
from spectator.core_events import EpisodeEnded, OnFailure
from spectator.episodes.controls import EpisodeLimits, Pace
from spectator.episodes.plan import EpisodePlan, EpisodeRequest, plan_episode
from spectator.episodes.reader import ViewReader
from spectator.episodes.recorded_calls import spent_on
from spectator.episodes.supervisor import Supervisor
from spectator.errors import ConfigurationError, SpectatorError
from spectator.events import Event, RecordedEvent
from spectator.journal import JOURNAL_FILE
from spectator.journal.contract import Journal
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.spending import SpendLedger
from spectator.process_environment import read_caps, read_cast

QUEUE: Final = 1_000_000
"""Maximum events waiting to be shown; more than any episode has."""

ShowEvents = Callable[[Sequence[RecordedEvent]], None]
"""Called with events as they are recorded."""


@dataclass(frozen=True, slots=True)
class LocalEpisode:
    """A finished episode.

    Args:
        seed: Its seed.
        events: All of its events, in order.
        end: How it ended: ``reason``, ``score``, ``result`` and more.
    """

    episode_id: str
    seed: int
    events: Sequence[Event]
    end: EpisodeEnded


async def play(
    environment: str,
    *,
    captain: str | None = None,
    opponent: str | None = None,
    seed: int | None = None,
    pack: str = "default",
    options: Mapping[str, Any] | None = None,
    data_dir: str | Path | None = None,
    on_failure: OnFailure = "fallback",
    show: ShowEvents = lambda events: None,
    load: LoadWorld | None = None,
    clock: Clock | None = None,
) -> LocalEpisode:
    """Play one episode as fast as its captains decide.

    Args:
        environment: Name of a world: ``spectator catalog`` lists them.
        captain: Preset in the agent's seat; the world's default if omitted. Keys and spending caps of model
            captains come from the environment variables that the command line reads.
        opponent: Preset in the other seats; the world's default if omitted.
        seed: 0 .. 2**53 - 1; drawn, and recorded, if omitted.
        pack: Evaluation pack.
        options: The world's options; omitted ones take their defaults.
        data_dir: Folder of the journal to record into; if omitted, the record is deleted at the end.
        on_failure: What a failed decision does to the episode: ``fallback``, ``suspend`` or ``end``.
        show: Called with events as they are recorded.
        load: Finds worlds and captains; by default the catalogue with this machine's model captains.
        clock: Time; the system's if omitted.

    Raises:
        InvalidRequest: Names every wrong field.
        ConfigurationError: The day's spending cap is reached, or the captains file is invalid.
        EpisodeError: The episode cannot be played.

    >>> import asyncio
    >>> from spectator import play
    >>> episode = asyncio.run(play("counting", seed=3, options={"turns": 2}))
    >>> episode.end.reason, episode.events[0].type, episode.events[-1].type
    ('finished', 'episode.started', 'episode.ended')
    """
    request = EpisodeRequest(
        environment,
        captain,
        opponent,
        pack,
        seed,
        Pace.MAX,
        narration=False,
        options=options or {},
        on_failure=on_failure,
        view="derived",
    )
    load, clock = load or read_cast().load, clock or SystemClock()
    plan = plan_episode(request, draw_seed=_draw_seed, load=load)
    asks_models = any(one is not None and one.costs_money for one in (plan.captain, plan.opponent))
    ledger = read_caps().ledger(clock) if asks_models else None
    return await play_plan(plan, load=load, clock=clock, ledger=ledger, data_dir=data_dir, show=show)


async def play_plan(
    plan: EpisodePlan,
    *,
    load: LoadWorld,
    clock: Clock,
    ledger: SpendLedger | None = None,
    data_dir: str | Path | None = None,
    show: ShowEvents = lambda events: None,
) -> LocalEpisode:
    """Play a plan to its end; see :func:`play`.

    Args:
        plan: What to play.
        load: Finds worlds.
        clock: Time.
        ledger: Limits what models may cost; no limit if omitted.
        data_dir: Folder of the journal to record into; if omitted, the record is deleted at the end.
        show: Called with events as they are recorded.

    Raises:
        ConfigurationError: The day's cap is reached.
        EpisodeError: The episode cannot be played.
    """
    with TemporaryDirectory(prefix="spectator-") as scratch:
        journal = await SqlJournal.open(f"sqlite:///{Path(data_dir or scratch) / JOURNAL_FILE}")
        try:
            if ledger is not None:
                await _count_today(ledger, journal)
            async with asyncio.TaskGroup() as tasks:
                supervisor = Supervisor(
                    journal=journal,
                    bus=MemoryBus(),
                    clock=clock,
                    tasks=tasks,
                    slots=1,
                    limits=EpisodeLimits.patient(plan.patience_s),
                    new_id=lambda: f"ep-{ULID()}",
                    new_epoch=lambda: secrets.token_hex(4),
                    draw_seed=_draw_seed,
                    load=load,
                    ledger=ledger,
                )
                return await _play(supervisor, plan, journal, show)
        except* (SpectatorError, BrokenPipeError) as failures:
            raise failures.exceptions[0] from None
        finally:
            await journal.aclose()


async def _play(
    supervisor: Supervisor, plan: EpisodePlan, journal: Journal, show: ShowEvents
) -> LocalEpisode:
    episode = await supervisor.start(plan)
    await episode.open()
    head, subscription = episode.head_seq, episode.subscribe(Overflow.CLOSE, capacity=QUEUE)
    events: list[Event] = []

    def take(recorded: Sequence[RecordedEvent]) -> None:
        events.extend(one.event for one in recorded)
        show(recorded)

    take(await ViewReader(journal).read(episode.episode_id, limit=head))
    async for batch in subscription:
        take(batch)
    return LocalEpisode(episode.episode_id, plan.seed, events, await episode.wait())


async def _count_today(ledger: SpendLedger, journal: Journal) -> None:
    """Add today's spending in the journal to the ledger.

    Raises:
        ConfigurationError: The day's cap is reached.
    """
    ledger.add(await spent_on(journal, ledger.today))
    if (refusal := ledger.refusal()) is not None:
        raise ConfigurationError(
            f"no model can be asked today: {refusal}. Days are UTC; raise SPECTATOR_MODEL_DAY_* to allow "
            "more, or choose a scripted captain"
        )


def _draw_seed() -> int:
    return secrets.randbelow(2**32)
