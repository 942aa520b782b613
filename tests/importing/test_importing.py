"""Files are imported once, also when they are torn, foreign, hostile or large."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spectator.importing import archives, file_rows
from tests.commands import spectator
from tests.importing.imported import DATA, episodes_in, lines, picture, run_import
from tests.rollouts.exported_run import SIZE, play_run

ROW: dict[str, Any] = {"step": 1, "prompt": "2 + 2?", "completion": "4", "reward": 1.0}
TRACES = DATA / "verifiers_traces.jsonl"


def test_the_same_file_adds_nothing_and_one_that_grew_what_is_new(tmp_path: Path) -> None:
    path, run = tmp_path / "completions.jsonl", tmp_path / "run"
    lines(path, ROW, {**ROW, "completion": "5"})
    assert "2 episodes imported" in run_import(path, into=run).output
    before = [one.summary for one in episodes_in(run)]
    again = run_import(path, into=run)
    assert again.exit_code == 0 and "0 episodes imported, 2 already there" in again.output
    assert [one.summary for one in episodes_in(run)] == before
    lines(path, ROW, {**ROW, "completion": "5"}, {**ROW, "completion": "6"})
    assert "1 episode imported, 2 already there" in run_import(path, into=run).output
    assert len(episodes_in(run)) == 3


def test_equal_rows_of_one_file_are_episodes_of_their_own(tmp_path: Path) -> None:
    path = lines(tmp_path / "completions.jsonl", ROW, ROW)
    run_import(path, into=tmp_path / "run")
    assert len(episodes_in(tmp_path / "run")) == 2


def test_a_torn_or_foreign_line_is_told_with_its_number_and_the_rest_imported(tmp_path: Path) -> None:
    good = TRACES.read_text().splitlines()
    path = tmp_path / "traces.jsonl"
    no_role = json.loads(good[1])
    no_role["traces"][0]["nodes"][0]["message"] = {"content": "?"}
    later = json.loads(good[2])
    later["traces"][0]["version"] = 9
    loop = json.loads(good[2])
    loop["traces"][0]["nodes"][1]["parent"] = 1
    rows = [
        good[0],
        "{}",
        json.dumps(no_role),
        json.dumps(later),
        json.dumps(loop),
        "[1]",
        '{"traces": 5, "task": {}}',
    ]
    path.write_bytes("\n".join([*rows, good[3][:200]]).encode() + b"\xff")
    done = run_import(path, into=tmp_path / "run", form="verifiers")
    assert done.exit_code == 1
    assert len(episodes_in(tmp_path / "run")) == 1
    for said in (
        f"{path}, line 2: it does not fit verifiers: traces and task are missing (found: nothing)",
        f"{path}, line 3: nodes[0].message has no role",
        f"{path}, line 4: version is 9: only version 1 is supported",
        f"{path}, line 5: nodes[1].parent is 1: it must be an earlier message",
        f"{path}, line 6: not a JSON object but a list",
        f"{path}, line 7: traces is a number: it must be a list",
        f"{path}, line 8: invalid UTF-8",
    ):
        assert said in done.output, done.output
    assert "1 episode imported; 7 entries skipped" in done.output


def test_a_torn_last_line_says_so(tmp_path: Path) -> None:
    path = tmp_path / "completions.jsonl"
    path.write_text(json.dumps(ROW) + "\n" + json.dumps(ROW)[:30])
    done = run_import(path, into=tmp_path / "run")
    assert (
        done.exit_code == 1
        and "line 2: invalid JSON" in done.output
        and "the last line is incomplete" in done.output
    )


def test_what_is_of_no_known_format_is_refused_with_what_was_found(tmp_path: Path) -> None:
    for name, content, said in (
        ("empty.jsonl", b"", "is empty"),
        ("other.jsonl", b'{"a": 1, "b": 2}\n', "it begins with an object with a, b"),
        (
            "record.jsonl",
            b'{"episode_id": 1, "tool_trace": [], "reward": 1}\n',
            "with episode_id, tool_trace, reward; the nearest format, episode-record, needs messages too",
        ),
        (
            "array.json",
            b'[\n {"step": 1, "prompt": {"a": 2}},\n 3]',
            "an object with step, prompt; the nearest format, trl, needs completion too",
        ),
        ("array.json", b'[\n {"step": 1}]', "--map messages=PATH,reward=PATH"),
        ("spread.json", b'{\n "task_id": 1,\n "traj": [{"b": 1}]\n}', "tau-bench, needs reward too"),
        ("text.txt", b"hello\nworld\n", "text that is not JSON"),
        ("bomb.gz", gzip.compress(b"\0" * 10_000), "binary data"),
        ("torn.gz", gzip.compress(b'{"a": 1}\n' * 9)[:-20], "cannot be decompressed"),
        ("picture.bin", b"\x89PNG\x00\x00", "binary data"),
        ("log.eval", b"PK\x03\x04 torn", "has an unknown format"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        done = run_import(path, into=tmp_path / "run")
        assert done.exit_code == 3 and said in done.output, done.output
    assert not (tmp_path / "run").exists() and "/rollouts/" not in done.output
    mixed = run_import(tmp_path / "other.jsonl", TRACES, into=tmp_path / "run")
    assert mixed.exit_code == 1 and "4 episodes imported; 1 entry skipped" in mixed.output


def test_folders_that_cannot_be_shown_or_hold_a_run_are_refused(tmp_path: Path) -> None:
    done = run_import(TRACES, into=tmp_path / "no name")
    assert done.exit_code == 1 and "use letters, digits" in done.output
    (tmp_path / "played").mkdir()
    (tmp_path / "played" / "rollouts.json").write_text("{}")
    done = run_import(TRACES, into=tmp_path / "played")
    assert done.exit_code == 1 and "holds a run of rollouts" in done.output
    assert not (tmp_path / "played" / "journal.db").exists()


def test_a_damaged_archive_loses_one_sample(tmp_path: Path) -> None:
    data = bytearray((DATA / "inspect.eval").read_bytes())
    place = data.index(b"samples/1_epoch_2.json") + 60
    data[place : place + 40] = bytes(40)
    path = tmp_path / "log.eval"
    path.write_bytes(bytes(data))
    done = run_import(path, into=tmp_path / "run")
    assert done.exit_code == 1 and "samples/1_epoch_2.json: it is damaged" in done.output
    assert len(episodes_in(tmp_path / "run")) == 3


def test_a_torn_log_keeps_the_samples_before_the_tear(tmp_path: Path) -> None:
    from tests.importing.test_formats import inspect_text

    whole = inspect_text(tmp_path / "log.json").read_text()
    path = tmp_path / "torn.json"
    path.write_text(whole[: int(len(whole) * 0.9)])
    done = run_import(path, into=tmp_path / "run")
    assert done.exit_code == 1 and "invalid JSON" in done.output
    assert 1 <= len(episodes_in(tmp_path / "run")) <= 3


def test_entries_that_are_too_long_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (file_rows, archives):
        monkeypatch.setattr(module, "MAX_BYTES", 4096)
    monkeypatch.setattr(file_rows, "SKIP_BYTES", 1000)
    path = lines(
        tmp_path / "completions.jsonl", ROW, {**ROW, "completion": "x" * 9000}, {**ROW, "completion": "5"}
    )
    done = run_import(path, into=tmp_path / "run")
    assert done.exit_code == 1 and "line 2: it is longer than" in done.output
    assert len(episodes_in(tmp_path / "run")) == 2
    monkeypatch.setattr(archives, "MAX_BYTES", 9000)
    some = run_import(DATA / "inspect.eval", into=tmp_path / "some")
    assert some.exit_code == 1 and "samples/1_epoch_1.json: it is larger than" in some.output
    assert len(episodes_in(tmp_path / "some")) == 2
    monkeypatch.setattr(archives, "MAX_BYTES", 4096)
    none = run_import(DATA / "inspect.eval", into=tmp_path / "none")
    assert none.exit_code == 3 and "start.json: it is larger than" in none.output


def test_own_exports_come_back(tmp_path: Path) -> None:
    played = tmp_path / "played"
    play_run(played, seed=5, episodes=2 * SIZE)
    known = {one.summary.episode_id: one for one in episodes_in(played)}
    rewards = sorted(one.summary.score for one in known.values() if one.summary.score is not None)
    for form in ("ndjson", "messages", "groups", "episode-record", "inspect"):
        out = tmp_path / f"{form}.jsonl"
        done = spectator("rollouts", "export", played, "--format", form, "--out", out)
        assert done.exit_code == 0, done.output
        run = tmp_path / f"from-{form}"
        back = run_import(out, into=run)
        assert back.exit_code == 0, back.output
        found = episodes_in(run)
        assert sorted(one.summary.score for one in found if one.summary.score is not None) == rewards, form
        groups = picture(run)["groups"]
        assert form == "inspect" or {"g-000000", "g-000001"} == {one.split(":")[-1] for one in groups}, form
        assert f"0 episodes imported, {len(found)} already there" in run_import(out, into=run).output
        if form == "ndjson":
            assert {one.summary.episode_id for one in found} == known.keys()
            one = found[0]
            assert one.events[-1].data == known[one.summary.episode_id].events[-1].data
        if form == "messages":
            assert sum(len(one.calls) for one in found) > 2 * SIZE


def test_half_of_an_own_export_is_completed_by_the_whole(tmp_path: Path) -> None:
    played, out = tmp_path / "played", tmp_path / "events.ndjson"
    play_run(played, seed=5, episodes=SIZE)
    spectator("rollouts", "export", played, "--format", "ndjson", "--out", out)
    whole = out.read_text()
    half = tmp_path / "half.ndjson"
    half.write_text(whole[: len(whole) // 2])
    assert run_import(half, into=tmp_path / "run").exit_code == 1
    assert run_import(out, into=tmp_path / "run").exit_code == 0
    run_import(out, into=tmp_path / "all")
    assert [one.events for one in episodes_in(tmp_path / "run")] == [
        one.events for one in episodes_in(tmp_path / "all")
    ]
    gap = tmp_path / "gap.ndjson"
    rows = whole.splitlines()
    gap.write_text("\n".join([rows[0], *rows[2:]]) + "\n")
    done = run_import(gap, into=tmp_path / "gap")
    assert done.exit_code == 1 and "is shown up to event 1: event 2 is missing" in done.output


@pytest.mark.usefixtures("real_starts")
def test_a_large_file_is_read_in_memory_that_does_not_grow_with_it(tmp_path: Path) -> None:
    """Twelve times the rows take about the same memory, measured in processes of their own."""
    peaks = []
    for rows in (100, 1_200):
        path = tmp_path / f"{rows}.jsonl"
        with path.open("w") as file:
            for number in range(rows):
                row = {**ROW, "step": number // 8, "completion": f"{number} " + "word " * 4_500}
                file.write(json.dumps(row) + "\n")
        peaks.append(_peak_kib(path, tmp_path / f"run-{rows}"))
    assert peaks[1] < peaks[0] + 24 * 1024, peaks


def _peak_kib(path: Path, run: Path) -> int:
    script = (
        "import resource, sys; from click.testing import CliRunner; from spectator.cli import main;"
        "done = CliRunner().invoke(main, ['import', sys.argv[1], '--into', sys.argv[2]]);"
        "assert done.exit_code == 0, done.output;"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path), str(run)], capture_output=True, text=True, check=True
    )
    return int(done.stdout.split()[-1])
