"""Frames of decisions that form: what is in them, how often they are sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from spectator.clock import Clock
from spectator.episodes.run.partial_decision import KEPT, PartialDecision, Thinking

from ..security.masking import ShowsNames
from . import wire
from .wire import Frame

INTERVAL_S: Final = 0.05
"""Least time between two frames of one episode."""

WHOLE_EVERY: Final = 20
"""Frames after which one repeats everything, for whoever missed one."""


class ThoughtFrames:
    """Makes frames of what is thought in one episode, each of what is new since the one before.

    Args:
        thinking: What is thought.
        names: Says which names are hidden. While any is, every frame repeats everything: a name may come in
            parts, of which none shows it.
        withheld: Whether viewers are told who thinks, and for how long, but not what.
    """

    def __init__(self, thinking: Thinking, names: ShowsNames, *, withheld: bool = False) -> None:
        self._thinking = thinking
        self._names = names
        self._withheld = withheld
        self._last: PartialDecision | None = None
        self._revision = 0
        self._heard = 0
        self._part = 0
        self._over = False

    async def run(self, send: Callable[[Frame], Awaitable[None]], clock: Clock) -> None:
        """Send frames for as long as anybody watches.

        Args:
            send: Sends a frame to those who keep up; for others it is lost.
            clock: Waits.
        """
        known = -1
        while True:
            known = await self._thinking.change(known)
            frame = self.next()
            if frame is not None:
                await send(frame)
            await clock.sleep(INTERVAL_S)

    def next(self) -> Frame | None:
        """The next frame; ``None`` when nothing is new."""
        forming = self._thinking.forming
        is_new = forming is not self._last
        if forming is None or (is_new and forming.over) or (not is_new and self._over):
            return None
        if self._withheld and not is_new and not forming.over:
            return None
        self._part = 0 if is_new else self._part + 1
        anew = is_new or forming.revision != self._revision or self._part % WHOLE_EVERY == 0
        anew = anew or bool(self._names.mask.names)
        grown = None if anew else forming.since(self._heard)
        self._last, self._revision, self._heard = forming, forming.revision, forming.heard
        self._over = forming.over
        return self._frame(forming, grown)

    def so_far(self) -> list[Frame]:
        """What somebody who comes now is sent, so that the next frame follows it."""
        forming = self._last
        if forming is None or self._over or forming.over or forming.revision != self._revision:
            return []
        return [self._frame(forming, None)]

    def _frame(self, forming: PartialDecision, grown: tuple[str, str] | None) -> Frame:
        thought, answer = forming.newest(self._heard) if grown is None else grown
        if (mask := self._names.mask).names:
            thought, answer = (
                mask.forming(text, cut=len(text) == KEPT, over=forming.over) for text in (thought, answer)
            )
        if self._withheld:
            thought = answer = ""
        return wire.thought(
            forming.actor,
            forming.turn,
            part=self._part,
            whole=grown is None,
            done=forming.over,
            elapsed_s=round(self._thinking.elapsed_s(forming), 2),
            thought=thought,
            answer=answer,
            **({"withheld": True} if self._withheld else {}),
        )
