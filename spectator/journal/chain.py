"""The hash chain: each event's digest covers it and, through the one before, everything before it.

``digest(0)`` is 32 zero bytes; ``digest(n) = SHA-256(digest(n-1) + text(n))``, the text in UTF-8 without a
line end. docs/journal.md says what a chain shows and what it cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from spectator.events import decode

GENESIS: Final = bytes(32)
"""Digest before the first event."""


def extend(digest: bytes, text: str) -> bytes:
    """The digest after one more event.

    Args:
        digest: The one before, 32 bytes.
        text: The event as it was recorded.

    Returns:
        32 bytes.

    Raises:
        UnicodeEncodeError: The text has no UTF-8.

    >>> extend(extend(GENESIS, "first"), "second").hex()[:16]
    'de1e86981ce97f7c'
    """
    return sha256(digest + text.encode()).digest()


@dataclass(frozen=True, slots=True)
class Link:
    """An event as it lies in the journal, not decoded.

    Args:
        episode_id: Under which it lies.
        seq: The number under which it lies.
        text: What is kept of it.
        digest: What was kept beside it, 32 bytes; ``None`` where nothing was.
    """

    episode_id: str
    seq: int
    text: str
    digest: bytes | None


@dataclass(frozen=True, slots=True)
class Break:
    """Where a chain does not hold.

    Args:
        seq: The event.
        message: What is wrong with it, for people.
    """

    seq: int
    message: str


class Chain:
    """Walks over the events of one episode and tells where the chain breaks.

    After a break it goes on from what is kept, so that one forged event is one break.

    Args:
        head_seq: The number of the last event, where it is known otherwise.
        digest: The digest of the last event, where it is known otherwise.
    """

    def __init__(self, *, head_seq: int | None = None, digest: bytes | None = None) -> None:
        self.seq = 0
        self.digest = GENESIS
        self._head_seq = head_seq
        self._head = digest

    def check(self, links: Iterable[Link]) -> Iterator[Break]:
        """What is wrong with ``links``, the next ones in the order of their numbers."""
        for link in links:
            message = self._wrong(link)
            if message is not None:
                yield Break(link.seq, message)
            self.seq = link.seq
            self.digest = link.digest if link.digest is not None else extend(self.digest, link.text)

    def finish(self) -> Iterator[Break]:
        """What is wrong with the end, once every event was seen."""
        if self._head_seq is not None and self.seq < self._head_seq:
            yield Break(self.seq + 1, f"is missing, and all after it up to event {self._head_seq}")
        elif self._head_seq is not None and self.seq > self._head_seq:
            yield Break(self._head_seq + 1, "was added after the end")
        elif self._head is not None and self.digest != self._head:
            yield Break(
                self.seq, f"ends in the digest {self.digest.hex()}, not in the stated {self._head.hex()}"
            )

    def _wrong(self, link: Link) -> str | None:
        if link.seq != self.seq + 1:
            first, last = self.seq + 1, link.seq - 1
            missing = f"event {first} is" if first == last else f"events {first} to {last} are"
            return f"comes after {self.seq}: {missing} missing"
        try:
            event = decode(link.text).event
        except ValueError:
            return "is no event: its text was changed"
        if (event.episode_id, event.seq) != (link.episode_id, link.seq):
            return f"holds event {event.seq} of {event.episode_id}: it was moved here"
        if link.digest is not None and link.digest != extend(self.digest, link.text):
            return "does not fit its digest: it was changed, or put in, after it was recorded"
        return None
