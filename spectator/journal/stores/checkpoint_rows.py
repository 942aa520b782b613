"""Checkpoints beside the events of an episode, each held to the event that it follows."""

from __future__ import annotations

import logging
from hashlib import sha256
from typing import Final

from sqlalchemy import Connection, delete, func, insert, select

from spectator.journal.base import Checkpoint
from spectator.journal.stores.schema import checkpoints, episodes, events

logger = logging.getLogger(__name__)

KEPT: Final = 2
"""Newest checkpoints of an episode that are kept: the one before, in case the last is damaged."""


def keep(connection: Connection, checkpoint: Checkpoint) -> None:
    """Keep a checkpoint, and only the one before it.

    Raises:
        ValueError: The event that it follows is not recorded.
    """
    episode_id, seq = checkpoint.episode_id, checkpoint.seq
    digest = _digest_of(connection, episode_id, seq)
    if digest is None:
        raise ValueError(f"a checkpoint after event {seq} of {episode_id}, which is not recorded")
    mine = checkpoints.c.episode_id == episode_id
    connection.execute(delete(checkpoints).where(mine, checkpoints.c.seq >= seq))
    row = {"episode_id": episode_id, "seq": seq, "digest": _digest(digest, checkpoint.body)}
    connection.execute(insert(checkpoints).values(**row, body=checkpoint.body))
    newest = select(checkpoints.c.seq).where(mine).order_by(checkpoints.c.seq.desc())
    old = connection.scalars(newest.offset(KEPT)).all()
    if old:
        connection.execute(delete(checkpoints).where(mine, checkpoints.c.seq <= old[0]))


def kept(connection: Connection, episode_id: str) -> list[Checkpoint]:
    """The checkpoints of an episode that fit its record, newest first; others are left out with a warning."""
    wanted = (
        select(checkpoints.c.seq, checkpoints.c.digest, checkpoints.c.body)
        .where(checkpoints.c.episode_id == episode_id)
        .order_by(checkpoints.c.seq.desc())
    )
    fitting = []
    for seq, digest, body in connection.execute(wanted).all():
        event = _digest_of(connection, episode_id, seq)
        if event is None or not isinstance(body, bytes) or digest != _digest(event, body):
            logger.warning("episode %s: the checkpoint after event %s is damaged: ignored", episode_id, seq)
            continue
        fitting.append(Checkpoint(episode_id, seq, body))
    return fitting


def forget_older_of_ended(connection: Connection) -> None:
    """Of episodes that have ended keep the newest checkpoint alone: nobody plays on, and its view is read."""
    unended = select(episodes.c.episode_id).where(episodes.c.ended_at.is_(None))
    others = checkpoints.alias()
    newest = select(func.max(others.c.seq)).where(others.c.episode_id == checkpoints.c.episode_id)
    older = checkpoints.c.seq < newest.scalar_subquery()
    connection.execute(delete(checkpoints).where(checkpoints.c.episode_id.not_in(unended), older))


def _digest_of(connection: Connection, episode_id: str, seq: int) -> bytes | None:
    """The chain's digest up to an event; ``None`` where it or its digest is missing."""
    wanted = select(events.c.digest).where(events.c.episode_id == episode_id, events.c.seq == seq)
    digest: bytes | None = connection.scalar(wanted)
    return digest


def _digest(event: bytes, body: bytes) -> bytes:
    """What ties a checkpoint to its event, and so to everything before it."""
    return sha256(event + body).digest()
