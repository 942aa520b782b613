"""Owns how the same bytes reach many viewers: in one compiled call where it was built, else a write each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from .viewer import Viewer
from .wire import Batch

SendToEach = Callable[[list[int], bytes], list[tuple[int, int]]]
"""Sends bytes to each socket without waiting; returns (place, bytes taken) of those that took not all."""

logger = logging.getLogger(__name__)


def compiled() -> SendToEach | None:
    """The compiled loop, or ``None`` where it was not built."""
    try:
        from ._sends import send_to_each
    except ImportError:
        return None
    return send_to_each


class Outlet:
    """Hands one batch to many viewers.

    Args:
        send_to_each: The compiled loop; without it each viewer's transport writes.
    """

    def __init__(self, send_to_each: SendToEach | None = None) -> None:
        self._send_to_each = send_to_each

    def hand_out(
        self, viewers: Sequence[Viewer], batch: Batch, otherwise: Callable[[Viewer, Batch], None]
    ) -> None:
        """Send ``batch`` to those who have caught up and have it not yet; the others get it ``otherwise``.

        A viewer that has caught up has nothing in its transport's buffer, so bytes that go past the transport
        overtake nothing. What the kernel does not take goes to the transport, which tells the viewer to hold.
        """
        first, last, message, send_to_each = batch.first, batch.last, batch.message, self._send_to_each
        straight, descriptors = [], []
        for viewer in viewers:
            if not viewer.caught_up or (first is not None and first <= viewer.position):
                otherwise(viewer, batch)
                continue
            viewer.position = last or viewer.position
            if send_to_each is None or viewer.descriptor is None:
                viewer.write(message)
            else:
                straight.append(viewer)
                descriptors.append(viewer.descriptor)
        if send_to_each is not None:
            for place, taken in send_to_each(descriptors, message):
                straight[place].write(message[taken:])


def open_outlet(*, compiled_wanted: bool) -> Outlet:
    """The outlet with the compiled loop, if that is wanted and was built; says once which it is."""
    send_to_each = compiled() if compiled_wanted else None
    way = "one compiled loop" if send_to_each is not None else "their transports, one by one"
    logger.info("viewers are written to by %s", way)
    return Outlet(send_to_each)
