"""Owns how the same bytes reach many viewers: in one compiled call where it was built, else a write each."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Iterable, Sequence

from .rows import Row
from .viewer import Viewer
from .wire import Batch

SendToEach = Callable[["array[int]", bytes], list[tuple[int, int]]]
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
    """Hands one batch to the viewers of a row.

    Args:
        send_to_each: The compiled loop; without it each viewer's transport writes.
    """

    def __init__(self, send_to_each: SendToEach | None = None) -> None:
        self._send_to_each = send_to_each

    def hand_out(self, row: Row, batch: Batch, otherwise: Callable[[Viewer, Batch], None]) -> None:
        """Send ``batch`` to those who have caught up and have it not yet; the others get it ``otherwise``.

        A viewer that has caught up has nothing in its transport's buffer, so bytes that go past the transport
        overtake nothing. What the kernel does not take goes to the transport, which tells the viewer to hold.
        """
        send_to_each, first = self._send_to_each, batch.first
        if send_to_each is None or row.descriptors is None or (first is not None and first <= row.position):
            self._one_by_one(row, batch, otherwise)
            return
        row.position = batch.last or row.position
        if behind := send_to_each(row.descriptors, batch.message):
            _leave_the_rest(tuple(row.viewers), batch, behind)

    def _one_by_one(self, row: Row, batch: Batch, otherwise: Callable[[Viewer, Batch], None]) -> None:
        row.break_step()
        last, send_to_each = batch.last, self._send_to_each
        straight, descriptors = [], array("i")
        for viewer in tuple(row.viewers):
            if not viewer.is_ready_for(batch):
                otherwise(viewer, batch)
                continue
            viewer.position = last or viewer.position
            if send_to_each is None or viewer.descriptor is None:
                viewer.write(batch.message)
            else:
                straight.append(viewer)
                descriptors.append(viewer.descriptor)
        if send_to_each is not None:
            behind = send_to_each(descriptors, batch.message)
            _leave_the_rest(straight, batch, behind)
            if last is not None and not behind and len(straight) == len(row.viewers):
                row.fall_in(descriptors, last)


def _leave_the_rest(viewers: Sequence[Viewer], batch: Batch, behind: Iterable[tuple[int, int]]) -> None:
    for place, taken in behind:
        viewers[place].write(batch.message[taken:])


def open_outlet(*, compiled_wanted: bool) -> Outlet:
    """The outlet with the compiled loop, if that is wanted and was built; says once which it is."""
    send_to_each = compiled() if compiled_wanted else None
    way = "one compiled loop" if send_to_each is not None else "their transports, one by one"
    logger.info("viewers are written to by %s", way)
    return Outlet(send_to_each)
