"""An external episode: played in another process, reported to this one and shown here."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from typing import Final

from spectator.episodes.record.opening import Stream
from spectator.episodes.run.controls import Control, ControlledWait, EndRequested
from spectator.episodes.run.step_events import cut_short
from spectator.errors import EpisodeError
from spectator.events import EndReason, EpisodeEnded, Fact, core_fact
from spectator.journal.attachments import Attachments
from spectator.policies.base import Policy

logger = logging.getLogger(__name__)

MAX_FACTS: Final = 20_000
"""Facts that one such episode may tell; it is ended then, wherever it is played on."""


class ExternalDriver:
    """Stands where a driver does, in an episode that is driven elsewhere.

    Args:
        stream: Where its events go.
        control: Tells when the server wants it to end.
        characters: Of its record, after which it is shown no further.
    """

    deciding: None = None

    def __init__(self, stream: Stream, control: Control, characters: float = math.inf) -> None:
        self.turn = 0
        """Actions taken or refused so far."""
        self.ended: EpisodeEnded | None = None
        """How it ended, once it has."""
        self._stream = stream
        self._control = control
        self._characters = characters
        self._facts = 0
        self._truth: str | None = None
        self._over: asyncio.Future[EpisodeEnded] = asyncio.get_running_loop().create_future()

    @property
    def over(self) -> bool:
        """Whether nothing more is taken."""
        return self._over.done() or self._control.end is not None

    async def record(self, turn: int, facts: Sequence[Fact], attachments: Attachments | None = None) -> None:
        """Record and publish the facts of one turn; what cannot be recorded ends the episode, here only."""
        if self.over:
            return
        self._facts += len(facts)
        if self._facts > MAX_FACTS:
            self.give_up("step_cap", f"more than {MAX_FACTS} events; it may be played on where it is played")
            return
        try:
            steps = [(turn, facts)]
            recorded = await self._stream.emit_steps(steps, patient=False, attachments=attachments)
            self.turn = turn
            if recorded > self._characters:
                self.give_up("step_cap", f"its record reached {self._characters / 1e6:g} MB")
        except EpisodeError as error:
            logger.warning("episode %s is shown no further: %s", self._stream.episode_id, error)
            self.give_up("interrupted", f"it could not be recorded: {error}")

    def finish(self, ended: EpisodeEnded, truth: str | None = None) -> None:
        """It has come to its end; ``truth`` is what its world hid, as JSON text, if the end states it."""
        if not self._over.done():
            self._truth = truth
            self._over.set_result(ended)

    def give_up(self, reason: EndReason, detail: str) -> None:
        """It is shown no further."""
        self.finish(cut_short(reason, detail, self.turn))

    async def run(self) -> EpisodeEnded:
        """Wait for its end and tell it."""
        try:
            async with ControlledWait(self._control):
                ended = await self._over
        except EndRequested:
            end = self._control.end
            full = end is not None and end.reason == "step_cap"
            ended = cut_short("step_cap", end.detail, self.turn) if end and full else self._gone()
        except asyncio.CancelledError:
            await self._tell_end(self._gone())
            raise
        await self._tell_end(ended)
        return ended

    async def _tell_end(self, ended: EpisodeEnded) -> None:
        self.ended = self.ended or ended
        try:
            attachments = None if ended.truth is None else Attachments(truth=self._truth)
            await self._stream.emit(self.turn, [core_fact(ended)], attachments=attachments)
        except EpisodeError:
            logger.exception("episode %s: its end could not be recorded", self._stream.episode_id)

    def _gone(self) -> EpisodeEnded:
        return cut_short("interrupted", "the server that showed it went away", self.turn)

    def policy(self, actor: str) -> Policy | None:
        """Nobody decides here."""
        return None

    def hold(self, held: bool) -> None:
        """Nothing here can be held."""

    async def let_go(self) -> None:
        """Nothing is held here."""
