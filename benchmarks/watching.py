"""Viewers of one match in a separate process: the delay of each step, and missed events."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import re
import time
from array import array
from dataclasses import dataclass, field
from datetime import datetime
from multiprocessing.connection import Connection
from typing import Final, Self

import aiohttp

ADDRESSES: Final = 10
"""Viewers per address."""

AT: Final = re.compile(r'"seq":(\d+),"at":"([^"]+)"')
STEP: Final = '"type":"step.taken"'
PATIENCE_S: Final = 60.0


@dataclass(slots=True)
class SeenMatch:
    """What the viewers saw.

    Args:
        arrived: When each step reached each viewer, in wall-clock seconds.
        late: Delay since it was recorded, seconds; parallel to ``arrived``.
        missed: Events not sent, summed over the viewers.
        closed: Viewers that were disconnected.
        recorded: When each step was recorded, wall-clock seconds, by its number.
    """

    arrived: array[float] = field(default_factory=lambda: array("d"))
    late: array[float] = field(default_factory=lambda: array("d"))
    missed: int = 0
    closed: int = 0
    recorded: dict[int, float] = field(default_factory=dict)

    def between(self, began: float, ended: float) -> list[float]:
        """Return the delays of the steps that arrived in that time."""
        return [late for at, late in zip(self.arrived, self.late, strict=True) if began <= at < ended]

    def gaps(self, began: float, ended: float) -> list[float]:
        """Return the seconds between consecutive steps recorded in that time."""
        times = [at for _, at in sorted(self.recorded.items()) if began <= at < ended]
        return [later - earlier for earlier, later in itertools.pairwise(times)]


class ViewersApart:
    """Viewers in a separate process; read ``seen`` after the ``with`` block.

    Args:
        base: Address of the server.
        episode_id: What to watch, below ``/live/``.
        count: Number of viewers.
    """

    def __init__(self, base: str, episode_id: str, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_watch, args=(base, episode_id, count, theirs), daemon=True)

    async def __aenter__(self) -> Self:
        self._process.start()
        await asyncio.to_thread(self._hear)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ours.send("over")
        self.seen: SeenMatch = await asyncio.to_thread(self._hear)
        await asyncio.to_thread(self._process.join, PATIENCE_S)

    def _hear(self) -> SeenMatch:
        if not self._ours.poll(PATIENCE_S):
            raise TimeoutError(f"the viewers did not answer in {PATIENCE_S:g} s")
        heard: SeenMatch = self._ours.recv()
        return heard


def _watch(base: str, episode_id: str, count: int, pipe: Connection) -> None:
    asyncio.run(_watch_all(base, episode_id, count, pipe))


async def _watch_all(base: str, episode_id: str, count: int, pipe: Connection) -> None:
    seen = SeenMatch()
    async with aiohttp.ClientSession(base, connector=aiohttp.TCPConnector(limit=0)) as client:
        joined = [asyncio.Event() for _ in range(count)]
        viewers = [
            asyncio.create_task(_view(client, episode_id, number, seen, joined[number]))
            for number in range(count)
        ]
        await asyncio.gather(*(one.wait() for one in joined))
        pipe.send(seen)
        await asyncio.to_thread(pipe.recv)
        for viewer in viewers:
            viewer.cancel()
        await asyncio.gather(*viewers, return_exceptions=True)
    pipe.send(seen)


async def _view(
    client: aiohttp.ClientSession, episode_id: str, number: int, seen: SeenMatch, joined: asyncio.Event
) -> None:
    headers = {"X-Forwarded-For": f"100.64.0.{number // ADDRESSES}"}
    last = 0
    async with client.ws_connect(f"/live/{episode_id}", headers=headers) as socket:
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                break
            text, now = str(message.data), time.time()
            if '"frame":"event"' not in text[:200]:
                joined.set()
                continue
            if (found := AT.search(text)) is not None:
                seq = int(found[1])
                seen.missed += max(0, seq - last - 1) if last else 0
                last = seq
                if STEP in text:
                    if (at := seen.recorded.get(seq)) is None:
                        at = seen.recorded[seq] = datetime.fromisoformat(found[2]).timestamp()
                    seen.arrived.append(now)
                    seen.late.append(now - at)
    seen.closed += 1
