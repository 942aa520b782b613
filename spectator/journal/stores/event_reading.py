"""Events read back from their rows, each checked by the digest that it makes with the one before it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import Connection, bindparam, func, select

from spectator.errors import EpisodeDamaged
from spectator.journal.chain import GENESIS, Link, extend
from spectator.journal.stores.schema import episodes, events

READ_BATCH: Final = 500
"""Events that a stream reads at once, at most."""

READ_FIRST: Final = 8
"""Events that it reads first, before it knows how long they are; then at most four times as many as last."""

READ_CHARACTERS: Final = 2_000_000
"""Characters that it reads at once, as far as the events before tell: what a long record takes in memory."""

ENDS: Final = select(
    episodes.c.end_seq,
    select(func.max(events.c.seq))
    .where(events.c.episode_id == bindparam("episode"))
    .scalar_subquery()
    .label("head_seq"),
).where(episodes.c.episode_id == bindparam("episode"))
"""Where an episode ended, and the last of its events that the table's index knows."""


def texts_after(
    connection: Connection, episode_id: str, after_seq: int, limit: int | None, *, checked: bool = True
) -> list[str]:
    """The events after ``after_seq`` as text; if ``checked``, none missing and each as it was recorded.

    Raises:
        EpisodeDamaged: One is missing, or does not fit its digest.
    """
    known = connection.execute(ENDS, {"episode": episode_id}).first()  # first: more may come meanwhile
    wanted = (
        select(events.c.seq, events.c.text, events.c.digest)
        .where(events.c.episode_id == episode_id, events.c.seq >= after_seq)
        .order_by(events.c.seq)
        .limit(None if limit is None else limit + (after_seq > 0))
    )
    rows = connection.execute(wanted).all()
    if rows and rows[0].seq == after_seq:
        digest, rows = rows[0].digest, rows[1:]
    else:
        digest = GENESIS if after_seq <= 0 else None
    seq, wrong = _followed(rows, max(after_seq, 0), digest)
    if checked and known is not None:  # else it is being removed
        head = max(known.end_seq or 0, known.head_seq or 0)
        if not wrong and seq < head and (limit is None or len(rows) < limit):
            wrong = f"events {seq + 1} to {head} are missing from the record"
        if wrong:
            raise EpisodeDamaged(f"{episode_id}: {wrong}")
    return [text for _, text, _ in rows]


def _followed(rows: Iterable[Any], seq: int, digest: bytes | None) -> tuple[int, str]:
    """The number of the last of ``rows``, and what is wrong with the first that does not follow."""
    for number, text, noted in rows:
        if number != seq + 1:
            return seq, f"event {seq + 1} is missing from the record"
        whole = isinstance(text, str)
        if whole and digest is not None and noted is not None:
            whole = noted == extend(digest, text)
        if not whole:
            return seq, f"event {number} is not as it was recorded"
        seq, digest = number, noted
    return seq, ""


def links_after(connection: Connection, episode_id: str, after_seq: int) -> list[Link]:
    """The next events after ``after_seq`` as they lie there, a batch of them, not checked."""
    wanted = (
        select(events.c.episode_id, events.c.seq, events.c.text, events.c.digest)
        .where(events.c.episode_id == episode_id, events.c.seq > after_seq)
        .order_by(events.c.seq)
        .limit(READ_BATCH)
    )
    return [Link(*row) for row in connection.execute(wanted)]
