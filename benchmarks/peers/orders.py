"""The orders that a peer in Python takes on its standard input."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, Self


class SendOrder(NamedTuple):
    """What is to be sent to every viewer.

    Args:
        messages: Messages at once.
        size: Bytes of each.
        times: How often.
        interval_s: Seconds in between.
    """

    messages: int
    size: int
    times: int
    interval_s: float

    @classmethod
    def read(cls, line: str) -> Self:
        """As it stands in a line."""
        messages, size, times, interval_s = line.split()
        return cls(int(messages), int(size), int(times), float(interval_s))

    def turns(self) -> Iterator[list[str]]:
        """The messages of each time, made when they are needed."""
        for _ in range(self.times):
            yield [f"{time.time():.6f} ".ljust(self.size, ".") for _ in range(self.messages)]


async def obey(port: int, send: Callable[[str], None], process_id: int | None = None) -> None:
    """Print where the peer listens, then obey.

    Args:
        port: Where.
        send: Sends one message to every viewer, or has it sent soon.
        process_id: Whose processor time counts; this process's, unless given.
    """
    print(port, process_id or os.getpid(), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = SendOrder.read(line)
        for messages in order.turns():
            for message in messages:
                send(message)
            await asyncio.sleep(order.interval_s)
        print("done", flush=True)
