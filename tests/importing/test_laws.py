"""Three laws, for every format of the table.

1. Nothing is lost without a sentence that names its place.
2. Importing again, resumed, rewritten, reordered, merged or compressed changes nothing.
3. Every figure is the one that the tool which wrote the file computes from it.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import math
import random
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from spectator.errors import ConfigurationError
from spectator.events import RecordedEvent
from spectator.importing.file_formats import NAMES, FileFormat, format_named, sniff
from spectator.importing.file_rows import Source
from spectator.importing.importer import ImportReport, import_file
from tests.importing.generated import ANSWERS, GENERATED, Row, text_of

TASKS = (1, 2)


class MemoryJournal:
    """Keeps the events of episodes; all that an import needs of a journal."""

    def __init__(self) -> None:
        self.kept: dict[str, list[RecordedEvent]] = {}

    async def episode(self, episode_id: str) -> Any:
        """What is known of an episode."""
        events = self.kept.get(episode_id)
        if events is None:
            return None
        turns = sum(one.type == "decision.made" for one in events)
        return SimpleNamespace(episode_id=episode_id, turns=turns, head_seq=events[-1].seq, ended_at=None)

    async def append(self, events: Sequence[RecordedEvent], attachments: object = None) -> None:
        """Keep events."""
        self.kept.setdefault(events[0].episode_id, []).extend(events)

    async def read(self, episode_id: str) -> list[RecordedEvent]:
        """The events of an episode."""
        return self.kept[episode_id]

    def figures(self) -> dict[str, tuple[Any, ...]]:
        """What people compare, by episode: environment, group, score, end, answers, rewards."""
        found = {}
        for episode_id, events in self.kept.items():
            data = [json.loads(one.text) for one in events]
            began, end = data[0]["data"], data[-1]["data"]
            answers = [json.dumps(one["data"]["action"]) for one in data if one["type"] == "decision.made"]
            rewards = [one["data"]["reward"] for one in data if one["type"] == "step.taken"]
            found[episode_id] = (
                began["environment"], began.get("group_id"), end.get("score"), end.get("reason"),
                answers, rewards,
            )  # fmt: skip
        return found


def imported(
    journal: MemoryJournal, *paths: Path, form: str | None = None, loop: asyncio.Runner | None = None
) -> ImportReport:
    """Import files; a file of no known format is a sentence."""
    run = asyncio.run if loop is None else loop.run
    report = ImportReport()
    for path in paths:
        source = Source(path, scratch=path.parent)
        try:
            known: FileFormat = sniff(source) if form is None else format_named(form)
            run(import_file(source, known, cast(Any, journal), "run", report, lambda *_: None))
        except ConfigurationError as error:
            report.messages.append(f"{path}: {error}")
            report.skipped += 1
    return report


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    """An event loop for many imports, with its threads."""
    with asyncio.Runner() as runner:
        yield runner


def blocks_of(form: str, env: str = "sums") -> list[list[Row]]:
    """The rows of each episode of a run."""
    return [GENERATED[form].rows(env, task, answer) for task in TASKS for answer in ANSWERS]


def flat(blocks: Sequence[list[Row]]) -> list[Row]:
    return [row for block in blocks for row in block]


def written(path: Path, form: str, rows: Sequence[Row], *, otherwise: bool = False) -> Path:
    """Write a file, in a folder of its own: its name is the same, as that can say what it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text_of(form, rows, otherwise=otherwise)
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".zst":
        data = zstandard.compress(data)
    path.write_bytes(data)
    return path


def test_every_format_has_rows_that_are_generated() -> None:
    assert set(GENERATED) == set(NAMES)


@pytest.mark.parametrize("form", NAMES)
def test_law_2_however_a_file_is_written_its_episodes_are_the_same(form: str, tmp_path: Path) -> None:
    chance, made, blocks = random.Random(form), GENERATED[form], blocks_of(form)
    moved = chance.sample(blocks, len(blocks))
    shuffled = flat(moved) if made.in_order else chance.sample(flat(blocks), len(flat(blocks)))
    name = "samples_sums.jsonl"
    files = {
        "rewritten": written(tmp_path / "b" / name, form, flat(blocks), otherwise=True),
        "reordered": written(tmp_path / "c" / name, form, shuffled, otherwise=True),
        "half": written(tmp_path / "d" / name, form, flat(moved[:3])),
        "other half": written(tmp_path / "e" / name, form, flat(moved[3:]), otherwise=True),
        "gzip": written(tmp_path / "f" / f"{name}.gz", form, shuffled),
        "zstd": written(tmp_path / "g" / f"{name}.zst", form, flat(moved)),
    }
    first = MemoryJournal()
    report = imported(first, written(tmp_path / "a" / name, form, flat(blocks)))
    assert (report.imported, report.skipped) == (len(blocks), 0), report.messages
    known = first.figures()
    for told, path in files.items():
        again = imported(first, path)
        assert (again.imported, again.skipped) == (0, 0), (told, again.messages)
    assert first.figures() == known
    for told in ("rewritten", "reordered", "gzip", "zstd"):
        other = MemoryJournal()
        imported(other, files[told])
        assert other.figures() == known, told
    split = MemoryJournal()
    imported(split, files["other half"], files["half"])
    assert split.figures() == known
    if form == "ndjson":  # events twice in one file are a gap of their own
        return
    twice = imported(MemoryJournal(), written(tmp_path / "h" / name, form, [*flat(blocks), *flat(blocks)]))
    assert twice.imported == len(blocks) * (1 if made.ids else 2), "equal rows without ids are their own"


