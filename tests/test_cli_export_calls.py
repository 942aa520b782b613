"""`spectator export` of model calls and of the sealed truth: rows for trainers, by run, group and attempt."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from pyarrow import parquet

from spectator.events import encode_json
from spectator.exports.tables import CALL_COLUMNS
from spectator.journal.contract import Attachments
from spectator.journal.sql_journal import SqlJournal
from tests.commands import spectator
from tests.journal.calls import TOOLS, call_of, decided, reply, user
from tests.journal.records import run, said, started, url_of
from tests.journal.test_conformance import end_with, started_for

PAGE = Path(__file__).resolve().parents[1] / "docs" / "exports.md"
TRUTH = {"mass_gev": 91.2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two episodes of a run with calls, the second unended; one without."""
    folder = tmp_path_factory.mktemp("exported")

    async def scenario() -> None:
        journal = await SqlJournal.open(url_of(folder))
        for number, name in enumerate(("ep-1", "ep-2"), 1):
            first = started_for(name, run_id="run-1", group_id="task-3", attempt=number)
            await journal.append([first])
            refused = call_of([user("1?")], "hm", prompt=[1, 2], tokens=[3], logprobs=[float("-inf")])
            accepted = call_of(
                [*refused.messages, user("é\ud800 again")],
                "x" * 40_000,
                prompt=[1, 2, 3],
                tokens=[4, 5],
                logprobs=[-0.5, -0.25],
                weight_versions=[("v7", 2)],
                about={"temperature": 0.5},
                measured={"latency_s": 1.5},
            )
            calls = [refused, accepted]
            event = decided(name, 2, calls, long=True)
            await journal.append([event], attachments=Attachments(calls=[calls]))
            lost = call_of([user("2?")], None, tools=())
            await journal.append([decided(name, 3, [lost])], attachments=Attachments(calls=[[lost]]))
        text = encode_json(TRUTH)
        await journal.append([end_with(text, "ep-1", 4)], attachments=Attachments(truth=text))
        await journal.append([started("ep-3"), said("ep-3", 2)])
        await journal.aclose()

    run(scenario())
    return folder


def export(folder: Path, *arguments: str) -> Result:
    return spectator("export", *arguments, "--data-dir", folder)


def lines(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    result = export(folder, *arguments)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_each_call_is_a_line_with_messages_reply_tokens_and_mask(folder: Path) -> None:
    refused, accepted, lost = lines(folder, "ep-1", "--format", "messages")
    assert list(refused) == list(accepted) == list(CALL_COLUMNS)
    assert refused["messages"] == [user("1?")] and refused["tools"] == TOOLS
    assert accepted["messages"] == [user("1?"), user("é? again")]
    assert accepted["reply"] == reply("x" * 40_000)
    assert (accepted["prompt_token_ids"], accepted["token_ids"]) == ([1, 2, 3], [4, 5])
    assert accepted["mask"] == [0, 0, 0, 1, 1]
    assert (accepted["logprobs"], refused["logprobs"]) == ([-0.5, -0.25], [None])
    assert accepted["weight_versions"] == [["v7", 2]]
    assert (accepted["sampling"], accepted["measured"]) == ({"temperature": 0.5}, {"latency_s": 1.5})
    assert [one["decided"] for one in (refused, accepted)] == [False, True]
    assert (accepted["run_id"], accepted["group_id"], accepted["attempt"]) == ("run-1", "task-3", 1)
    assert (accepted["episode_reason"], accepted["episode_score"]) == ("finished", 0.5)
    assert (lost["reply"], lost["token_ids"], lost["mask"], lost["tools"]) == (None, None, None, [])


def test_episodes_are_chosen_by_run_group_and_attempt(folder: Path) -> None:
    def chosen(*arguments: str) -> set[str]:
        return {line["episode_id"] for line in lines(folder, "--all", *arguments)}

    assert chosen("--run", "run-1") == {"ep-1", "ep-2"}
    assert chosen("--run", "run-1", "--attempt", "2") == {"ep-2"}
    assert chosen("--group", "task-3", "--ended") == {"ep-1"}
    assert chosen() == {"ep-1", "ep-2", "ep-3"}
    assert export(folder, "--all", "--run", "other").exit_code == 1
    wrong = export(folder, "ep-1", "--run", "run-1")
    assert wrong.exit_code == 2 and "--run" in wrong.output
    assert len(lines(folder, "--all", "--format", "messages")) == 6
    assert [line["seq"] for line in lines(folder, "ep-1", "--format", "messages", "--after-seq", "2")] == [3]


def test_the_calls_as_a_table(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "calls.parquet"
    result = export(folder, "--all", "--format", "messages", "--out", str(out))
    assert result.exit_code == 0, result.output
    table = parquet.read_table(out)
    assert table.schema.names == list(CALL_COLUMNS)
    rows = table.to_pylist()
    plain = lines(folder, "--all", "--format", "messages")
    assert len(rows) == len(plain) == 6
    for row, line in zip(rows, plain, strict=True):
        assert row["token_ids"] == line["token_ids"] and row["mask"] == line["mask"]
        assert row["logprobs"] == line["logprobs"]
        assert json.loads(row["tools"]) == line["tools"]
        assert row["reply"] == (None if line["reply"] is None else json.dumps(line["reply"]))
    assert export(folder, "--all", "--format", "parquet").exit_code == 2


def test_the_truth_of_ended_episodes(folder: Path) -> None:
    assert lines(folder, "--all", "--format", "truth") == [{"episode_id": "ep-1", "truth": TRUTH}]
    sealed = export(folder, "ep-2", "--format", "truth")
    assert sealed.exit_code == 1 and "sealed until it has ended" in sealed.output
    assert "91.2" not in export(folder, "ep-2", "ep-1").stdout


def test_the_page_lists_the_columns_of_a_call() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("\n## `messages`\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", section, re.MULTILINE)
    assert listed == list(CALL_COLUMNS.items())
