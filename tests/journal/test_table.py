"""The record as a Parquet table: its columns are stable, its rows are the events."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from spectator.events import Event
from spectator.exports.tables import EVENT_COLUMNS, ROW_GROUP, Table, row_of
from spectator.journal.contract import EpisodeSummary
from spectator.journal.sql_journal import SqlJournal
from tests.commands import spectator
from tests.journal.records import run, said, started, url_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "journal.md"


def export(folder: Path, out: Path, *which: str) -> None:
    options = ("--data-dir", str(folder), "--format", "parquet", "--out", str(out))
    result = spectator("export", *which, *options)
    assert result.exit_code == 0, result.stderr


def test_the_page_lists_the_columns_as_they_are() -> None:
    listed = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert dict(listed) == dict(EVENT_COLUMNS)
    assert [name for name, _ in listed] == list(EVENT_COLUMNS)


def test_every_event_is_a_row_and_decisions_know_what_came_of_them(tmp_path: Path) -> None:
    out = tmp_path / "episodes.parquet"
    played = [
        [json.loads(line) for line in spectator(*arguments, "--data-dir", str(tmp_path)).stdout.splitlines()]
        for arguments in (
            ("play", "counting", "--seed", "3"),
            ("play", "counting", "--seed", "4", "--captain", "random"),
        )
    ]
    result = spectator(
        "export", "--all", "--data-dir", str(tmp_path), "--format", "parquet", "--out", str(out)
    )
    assert result.exit_code == 0, result.stderr
    table = parquet.read_table(out)
    assert table.schema.names == list(EVENT_COLUMNS)
    rows = table.to_pylist()
    events = [event for episode in played for event in episode]
    assert [(row["episode_id"], row["seq"], row["type"], row["turn"]) for row in rows] == [
        (event["episode_id"], event["seq"], event["type"], event["turn"]) for event in events
    ]
    assert [json.loads(row["data"]) for row in rows] == [event["data"] for event in events]
    for episode in played:
        mine = [row for row in rows if row["episode_id"] == episode[0]["episode_id"]]
        decisions = [row for row in mine if row["type"] == "decision.made"]
        outcomes = [event for event in episode if event["type"] in ("step.taken", "action.refused")]
        assert len(decisions) == len(outcomes)
        for decision, outcome in zip(decisions, outcomes, strict=True):
            assert decision["reward"] == outcome["data"].get("reward")
            assert decision["refused_rule"] == outcome["data"].get("rule")
            assert decision["source"] in ("heuristic", "random") and decision["own"] is True
            assert json.loads(decision["action"])
        assert {row["episode_score"] for row in mine} == {episode[-1]["data"]["score"]}
        assert {row["seed"] for row in mine} == {episode[0]["data"]["seed"]}
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(
    ("changes", "failure_class", "own"),
    [
        ({"source": "model"}, None, True),
        ({"source": "fallback", "failure_class": "unparsable"}, "unparsable", False),
    ],
)
def test_a_row_says_whether_the_captain_decided_itself(
    changes: dict[str, Any], failure_class: str | None, own: bool
) -> None:
    data = {"actor": "counter", "action": {}, "fallback_reason": None, **changes}
    event = Event("ep-1", "e", 2, "2026-11-21T05:00:00.000Z", 1, "decision.made", data)
    names = "ep-1", "e", "counting", "Counting", "llm:m", "M", "", "default"
    row = row_of(EpisodeSummary(*names, 1, event.at, None, None, None, None, None, 2), event)
    assert (row["failure_class"], row["own"]) == (failure_class, own)


def test_a_long_episode_is_written_in_groups(tmp_path: Path) -> None:
    length = ROW_GROUP * 2 + 10

    async def scenario() -> None:
        journal = await SqlJournal.open(url_of(tmp_path))
        await journal.append([started("ep-1"), *(said("ep-1", seq) for seq in range(2, length + 1))])
        await journal.aclose()

    run(scenario())
    out = tmp_path / "long.parquet"
    result = spectator(
        "export", "ep-1", "--data-dir", str(tmp_path), "--format", "parquet", "--out", str(out)
    )
    assert result.exit_code == 0, result.stderr
    file = parquet.ParquetFile(out)
    assert file.metadata.num_rows == length
    assert file.metadata.num_row_groups >= 2


def test_a_table_that_is_not_finished_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "kept.parquet"
    out.write_bytes(b"as it was")
    try:
        with Table(out):
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["kept.parquet"]
    assert out.read_bytes() == b"as it was"
