"""Work that many wait for at once and that is done once for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

_Result = TypeVar("_Result")


class SharedWork(Generic[_Result]):
    """Does work once for all who ask for the same while it is under way; nothing is kept of it afterwards.

    Args:
        work: Does it, by a key.
    """

    def __init__(self, work: Callable[[str], Awaitable[_Result]]) -> None:
        self._work = work
        self._under_way: dict[str, asyncio.Task[_Result]] = {}

    async def of(self, key: str) -> _Result:
        """What comes of the work of this key; who stops waiting does not stop it for the others.

        Raises:
            Exception: Whatever the work raises, to all who wait for it.
        """
        if (task := self._under_way.get(key)) is None:
            task = self._under_way[key] = asyncio.create_task(self._done(key))
            task.add_done_callback(partial(self._over, key))
        return await asyncio.shield(task)

    async def _done(self, key: str) -> _Result:
        return await self._work(key)

    def _over(self, key: str, task: asyncio.Task[_Result]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            task.exception()  # told to those who wait, of whom there may be none any more
