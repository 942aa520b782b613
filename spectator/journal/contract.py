"""Define what a journal does: append, read, chain and index events.

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

from spectator.events import EndReason, Event, RecordedEvent, decode
from spectator.model_calls import ModelCall


@dataclass(frozen=True, slots=True)
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


Synchronous = Literal["normal", "full"]
"""Whether a commit waits for the disk: with ``full`` even a power cut loses none of them."""


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """One line of the index, derived from the episode's own events.

    Args:
        episode_id: Its id.
        epoch: Identity of its numbering.
        environment: Name of its world.
        title: The world's name as shown to people.
        captain: Preset in the agent's seat.
        captain_label: The same as shown to people.
        opponent: Preset in the other seats; empty when there are none.
        pack: Evaluation pack.
        seed: Its seed.
        started_at: RFC 3339.
        ended_at: RFC 3339; ``None`` while it has not ended.
        reason: Why it ended.
        score: The sum of the agent's rewards, when it finished; in [0, 1] in most worlds.
        result: The world's result in words, when it finished.
        turns: Turns taken, once it has ended.
        head_seq: Number of its last event.
        detail: What went wrong, when something did, once it has ended.
        digest: The chain's digest up to its last event, 64 hexadecimal digits; ``None`` where viewers
            may not see all of its events yet.
        parent: Id of the episode that it was forked from; ``None`` for most.
        run_id: The run that it was played for, if for one.
        group_id: Its group within the run.
        attempt: Which attempt it is at its place in the run, from 1.
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
    """Which episodes to list, newest first.

    Args:
        environment: Only of this world.
        captain: Only with this preset in the agent's seat.
        opponent: Only with this preset in the other seats.
        pack: Only of this evaluation pack.
        seed: Only with this seed.
        reason: Only those that ended for this reason.
        parent: Only forks of this episode.
        parents: Only forks of one of these, unless there are none.
        run_id: Only of this run.
        group_id: Only of this group.
        attempt: Only attempts with this number.
        text: Only those in whose result, names, pack, seed or id this text is found, whatever its case.
        ended: Only ended ones (``True``) or only unended ones (``False``).
        before: Only those whose id sorts before this one: the cursor to the next page.
        limit: At most so many, 1 .. 1000.
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
    """Where an unended episode stood after one of its events; what it says is the business of whoever plays.

    Args:
        episode_id: Which.
        seq: Number of that event.
        body: What was kept.
    """

    episode_id: str
    seq: int
    body: bytes


class EpisodeLog(Protocol):
    """As much of a journal as playing an episode needs.

    ``(episode_id, seq)`` is unique, so a second writer of an episode is fenced off.
    """

    async def append(
        self, events: Sequence[RecordedEvent], *, attachments: Attachments | None = None
    ) -> None:
        """Record ``events`` of one episode and what belongs to them, all or none, durably before returning.

        Args:
            events: In the order of their numbers; nothing is recorded where there are none.
            attachments: Model calls and the sealed truth, in the same transaction.

        Raises:
            SequenceConflict: One of the numbers is taken.
            JournalUnavailable: The record cannot be written now; later, it may be.
            JournalError: The record could not be written.
        """
        ...

    async def read(
        self, episode_id: str, *, after_seq: int = 0, limit: int | None = None, checked: bool = True
    ) -> list[RecordedEvent]:
        """Events of an episode with ``seq > after_seq``, in order, in the encoding they were recorded in.

        Args:
            episode_id: Which.
            after_seq: Only later ones.
            limit: At most so many.
            checked: Whether they are held against the chain; whoever plays them again does so otherwise.

        Raises:
            EpisodeDamaged: One is missing, or not as it was recorded.
        """
        ...

    def calls(self, episode_id: str) -> AsyncIterator[RecordedCall]:
        """Its calls to models, in order, each with its whole prompt and reply, a batch at a time.

        A call is there as soon as its decision is. Episodes of which none were recorded have none.

        Raises:
            JournalError: One cannot be read, or is not as it was recorded.
        """
        ...


class Journal(EpisodeLog, Protocol):
    """The source of truth."""

    async def texts(self, episode_id: str, *, after_seq: int = 0, limit: int | None = None) -> list[str]:
        """What :meth:`read` reads, not decoded: a hundredth of the work, for whoever only passes them on."""
        ...

    def stream(self, episode_id: str, *, after_seq: int = 0) -> AsyncIterator[RecordedEvent]:
        """The same, a batch at a time, for long episodes."""
        ...

    async def truth(self, episode_id: str) -> str | None:
        """The sealed truth of an ended episode as JSON text; ``None`` where none was recorded.

        Raises:
            EpisodeNotFound: There is no such episode.
            TruthSealed: It has not ended.
            JournalError: It cannot be read.
        """
        ...

    def links(self, episode_id: str) -> AsyncIterator[Sequence[Link]]:
        """Its events as they lie there, not decoded, a batch at a time, to be checked."""
        ...

    async def episode(self, episode_id: str) -> EpisodeSummary | None:
        """Summary of one episode."""
        ...

    async def episodes(self, wanted: EpisodeFilter) -> list[EpisodeSummary]:
        """Summaries, newest first."""
        ...

    async def keep_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep where an episode stands after a recorded event, beside the record and no part of it.

        The newest two of an episode are kept, and the newest once it has ended.

        Raises:
            JournalError: It could not be kept; nothing of the record is lost.
        """
        ...

    async def checkpoints(self, episode_id: str) -> list[Checkpoint]:
        """Those of an episode that fit its record, newest first.

        Raises:
            JournalError: They cannot be read.
        """
        ...

    def begin_staging(self, episode_id: str) -> None:
        """Let an episode that is about to begin be found by nobody until :meth:`end_staging`.

        What is appended to it meanwhile is written and no episode yet. What a death leaves of it is removed
        as the rest of a removal is.
        """
        ...

    def end_staging(self, episode_id: str) -> None:
        """Let the next :meth:`append` to an episode make it one, with all that was staged, at once."""
        ...

    async def unstage(self, episode_id: str) -> None:
        """Remove what was staged of an episode; one that became an episode, or was none, is left alone.

        Raises:
            JournalError: It could not be removed, or not all of it.
        """
        ...

    async def last_within(self, episode_id: str, characters: int, *, until: int) -> int:
        """Number of the last event up to which a record takes no more than ``characters``; 0 where none does.

        Args:
            episode_id: Whose.
            characters: Characters of its events as they are recorded.
            until: Not beyond this number.

        Raises:
            JournalError: It cannot be read.
        """
        ...

    async def check(self) -> None:
        """Prove that the journal can be written and read now.

        Raises:
            JournalError: It cannot.
        """
        ...

    async def aclose(self) -> None:
        """Finish what was begun and let go."""
        ...


async def every_episode(journal: Journal, wanted: EpisodeFilter) -> list[EpisodeSummary]:
    """Read all episodes that match, page by page, oldest first."""
    found: list[EpisodeSummary] = []
    while page := await journal.episodes(wanted):
        found += page
        wanted = replace(wanted, before=page[-1].episode_id)
    return found[::-1]