@pytest.mark.parametrize("form", [name for name in NAMES if name != "ndjson"])
def test_law_2_also_as_a_json_text_or_in_an_archive(form: str, tmp_path: Path) -> None:
    blocks, name = blocks_of(form), "samples_sums.json"
    plain, other, zipped = MemoryJournal(), MemoryJournal(), MemoryJournal()
    imported(plain, written(tmp_path / name, form, flat(blocks)))
    lines = [json.loads(line) for line in text_of(form, flat(blocks)).splitlines()]
    whole: Any = lines[0] if GENERATED[form].within else lines
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / name).write_text("\ufeff" + json.dumps(whole, indent=2))
    assert imported(other, tmp_path / "b" / name).skipped == 0
    assert other.figures() == plain.figures()
    with zipfile.ZipFile(tmp_path / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"logs/{name}", json.dumps(whole, indent=1))
        archive.writestr("notes.txt", "nothing")
    report = imported(zipped, tmp_path / "all.zip")
    assert zipped.figures() == plain.figures()
    assert report.skipped == 1 and "notes.txt" in report.messages[0]


@pytest.mark.parametrize("form", NAMES)
def test_law_1_every_damaged_line_is_named_and_costs_no_other_episode(form: str, tmp_path: Path) -> None:
    blocks = blocks_of(form)
    whole = MemoryJournal()
    imported(whole, written(tmp_path / "a.jsonl", form, flat(blocks)))
    lines = text_of(form, flat(blocks)).splitlines()
    if GENERATED[form].within is not None:
        member, rest = GENERATED[form].within  # type: ignore[misc]
        rows: list[Any] = [*flat(blocks)[:2], 5, {"unrelated": 1}, *flat(blocks)[2:]]
        text, places = json.dumps({**rest, member: rows}).encode(), [f"{member}[2]", f"{member}[3]"]
    else:
        first = len(blocks[0])
        extra = [b"5", b'{"unrelated": 1}', b'{"torn": ', lines[0] + b"\xff"]
        text = b"\n".join([*lines[:first], *extra, *lines[first:]]) + b"\n"
        places = [f"line {first + place}" for place in range(1, len(extra) + 1)]
    path = tmp_path / "a.jsonl"
    path.write_bytes(text)
    damaged = MemoryJournal()
    report = imported(damaged, path)
    said = "\n".join([*report.messages, *report.warnings])
    assert all(re.search(rf"{re.escape(place)}(?!\d)", said) for place in places), said
    assert damaged.figures() == whole.figures()


@pytest.mark.parametrize("form", NAMES)
def test_law_1_a_file_that_ends_early_says_so_or_is_whole(form: str, tmp_path: Path) -> None:
    text = text_of(form, flat(blocks_of(form)))
    whole = MemoryJournal()
    (tmp_path / "a.jsonl").write_bytes(text)
    imported(whole, tmp_path / "a.jsonl")
    for part in (0.3, 0.62, 0.95):
        (tmp_path / "a.jsonl").write_bytes(text[: int(len(text) * part)])
        torn = MemoryJournal()
        report = imported(torn, tmp_path / "a.jsonl")
        lost = whole.figures().keys() - torn.figures().keys()
        assert not lost or report.messages, part
        scores = {one[2] for one in whole.figures().values()} | {None}
        assert {one[2] for one in torn.figures().values()} <= scores, "no figure that is not of the file"


@pytest.mark.parametrize("form", NAMES)
def test_law_3_every_figure_is_that_of_the_tool(form: str, tmp_path: Path) -> None:
    made, journal = GENERATED[form], MemoryJournal()
    blocks = blocks_of(form)
    imported(journal, written(tmp_path / "samples_sums.jsonl", form, flat(blocks)))
    right = [made.figure(block) for block in blocks]
    found = [one[2] for one in journal.figures().values()]
    assert sorted(found, key=str) == pytest.approx(sorted(right, key=str))
    known = [one for one in right if one is not None]
    if known:
        ours = [one for one in found if one is not None]
        assert math.fsum(ours) / len(ours) == pytest.approx(sum(known) / len(known)), "the mean"
        assert sum(one == max(known) for one in ours) == sum(one == max(known) for one in known), "the passes"
    for figures in journal.figures().values():
        assert figures[4] and any("It is" in one or "add" in one for one in figures[4]), "its answers"
    groups = Counter(one[1] for one in journal.figures().values() if one[1])
    assert not groups or set(groups.values()) in ({3}, {6}, {1}), groups


