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
    task.add_done_callback(_heard)  # a cancelled shield stops looking at what it shields
    await asyncio.shield(task)


def _heard(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()


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
        future.get_loop().call_soon_threadsafe(settle, future, result, error)
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
            loop.call_soon_threadsafe(_settle_all, own, error)


def _settle_all(futures: Sequence[asyncio.Future[None]], error: Exception | None) -> None:
    for future in futures:
        settle(future, None, error)


def settle(future: asyncio.Future[Any], result: Any, error: Exception | None = None) -> None:
    """The same on its own event loop; one that nobody waits for any more is left as it is."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
