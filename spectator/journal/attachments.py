"""What is recorded beside the events of a step, in the same commit: model calls and the sealed truth.

The events name it by digests (``exchanges[].digest`` of ``decision.made``, or of ``undecided`` where nobody
decided, and ``truth`` of ``episode.ended``), so the chain of digests covers it too. It is never part of an
event, a patch or a snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from spectator.checked_dataclass import checked_dataclass
from spectator.events import Event
from spectator.model_calls import ModelCall


@checked_dataclass(frozen=True, slots=True)
class Attachments:
    """What belongs to the events of one append.

    Args:
        calls: For each event of a type in :data:`~spectator.events.CALLS_BEHIND`, in order, the calls behind
            it, one for each of its ``exchanges``; events beyond the last have none.
        truth: The world's sealed truth as JSON text; only beside ``episode.ended``.
    """

    calls: Sequence[Sequence[ModelCall]] = ()
    truth: str | None = None

    def __bool__(self) -> bool:
        return self.truth is not None or any(self.calls)


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call to a model as it was recorded, whole.

    Args:
        decided: The ``decision.made`` that it is behind; the event of the failure where nobody decided.
        place: Which of its exchanges it is, from 0.
        call: The call; its ``reply`` is the whole one, whatever its length.
    """

    decided: Event
    place: int
    call: ModelCall

    @property
    def stated(self) -> Mapping[str, Any]:
        """What the event says of who was asked, and of all the questions."""
        stated: Mapping[str, Any] = self.decided.data.get("undecided", self.decided.data)
        return stated

    @property
    def exchange(self) -> Mapping[str, Any]:
        """What the event itself holds of it."""
        exchange: Mapping[str, Any] = self.stated["exchanges"][self.place]
        return exchange


def truth_digest(truth: str) -> str:
    """SHA-256, in hex, of the sealed truth's text, as ``episode.ended`` states it.

    >>> truth_digest("{}")[:12]
    '44136fa355b3'
    """
    return sha256(truth.encode()).hexdigest()
