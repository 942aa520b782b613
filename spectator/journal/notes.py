"""People's notes and labels on episodes and decisions, in a file beside the journal.

Each note is a line of JSON; removing one appends another line. Notes never become part of a record.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from spectator.errors import FieldError, InvalidRequest, JournalError, JournalUnavailable

FILE: Final = "notes.ndjson"

LABEL: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
"""Pattern of a label."""

LIKED: Final[Mapping[str, float]] = {"good": 1.0, "bad": 0.0}
"""Labels that express a preference between two episodes or between two decisions on one question."""

MAX_TEXT: Final = 2_000
"""Maximum characters of a note."""

MOST_OF_EPISODE: Final = 500
"""Maximum notes on one episode."""

MAX_BYTES: Final = 64_000_000
"""Maximum size of the file."""

LONGEST_LINE: Final = 16_000
"""Length beyond which a line is invalid, in bytes."""


@dataclass(frozen=True, slots=True)
class Note:
    """A note on an episode or on one of its decisions.

    Args:
        turn: The decision's turn; ``None`` for the whole episode.
        label: A word such as ``good`` or ``bad``; empty for none.
        text: Untrusted text; show it only as plain text.
        author: The author's name, unverified.
        at: When it was written, RFC 3339.
    """

    note_id: str
    episode_id: str
    turn: int | None
    label: str
    text: str
    author: str
    at: str


class NoteStore:
    """The notes in one file.

    Args:
        path: The file; created with the first note.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     book = NoteStore(Path(folder) / "notes.ndjson")
    ...     book.add(Note("n-1", "ep-1", 3, "good", "calm", "Ada", "2026-11-23T00:00:00Z"))
    ...     book.add(Note("n-2", "ep-1", None, "bad", "", "Ada", "2026-11-23T00:00:01Z"))
    ...     book.remove(book.of("ep-1")[0])
    ...     verdicts(book.of("ep-1"))
    {('ep-1', None): 0.0}
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._notes: dict[str, Note] = {}
        self.unread: list[int] = []
        """Numbers of the invalid lines."""
        self._lines = 0
        self._order = threading.RLock()

    def of(self, episode_id: str) -> list[Note]:
        """Return the notes on an episode, oldest first.

        Raises:
            JournalError: They cannot be read.
        """
        return [one for one in self.all() if one.episode_id == episode_id]

    def all(self) -> list[Note]:
        """Return all notes except removed ones, oldest first.

        Raises:
            JournalError: They cannot be read.
        """
        with self._order:
            self._catch_up()
            return list(self._notes.values())

    def _catch_up(self) -> None:
        try:
            with self._path.open("rb") as file:
                if os.fstat(file.fileno()).st_size < self._read:
                    self._restart()
                file.seek(self._read)
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # it is being written, or was truncated by a crash
                    self._read += len(line)
                    self._lines += 1
                    self._take(line)
        except FileNotFoundError:
            self._restart()
        except OSError as error:
            raise JournalError(f"cannot read {self._path}: {error}") from error

    def add(self, note: Note) -> None:
        """Store a note durably.

        Raises:
            InvalidRequest: Names every invalid field.
            JournalUnavailable: It cannot be written.
        """
        if wrong := _wrong(note):
            raise InvalidRequest(wrong)
        if len(self.of(note.episode_id)) >= MOST_OF_EPISODE:
            raise InvalidRequest(
                [FieldError("episode_id", f"has {MOST_OF_EPISODE} notes, which is the maximum")]
            )
        self._write({"note": asdict(note)})

    def remove(self, note: Note) -> None:
        """Remove a note.

        Raises:
            JournalUnavailable: It cannot be written.
        """
        self._write({"removed": note.note_id})

    def _restart(self) -> None:
        self._read, self._lines = 0, 0
        self._notes.clear()
        self.unread.clear()

    def _take(self, line: bytes) -> None:
        try:
            entry = json.loads(line) if len(line) <= LONGEST_LINE else None
            if isinstance(entry, dict) and isinstance(entry.get("removed"), str):
                self._notes.pop(entry["removed"], None)
                return
            note = Note(**entry["note"] if isinstance(entry, dict) else {})
            if _wrong(note):
                raise ValueError
        except (ValueError, TypeError, KeyError):
            self.unread.append(self._lines)
            return
        self._notes[note.note_id] = note

    def _write(self, entry: Mapping[str, Any]) -> None:
        line = json.dumps(entry, ensure_ascii=False).encode() + b"\n"
        try:
            with self._order, self._path.open("a+b") as file:
                size = file.seek(0, os.SEEK_END)
                if size + len(line) > MAX_BYTES:
                    raise JournalUnavailable(
                        f"{self._path} has reached its maximum of {MAX_BYTES / 1e6:g} MB"
                    )
                if size:
                    file.seek(size - 1)
                    line = line if file.read(1) == b"\n" else b"\n" + line  # the previous line is truncated
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise JournalUnavailable(f"cannot write {self._path}: {error}") from error


def verdicts(notes: Iterable[Note]) -> dict[tuple[str, int | None], float]:
    """Return the mean preference of each episode and turn, 1 for good and 0 for bad."""
    found: dict[tuple[str, int | None], list[float]] = {}
    for note in notes:
        if note.label in LIKED:
            found.setdefault((note.episode_id, note.turn), []).append(LIKED[note.label])
    return {key: sum(values) / len(values) for key, values in found.items()}


def _wrong(note: Note) -> list[FieldError]:
    wrong = []
    if note.label and not LABEL.fullmatch(note.label):
        wrong.append(FieldError("label", "must be a word such as good: at most 32 of a-z, 0-9, _ and -"))
    if not isinstance(note.text, str) or len(note.text) > MAX_TEXT:
        wrong.append(FieldError("text", f"must be a text of at most {MAX_TEXT} characters"))
    if not isinstance(note.author, str) or len(note.author) > 64 or not note.author.isprintable():
        wrong.append(FieldError("author", "must be a name of at most 64 characters on one line"))
    if not note.label and not note.text:
        wrong.append(FieldError("text", "is required without a label"))
    if note.turn is not None and (not isinstance(note.turn, int) or not 0 <= note.turn < 2**31):
        wrong.append(FieldError("turn", "must be the number of a turn, from 0"))
    return wrong
