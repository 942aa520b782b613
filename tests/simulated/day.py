"""A day of a server under a scheduler that decides every interleaving: started, used, cut off, started again.

:func:`live` is one such day. Clients start, pause, resume and stop episodes while viewers follow them; writes
fail; the power goes at one of them; the next process recovers from what is on the disk and plays to the end.
At the end of the day :func:`judge` holds what is recorded against what everybody was told.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Final
from unittest.mock import patch

from simloom import World as Universe

from server.viewers.audience import EpisodeSignals
from spectator.bus import MemoryBus, Overflow
from spectator.core_events import NarrationClip, View
from spectator.episodes.controls import EpisodeLimits, Pace
from spectator.episodes.handle import EpisodeHandle
from spectator.episodes.plan import EpisodeRequest
from spectator.episodes.reader import ViewReader
from spectator.episodes.replayer import verify
from spectator.episodes.restore import rebuild
from spectator.episodes.supervisor import Supervisor
from spectator.episodes.view import replay_state
from spectator.errors import EpisodeError, JournalError
from spectator.events import RecordedEvent
from spectator.steppers.local import inline
from tests.episodes.harness import recover
from tests.simulated.disk import LATENCIES_S, Faults, SimulatedJournal
from tests.simulated.sockets import ViewersSide, Watched

TURNS: Final = 5
"""Turns of an episode."""

WRITES: Final = 24
"""Writes of a day that may fail or be the last; most days have fewer."""

VIEWERS: Final = 2
MEDDLERS: Final = 2
"""Of each episode."""

ACTS: Final = (
    "pause", "pause and go away", "pause again and again", "speak and go away", "pace", "stop", "nothing",
)  # fmt: skip

STOPPED_BY_ALL: Final = 0.25
"""How often all who meddle with an episode stop it, one after another."""

HASTY: Final = 0.5
"""How often somebody pauses the newest episode while one is started."""

A_WHILE_S: Final = 600.0
"""Simulated seconds after which somebody waits in vain."""

DAWN: Final = datetime(2026, 11, 21, 5, 0, tzinfo=UTC)


class SimulatedClock:
    """The time of the simulated event loop."""

    def now(self) -> datetime:
        """The wall clock."""
        return DAWN + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Seconds since the universe began."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Wait in simulated time."""
        await asyncio.sleep(seconds)


@dataclass(frozen=True)
class Script:
    """What a day is made of.

    Args:
        episodes: How many are asked for.
        failing: Writes of the first process that the disk refuses.
        cut_at: The write at which its power goes; 0 for none.
        cut_after: Whether that write reaches the disk.
        patience_s: Seconds that an episode waits for a journal that cannot be written.
    """

    episodes: int = 2
    failing: range = range(0)
    cut_at: int = 0
    cut_after: bool = False
    patience_s: float = 60.0


@dataclass
class Told:
    """What clients and viewers were told, which no death takes back.

    Args:
        started: Episodes whose start was acknowledged, with their view.
        stopped: Episodes whose stop was acknowledged.
        seen: What the bus gave, by episode and listener.
        watched: What came over sockets, by episode and viewer.
    """

    started: dict[str, str] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    seen: dict[tuple[str, int], list[RecordedEvent]] = field(default_factory=dict)
    watched: dict[tuple[str, int], Watched] = field(default_factory=dict)


@dataclass
class Process:
    """One life of the server."""

    journal: SimulatedJournal
    supervisor: Supervisor
    viewers: ViewersSide
    ready: asyncio.Event

    def at_rest(self, tasks: Sequence[asyncio.Task[None]]) -> bool:
        """Whether ``tasks`` are over and nothing is played any more."""
        return all(one.done() for one in tasks) and not self.supervisor.running()


