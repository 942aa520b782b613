"""Sends the same bytes to many viewers: in one compiled call where that was built, else one write each."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence

from .shard import Shard
from .viewer import Viewer
from .wire import Batch

SendToEach = Callable[["array[int]", bytes], list[tuple[int, int]]]
"""Sends bytes to each socket without waiting; returns (place, bytes taken) of those that took not all."""

Fallback = Callable[[Viewer, Batch], None]
"""What is done for a viewer that cannot be written to."""


class Broadcaster:
    """Sends one batch to the viewers of a shard.

    Args:
        send_to_each: The compiled loop; without it each viewer's transport writes.
    """

    def __init__(self, send_to_each: SendToEach | None = None) -> None:
        self._send_to_each = send_to_each

    def send(self, shard: Shard, batch: Batch, otherwise: Fallback) -> None:
        """Send ``batch`` to those who have caught up and have it not yet; the others get it ``otherwise``.

        A viewer that has caught up has nothing in its transport's buffer, so bytes that go past the transport
        overtake nothing. What the kernel does not take goes to the transport, which tells the viewer to hold.
        """
        if batch.first is not None and batch.first <= shard.position:
            shard.demote_all()
        lagging, send_to_each = tuple(shard.lagging), self._send_to_each
        shard.position = batch.last or shard.position
        if send_to_each is not None and shard.in_sync:
            behind = send_to_each(shard.descriptors, batch.message)
            if behind:
                _write_rest(tuple(shard.in_sync), batch, behind)
        if not lagging:
            return
        straight, descriptors = [], array("i")
        for viewer in lagging:
            if not viewer.is_ready_for(batch):
                otherwise(viewer, batch)
                continue
            viewer.position = batch.last or viewer.position
            if send_to_each is None or (descriptor := viewer.descriptor) is None:
                viewer.write(batch.message)
            else:
                straight.append(viewer)
                descriptors.append(descriptor)
        if send_to_each is not None and straight:
            behind = send_to_each(descriptors, batch.message)
            if batch.last is not None:
                shard.promote(straight, descriptors)
            _write_rest(straight, batch, behind)


def _write_rest(viewers: Sequence[Viewer], batch: Batch, behind: Iterable[tuple[int, int]]) -> None:
    for place, taken in behind:
        viewers[place].write(batch.message[taken:])
