"""Pings to all connections, a few at a time."""

from __future__ import annotations

import asyncio

from server.transport.keepalive import GROUPS, INTERVAL_S, Keepalive
from tests.fakes import ManualClock
from tests.server.playing import in_tasks, settle


class Pinged:
    """Counts."""

    def __init__(self) -> None:
        self.times = 0

    def ping(self) -> None:
        self.times += 1


@in_tasks
async def test_each_is_asked_once_in_the_interval_and_never_all_at_once(tasks: asyncio.TaskGroup) -> None:
    clock = ManualClock()
    keepalive = Keepalive(clock)
    asking = tasks.create_task(keepalive.run())
    connections = [Pinged() for _ in range(3 * GROUPS)]
    groups = [keepalive.join(connection) for connection in connections]
    most = before = 0
    for _ in range(GROUPS):
        await settle(3)
        clock.advance(INTERVAL_S / GROUPS)
        await settle(3)
        asked = sum(connection.times for connection in connections)
        most, before = max(most, asked - before), asked
    assert {connection.times for connection in connections} == {1}
    assert most == 3
    keepalive.leave(connections[0], groups[0])
    keepalive.leave(connections[0], groups[0])
    for _ in range(GROUPS):
        clock.advance(INTERVAL_S / GROUPS)
        await settle(3)
    assert [connection.times for connection in connections] == [1, *[2] * (3 * GROUPS - 1)]
    asking.cancel()
