"""What viewers see after an event, kept beside a long record so that nobody has to fold all of it again.

It is a checkpoint of the journal, tied to its event by the chain's digest. Those that an episode is played on
from hold the view too, and serve as well; those that are made here hold nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spectator import __version__
from spectator.episodes.record.view import State
from spectator.errors import EpisodeError, JournalError, typed_as
from spectator.events import decode_json, encode_json
from spectator.journal.base import Checkpoint, Journal
from spectator.journal.packing import compressed, expanded

logger = logging.getLogger(__name__)

WORTH_KEEPING: Final = 4_000_000
"""Characters of record that are folded again without complaint; beyond that, what they come to is kept."""


@dataclass(frozen=True, slots=True)
class KeptView:
    """What viewers see after an event.

    Args:
        epoch: Identity of the view's numbering.
        seq: Number of the event in the view.
        recorded_seq: Number of the event in the record: the same, unless the view is derived.
        state: What they see.
    """

    epoch: str
    seq: int
    recorded_seq: int
    state: State

    def checkpoint(self, episode_id: str) -> Checkpoint:
        """As it is kept."""
        view = {"epoch": self.epoch, "seq": self.seq, "made_by": __version__}
        body = encode_json({"view": view, "state": self.state}).encode()
        return Checkpoint(episode_id, self.recorded_seq, compressed(body))


class _Unusable(EpisodeError):
    """A checkpoint that holds no view that can be gone on from."""


async def newest_view(
    journal: Journal, episode_id: str, epoch: str, *, derived: bool, until: int | None = None
) -> KeptView | None:
    """The newest view that is kept of an episode; ``None`` where there is none that can be gone on from.

    Args:
        journal: Where it is.
        episode_id: Of which.
        epoch: Identity of the numbering in which it is wanted.
        derived: Whether the view is derived from the record, so that only one made alike will do.
        until: The last event of the record that it may follow; any when left out.
    """
    try:
        kept = await journal.checkpoints(episode_id)
    except JournalError as error:
        logger.warning("episode %s is folded from its beginning: %s", episode_id, error)
        return None
    for checkpoint in kept:
        if until is not None and checkpoint.seq > until:
            continue
        try:
            with typed_as(lambda error: _Unusable(f"{type(error).__name__}: {error}"), passing=()):
                return _view_in(checkpoint, epoch, derived=derived)
        except _Unusable as error:
            logger.info(
                "episode %s: the view after event %d is not used: %s", episode_id, checkpoint.seq, error
            )
    return None


async def keep_view(journal: Journal, episode_id: str, view: KeptView) -> None:
    """Keep it; never fails, for it only saves work."""
    try:
        await journal.keep_checkpoint(view.checkpoint(episode_id))
    except JournalError as error:
        logger.info("the view of episode %s is not kept: %s", episode_id, error)


def _view_in(checkpoint: Checkpoint, epoch: str, *, derived: bool) -> KeptView:
    body: Mapping[str, Any] = decode_json(expanded(checkpoint.body).decode())
    state = body["state"]
    if not isinstance(state, Mapping):
        raise ValueError("its state is no object")
    made = body.get("view")
    if made is None and not derived:
        return KeptView(epoch, checkpoint.seq, checkpoint.seq, state)
    if made is None or made["epoch"] != epoch or (derived and made["made_by"] != __version__):
        raise ValueError("it is of another numbering")
    return KeptView(epoch, int(made["seq"]), checkpoint.seq, state)
