"""Owns how the same bytes reach many viewers: in one compiled call where it was built, else a write each."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Iterable, Sequence

from .shard import Row
from .viewer import Viewer
from .wire import Batch

SendToEach = Callable[["array[int]", bytes], list[tuple[int, int]]]
"""Sends bytes to each socket without waiting; returns (place, bytes taken) of those that took not all."""

logger = logging.getLogger(__name__)


def compiled() -> SendToEach | None:
    """The compiled loop, or ``None`` where it was not built."""
    try:
        from ..transport._sends import send_to_each
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
        if batch.first is not None and batch.first <= row.position:
            row.disband()
        apart = tuple(row.apart)
        row.position = batch.last or row.position
        if self._send_to_each is not None and row.in_step:
            behind = self._send_to_each(row.descriptors, batch.message)
            if behind:
                _leave_the_rest(tuple(row.in_step), batch, behind)
        if apart:
            self._one_by_one(row, apart, batch, otherwise)

    def _one_by_one(
        self, row: Row, apart: Iterable[Viewer], batch: Batch, otherwise: Callable[[Viewer, Batch], None]
    ) -> None:
        last, send_to_each = batch.last, self._send_to_each
        straight, descriptors = [], array("i")
        for viewer in apart:
            if not viewer.is_ready_for(batch):
                otherwise(viewer, batch)
                continue
            viewer.position = last or viewer.position
            if send_to_each is None or (descriptor := viewer.descriptor) is None:
                viewer.write(batch.message)
            else:
                straight.append(viewer)
                descriptors.append(descriptor)
        if send_to_each is not None and straight:
            behind = send_to_each(descriptors, batch.message)
            if last is not None:
                row.fall_in(straight, descriptors)
            _leave_the_rest(straight, batch, behind)


def _leave_the_rest(viewers: Sequence[Viewer], batch: Batch, behind: Iterable[tuple[int, int]]) -> None:
    for place, taken in behind:
        viewers[place].write(batch.message[taken:])


def open_outlet(*, compiled_wanted: bool) -> Outlet:
    """The outlet with the compiled loop, if that is wanted and was built; says once which it is."""
    send_to_each = compiled() if compiled_wanted else None
    way = "one compiled loop" if send_to_each is not None else "their transports, one by one"
    logger.info("viewers are written to by %s", way)
    return Outlet(send_to_each)
