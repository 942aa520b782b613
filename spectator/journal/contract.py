"""The interface of a journal: append, read, chain and index events.

Attachments are recorded with the events of a step in the same commit: model calls and the sealed truth. The
events name them by digest (``exchanges[].digest`` of ``decision.made`` or ``undecided``, ``truth`` of
``episode.ended``), so the chain covers them too. They are never part of an event, a patch or a snapshot.

The chain: each event's digest covers the event and, through the digest before it, everything before it.
``digest(0)`` is 32 zero bytes; ``digest(n) = SHA-256(digest(n-1) + text(n))``, where text is UTF-8 without
a line end. docs/journal.md says what a chain proves and what it cannot.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final, Literal, Protocol

from spectator.errors import EndReason
from spectator.events import Event, RecordedEvent, decode
from spectator.model_calls import ModelCall


@dataclass(frozen=True, slots=True)
class Attachments:
    """Data recorded with the events of one append.

    Args:
        calls: For each event of a type in :data:`~spectator.core_events.CALLS_BEHIND`, in order, the calls
            behind it, one for each of its ``exchanges``; events beyond the last have none.
        truth: The world's sealed truth as JSON text; only with ``episode.ended``.
    """

    calls: Sequence[Sequence[ModelCall]] = ()
    truth: str | None = None

    def __bool__(self) -> bool:
        return self.truth is not None or any(self.calls)


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A recorded call to a model.

    Args:
        decided: The ``decision.made`` that it belongs to, or the event of the failed decision.
        place: Index among the event's exchanges, from 0.
        call: The call, with its whole ``reply``.
    """

    decided: Event
    place: int
    call: ModelCall

    @property
    def stated(self) -> Mapping[str, Any]:
        """The part of the event with the actor and all exchanges."""
        stated: Mapping[str, Any] = self.decided.data.get("undecided", self.decided.data)
        return stated

    @property
    def exchange(self) -> Mapping[str, Any]:
        """Its entry in the event's exchanges."""
        exchange: Mapping[str, Any] = self.stated["exchanges"][self.place]
        return exchange


def truth_digest(truth: str) -> str:
    """Return the SHA-256, in hex, of the sealed truth's text, as in ``episode.ended``.

    >>> truth_digest("{}")[:12]
    '44136fa355b3'
    """
    return sha256(truth.encode()).hexdigest()


GENESIS: Final = bytes(32)
"""Digest before the first event."""


def extend(digest: bytes, text: str) -> bytes:
    """Return the chain's digest after one more event.

    Args:
        digest: The previous digest, 32 bytes.
        text: The recorded text of the event.

    Returns:
        32 bytes.

    Raises:
        UnicodeEncodeError: The text has no UTF-8 encoding.

    >>> extend(extend(GENESIS, "first"), "second").hex()[:16]
    'de1e86981ce97f7c'
    """
    return sha256(digest + text.encode()).digest()


@dataclass(frozen=True, slots=True)
class Link:
    """The row of an event, not decoded.

    Args:
        digest: The stored digest, 32 bytes; ``None`` if there is none.
    """

    episode_id: str
    seq: int
    text: str
    digest: bytes | None


@dataclass(frozen=True, slots=True)
class Break:
    """A place where a chain is broken.

    Args:
        message: What is wrong with it, for people.
    """

    seq: int
    message: str


