"""Owns what a viewer may say, and how often."""

from __future__ import annotations

from typing import Final

from spectator.clock import Clock
from spectator.errors import ProtocolError

from ..security.token_bucket import Allowance
from . import wire
from .viewer import Viewer
from .wire import Close, Ping

MESSAGES_PER_S: Final = 20.0
"""Messages that a viewer may send in a second, over any length of time."""

MESSAGE_BURST: Final = 40.0
"""Messages that it may send at once."""

RESUME_COST: Final = 10.0
"""Messages that a request to resume counts for, since it makes the server read."""


class Hearing:
    """Hears one viewer.

    Args:
        clock: Measures how often it speaks.
    """

    __slots__ = ("_allowance",)

    def __init__(self, clock: Clock) -> None:
        self._allowance = Allowance(MESSAGES_PER_S, MESSAGE_BURST, clock)

    def hear(self, text: str, viewer: Viewer) -> None:
        """Do what ``viewer`` says.

        Raises:
            ProtocolError: It may not say so, or not so often.
        """
        self._spend(1.0)
        said = wire.parse_message(text)
        if isinstance(said, Ping):
            for answer in wire.batches([wire.pong(said.t)]):
                viewer.offer(answer)
        else:
            self._spend(RESUME_COST)
            viewer.ask(said)

    def _spend(self, messages: float) -> None:
        if not self._allowance.spend(messages):
            raise ProtocolError(
                f"more than {MESSAGES_PER_S:g} messages a second", close_code=Close.BAD_MESSAGE.code
            )
