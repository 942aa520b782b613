"""Few environments compute at once; whoever takes long gives its place up, and nothing is given up twice."""

from __future__ import annotations

import asyncio

from server.openenv.session import compute_slot
from tests.fakes import until


async def test_no_more_compute_at_once_than_there_are_places() -> None:
    slots, inside, most = asyncio.Semaphore(3), 0, 0

    async def compute() -> None:
        nonlocal inside, most
        async with compute_slot(slots, 60):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.001)
            inside -= 1

    await asyncio.gather(*(compute() for _ in range(30)))
    assert most == 3


async def test_one_who_takes_long_makes_room_and_takes_nothing_twice() -> None:
    slots, told, hung = asyncio.Semaphore(1), list[str](), asyncio.Event()

    async def hang() -> None:
        async with compute_slot(slots, 0.01):
            await hung.wait()
        told.append("hung")

    async def hold(name: str, release: asyncio.Event) -> None:
        async with compute_slot(slots, 0.01):
            told.append(name)
            await release.wait()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hang())
        await asyncio.sleep(0)
        async with compute_slot(slots, 0.01):
            told.append("another")
        hung.set()
        await until(lambda: "hung" in told)
        one, two = asyncio.Event(), asyncio.Event()
        tasks.create_task(hold("first", one))
        tasks.create_task(hold("second", two))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert told[2:] == ["first"]
        one.set()
        two.set()
    assert told == ["another", "hung", "first", "second"]


async def test_a_failure_gives_its_place_back_once() -> None:
    slots = asyncio.Semaphore(1)
    for _ in range(3):
        try:
            async with compute_slot(slots, 60):
                raise ValueError
        except ValueError:
            continue
    async with compute_slot(slots, 60):
        other = asyncio.create_task(_enter(slots))
        await asyncio.sleep(0.005)
        waited = not other.done()
    await other
    assert waited


async def _enter(slots: asyncio.Semaphore) -> None:
    async with compute_slot(slots, 60):
        return
