"""The functions that `spectator` itself offers, as a user of the library calls them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import spectator
from spectator import export, play, run_rollouts
from spectator.cli import main
from spectator.errors import ConfigurationError, EpisodeNotFound, InvalidRequest
from spectator.exports.formats import FORMATS
from spectator.rollouts.request import RolloutRequest
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint

ROOT = Path(__file__).resolve().parent.parent


def test_the_readmes_example_runs(tmp_path: Path) -> None:
    section = (ROOT / "README.md").read_text().split("## From Python", 1)[1]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found is not None
    script = tmp_path / "script.py"
    script.write_text(found[1])
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "won" in done.stdout or "tied" in done.stdout, done.stdout
    assert (tmp_path / "events.parquet").stat().st_size > 10_000
    assert (tmp_path / "runs" / "mine" / "journal.db").exists()


def test_an_episode_that_is_played_has_all_its_events_and_is_the_same_again() -> None:
    first, again = (asyncio.run(play("counting", seed=3, options={"turns": 4})) for _ in range(2))
    assert first.end.reason == "finished" and first.end.score is not None
    assert [event.seq for event in first.events] == list(range(1, len(first.events) + 1))
    decisions = [
        [event.data["action"] for event in one.events if event.type == "decision.made"]
        for one in (first, again)
    ]
    assert len(decisions[0]) == 4 and decisions[0] == decisions[1]
    assert first.episode_id != again.episode_id


def test_what_is_wrong_with_a_request_is_named() -> None:
    with pytest.raises(InvalidRequest, match="captain"):
        asyncio.run(play("counting", captain="nobody"))
    with pytest.raises(InvalidRequest, match="environment"):
        asyncio.run(play("chess"))


def test_an_export_chooses_episodes_and_rejects_what_it_cannot_write(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out.ndjson"
    ids = [asyncio.run(play("counting", seed=seed, data_dir=data)).episode_id for seed in (1, 2)]
    assert asyncio.run(export(data, out, ids[1], form="ndjson")) is None
    assert {json.loads(line)["episode_id"] for line in out.read_text().splitlines()} == {ids[1]}
    asyncio.run(export(data, out, form="ndjson", environment="counting"))
    assert {json.loads(line)["episode_id"] for line in out.read_text().splitlines()} == set(ids)
    kept = out.read_text()
    with pytest.raises(ConfigurationError, match="unknown export format 'csv'; use one of ndjson, parquet"):
        asyncio.run(export(data, out, form="csv"))
    with pytest.raises(EpisodeNotFound):
        asyncio.run(export(data, out, "ep-unknown", form="ndjson"))
    with pytest.raises(ConfigurationError, match="there is no journal at"):
        asyncio.run(export(tmp_path / "empty", out))
    assert out.read_text() == kept


def test_every_format_is_in_the_help_the_page_and_the_choice() -> None:
    page = (ROOT / "docs" / "exports.md").read_text()
    for group in (["export"], ["rollouts", "export"]):
        shown = CliRunner().invoke(main, [*group, "--help"]).output
        for one in FORMATS.values():
            line = rf"^\s+{one.name}\s+{re.escape(one.summary)}$"
            assert re.search(line, shown, re.MULTILINE), (group, one)
            assert f"`{one.name}`" in page


def test_rollouts_need_no_more_than_a_request_and_a_folder(tmp_path: Path) -> None:
    with endpoint(counter) as fake:
        model = {"label": "m", "model": "m-1", "base_url": fake.base_url, "stream": False}
        request = RolloutRequest(environment="counting", episodes=4, options={"turns": 2}, model=model)
        report = asyncio.run(run_rollouts(request, tmp_path / "run"))
    assert report.succeeded and report.over == 4
    asyncio.run(export(tmp_path / "run", tmp_path / "calls.jsonl"))
    assert len((tmp_path / "calls.jsonl").read_text().splitlines()) == 8


def test_the_root_lists_its_functions() -> None:
    assert {"export", "play", "run_rollouts", "watch"} <= set(spectator.__all__)
