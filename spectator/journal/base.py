"""What a journal does: append and read events and what belongs to them, and keep an index of episodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from spectator.events import EndReason, RecordedEvent
from spectator.journal.attachments import Attachments, RecordedCall
from spectator.journal.chain import Link

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
