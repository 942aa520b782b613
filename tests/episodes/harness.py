"""How the tests of episodes play one: with a driver alone, or under a supervisor."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from spectator.bus import MemoryBus
from spectator.clock import Clock, SystemClock
from spectator.core_events import EpisodeEnded, core_fact
from spectator.environments.world import World
from spectator.episodes import plan as requests
from spectator.episodes.controls import Control, EpisodeLimits, Pace
from spectator.episodes.crash_log import CrashLog
from spectator.episodes.driver import Driver
from spectator.episodes.plan import EpisodePlan, EpisodeRequest
from spectator.episodes.recovery import Recovered, Recovery
from spectator.episodes.restore import StopRequests
from spectator.episodes.stream import EpisodeStream
from spectator.episodes.supervisor import Supervisor
from spectator.episodes.view import State, replay_state
from spectator.events import RecordedEvent
from spectator.journal.contract import Journal
from spectator.steppers.local import OpenStepper, on_a_thread
from tests.fakes import RecordingJournal, until

QUICK = EpisodeLimits(decision_s=20, step_s=20, reset_s=20, episode_s=3600)


def plan_of(world: World, *, pace: Pace = Pace.MAX, seed: int = 1, **options: Any) -> EpisodePlan:
    """A plan with the default captain and options."""
    return EpisodePlan(
        world,
        world.captains[world.default_captain],
        world.opponents.get(world.default_opponent),
        world.packs["default"],
        seed,
        pace,
        False,
        world.options_type.model_validate(options).model_dump(mode="json"),
    )


def stream_of(
    world: World, journal: RecordingJournal, bus: MemoryBus, clock: Clock | None = None
) -> EpisodeStream:
    """A stream that records into ``journal``."""
    appends: Any = journal
    return EpisodeStream("ep-test", "e", world=world, journal=appends, bus=bus, clock=clock or SystemClock())


@dataclass
class Played:
    """An episode that was driven.

    Args:
        control: Its end, its pause and its pace.
        driver: Its loop.
        journal: Where it was recorded.
        ended: What the driver returned; ``None`` while it runs or when it was cancelled.
    """

    control: Control
    driver: Driver
    journal: RecordingJournal
    ended: EpisodeEnded | None = None

    @property
    def events(self) -> list[RecordedEvent]:
        """What was recorded."""
        return self.journal.events

    @property
    def types(self) -> list[str]:
        """The types of what was recorded, the beginning left out."""
        return types(self.events)[1:]

    @property
    def end(self) -> Mapping[str, Any]:
        """The data of the end; checks that there is exactly one and that it is the last event."""
        return end_of(self.events)


def types(events: Sequence[RecordedEvent]) -> list[str]:
    """Event types in order."""
    return [recorded.event.type for recorded in events]


def end_of(events: Sequence[RecordedEvent]) -> Mapping[str, Any]:
    """The data of the end, which must be one, and last, and true to its reason."""
    assert types(events).count("episode.ended") == 1, types(events)[-5:]
    assert events[-1].event.type == "episode.ended", types(events)[-5:]
    assert [recorded.event.seq for recorded in events] == list(range(1, len(events) + 1))
    data = events[-1].event.data
    assert data["terminated"] is (data["reason"] == "finished")
    assert data["truncated"] is not data["terminated"]
    assert (data["score"] is None) is (data["reason"] != "finished")
    assert check_fold(events)["episode"]["reason"] == data["reason"]
    return data


def check_fold(events: Sequence[RecordedEvent]) -> State:
    """The state after all events; checks that no patch leaves a null in it."""
    state = replay_state(events)
    assert '":null' not in repr(state).replace("None", "null").replace(" ", "").replace("'", '"')
    return state


async def recover(journal: Journal, clock: Clock, supervisor: Supervisor | None = None) -> Recovered:
    """Resume every episode that has no end, or end it."""
    recovery = Recovery(journal, clock, supervisor)
    await recovery.find()
    return await recovery.run()


async def drive(
    world: World,
    during: Callable[[Played], Awaitable[None]] | None = None,
    *,
    clock: Clock | None = None,
    limits: EpisodeLimits = QUICK,
    pace: Pace = Pace.MAX,
    journal: RecordingJournal | None = None,
    cancel: bool = False,
    open_stepper: OpenStepper = on_a_thread,
    **options: Any,
) -> Played:
    """Drive one episode to its end.

    Args:
        world: What to play.
        during: Runs beside it.
        clock: Time.
        limits: How long it may wait.
        pace: How fast.
        journal: Where it is recorded.
        cancel: Cancel the loop once ``during`` is over.
        open_stepper: Makes the environment's stepper.
        options: Options of the world.
    """
    clock, journal = clock or SystemClock(), journal or RecordingJournal()
    plan = plan_of(world, pace=pace, **options)
    stream = stream_of(world, journal, MemoryBus(), clock)
    await stream.emit(0, [core_fact(plan.started())])
    control = Control(plan.pace, clock)
    driver = Driver(
        plan,
        "ep-test",
        stepper=open_stepper(world, "ep-test"),
        emit=stream.emit_steps,
        control=control,
        clock=clock,
        limits=limits,
    )
    played = Played(control, driver, journal)
    loop = asyncio.get_running_loop().create_task(driver.run())
    try:
        if during is not None:
            await during(played)
        if cancel:
            loop.cancel()
        async with asyncio.timeout(30):
            await asyncio.wait([loop])
    finally:
        loop.cancel()
    if loop.cancelled():
        assert cancel, "the driver was cancelled by nobody"
    else:
        played.ended = loop.result()
        assert played.ended.model_dump(mode="json") == played.driver.ended.model_dump(mode="json")  # type: ignore[union-attr]
    return played


def environment_threads(name: str = "ep-") -> list[str]:
    """Threads of environments that are still there."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(name)]


async def no_environment_threads() -> None:
    """Wait for the last of them to end."""
    await until(lambda: not environment_threads(), what="the end of every environment's thread")


@dataclass
class Stage:
    """A supervisor and what it works with."""

    supervisor: Supervisor
    journal: Any
    bus: MemoryBus

    async def start(self, **fields: Any) -> Any:
        """Start a count at the pace ``max``."""
        fields = {"environment": "counting", "pace": Pace.MAX, "seed": 1, **fields}
        return await self.supervisor.start(EpisodeRequest(**fields))


@asynccontextmanager
async def supervising(
    world: World | None = None,
    *,
    journal: Any = None,
    bus: Any = None,
    clock: Clock | None = None,
    slots: int = 1,
    limits: EpisodeLimits = QUICK,
    stops: StopRequests | None = None,
    crashes: CrashLog | None = None,
) -> AsyncIterator[Stage]:
    """A supervisor, closed at the end; ``world`` is played whatever environment is asked for."""
    bus, journal = bus or MemoryBus(), journal or RecordingJournal()
    ids = (f"ep-{number:04d}" for number in itertools.count(1))
    load = nullcontext() if world is None else patch.object(requests, "load_world", lambda name: world)
    with load:
        async with asyncio.TaskGroup() as tasks:
            supervisor = Supervisor(
                journal=journal,
                bus=bus,
                clock=clock or SystemClock(),
                tasks=tasks,
                slots=slots,
                limits=limits,
                new_id=lambda: next(ids),
                new_epoch=lambda: "e",
                draw_seed=lambda: 7,
                stops=stops,
                crashes=crashes,
            )
            try:
                yield Stage(supervisor, journal, bus)
            finally:
                await supervisor.aclose()