@pytest.mark.parametrize("form", ["trl", "chatml", "sharegpt"])
def test_tables_are_read_as_lines_are(form: str, tmp_path: Path) -> None:
    said = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]
    rows: list[Row] = {
        "trl": [{"step": 1, "prompt": "q", "completion": str(n), "reward": n / 4} for n in range(3)],
        "chatml": [{"messages": said, "reward": n / 4} for n in range(3)],
        "sharegpt": [
            {"conversations": [{"from": "gpt", "value": str(n)}], "reward": n / 4} for n in range(3)
        ],
    }[form]
    lines, table = MemoryJournal(), MemoryJournal()
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    imported(lines, tmp_path / "rows.jsonl")
    imported(table, tmp_path / "rows.parquet")
    assert table.figures() == lines.figures() and len(lines.kept) == 3


HOSTILE: Sequence[Any] = (
    None, 5, -1, True, "", "<script>alert(1)</script>\u202e\ud800", [], {}, [[]], [None], {"role": 5},
    10**400,
    float("nan"), 1e308, "1e999", {"a": {"a": {"a": [1, [2, [3]]]}}}, ["x", 5, {"role": "assistant"}], 2**63,
)  # fmt: skip


def changed(chance: random.Random, value: Any, depth: int = 0) -> Any:
    """The value with something within it replaced."""
    if isinstance(value, dict) and value and (depth == 0 or chance.random() < 0.8):
        name = chance.choice(sorted(value))
        if chance.random() < 0.1:
            return {one: other for one, other in value.items() if one != name}
        return {**value, name: changed(chance, value[name], depth + 1)}
    if isinstance(value, list) and value and chance.random() < 0.8:
        place = chance.randrange(len(value))
        return [*value[:place], changed(chance, value[place], depth + 1), *value[place + 1 :]]
    return chance.choice(HOSTILE)


@pytest.mark.parametrize("form", NAMES)
def test_values_of_other_types_crash_nothing_and_change_no_other_figure(
    form: str, tmp_path: Path, loop: asyncio.Runner
) -> None:
    chance, blocks = random.Random(f"types {form}"), blocks_of(form)[::2]
    whole = MemoryJournal()
    path = written(tmp_path / "samples_sums.jsonl", form, flat(blocks))
    imported(whole, path)
    others = whole.figures()
    lost = MemoryJournal()
    imported(lost, written(path, form, flat(blocks[1:])))
    untouched = {one: others[one] for one in lost.figures()}
    for _ in range(40):
        place = chance.randrange(len(blocks[0]))
        first = [changed(chance, row) if n == place else row for n, row in enumerate(blocks[0])]
        journal = MemoryJournal()
        report = imported(journal, written(path, form, [*first, *flat(blocks[1:])]), form=form, loop=loop)
        found = journal.figures()
        if not GENERATED[form].in_order:
            assert {one: found.get(one) for one in untouched} == untouched, (first, report.messages)
        for one in found.values():
            assert one[2] is None or math.isfinite(one[2])
        assert all("\n" not in said for said in report.messages)
        assert len(found) >= len(blocks) or report.messages or report.warnings, first


@pytest.mark.parametrize("form", NAMES)
def test_bytes_that_are_cut_doubled_or_mixed_up_crash_nothing(
    form: str, tmp_path: Path, loop: asyncio.Runner
) -> None:
    chance, text = random.Random(f"bytes {form}"), text_of(form, flat(blocks_of(form)[::2]))
    path = tmp_path / "samples_sums.jsonl"
    for number in range(30):
        start, end = sorted(chance.sample(range(len(text)), 2))
        kind = number % 5
        data = (
            text[:start] if kind == 0
            else text[:end] + text[start:] if kind == 1
            else text[:start] + text[end:] if kind == 2
            else text[:start] + bytes(chance.randrange(256) for _ in range(9)) + text[start:] if kind == 3
            else text[start:]
        )  # fmt: skip
        packed = (bytes, gzip.compress, zstandard.compress)[number % 3](data)
        path.write_bytes(packed if number % 2 else packed[: max(1, len(packed) - 7)])
        journal = MemoryJournal()
        report = imported(journal, path, loop=loop)
        assert journal.kept or report.messages, data[:200]


def test_deep_nesting_and_bombs_are_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spectator.importing import archives

    monkeypatch.setattr(archives._Decompressed, "FREE", 1 << 20)
    deep = b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    good = text_of("chatml", blocks_of("chatml")[0])
    for name, data, said in (
        ("deep.jsonl", good + deep, "line 2: invalid JSON"),
        ("deep.json", b"[\n" + deep + b"]", "it is nested more than 500 deep"),
        ("bomb.jsonl.gz", gzip.compress(good + b" " * (8 << 20)), "expands to more than 200 times its size"),
        ("cut.jsonl.zst", zstandard.compress(good)[:-7], "it is cut off"),
        ("bomb.jsonl.zst", zstandard.compress(good + b"\n" * (8 << 20)), "expands to more than 200 times"),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        report = imported(MemoryJournal(), path)
        assert any(said in one for one in report.messages), (name, report.messages)
