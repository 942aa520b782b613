"""Messages from a viewer: what it may ask for, and how often."""

from __future__ import annotations

from typing import Final

from spectator.clock import Clock
from spectator.errors import ProtocolError

from ..close_codes import Close
from ..security.rates import TokenBucket
from . import wire
from .viewer import Viewer
from .wire import Ping

MESSAGES_PER_S: Final = 20.0
"""Messages that a viewer may send in a second, over any length of time."""

MESSAGE_BURST: Final = 40.0
"""Messages that it may send at once."""

RESUME_COST: Final = 10.0
"""Messages that a request to resume counts for, since it makes the server read."""


class InboundMessages:
    """Handles the messages of one viewer.

    Args:
        clock: Measures how often it sends.
    """

    __slots__ = ("_bucket",)

    def __init__(self, clock: Clock) -> None:
        self._bucket = TokenBucket(MESSAGES_PER_S, MESSAGE_BURST, clock)

    def handle(self, text: str, viewer: Viewer) -> None:
        """Do what ``viewer`` asks for.

        Raises:
            ProtocolError: It may not ask for this, or not so often.
        """
        self._spend(1.0)
        message = wire.parse_message(text)
        if isinstance(message, Ping):
            for answer in wire.batches([wire.pong(message.t)]):
                viewer.send(answer)
        else:
            self._spend(RESUME_COST)
            viewer.request_resume(message)

    def _spend(self, messages: float) -> None:
        if not self._bucket.spend(messages):
            raise ProtocolError(
                f"more than {MESSAGES_PER_S:g} messages a second", close_code=Close.BAD_MESSAGE.code
            )
