"""Episodes that are written a batch at a time before anybody can find them.

Until it is one, such an episode looks like one whose removal was begun: it has events, a row in ``removals``
and none in ``episodes``. So whatever interrupts the writing, what it leaves is removed as other rests are.
"""

from __future__ import annotations

from sqlalchemy import Connection, delete, func, insert, select

from spectator.journal.stores.schema import events, removals


def begin_staging(connection: Connection, episode_id: str) -> None:
    """Let the rows of an episode that is not there yet be the rest of a removal."""
    connection.execute(insert(removals).values(episode_id=episode_id))


def end_staging(connection: Connection, episode_id: str) -> None:
    """Let them be those of an episode, whose row follows in the same transaction.

    Raises:
        ValueError: They are being removed.
    """
    if not connection.execute(delete(removals).where(removals.c.episode_id == episode_id)).rowcount:
        raise ValueError(f"what was written of {episode_id} was removed")


def last_within(connection: Connection, episode_id: str, characters: int, until: int) -> int:
    """The last event, ``until`` at most, up to which a record takes no more than ``characters``; else 0."""
    sizes = (
        select(
            events.c.seq,
            func.sum(func.length(events.c.text)).over(order_by=events.c.seq).label("size"),
        )
        .where(events.c.episode_id == episode_id, events.c.seq <= until)
        .subquery()
    )
    return connection.scalar(select(func.max(sizes.c.seq)).where(sizes.c.size <= characters)) or 0