async def live(universe: Universe, script: Script, blank: Path, folder: Path) -> tuple[Told, Path]:
    """One day.

    Args:
        universe: Where it happens.
        script: What happens.
        blank: An empty journal, which is copied.
        folder: Where its own lies.
    """
    path = folder / "journal.db"
    shutil.copy(blank, path)
    told, tape = Told(), Random(random.getrandbits(32))
    faults = Faults(script.failing, script.cut_at, script.cut_after)
    first = await _process(universe, "first", path, faults, script, tape, recovering=False)
    host = universe.host("first")
    faults.cut = host.crash
    clients = [host.spawn(partial(_client, first, told, tape, number)) for number in range(script.episodes)]
    await universe.until(lambda: faults.dead or first.at_rest(clients), timeout=A_WHILE_S, poll=0.5)
    for client in clients:
        if client.done() and not client.cancelled():
            client.result()
    if not faults.dead:
        await host.spawn(partial(_all_ended, first, told))
    host.crash()
    first.journal.drop()
    second = await _process(universe, "second", path, Faults(), script, tape, recovering=True)
    await universe.until(second.ready.is_set, timeout=A_WHILE_S, poll=0.5)
    host = universe.host("second")
    running = [one.episode_id for one in second.supervisor.running()]
    for one in dict.fromkeys(
        [*told.started, *running]
    ):  # whoever paused it went with the process that was told
        host.spawn(partial(_resume, second, one))
    viewers = [
        host.spawn(partial(_follow, second, told, one, viewer))
        for one in told.started
        for viewer in range(VIEWERS)
    ]
    viewers += [
        host.spawn(partial(_watch, second, told, tape, one, viewer))
        for one in told.started
        for viewer in range(VIEWERS)
    ]
    await universe.until(lambda: second.at_rest(viewers), timeout=A_WHILE_S, poll=0.5)
    for viewer in viewers:
        viewer.result()
    judging = host.spawn(partial(judge, second, told))
    await judging
    unhandled = asyncio.get_running_loop().unhandled_exceptions  # type: ignore[attr-defined]
    assert not unhandled, unhandled
    host.crash()
    second.journal.drop()
    with closing(sqlite3.connect(path)) as database:
        for (text,) in database.execute("SELECT text FROM events WHERE seq = 1"):
            assert json.loads(text)["type"] == "episode.started", f"a record begins otherwise: {text}"
    return told, path


async def _process(
    universe: Universe,
    name: str,
    path: Path,
    faults: Faults,
    script: Script,
    tape: Random,
    *,
    recovering: bool,
) -> Process:
    made: asyncio.Future[Process] = asyncio.get_running_loop().create_future()

    async def main() -> None:
        journal = SimulatedJournal.at(path, faults)
        numbers, signals, ready = count(1), EpisodeSignals(MemoryBus()), asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            supervisor = Supervisor(
                journal=journal, bus=signals, clock=SimulatedClock(), tasks=tasks, slots=8,
                limits=EpisodeLimits(), new_id=lambda: f"ep-{name}-{next(numbers):02d}",
                new_epoch=lambda: "e", draw_seed=lambda: 7, patience_s=script.patience_s,
                open_stepper=inline,
            )  # fmt: skip
            viewers = ViewersSide(journal, supervisor, signals, tasks, SimulatedClock(), ready, tape)
            process = Process(journal, supervisor, viewers, ready)
            made.set_result(process)
            if recovering:
                with patch("spectator.episodes.recovery.rebuild", partial(rebuild, open_stepper=inline)):
                    await recover(journal, SimulatedClock(), supervisor)
            process.ready.set()
            await asyncio.Event().wait()

    universe.host(name).spawn(main)
    return await made


async def _client(process: Process, told: Told, tape: Random, number: int) -> None:
    """Starts one episode, which several watch and meddle with."""
    views: tuple[View, ...] = ("live", "derived")
    view = tape.choice(views)
    pace = tape.choice((Pace.MAX, Pace.BROADCAST, Pace.FAST))
    wanted = EpisodeRequest("counting", seed=number, pace=pace, options={"turns": TURNS}, view=view)
    if tape.random() < HASTY:
        hasty = asyncio.ensure_future(_pause_newest(process, tape.choice((0, 0.01, 0.3))))
    else:
        hasty = asyncio.ensure_future(asyncio.sleep(0))
    try:
        episode = await _start(process, wanted)
    except JournalError:
        await hasty
        return
    told.started[episode.episode_id] = view
    stops = tape.random() < STOPPED_BY_ALL
    async with asyncio.TaskGroup() as others:
        for viewer in range(VIEWERS):
            late_s, nap_s = viewer * tape.choice((0, 0.01, 1, 4)), tape.choice((0, 0, 0.3))
            others.create_task(_follow(process, told, episode.episode_id, viewer, late_s, nap_s))
            others.create_task(_watch(process, told, tape, episode.episode_id, viewer, late_s))
        others.create_task(_look(process, episode.episode_id))
        for number in range(MEDDLERS + stops):
            act, late_s = tape.choice(ACTS), tape.choice((0, 0.01, 1, 3))
            if stops:
                act, late_s = "stop", 0.3 * number
            others.create_task(_meddle(process, told, act, late_s, episode.episode_id))
    await hasty


