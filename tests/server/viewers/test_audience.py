"""Viewers of one process: counted, bounded, served from frames that are made once."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from server.security.faults import Close
from server.transport.delivery import TaskTransport
from server.viewers import audience as rooms
from server.viewers.broadcast import SHARD_SIZE
from server.viewers.feed import EpisodeFeed
from server.viewers.viewer import Viewer
from server.viewers.wire import Frame, Position
from server.wiring import open_services
from spectator.episodes.controls import Pace
from spectator.episodes.plan import EpisodeRequest
from spectator.episodes.view import replay_state
from spectator.json_values import apply_patch
from tests.server.playing import Peer, Play, in_tasks, seated, settle
from tests.serving import test_settings


def taken(viewer: Viewer) -> Sequence[Frame]:
    """What waits for a viewer."""
    return (viewer.take() or (None, ()))[1]


def counts(frames: Sequence[Frame]) -> list[str]:
    return [frame.text for frame in frames if '"viewers"' in frame.text]


@in_tasks
async def test_the_number_of_viewers_is_told_at_most_once_a_second(tasks: asyncio.TaskGroup) -> None:
    play = Play(tasks)
    first, _ = play.enter()
    relay = play.audience.watch(first, play)  # type: ignore[arg-type]
    await settle()
    others = [play.enter()[0] for _ in range(10)]
    for other in others:
        play.audience.watch(other, play)  # type: ignore[arg-type]
        await settle()
    assert counts(taken(first)) == ['{"frame":"viewers","count":1}']
    play.clock.advance(1.0)
    await settle()
    assert counts(taken(first)) == ['{"frame":"viewers","count":11}']
    play.clock.advance(1.0)
    await settle()
    for other in others:
        play.audience.unwatch(other, relay)
    await settle()
    assert counts(taken(first)) == ['{"frame":"viewers","count":1}']
    play.end()


@in_tasks
async def test_every_viewer_is_given_the_same_frame(tasks: asyncio.TaskGroup) -> None:
    play = Play(tasks)
    viewers = [play.enter()[0] for _ in range(SHARD_SIZE + 5)]
    relays = {play.audience.watch(viewer, play) for viewer in viewers}  # type: ignore[arg-type]
    play.publish()
    await settle()
    given = {id(frame) for viewer in viewers for frame in taken(viewer) if frame.seq == 1}
    assert len(given) == 1
    assert play.signals.listeners(play.episode_id) == 1, "one listener for all of them"
    (relay,) = relays
    for viewer in viewers:
        play.audience.unwatch(viewer, relay)
    assert play.signals.listeners(play.episode_id) == 0


@in_tasks
async def test_the_match_goes_on_before_its_viewers_are_written_to(tasks: asyncio.TaskGroup) -> None:
    play = Play(tasks)
    viewer, _ = play.enter()
    play.audience.watch(viewer, play)  # type: ignore[arg-type]
    await settle()
    taken(viewer)

    async def emit() -> None:
        play.publish()

    await asyncio.shield(tasks.create_task(emit()))  # as the stream does for the driver
    assert not [frame for frame in taken(viewer) if frame.seq == 1]
    await settle()
    assert [frame for frame in taken(viewer) if frame.seq == 1]
    play.end()


@in_tasks
async def test_a_snapshot_is_made_once_for_all_who_come_at_one_point(tasks: asyncio.TaskGroup) -> None:
    play = Play(tasks)
    play.publish(3)
    live: Any = play
    relay, same = (play.audience.watch(play.enter()[0], live) for _ in range(2))
    assert relay is same and relay.snapshot() is same.snapshot()
    before = relay.snapshot()
    play.publish()
    assert relay.snapshot().seq == 4 and before.seq == 3
    play.end()


@in_tasks
async def test_only_the_viewer_that_falls_behind_is_expelled_and_holds_nothing(
    tasks: asyncio.TaskGroup,
) -> None:
    play = Play(tasks, backlog_bytes=64 * 1024)
    (slow, seat), (quick, other) = play.enter(), play.enter()
    live: Any = play
    for viewer in (slow, quick):
        play.audience.watch(viewer, live)
    seen = 0
    for _ in range(100):
        play.publish(10)
        await settle()
        seen += sum(frame.seq is not None for frame in taken(quick))
    assert seat.closes == [Close.TOO_SLOW] and not other.closes
    assert seen == 1000
    assert slow.backlog_size == 0 and not taken(slow)
    play.end()


@in_tasks
async def test_when_the_relay_itself_is_overrun_its_viewers_come_back_and_resume(
    tasks: asyncio.TaskGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rooms, "RELAY_CAPACITY", 4)
    play = Play(tasks)
    play.publish()
    (peer,) = await seated(play, 1)
    play.publish(5)
    await settle()
    assert peer.closes == [Close.TOO_SLOW]
    peer.join()
    await settle()
    assert peer.heard == [2, 3, 4, 5, 6] and peer.state == play.state
    play.end()


@in_tasks
async def test_places_are_given_back(tasks: asyncio.TaskGroup) -> None:
    play = Play(tasks, viewers=3, per_address=2)
    audience, (_, seat) = play.audience, (None, play.enter("there")[1])
    here = [play.enter("here")[0], play.enter("here")[0]]
    assert audience.admit("here", seat) is None
    assert audience.admit("elsewhere", seat) is None and audience.refusal() is Close.FULL
    audience.leave(here[0])
    assert audience.admit("here", seat) is not None
    assert audience.admit("here", seat) is None


@in_tasks
async def test_nothing_is_kept_of_those_who_left(tasks: asyncio.TaskGroup) -> None:
    play = Play(tasks)
    play.publish()
    peers = await seated(play, 30)
    for peer in peers:
        peer.leave()
    assert len(play.audience) == 0 and not play.audience._addresses and not play.audience._relays
    assert play.signals.listeners(play.episode_id) == 0


@in_tasks
async def test_everybody_is_sent_away_and_nobody_let_in_again(tasks: asyncio.TaskGroup) -> None:
    play = Play(tasks)
    viewer, seat = play.enter()
    leaving = tasks.create_task(play.audience.close_all(5.0))
    await settle()
    assert seat.closes == [Close.RESTARTING]
    assert play.audience.admit("here", seat) is None and play.audience.refusal() is Close.RESTARTING
    assert not leaving.done()
    play.audience.leave(viewer)
    await settle()
    play.clock.advance(1.0)
    await leaving


@in_tasks
async def test_who_waits_for_the_next_episode_is_called_once_when_it_begins(tasks: asyncio.TaskGroup) -> None:
    play = Play(tasks)
    (stays, seat), (goes, other) = play.enter(), play.enter()
    for viewer in (stays, goes):
        play.waiters.add(viewer)
    play.waiters.discard(goes)
    play.begin()
    await settle()
    assert (seat.woken, other.woken, len(play.waiters)) == (1, 0, 0)
    play.begin()
    await settle()
    assert seat.woken == 1
    play.waiters.add(stays)
    play.waiters.discard(stays)  # and nothing waits on


@in_tasks
async def test_who_comes_while_events_are_on_their_way_is_not_told_them_twice(
    tasks: asyncio.TaskGroup,
) -> None:
    play = Play(tasks)
    play.publish()
    await seated(play, 1)
    play.publish(3)  # the relay's turn comes after the one who joins now
    late = Peer(play)
    late.join()
    await settle()
    play.publish(2)
    await settle()
    assert late.heard == [5, 6] and late.snapshots == 1 and late.state == play.state
    play.end()
    await settle()
    assert late.closes == [Close.ENDED]


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
            transport = TaskTransport()
            viewer = services.audience.admit("here", transport)
            asked = self.position() if self.chance.random() < 0.8 else None
            show = EpisodeFeed(services.feeds, viewer, self.tell, episode_id, asked)
            try:
                async with asyncio.timeout(self.chance.choice([0.002, 0.01, 0.05, 30])):
                    if self.chance.random() < 0.3:
                        viewer.request_resume(self.position() or Position("other", 1))
                    assert await transport.run(show) is Close.ENDED
                    return
            except TimeoutError:
                await asyncio.sleep(self.chance.random() * 0.01)
            finally:
                services.audience.leave(viewer)


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_viewers_do_they_end_with_the_fold_of_the_record(tmp_path: Path, seed: int) -> None:
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
        assert services.bus.listeners(live.episode_id) == 0
