"""Opens the cache of newest events that servers on one PostgreSQL share."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack

from spectator.clock import Clock
from spectator.journal.stores.event_cache import EventCache
from spectator.journal.stores.redis_streams import RedisStreams, shown

from ..settings import Settings


async def open_cache(
    stack: AsyncExitStack, settings: Settings, clock: Clock, tasks: asyncio.TaskGroup
) -> EventCache | None:
    """The cache, which comes to work by itself once it can be reached; none where none is set.

    Args:
        stack: Closes it.
        settings: Say where it is.
        clock: Time.
        tasks: The group that it works in.

    Raises:
        ConfigurationError: redis-py is not installed.
    """
    if settings.cache_url is None:
        return None
    url = settings.cache_url.get_secret_value()
    streams = await asyncio.to_thread(RedisStreams, url)  # redis-py takes 0.2 s to load
    stack.push_async_callback(streams.aclose)
    cache = EventCache(streams, shown(url), clock, random.random)
    stack.callback(tasks.create_task(cache.run(), name="cache of events").cancel)
    return cache