async def _start(process: Process, wanted: EpisodeRequest) -> EpisodeHandle:
    """Start an episode, or hear at once, and why, that it cannot be recorded.

    Raises:
        JournalError: It cannot be.
    """
    began = asyncio.get_running_loop().time()
    try:
        return await process.supervisor.start(wanted)
    except EpisodeError as error:
        assert isinstance(error, JournalError), f"a start that could not be recorded says {error!r}"
        raise
    finally:
        took = asyncio.get_running_loop().time() - began
        assert took <= max(LATENCIES_S) + 0.01, f"a start waited {took} s for its record"


async def _pause_newest(process: Process, late_s: float) -> None:
    """Pauses whatever is newest, perhaps before it has begun, and lets it go on."""
    await asyncio.sleep(late_s)
    try:
        episode = await process.supervisor.pause(None, by="a client")
    except EpisodeError:
        return
    await asyncio.sleep(0.3)
    await _resume(process, episode.episode_id)


async def _all_ended(process: Process, told: Told) -> None:
    """Every episode of a process that is at rest has its end in the record.

    Raises:
        AssertionError: One has none.
    """
    for episode_id in told.started:
        summary = await process.journal.episode(episode_id)
        assert summary is not None and summary.ended_at is not None, (
            f"the end of {episode_id} is not recorded"
        )


async def _look(process: Process, episode_id: str) -> None:
    """Looks at how an episode stands now and then, as the wall and the index do."""
    while (live := process.supervisor.live(episode_id)) is not None:
        assert live.head_seq >= 0 and isinstance(live.state, dict)
        await asyncio.sleep(0.1)


async def _meddle(process: Process, told: Told, act: str, late_s: float, episode_id: str) -> None:
    await asyncio.sleep(late_s)
    try:
        if act == "pause":
            await process.supervisor.pause(episode_id, by="a client")
            await asyncio.sleep(0.3)
            await _resume(process, episode_id)
        elif act == "pause and go away":
            pausing = asyncio.ensure_future(process.supervisor.pause(episode_id, by="a client"))
            await asyncio.wait([pausing], timeout=0.02)
            pausing.cancel()
            await asyncio.wait([pausing])
            for _ in range(30):  # the pause is carried out, but perhaps late
                await asyncio.sleep(1)
                await _resume(process, episode_id)
        elif act == "pause again and again":
            for _ in range(6):
                await process.supervisor.pause(episode_id, by="a client")
                await _resume(process, episode_id)
        elif act == "speak and go away" and (live := process.supervisor.live(episode_id)) is not None:
            clip = NarrationClip(for_seq=1, url="/clip", mime="audio/mpeg", duration_s=1.0)
            speaking = asyncio.ensure_future(live.record_fact(clip))
            await asyncio.wait([speaking], timeout=0.02)
            speaking.cancel()
            await asyncio.wait([speaking])
            if not speaking.cancelled():
                speaking.exception()  # nobody may ask for it
        elif act == "pace":
            await process.supervisor.set_pace(episode_id, Pace.MAX, by="a client")
        elif act == "stop":
            ended = await process.supervisor.stop(episode_id, by="a client")
            if ended.reason == "stopped":
                told.stopped.add(episode_id)
    except EpisodeError:
        return


async def _resume(process: Process, episode_id: str) -> None:
    """Let an episode go on, as often as it takes: the disk may refuse it."""
    while (episode := process.supervisor.live(episode_id)) is not None and episode.paused:
        try:
            await episode.resume("a client")
        except EpisodeError:
            await asyncio.sleep(1)


