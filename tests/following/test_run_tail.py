"""A run is followed by its record alone: only what is new is read, and what cannot be read is a sentence."""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from pathlib import Path
from statistics import fmean

import pytest

from spectator.errors import JournalError, RunNotFound
from spectator.journal.queries import LOOKED_THROUGH
from spectator.rollouts.request import FORMAT
from spectator.rollouts.status import read_status
from spectator.runs.run_folder import MANIFEST, read_run, run_names
from spectator.runs.run_plan import normalised
from spectator.runs.run_records import RunRecords, RunTail
from spectator.runs.run_summary import group_in_run, summarize_run
from tests.following.gated_run import gated_run
from tests.rollouts.exported_run import SIZE, play_run


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs with one run in it, which has failures of several kinds."""
    root = tmp_path_factory.mktemp("runs")
    play_run(root / "first")
    return root


async def look(root: Path, name: str = "first") -> RunTail:
    tail = await RunTail.open(read_run(root, name))
    await tail.look()
    return tail


async def test_a_run_is_read_as_its_own_status_tells_it(root: Path) -> None:
    tail = await look(root)
    picture = summarize_run(tail.folder, list(tail.episodes.values()))
    status = await read_status(root / "first", datetime.now().astimezone())
    assert picture["over"] == status.over == status.request.episodes == picture["episodes"]
    assert picture["verdicts"] == status.verdicts > 0
    assert picture["mean"] == pytest.approx(fmean(status.rewards), abs=1e-6)
    assert sum(picture["failures"].values()) == len(status.failed) > 0
    assert picture["again"] == sum(one.again for one in status.failed) > 0
    assert picture["ends"] == status.ends
    assert {name: one["usable"] for name, one in picture["groups"].items()} == {
        name: one.usable for name, one in status.groups.items()
    }
    assert sum(picture["rewards"]["counts"]) == status.verdicts
    assert (picture["playing"], picture["slowest"]) == (0, {})
    await tail.aclose()


async def test_advantages_are_those_of_the_exports(root: Path) -> None:
    tail = await look(root)
    groups = summarize_run(tail.folder, list(tail.episodes.values()))["groups"].values()
    told = [[one for one in group["members"].values() if "reward" in one] for group in groups]
    several = [members for members in told if len({one["reward"] for one in members}) > 1]
    assert several
    for members in several:
        wanted = normalised([one["reward"] for one in members])
        assert [one["advantage"] for one in members] == pytest.approx(wanted, abs=1e-5)
    await tail.aclose()


async def test_only_what_is_new_is_taken_in_while_a_run_is_played(tmp_path: Path) -> None:
    with gated_run(tmp_path / "live") as gate:
        tail = await look(tmp_path, "live")
        while await tail.look():  # until all that are in play wait at the gate
            pass
        before = summarize_run(tail.folder, list(tail.episodes.values()))
        assert (before["over"], before["playing"] > 0) == (0, True)
        waiting = {one["waits_for"] for one in before["slowest"].values()}
        assert "an answer of the model" in waiting
        gate.set()
        while any(one.reason is None for one in tail.episodes.values()) or len(tail.episodes) < 8:
            await tail.look()
    changed = await tail.look()
    assert set(changed) <= set(tail.episodes)
    after = summarize_run(tail.folder, list(tail.episodes.values()))
    again = await look(tmp_path, "live")
    assert after == summarize_run(again.folder, list(again.episodes.values())) | {
        "series": after["series"], "usual_turn_s": after["usual_turn_s"], "a_second": after["a_second"]
    }  # fmt: skip
    assert after["over"] == after["episodes"] == 8
    await tail.aclose()
    await again.aclose()


async def test_more_than_one_look_takes_is_taken_in_pieces(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await look(root)
    monkeypatch.setattr("spectator.journal.queries.LOOKED_THROUGH", 7)
    assert LOOKED_THROUGH > 7
    tail = await RunTail.open(read_run(root, "first"))
    tail._mark = 0
    await tail.look()
    heads = {one.episode_id: (one.reason, one.reward, one.turns) for one in tail.episodes.values()}
    assert heads == {one.episode_id: (one.reason, one.reward, one.turns) for one in whole.episodes.values()}
    await tail.aclose()
    await whole.aclose()


async def test_a_group_has_the_newest_attempt_of_each_member(root: Path) -> None:
    tail = await look(root)
    names = {one.group_id for one in tail.episodes.values() if one.again}
    name = next(one for one in names if one is not None)
    found = group_in_run(tail, name)
    assert found is not None
    told = await found.state_json(tail.journal)
    assert (len(told["members"]), told["size"], told["again"] > 0) == (SIZE, SIZE, True)
    assert group_in_run(tail, "g-none") is None
    await tail.aclose()


def test_a_folder_of_runs_lists_only_runs(root: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "a file").write_text("")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / MANIFEST).write_text("{}")
    (tmp_path / "link").symlink_to(root / "first")
    assert run_names(tmp_path) == []
    assert run_names(root) == ["first"]
    assert run_names(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        ('{"request": {"format": 99}}', "is a run of version 99, and this server reads version 1"),
        ('{"request": {"for', "cannot be read"),
        ("[]", "does not describe a run"),
        ('{"request": {"format": 1, "environment": "counting"}}', "does not describe a run"),
        ('{"request": {"format": 1, "environment": "x", "model": 3}, "began_ms": 1}', "describe"),
        (
            '{"request": {"format": 1, "environment": "x", "model": {"model": "m"}, "episodes": 1},'
            ' "began_ms": 1e300}',
            "does not describe a run",
        ),
    ],
)  # fmt: skip
def test_what_is_no_run_is_a_sentence(tmp_path: Path, manifest: str, sentence: str) -> None:
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / MANIFEST).write_text(manifest)
    with pytest.raises(RunNotFound, match=sentence):
        read_run(tmp_path, "odd")


@pytest.mark.parametrize("name", ["..", "../first", "none", "a/b", "", "x" * 65])
def test_a_name_that_is_no_run_reads_nothing(root: Path, name: str) -> None:
    with pytest.raises(RunNotFound):
        read_run(root, name)


def test_the_version_that_is_followed_is_the_one_that_is_written(root: Path) -> None:
    kept = json.loads((root / "first" / MANIFEST).read_text())
    assert kept["request"]["format"] == FORMAT
    assert read_run(root, "first").episodes == kept["request"]["episodes"]


async def test_a_folder_that_vanishes_is_a_sentence_and_is_found_again(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "first", tmp_path / "gone")
    records = RunRecords(tmp_path)
    tail = await records.tail("gone")
    await tail.look()
    shutil.rmtree(tmp_path / "gone")
    with pytest.raises(JournalError, match="its record is gone"):
        await tail.look()
    with pytest.raises(RunNotFound, match="moved or removed"):
        await records.tail("gone")
    shutil.copytree(root / "first", tmp_path / "gone")
    assert len(await (await records.tail("gone")).look()) == len(tail.episodes)
    await records.aclose()


async def test_an_episode_is_found_by_its_id(root: Path) -> None:
    records = RunRecords(root)
    tail = await records.tail("first")
    await tail.look()
    episode_id = next(iter(tail.episodes))
    assert await records.find(episode_id) == "first"
    assert records.run_of(episode_id) == "first"
    assert await records.find("ep-nobody") is None
    assert await records.journal_of("ep-nobody") is None
    nothing = RunRecords(None)
    assert await nothing.find(episode_id) is None
    with pytest.raises(RunNotFound, match="SPECTATOR_RUNS_DIR"):
        await nothing.tail("first")
    await records.aclose()