class Chain:
    """Checks the chain of one episode's events.

    After a break it continues with the stored digest, so that one forged event is one break.

    Args:
        head_seq: Expected number of the last event, if known.
        digest: Expected digest of the last event, if known.
    """

    def __init__(self, *, head_seq: int | None = None, digest: bytes | None = None) -> None:
        self.seq = 0
        self.digest = GENESIS
        self._head_seq = head_seq
        self._head = digest

    def check(self, links: Iterable[Link]) -> Iterator[Break]:
        """Yield the breaks in ``links``, the next rows in order."""
        for link in links:
            message = self._wrong(link)
            if message is not None:
                yield Break(link.seq, message)
            self.seq = link.seq
            self.digest = link.digest if link.digest is not None else extend(self.digest, link.text)

    def finish(self) -> Iterator[Break]:
        """Yield the break at the end, if any, once every event was checked."""
        if self._head_seq is not None and self.seq < self._head_seq:
            yield Break(self.seq + 1, f"is missing, like all later ones up to event {self._head_seq}")
        elif self._head_seq is not None and self.seq > self._head_seq:
            yield Break(self._head_seq + 1, "was added after the end")
        elif self._head is not None and self.digest != self._head:
            yield Break(self.seq, f"has the digest {self.digest.hex()}, but {self._head.hex()} is expected")

    def _wrong(self, link: Link) -> str | None:
        if link.seq != self.seq + 1:
            first, last = self.seq + 1, link.seq - 1
            missing = f"event {first} is" if first == last else f"events {first} to {last} are"
            return f"follows event {self.seq}: {missing} missing"
        try:
            event = decode(link.text).event
        except ValueError:
            return "is not a valid event: its text was changed"
        if (event.episode_id, event.seq) != (link.episode_id, link.seq):
            return f"contains event {event.seq} of {event.episode_id}: it was moved here"
        if link.digest is not None and link.digest != extend(self.digest, link.text):
            return "does not match its digest: it was changed or added after it was recorded"
        return None


