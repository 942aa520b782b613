"""Notes by people are kept beside the record: whole or not at all, within their size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spectator.errors import InvalidRequest, JournalUnavailable
from spectator.journal import notes
from spectator.journal.notes import Note, NoteStore, verdicts

NOTE = Note("n-1", "ep-1", 3, "good", "<b>calm</b>", "Ada", "2026-11-23T00:00:00Z")


def test_what_one_process_notes_another_reads(tmp_path: Path) -> None:
    ours, theirs = NoteStore(tmp_path / "n.ndjson"), NoteStore(tmp_path / "n.ndjson")
    assert theirs.all() == []
    ours.add(NOTE)
    ours.add(replace(NOTE, note_id="n-2", episode_id="ep-2"))
    assert theirs.all() == [NOTE, replace(NOTE, note_id="n-2", episode_id="ep-2")]
    theirs.remove(NOTE)
    assert [one.note_id for one in ours.all()] == ["n-2"]
    assert ours.of("ep-1") == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"label": "Not a label"}, "label"),
        ({"text": "x" * 2001}, "text"),
        ({"author": "x" * 65}, "author"),
        ({"author": "two\nlines"}, "author"),
        ({"label": "", "text": ""}, "text"),
        ({"turn": -1}, "turn"),
        ({"turn": 2**31}, "turn"),
    ],
)
def test_a_wrong_note_names_its_field_and_changes_nothing(
    tmp_path: Path, change: dict[str, object], field: str
) -> None:
    book = NoteStore(tmp_path / "n.ndjson")
    with pytest.raises(InvalidRequest) as raised:
        book.add(replace(NOTE, **change))  # type: ignore[arg-type]
    assert [one.field for one in raised.value.fields] == [field]
    assert not (tmp_path / "n.ndjson").exists()


def test_torn_and_foreign_lines_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "n.ndjson"
    book = NoteStore(path)
    book.add(NOTE)
    with path.open("ab") as file:
        file.write(b'[]\n{"note": {"note_id": 1}}\n\xff\n' + b"x" * 20_000 + b'\n{"note": {"torn')
    reader = NoteStore(path)
    assert (reader.all(), reader.unread) == ([NOTE], [2, 3, 4, 5])
    reader.add(replace(NOTE, note_id="n-2"))
    assert [one.note_id for one in NoteStore(path).all()] == ["n-1", "n-2"]
    path.write_bytes(b"")
    assert reader.all() == []


def test_no_more_is_taken_than_there_is_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = NoteStore(tmp_path / "n.ndjson")
    monkeypatch.setattr(notes, "MOST_OF_EPISODE", 1)
    book.add(NOTE)
    with pytest.raises(InvalidRequest, match="which is the maximum"):
        book.add(replace(NOTE, note_id="n-2"))
    monkeypatch.setattr(notes, "MAX_BYTES", 200)
    with pytest.raises(JournalUnavailable, match="has reached its maximum"):
        book.add(replace(NOTE, note_id="n-3", episode_id="ep-2"))
    assert [one.note_id for one in book.all()] == ["n-1"]


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(JournalUnavailable, match="cannot write"):
        NoteStore(tmp_path / "none" / "n.ndjson").add(NOTE)


def test_labels_of_several_people_are_averaged_and_others_are_none() -> None:
    told = [
        NOTE,
        replace(NOTE, label="bad"),
        replace(NOTE, turn=None, label="bad"),
        replace(NOTE, turn=4, label="odd"),
    ]
    assert verdicts(told) == {("ep-1", 3): 0.5, ("ep-1", None): 0.0}
