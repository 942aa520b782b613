"""Answers to a future of an event loop from another thread, and work that outlives whoever waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any


async def whole(work: Coroutine[Any, Any, None]) -> None:
    """Carry out ``work`` to its end, also if whoever waits for it is cancelled.

    What it raises goes to whoever waits; once nobody does, it is dropped without a word.
    """
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(
        lambda over: over.cancelled() or over.exception()
    )  # a cancelled shield asks no more
    await asyncio.shield(task)


def answer(future: asyncio.Future[Any], result: Any, error: Exception | None = None) -> bool:
    """Settle ``future`` from a thread other than that of its event loop.

    Args:
        future: Somebody may wait for it, or may have given up.
        result: What it comes to, where ``error`` is none.
        error: Why it failed.

    Returns:
        False when its event loop is closed, so that nobody can be answered.
    """
    try:
        future.get_loop().call_soon_threadsafe(settle, (future,), result, error)
    except RuntimeError:
        return False
    return True


def answer_all(futures: Sequence[asyncio.Future[None]], error: Exception | None = None) -> None:
    """The same for many that come to nothing, or to one error; each event loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for future in futures:
        by_loop.setdefault(future.get_loop(), []).append(future)
    for loop, own in by_loop.items():
        with suppress(RuntimeError):  # it is closed, so that nobody can be answered
            loop.call_soon_threadsafe(settle, own, None, error)


def settle(futures: Sequence[asyncio.Future[Any]], result: Any, error: Exception | None = None) -> None:
    """The same on their own event loop; those that nobody waits for any more are left as they are."""
    for future in futures:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
