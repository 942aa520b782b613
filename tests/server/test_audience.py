"""Viewers of one process: counted, bounded, served from frames that are made once."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Coroutine, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from server import audience as rooms
from server import wire
from server.audience import Audience, Viewer
from server.settings import Settings
from server.show import Show
from server.wire import Close, Frame, Position
from server.wiring import open_services
from spectator.bus.memory import MemoryBus
from spectator.episodes.pacing import Pace
from spectator.episodes.projection import replay_state
from spectator.episodes.request import EpisodeRequest
from spectator.episodes.thinking import Thinking
from spectator.events import Event, RecordedEvent, record
from spectator.merge_patch import apply_patch
from tests.fakes import ManualClock
from tests.serving import test_settings


class Live:
    """An episode that runs, as far as its viewers know."""

    episode_id = "ep-1"
    epoch = "ab"
    head_seq = 0
    state: dict[str, Any]
    trouble = None

    def __init__(self) -> None:
        self.state = {}
        self.thinking = Thinking(ManualClock())

    async def news(self) -> None:
        """Nothing goes wrong."""
        await asyncio.get_running_loop().create_future()

    def publish(self, bus: MemoryBus, count: int = 1) -> list[RecordedEvent]:
        """Publish the next events."""
        events = []
        for _ in range(count):
            self.head_seq += 1
            events.append(
                record(
                    Event(
                        "ep-1", "ab", self.head_seq, "", 0, "warning", {"message": ""}, {"n": self.head_seq}
                    )
                )
            )
        self.state = {"n": self.head_seq}
        bus.publish(events)
        return events


async def settle() -> None:
    """Let every task that can go on do so."""
    for _ in range(20):
        await asyncio.sleep(0)


def batch(text: str) -> wire.Batch:
    """A batch of one frame that moves nobody."""
    (one,) = wire.batches([Frame(text)])
    return one


class House:
    """An audience with its bus, clock and one episode."""

    def __init__(self, tasks: asyncio.TaskGroup, **settings: Any) -> None:
        self.bus = MemoryBus()
        self.clock = ManualClock()
        self.live: Any = Live()
        self.audience = Audience(bus=self.bus, tasks=tasks, clock=self.clock, settings=Settings(**settings))

    def enter(self, address: str = "here") -> Viewer:
        viewer = self.audience.enter(address)
        assert viewer is not None
        return viewer


def within_tasks(test: Any) -> None:
    """Run ``test(tasks)`` on an event loop of its own."""

    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:
            await test(tasks)

    asyncio.run(run())


async def take(viewer: Viewer) -> list[Frame]:
    """What waits for a viewer for whom something does."""
    async with asyncio.timeout(5):
        batch = await viewer.take()
    assert batch is not None
    return list(batch[1])


def counts(frames: Sequence[Frame]) -> list[str]:
    return [frame.text for frame in frames if '"viewers"' in frame.text]


def test_the_number_of_viewers_is_told_at_most_once_a_second() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        house = House(tasks)
        first = house.enter()
        with house.audience.watching(first, house.live):
            await settle()
            others = [house.enter() for _ in range(10)]
            seats = [house.audience.watching(other, house.live) for other in others]
            for seat in seats:
                seat.__enter__()
                await settle()
            assert counts(await take(first)) == ['{"frame":"viewers","count":1}']
            house.clock.advance(1.0)
            assert counts(await take(first)) == ['{"frame":"viewers","count":11}']
            house.clock.advance(1.0)
            await settle()
            for seat in seats:
                seat.__exit__(None, None, None)
            await settle()
            assert counts(await take(first)) == ['{"frame":"viewers","count":1}']
        house.bus.finish("ep-1")

    within_tasks(test)


def test_every_viewer_is_given_the_same_frame() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        house = House(tasks)
        viewers = [house.enter() for _ in range(rooms.CHUNK + 5)]
        seats = [house.audience.watching(viewer, house.live) for viewer in viewers]
        for seat in seats:
            seat.__enter__()
        house.live.publish(house.bus)
        await settle()
        given = {id(frame) for viewer in viewers for frame in await take(viewer) if frame.seq == 1}
        assert len(given) == 1
        assert house.bus.listeners("ep-1") == 1, "one listener for all of them"
        for seat in seats:
            seat.__exit__(None, None, None)
        assert house.bus.listeners("ep-1") == 0

    within_tasks(test)


def test_a_snapshot_is_made_once_for_all_who_come_at_one_point() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        house = House(tasks)
        house.live.publish(house.bus, 3)
        with (
            house.audience.watching(house.enter(), house.live) as relay,
            house.audience.watching(house.enter(), house.live) as same,
        ):
            assert relay is same and relay.snapshot() is same.snapshot()
            before = relay.snapshot()
            house.live.publish(house.bus)
            assert relay.snapshot().seq == 4 and before.seq == 3

    within_tasks(test)


def test_only_the_viewer_that_falls_behind_is_expelled_and_holds_nothing() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        house = House(tasks, viewer_backlog_bytes=64 * 1024)
        slow, quick = house.enter(), house.enter()
        with house.audience.watching(slow, house.live), house.audience.watching(quick, house.live):
            seen = 0
            for _ in range(100):
                house.live.publish(house.bus, 10)
                await settle()
                seen += sum(frame.seq is not None for frame in await take(quick))
            assert await slow.expelled() is Close.TOO_SLOW
            assert seen == 1000
            assert slow._waiting == [] and slow._bytes == 0
            slow.offer(batch("x"))
            assert slow._waiting == []

    within_tasks(test)


def test_when_the_relay_itself_is_overrun_its_viewers_come_back_and_resume(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rooms, "RELAY_CAPACITY", 4)

    async def test(tasks: asyncio.TaskGroup) -> None:
        house = House(tasks)
        viewer = house.enter()
        with house.audience.watching(viewer, house.live):
            house.live.publish(house.bus, 5)
            assert await viewer.expelled() is Close.TOO_SLOW

    within_tasks(test)


def test_places_are_given_back() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        house = House(tasks, max_viewers=3, max_viewers_per_address=2)
        here = [house.enter("here"), house.enter("here")]
        assert house.audience.enter("here") is None
        there = house.enter("there")
        assert house.audience.enter("elsewhere") is None and house.audience.refusal() is Close.FULL
        for viewer in (*here, there):
            house.audience.leave(viewer)
        assert len(house.audience) == 0 and not house.audience._addresses
        assert house.audience.enter("here") is not None

    within_tasks(test)


def test_everybody_is_sent_away_and_nobody_let_in_again() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        house = House(tasks)
        viewer = house.enter()
        leaving = tasks.create_task(house.audience.send_away(5.0))
        assert await viewer.expelled() is Close.RESTARTING
        assert house.audience.enter("here") is None and house.audience.refusal() is Close.RESTARTING
        assert not leaving.done()
        house.audience.leave(viewer)
        await settle()
        house.clock.advance(1.0)
        await leaving

    within_tasks(test)


def test_a_later_wish_to_resume_replaces_an_earlier_one() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        viewer = House(tasks).enter()
        for seq in range(1000):
            viewer.ask(Position("ab", seq))
        assert await viewer.take() == (Position("ab", 999), [])
        viewer.end()
        assert await viewer.take() is None

    within_tasks(test)


def test_who_comes_while_events_are_on_their_way_is_not_told_them_twice() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        house = House(tasks)
        told: list[Frame] = []

        async def tell(frames: Sequence[Frame]) -> None:
            told.extend(frames)

        services: Any = SimpleNamespace(
            audience=house.audience, supervisor=SimpleNamespace(live=lambda episode_id: house.live)
        )
        watching = tasks.create_task(Show(services, house.enter(), tell).episode("ep-1", None))
        with house.audience.watching(house.enter(), house.live):
            house.live.publish(house.bus, 3)  # the relay's turn comes after the one who joins now
            await settle()
            house.live.publish(house.bus, 2)
            await settle()
            house.bus.finish("ep-1")
            assert await watching is Close.ENDED
        assert [frame.seq for frame in told if frame.seq is not None] == [3, 4, 5]

    within_tasks(test)


class Wanderer:
    """A viewer that comes, goes, stalls and resumes as chance has it, and folds what it is told."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.state: Any = {}
        self.seq = 0
        self.epoch: str | None = None
        self.snapshots = 0

    async def tell(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            self.apply(frame)
        if self.chance.random() < 0.2:
            await asyncio.sleep(self.chance.random() * 0.003)

    def apply(self, frame: Frame) -> None:
        fields = json.loads(frame.text)
        if fields["frame"] == "snapshot":
            self.state, self.seq, self.epoch = fields["state"], fields["seq"], fields["epoch"]
            self.snapshots += 1
        elif fields["frame"] == "event" and fields["seq"] > self.seq:
            assert fields["seq"] == self.seq + 1, "a gap"
            self.state, self.seq, self.epoch = (
                apply_patch(self.state, fields["patch"]),
                fields["seq"],
                fields["epoch"],
            )

    def position(self) -> Position | None:
        return None if self.epoch is None else Position(self.epoch, self.seq)

    async def wander(self, services: Any, episode_id: str) -> None:
        while True:
            viewer = services.audience.enter("here")
            show = Show(services, viewer, self.tell)
            try:
                async with asyncio.timeout(self.chance.choice([0.002, 0.01, 0.05, 30])):
                    asked = self.position() if self.chance.random() < 0.8 else None
                    if self.chance.random() < 0.3:
                        viewer.ask(self.position() or Position("other", 1))
                    assert await show.episode(episode_id, asked) is Close.ENDED
                    return
            except TimeoutError:
                await asyncio.sleep(self.chance.random() * 0.01)
            finally:
                services.audience.leave(viewer)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_viewers_do_they_end_with_the_fold_of_the_record(tmp_path: Path, seed: int) -> None:
    async def run() -> None:
        async with open_services(test_settings(tmp_path)) as services:
            request = EpisodeRequest("counting", pace=Pace.MAX, captain="random", options={"turns": 300})
            live = await services.supervisor.start(request)
            wanderers = [Wanderer(random.Random(f"{seed}/{number}")) for number in range(40)]
            walks: list[Coroutine[Any, Any, None]] = [
                wanderer.wander(services, live.episode_id) for wanderer in wanderers
            ]
            await asyncio.gather(*walks)
            record = await services.journal.read(live.episode_id)
            final = replay_state(record)
            assert all(wanderer.seq == len(record) for wanderer in wanderers)
            assert all(wanderer.state == final for wanderer in wanderers)
            assert len(services.audience) == 0
            assert services.stage.listeners(live.episode_id) == 0

    asyncio.run(run())