Synchronous = Literal["normal", "full"]
"""Whether a commit waits for the disk: with ``full`` even a power cut loses no commit."""


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """An entry of the episode index, derived from the episode's events.

    Args:
        title: The world's name for people.
        captain_label: The preset's name for people.
        opponent: Preset in the other seats; empty if there are none.
        started_at: RFC 3339.
        ended_at: RFC 3339; ``None`` while it has not ended.
        score: The sum of the agent's rewards if it finished; in [0, 1] in most worlds.
        result: The world's result in words if it finished.
        turns: Turns taken, once it has ended.
        detail: What went wrong, if anything, once it has ended.
        digest: The chain's digest up to its last event, 64 hexadecimal digits; ``None`` while some of its
            events are withheld from viewers.
        parent: Id of the episode that it was forked from, if any.
        run_id: The run that it belongs to, if any.
        attempt: Number of the attempt at its place in the run, from 1.
    """

    episode_id: str
    epoch: str
    environment: str
    title: str
    captain: str
    captain_label: str
    opponent: str
    pack: str
    seed: int
    started_at: str
    ended_at: str | None
    reason: EndReason | None
    score: float | None
    result: str | None
    turns: int | None
    head_seq: int
    detail: str | None = None
    digest: str | None = None
    parent: str | None = None
    run_id: str | None = None
    group_id: str | None = None
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class EpisodeFilter:
    """Filter and page of a list of episodes, newest first.

    Args:
        environment: Only of this world.
        captain: Only with this preset in the agent's seat.
        opponent: Only with this preset in the other seats.
        pack: Only of this evaluation pack.
        seed: Only with this seed.
        reason: Only those that ended for this reason.
        parent: Only forks of this episode.
        parents: Only forks of one of these; ignored if empty.
        run_id: Only of this run.
        group_id: Only of this group.
        attempt: Only attempts with this number.
        text: Only those whose result, names, pack, seed or id contains this text, ignoring case.
        ended: Only ended ones (``True``) or only unended ones (``False``).
        before: Only those whose id sorts before this one: the cursor of the next page.
        limit: Maximum number, 1 .. 1000.
    """

    environment: str | None = None
    captain: str | None = None
    opponent: str | None = None
    pack: str | None = None
    seed: int | None = None
    reason: EndReason | None = None
    parent: str | None = None
    parents: Sequence[str] = ()
    run_id: str | None = None
    group_id: str | None = None
    attempt: int | None = None
    text: str | None = None
    ended: bool | None = None
    before: str | None = None
    limit: int = 100

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= 1000:
            raise ValueError(f"limit must be from 1 to 1000, not {self.limit}")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The saved state of an episode after one of its events; opaque to the journal."""

    episode_id: str
    seq: int
    body: bytes


class EpisodeLog(Protocol):
    """The part of a journal that playing an episode needs.

    ``(episode_id, seq)`` is unique, so a second writer of an episode is rejected.
    """

    async def append(
        self, events: Sequence[RecordedEvent], *, attachments: Attachments | None = None
    ) -> None:
        """Record ``events`` of one episode and their attachments durably, all or none.

        Args:
            events: Events in order; may be empty.
            attachments: Model calls and the sealed truth, in the same transaction.

        Raises:
            SequenceConflict: One of the numbers is taken.
            JournalUnavailable: The record cannot be written now; a later retry may help.
            JournalError: The record could not be written.
        """

    async def read(
        self, episode_id: str, *, after_seq: int = 0, limit: int | None = None, checked: bool = True
    ) -> list[RecordedEvent]:
        """Read the events with ``seq > after_seq``, in order, in their recorded encoding.

        Args:
            after_seq: Read only later events.
            limit: Maximum number of events.
            checked: Whether to check them against the chain; not needed if they are replayed.

        Raises:
            EpisodeDamaged: An event is missing or was changed.
        """

    def calls(self, episode_id: str) -> AsyncIterator[RecordedCall]:
        """Yield an episode's model calls, in order, each with its whole prompt and reply.

        A call is recorded in the same commit as its decision.

        Raises:
            JournalError: A call cannot be read or was changed.
        """


class Journal(EpisodeLog, Protocol):
    """The source of truth: every episode's events and what is recorded with them."""

    async def texts(self, episode_id: str, *, after_seq: int = 0, limit: int | None = None) -> list[str]:
        """Read the same events as :meth:`read`, not decoded: a hundredth of the work."""

    def stream(self, episode_id: str, *, after_seq: int = 0) -> AsyncIterator[RecordedEvent]:
        """Yield the same events, read in batches, for long episodes."""

    async def truth(self, episode_id: str) -> str | None:
        """Return the sealed truth of an ended episode as JSON text; ``None`` if it has none.

        Raises:
            EpisodeNotFound: There is no such episode.
            TruthSealed: It has not ended.
            JournalError: It cannot be read.
        """

    def links(self, episode_id: str) -> AsyncIterator[Sequence[Link]]:
        """Yield batches of an episode's rows, not decoded or checked."""

    async def episode(self, episode_id: str) -> EpisodeSummary | None:
        """Return the summary of one episode; ``None`` if there is no such episode."""

    async def episodes(self, wanted: EpisodeFilter) -> list[EpisodeSummary]:
        """List summaries, newest first."""

    async def lost_until(self, episode_id: str, head_seq: int) -> int | None:
        """Return the last event of an unended episode that viewers may have seen and that is lost.

        Args:
            head_seq: Its last event in the journal.

        Returns:
            ``None`` if nothing is lost; ``head_seq`` if the database may have gone back in time, but it is
            not known how far.

        Raises:
            JournalError: It cannot be read now.
        """

    async def keep_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Save a checkpoint; it is not part of the record.

        The newest two of an episode are kept; once it has ended, only the newest.

        Raises:
            JournalError: It could not be saved; the record is unaffected.
        """

    async def checkpoints(self, episode_id: str) -> list[Checkpoint]:
        """Return an episode's checkpoints that match its record, newest first.

        Raises:
            JournalError: They cannot be read.
        """

    def begin_staging(self, episode_id: str) -> None:
        """Hide a new episode from readers until :meth:`end_staging`.

        Appended events are written, but not listed as an episode. After a crash they are removed like the
        rest of an interrupted removal.
        """

    def end_staging(self, episode_id: str) -> None:
        """Make the next :meth:`append` to an episode publish it with all its staged events."""

    async def unstage(self, episode_id: str) -> None:
        """Remove an episode's staged events; does nothing if it is not staged.

        Raises:
            JournalError: They could not all be removed.
        """

    async def last_within(self, episode_id: str, characters: int, *, until: int) -> int:
        """Return the last event up to which a record has at most ``characters``; 0 if there is none.

        Args:
            characters: Maximum total length of the recorded texts.
            until: Maximum number to return.

        Raises:
            JournalError: It cannot be read.
        """

    async def check(self) -> None:
        """Check that the journal can be written and read now.

        Raises:
            JournalError: It cannot.
        """

    async def aclose(self) -> None:
        """Commit all waiting appends and close the journal."""


async def every_episode(journal: Journal, wanted: EpisodeFilter) -> list[EpisodeSummary]:
    """Read all episodes that match, page by page, oldest first."""
    found: list[EpisodeSummary] = []
    while page := await journal.episodes(wanted):
        found += page
        wanted = replace(wanted, before=page[-1].episode_id)
    return found[::-1]
