"""Owns those who wait for the next episode, whichever it is."""

from __future__ import annotations

import asyncio

from .audience import in_turns
from .episode_signals import Stage
from .viewer import Viewer


class Foyer:
    """Calls its viewers in when an episode begins, a few at a time.

    Args:
        stage: Tells of beginnings.
        tasks: The group that the calling runs in.
    """

    def __init__(self, stage: Stage, tasks: asyncio.TaskGroup) -> None:
        self._stage = stage
        self._tasks = tasks
        self._viewers: dict[Viewer, None] = {}
        self._calling: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._viewers)

    def enter(self, viewer: Viewer) -> None:
        """From the next beginning on, or until it leaves, ``viewer`` is called: once."""
        self._viewers[viewer] = None
        if self._calling is None:
            self._calling = self._tasks.create_task(self._call(self._stage.beginning()), name="foyer")

    def leave(self, viewer: Viewer) -> None:
        """A viewer does not wait here, or not any more."""
        self._viewers.pop(viewer, None)
        if not self._viewers and self._calling is not None:
            self._calling.cancel()
            self._calling = None

    async def _call(self, beginning: asyncio.Event) -> None:
        await beginning.wait()
        self._calling = None
        called, self._viewers = self._viewers, {}
        await in_turns(called, Viewer.rouse)
