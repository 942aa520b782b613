"""Session traces of the Hugging Face Hub: a line per session, followed by a line per message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from spectator.importing.file_rows import UNEXPECTED, Entries, FileRow, SkippedEntry, Source, rows
from spectator.importing.foreign import (
    ForeignEpisode,
    ForeignTurn,
    UnreadableEntry,
    count,
    digest_of,
    group_within,
    kind_of,
    message_of,
    moment,
    number,
    text,
)
from spectator.journal.encoding import ChatMessage

NAME: Final = "hf-traces"

MAX_MESSAGES: Final = 100_000
"""Maximum messages of one session."""


def matches(row: Mapping[str, Any]) -> bool:
    """Whether a line is one of this format."""
    return (row.get("type") == "session" and "harness" in row) or (
        row.get("type") == "message" and isinstance(row.get("message"), Mapping)
    )


@dataclass(slots=True)
class _Session:
    head: Mapping[str, Any]
    turns: list[ForeignTurn] = field(default_factory=list)
    asked: list[ChatMessage] = field(default_factory=list)
    messages: int = 0

    def take(self, row: FileRow) -> None:
        """Add the next message.

        Raises:
            UnreadableEntry: It is not a message, or there are too many.
        """
        value = row.value.get("message")
        message = message_of(value, "message")
        self.messages += 1
        if self.messages > MAX_MESSAGES:
            raise UnreadableEntry(f"more than {MAX_MESSAGES:,} messages in one session")
        if message["role"] != "assistant":
            self.asked.append(message)
            return
        assert isinstance(value, Mapping)
        self.turns.append(
            ForeignTurn(
                asked=self.asked,
                reply=message,
                reward=number(row.value.get("reward")),
                model=text(value.get("model")) or None,
                at=self.time_of(row.value) or self.time_of(value),
            )
        )
        self.asked = []

    def words(self) -> list[Any]:
        """Return everything that was said, in order."""
        return [*([one.asked, one.reply, one.reward] for one in self.turns), self.asked]

    @staticmethod
    def time_of(value: Mapping[str, Any]) -> datetime | None:
        """Return the time of a line or message, if it has one."""
        return moment(value.get("timestamp"))

    def episode(self) -> ForeignEpisode:
        """Return the session as an episode."""
        head = self.head
        identity, group = text(head.get("id")), text(head.get("groupId"))
        harness = text(head.get("harness")) or NAME
        environment = text(head.get("environment")) or harness
        reason, failed = text(head.get("reason")), text(head.get("failureClass"))
        unfinished = reason not in ("", "finished")
        cut = reason if failed == "truncated" else None
        return ForeignEpisode(
            key=[NAME, environment, harness, identity or digest_of([head, self.words()])],
            anonymous=not identity,
            environment=environment,
            title=text(head.get("name")) or harness,
            agent=text(head.get("model"))
            or next((one.model for one in self.turns if one.model), None)
            or harness,
            turns=self.turns,
            after=self.asked,
            group=group_within(environment, group) if group else None,
            seed=count(head.get("seed")),
            reward=number(head.get("reward")),
            error=f"{reason}: {failed}" if unfinished and cut is None else None,
            cut=cut,
            result="the session as it was saved" if head.get("reward") is None else None,
            began=self.time_of(head) or next((one.at for one in self.turns if one.at), None),
        )


def read(source: Source) -> Entries:
    """Yield the sessions of a file; a session ends where the next one begins."""
    session: _Session | None = None
    for row in rows(source):
        if isinstance(row, SkippedEntry):
            yield row
            continue
        kind = row.value.get("type")
        if kind == "session":
            if session is not None:
                yield session.episode()
            session = _Session(row.value)
        elif kind == "message":
            session = session or _Session({})
            try:
                session.take(row)
            except UnreadableEntry as error:
                yield SkippedEntry(f"line {row.number}", str(error))
            except UNEXPECTED as error:
                yield SkippedEntry(f"line {row.number}", f"it does not fit the format: {error!r}"[:300])
        else:
            found = text(kind)[:40] or kind_of(kind)
            yield SkippedEntry(f"line {row.number}", f"type is {found}: it must be session or message")
    if session is not None:
        yield session.episode()
