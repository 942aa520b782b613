"""The straight way to viewers that keep up, and what becomes of those that do not."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

from server.security.faults import Close
from server.viewers import broadcast as shards
from server.viewers import wire
from server.viewers.feed import MAX_MISSING
from server.viewers.viewer import Viewer
from server.viewers.wire import Batch, Frame, Position
from tests.server.playing import EPOCH, Peer, Play, Seat, in_tasks, seated, settle, unframed


@pytest.fixture(autouse=True, params=[False, True], ids=["by transports", "by sockets"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Play, "by_sockets", request.param)


def batch(text: str) -> Batch:
    """A batch of one frame that moves nobody."""
    (one,) = wire.batches([Frame(text)])
    return one


def caught_up() -> tuple[Viewer, Seat]:
    """A viewer for whom nothing waits, and its seat."""
    seat = Seat()
    seat.free_now = True
    viewer = Viewer(seat, 65_536)
    assert viewer.take() is None and viewer.caught_up
    return viewer, seat


@in_tasks
async def test_who_keeps_up_is_written_to_at_once_and_wakes_nobody(tasks: asyncio.TaskGroup) -> None:
    play = Play(tasks)
    play.publish()
    (peer,) = await seated(play, 1)
    taken, straight = peer.taken, peer.straight
    for _ in range(10):
        play.publish(3)
        await settle()
    assert peer.straight == straight + 10, "three events of one publication are one write"
    assert peer.taken == taken
    assert peer.seq == 31 and peer.state == play.state
    assert not [task for task in asyncio.all_tasks() if "_drain" in repr(task)], "no task waits for it"
    play.end()


@in_tasks
async def test_a_late_viewer_costs_what_an_early_one_does(tasks: asyncio.TaskGroup) -> None:
    play = Play(tasks)
    sizes = []
    for more in (10, 3000):
        play.publish(more)
        (peer,) = await seated(play, 1)
        assert peer.snapshots == 1 and peer.heard == [] and peer.state == play.state
        sizes.append(len(json.dumps(peer.state)))
    assert play.reads == 0
    assert sizes[1] <= 2 * sizes[0]
    play.end()


@in_tasks
async def test_who_holds_bytes_back_takes_the_slow_way_and_returns_to_the_straight_one(
    tasks: asyncio.TaskGroup,
) -> None:
    play = Play(tasks)
    play.publish()
    slow, quick = await seated(play, 2)
    slow.stall()
    for _ in range(5):
        play.publish(2)
        await settle()
    assert quick.seq == 11 and slow.seq == 1
    slow.read_on()
    await settle()
    assert slow.seq == 11 and slow.state == quick.state
    straight = slow.straight
    play.publish()
    await settle()
    assert slow.straight == straight + 1 and slow.seq == 12
    assert slow.snapshots == 1
    play.end()


@in_tasks
async def test_who_stalls_is_closed_within_its_bound_while_others_miss_nothing(
    tasks: asyncio.TaskGroup,
) -> None:
    play = Play(tasks, backlog_bytes=64 * 1024)
    play.publish()
    stalled, *others = await seated(play, 4)
    stalled.stall()
    viewer = stalled.viewer
    assert viewer is not None
    most = 0
    while not stalled.closes:
        play.publish(2, padding=1000)
        await settle()
        most = max(most, viewer.backlog_size)
        assert all(other.seq == play.head_seq for other in others)
    assert stalled.closes == [Close.TOO_SLOW] and 32 * 1024 < most <= 64 * 1024
    assert play.head_seq < 80, "it was not kept longer than its bound lasts"
    assert viewer.backlog_size == 0 and viewer.take() is None
    stalled.join()
    await settle()
    assert stalled.state == play.state and stalled.snapshots == 1, "it resumed"
    play.end()


@in_tasks
async def test_who_catches_up_while_events_are_on_their_way_is_not_told_them_twice(
    tasks: asyncio.TaskGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SHARD_SIZE", 1)
    play = Play(tasks)
    play.publish()
    peers = await seated(play, 30)
    await settle(200)
    play.publish()
    await settle(8)
    assert 0 < sum(peer.seq == 2 for peer in peers) < 25, "the relay is still busy with the second"
    play.publish(2)
    late = Peer(play)
    late.join()
    await settle(200)
    play.publish()
    await settle(200)
    assert [peer.heard for peer in peers] == [[2, 3, 4, 5]] * 30
    assert late.heard == [5] and late.state == play.state
    play.end()


@in_tasks
async def test_who_asks_while_it_is_written_to_at_once_gets_exactly_what_is_missing(
    tasks: asyncio.TaskGroup,
) -> None:
    play = Play(tasks)
    play.publish()
    (peer,) = await seated(play, 1)
    play.publish(5)
    await settle()
    peer.ask(Position(EPOCH, 3))
    await settle()
    play.publish()
    await settle()
    assert peer.heard == [2, 3, 4, 5, 6, 4, 5, 6, 7] and peer.snapshots == 1
    play.end()


@in_tasks
async def test_what_is_said_beside_the_record_reaches_those_who_keep_up_in_its_place(
    tasks: asyncio.TaskGroup,
) -> None:
    play = Play(tasks)
    play.publish()
    slow, quick = await seated(play, 2)
    slow.stall()
    for _ in range(3):  # one the connection holds, one a task, one waits
        play.publish()
        await settle()
    await play.say('{"frame":"aside","after":4}')
    play.publish()
    await settle()
    assert [fields for fields in quick.said if fields["frame"] == "aside"] == [{"frame": "aside", "after": 4}]
    slow.read_on()
    await settle()
    assert slow.heard == quick.heard == [2, 3, 4, 5]
    assert not [fields for fields in slow.said if fields["frame"] == "aside"], (
        "it is lost to whoever is behind"
    )
    play.end()


def test_nothing_is_written_to_one_who_was_expelled() -> None:
    viewer, seat = caught_up()
    viewer.send(batch("a"))
    viewer.evict(Close.RESTARTING)
    viewer.send(batch("b"))
    viewer.finish()
    viewer.send(batch("c"))
    viewer.evict(Close.TOO_SLOW)
    assert viewer.take() is None and not viewer.caught_up
    assert unframed(b"".join(seat.written)) == [b"a"]
    assert seat.closes == [Close.RESTARTING]


def test_what_comes_after_something_that_waits_waits_behind_it() -> None:
    viewer, seat = caught_up()
    viewer.hold()
    for text in "abc":
        viewer.send(batch(text))
    assert [frame.text for frame in (viewer.take() or (None, ()))[1]] == ["a", "b", "c"]
    assert not seat.written


def test_a_later_wish_to_resume_replaces_an_earlier_one() -> None:
    viewer, _ = caught_up()
    for seq in range(1000):
        viewer.request_resume(Position("ab", seq))
    assert viewer.take() == (Position("ab", 999), ())
    viewer.finish()
    assert viewer.take() is None and viewer.over


def test_a_great_publication_is_split_so_that_no_connection_holds_much_of_it() -> None:
    frames = [Frame("x" * 30_000, EPOCH, seq) for seq in range(1, 11)]
    parts = list(wire.batches(frames))
    assert [frame for part in parts for frame in part.frames] == frames
    assert max(len(part.message) for part in parts) <= wire.WRITE_BYTES + 30_010
    assert [(part.first, part.last) for part in parts] == [(1, 3), (4, 6), (7, 9), (10, 10)]
    assert list(wire.batches([])) == []


STRANGE = [
    Position("other", 3),
    Position(EPOCH, -1),
    Position(EPOCH, -(10**18)),
    Position(EPOCH, 10**6),
    Position(EPOCH, 10**40),
    Position(EPOCH, 0),
]


@pytest.mark.parametrize("asked", STRANGE, ids=str)
@in_tasks
async def test_a_strange_wish_to_resume_while_watching_leaves_the_viewer_whole(
    tasks: asyncio.TaskGroup, asked: Position
) -> None:
    play = Play(tasks)
    play.publish(MAX_MISSING + 10)
    (peer,) = await seated(play, 1)
    peer.ask(asked)
    play.publish()
    await settle()
    assert peer.snapshots == 2 and peer.state == play.state
    play.publish()
    await settle()
    assert peer.seq == MAX_MISSING + 12 and peer.state == play.state
    play.end()


ACTIONS = ("publish", "publish", "join", "join", "anew", "leave", "stall", "stall", "on", "ask", "say")


async def act(chance: random.Random, play: Play, peers: list[Peer]) -> None:
    """One thing that happens."""
    peer = chance.choice(peers)
    match chance.choice(ACTIONS):
        case "publish":
            play.publish(chance.randint(1, 5), padding=chance.choice([0, 0, 500, 9000]))
        case "join":
            peer.join()
        case "anew":
            peer.join(resume=False)
        case "leave":
            peer.leave()
        case "stall":
            peer.stall()
        case "on":
            peer.read_on()
        case "ask":
            peer.ask(chance.choice([Position(EPOCH, max(0, peer.seq - 3)), Position("other", 1)]))
        case "say":
            await play.say('{"frame":"aside"}')
    await settle(chance.choice([0, 0, 1, 2, 5]))


@pytest.mark.parametrize("seed", range(4))
@in_tasks
async def test_after_2500_random_actions_every_viewer_has_the_fold_of_the_record(
    tasks: asyncio.TaskGroup, seed: int
) -> None:
    chance = random.Random(seed)
    play = Play(tasks, backlog_bytes=64 * 1024)
    play.publish()
    peers = [Peer(play) for _ in range(20)]
    for _ in range(2500):
        await act(chance, play, peers)
    for peer in peers:
        peer.read_on()
        await settle()
        peer.join()
    await settle(200)
    play.publish()
    await settle(200)
    assert [peer.seq for peer in peers] == [play.head_seq] * 20
    assert all(peer.state == play.state for peer in peers)
    ways = [sum(peer.straight for peer in peers), sum(peer.taken for peer in peers)]
    assert min(ways) > 500, "both ways were gone"
    assert any(Close.TOO_SLOW in peer.closes for peer in peers)
    play.end()
    await settle(200)
    assert len(play.audience) == 0
