"""Owns the contract of what is shown to one viewer, whatever it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from .viewer import Viewer
from .wire import Close, Frame

Tell = Callable[[Sequence[Frame]], Awaitable[None]]
"""Sends frames to the viewer, waiting while it does not take them."""


class Showing(Protocol):
    """Something that is shown to one viewer."""

    async def go_on(self) -> Close | None:
        """Show all that there is to show now; to be called again whenever the viewer is roused.

        Returns:
            Why it is over, once it is.
        """
        ...

    def leave(self) -> None:
        """Show nothing more; safe to call twice."""
        ...


MakeShow = Callable[[Viewer, Tell], Showing]
"""Makes what a viewer is shown."""