async def _follow(
    process: Process, told: Told, episode_id: str, viewer: int, late_s: float = 0.0, nap_s: float = 0.0
) -> None:
    """A viewer: reads what it has not seen, then listens, and takes a while for each batch."""
    await asyncio.sleep(late_s)
    seen = told.seen.setdefault((episode_id, viewer), [])
    live, reader = process.supervisor.live(episode_id), ViewReader(process.journal)
    if live is None:
        seen += await reader.read(episode_id, after_seq=len(seen))
        return
    await live.open()
    head, subscription = live.head_seq, live.subscribe(Overflow.CLOSE, capacity=10_000)
    if head > len(seen):
        seen += await reader.read(episode_id, after_seq=len(seen), limit=head - len(seen))
    async for batch in subscription:
        seen += batch
        if nap_s:
            await asyncio.sleep(nap_s)


async def _watch(
    process: Process, told: Told, tape: Random, episode_id: str, viewer: int, late_s: float = 0.0
) -> None:
    """A viewer on a socket, which goes on from where it stood."""
    await asyncio.sleep(late_s)
    watched = told.watched.setdefault((episode_id, viewer), Watched())
    await process.viewers.watch(episode_id, watched, tape)


def _plays_only_when_it_may(kinds: Sequence[str]) -> bool:
    """Whether pauses and resumptions take turns, with no step in a pause but the one that was under way."""
    steps, paused = 0, False
    for kind in kinds:
        if kind in ("episode.paused", "episode.resumed"):
            if paused == (kind == "episode.paused"):
                return False
            paused, steps = not paused, 0
        steps += paused and kind == "step.taken"
        if steps > 1:
            return False
    return True


async def judge(process: Process, told: Told) -> None:
    """Hold the record against what was told.

    Raises:
        AssertionError: They disagree.
    """
    journal = process.journal
    assert not process.supervisor.running(), "no slot leaks"
    for episode_id, view in told.started.items():
        recorded = await journal.read(episode_id)
        assert recorded, f"{episode_id} was acknowledged and is not there"
        assert [one.seq for one in recorded] == list(range(1, len(recorded) + 1))
        kinds = [one.type for one in recorded]
        assert kinds.count("episode.started") == kinds.count("episode.ended") == 1, (view, kinds)
        assert kinds[-1] == "episode.ended"
        assert await verify(journal.stream(episode_id)) == []
        reason = recorded[-1].event.data["reason"]
        if episode_id in told.stopped:
            assert reason == "stopped", f"{episode_id} was said to be stopped, and is {reason}"
        turns = [one.event.turn for one in recorded if one.type == "step.taken"]
        assert turns == list(range(1, len(turns) + 1)), (
            f"a step is lost or doubled: {[(one.seq, one.type, one.event.turn) for one in recorded]}"
        )
        assert reason in ("finished", "stopped"), f"{episode_id} was {reason}, though the disk came back"
        if reason == "finished":
            assert len(turns) == TURNS
        assert _plays_only_when_it_may(kinds), kinds
        shown = await ViewReader(journal).read(episode_id)
        for viewer in range(VIEWERS):
            _judge_watched(shown, told.watched[episode_id, viewer], f"the socket {viewer} of {episode_id}")
            seen = [one.text for one in told.seen[episode_id, viewer]]
            recorded_too = [one.text for one in shown[: len(seen)]]
            assert seen == recorded_too, f"viewer {viewer} of {episode_id} was shown what is not recorded"
            assert len(seen) == len(shown), f"viewer {viewer} of {episode_id} missed some"


def _judge_watched(shown: Sequence[RecordedEvent], watched: Watched, whose: str) -> None:
    """Hold what came over a viewer's sockets against what is shown.

    Raises:
        AssertionError: They disagree.
    """
    assert watched.ended is not None and watched.position is not None, f"{whose} was not told of the end"
    stands = f"{whose} stands at {watched.position.seq} of {len(shown)}, {watched.ended}"
    assert watched.position.seq == len(shown), stands
    for seq, text in watched.events.items():
        assert text == shown[seq - 1].text, f"{whose} was sent what is not recorded"
    for seq, state in watched.states.items():
        assert state == replay_state(shown[:seq]), f"{whose} was sent another state after {seq}"
    assert set(range(min(watched.states) + 1, len(shown) + 1)) <= {*watched.events, *watched.states}
