"""What is shown to a viewer, as a port: feeds, and the transport that carries them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from ..close_codes import Close
from .viewer import Viewer
from .wire import Frame

SendFrames = Callable[[Sequence[Frame]], Awaitable[None]]
"""Sends frames to the viewer, waiting while it does not take them."""


class Feed(Protocol):
    """What one viewer is shown."""

    async def drain(self) -> Close | None:
        """Show all that there is to show now; to be called again whenever the viewer is woken.

        Returns:
            Why it is over, once it is.
        """
        ...

    def leave(self) -> None:
        """Show nothing more; safe to call twice."""
        ...


MakeFeed = Callable[[Viewer, SendFrames], Feed]
"""Makes a viewer's feed."""
