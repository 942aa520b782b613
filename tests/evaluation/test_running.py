"""A run that is cut short anywhere owes what is not in its journal, and running again makes it whole."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from spectator.catalog import load_world
from spectator.clock import SystemClock
from spectator.errors import ConfigurationError, InvalidRequest
from spectator.evaluation.evaluation_run import run_evaluation
from spectator.evaluation.figures import EpisodeFigures
from spectator.evaluation.results import results_of
from spectator.evaluation.schedule import EvaluationRequest, Schedule, ScheduledMatch, plan_evaluation
from spectator.journal.contract import EpisodeFilter
from spectator.journal.sql_journal import SqlJournal
from tests.evaluation.worlds import GATE
from tests.fakes import until

ROOT = Path(__file__).resolve().parent.parent.parent
WORKERS_AT_ONCE = """
import sys
from spectator.cli import main
from spectator.evaluation import evaluation_run
setattr(evaluation_run, "ALONE_S", 0.0)
setattr(evaluation_run, "WORTH_S", 0.0)
main(sys.argv[1:])
"""
COUNTERS = EvaluationRequest("counting", ("heuristic", "random"), matches=4)


def run(
    schedule: Schedule, folder: Path, told: list[tuple[int, int]] | None = None
) -> dict[ScheduledMatch, EpisodeFigures]:
    heard = told if told is not None else []
    done = asyncio.run(
        run_evaluation(
            schedule, folder, jobs=1, clock=SystemClock(), report=lambda over, of: heard.append((over, of))
        )
    )
    assert done.cut_short is None
    return dict(done.found)


def recorded(folder: Path) -> list[tuple[str, str | None, str]]:
    """Id, reason of the end and first digest of everything recorded, by the database itself."""
    with sqlite3.connect(f"file:{folder / 'journal.db'}?mode=ro", uri=True) as database:
        rows = database.execute("SELECT episode_id, reason, seed || captain FROM episodes ORDER BY 1")
        return list(rows)


def test_an_evaluation_is_played_once_and_told_as_it_goes(tmp_path: Path) -> None:
    schedule = plan_evaluation(COUNTERS)
    told: list[tuple[int, int]] = []
    found = run(schedule, tmp_path, told)
    assert told[0] == (0, 4) and told[-1] == (4, 4)
    assert set(found) == set(schedule.matches)
    ids = [episode_id for episode_id, reason, _ in recorded(tmp_path)]
    assert sorted(ids) == sorted(one.episode_id for one in found.values())
    again: list[tuple[int, int]] = []
    assert run(schedule, tmp_path, again) == found and again == [(4, 4)]
    assert [episode_id for episode_id, _, _ in recorded(tmp_path)] == ids
    (tmp_path / "figures.db").unlink()
    assert run(schedule, tmp_path) == found
    counted = results_of(schedule, found)
    assert counted.captains[0].name == "heuristic" and counted.pairs[0].tally.wins == 2
    assert not counted.head_to_head and counted.captains[0].measures["score"].value == 1.0


def test_more_matches_in_the_same_folder_play_only_what_is_new(tmp_path: Path) -> None:
    run(plan_evaluation(COUNTERS), tmp_path)
    told: list[tuple[int, int]] = []
    more = EvaluationRequest("counting", ("random", "heuristic"), matches=6)
    run(plan_evaluation(more), tmp_path, told)
    assert told[0] == (4, 6) and len(recorded(tmp_path)) == 6


def test_another_evaluation_is_refused_by_name_and_touches_nothing(tmp_path: Path) -> None:
    run(plan_evaluation(COUNTERS), tmp_path)
    before = recorded(tmp_path)
    other = EvaluationRequest("counting", ("heuristic", "random"), matches=4, options={"turns": 20})
    with pytest.raises(InvalidRequest, match=r"out: .*another evaluation.*options"):
        run(plan_evaluation(other), tmp_path)
    with pytest.raises(InvalidRequest, match="first_seed"):
        run(
            plan_evaluation(EvaluationRequest("counting", ("heuristic", "random"), matches=4, seed=2)),
            tmp_path,
        )
    assert recorded(tmp_path) == before
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    (stranger / "journal.db").write_bytes(b"")
    with pytest.raises(InvalidRequest, match="journal without an evaluation"):
        run(plan_evaluation(COUNTERS), stranger)
    (tmp_path / "evaluation.json").write_text("{")
    with pytest.raises(InvalidRequest, match="cannot be read"):
        run(plan_evaluation(COUNTERS), tmp_path)


def test_two_runs_in_one_folder_do_not_meet(tmp_path: Path) -> None:
    schedule = plan_evaluation(COUNTERS)
    run(schedule, tmp_path)

    async def second() -> None:
        journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}")
        try:
            with pytest.raises(ConfigurationError, match="another process"):
                await run_evaluation(schedule, tmp_path, jobs=1, clock=SystemClock(), report=lambda *_: None)
        finally:
            await journal.aclose()

    asyncio.run(second())


def cut_short(schedule: Schedule, folder: Path) -> None:
    """Interrupt an evaluation at the fifth question to a captain that waits, the other's match over."""
    GATE.update(open=False, after=4)
    over = [0]

    async def scenario() -> None:
        running = asyncio.create_task(
            run_evaluation(
                schedule, folder, jobs=2, clock=SystemClock(), report=lambda played, _: over.append(played)
            )
        )
        await until(lambda: GATE["asked"] > 4 and over[-1] == 1, what="the fifth question")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(scenario())


def test_a_captain_that_waits_is_journaled_as_it_goes_and_played_on(waiting: str, tmp_path: Path) -> None:
    """Interrupted in the middle of a match: the decisions that were paid for are not asked for again."""
    schedule = plan_evaluation(EvaluationRequest(waiting, ("slow", "steady"), matches=2))
    cut_short(schedule, tmp_path)
    assert [reason for _, reason, which in recorded(tmp_path) if which.endswith("slow")] == [None]
    GATE.update(open=True, asked=0)
    found = run(schedule, tmp_path)
    assert GATE["asked"] == 10 - 4
    assert {one.reason for one in found.values()} == {"finished"}
    assert len(recorded(tmp_path)) == 2

    async def types() -> Counter[str]:
        journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}", writable=False)
        try:
            slow = (await journal.episodes(EpisodeFilter(captain="slow")))[0]
            return Counter([one.event.type for one in await journal.read(slow.episode_id)])
        finally:
            await journal.aclose()

    told = asyncio.run(types())
    assert told["episode.recovered"] == 1 and told["decision.made"] == 10 and told["episode.ended"] == 1


def test_what_cannot_be_played_on_is_played_again_under_another_id(waiting: str, tmp_path: Path) -> None:
    schedule = plan_evaluation(EvaluationRequest(waiting, ("slow", "steady"), matches=2))
    cut_short(schedule, tmp_path)
    with sqlite3.connect(tmp_path / "journal.db") as database:
        changed = database.execute(
            "UPDATE events SET text = replace(text, '\"correct\":true', '\"correct\":false') "
            "WHERE seq = 3 AND episode_id = (SELECT episode_id FROM episodes WHERE captain = 'slow')"
        )
        assert changed.rowcount == 1
    GATE.update(open=True, asked=0)
    found = run(schedule, tmp_path)
    assert {one.reason for one in found.values()} == {"finished"}
    assert Counter(reason for _, reason, _ in recorded(tmp_path)) == {"finished": 2, "interrupted": 1}
    assert load_world(waiting).captains["slow"].source == "model"


def test_killed_at_any_moment_and_run_again_no_match_is_lost_or_played_twice(tmp_path: Path) -> None:
    """kill -9 of the whole command, twice, then to the end; its processes go with it."""
    command = [
        sys.executable, "-c", WORKERS_AT_ONCE, "evaluate", "counting", "--captains", "heuristic,random",
        "--matches", "24", "--option", "turns=1200", "--jobs", "2", "--out", str(tmp_path / "killed"),
    ]  # fmt: skip
    for wanted in (1, 9):
        kill_once_played(command, tmp_path / "killed", wanted)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "heuristic" in done.stdout
    rows = recorded(tmp_path / "killed")
    assert len(rows) == 24 and {reason for _, reason, _ in rows} == {"finished"}
    assert len({what for _, _, what in rows}) == 24
    unbroken = plan_evaluation(
        EvaluationRequest("counting", ("heuristic", "random"), matches=24, options={"turns": 1200})
    )
    assert {what for _, _, what in rows} == {f"{match.seed}{match.home}" for match in unbroken.matches}


def kill_once_played(command: list[str], folder: Path, matches: int) -> None:
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wait_until(lambda: played(folder) >= matches and any(one.startswith("w-") for one in players(folder)))
    assert process.poll() is None, "it was over before it could be killed"
    children = children_of(process.pid)
    assert children
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not any(alive(one) for one in children))


def played(folder: Path) -> int:
    try:
        return len(recorded(folder))
    except sqlite3.Error:
        return 0


def players(folder: Path) -> list[str]:
    """The processes that play a match now."""
    with sqlite3.connect(f"file:{folder / 'journal.db'}?mode=ro", uri=True) as database:
        return [owner for (owner,) in database.execute("SELECT owner FROM leases")]


def children_of(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in task.read_text().split()]
        except OSError:
            continue
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(met: Callable[[], bool], patience_s: float = 60.0) -> None:
    deadline = time.monotonic() + patience_s
    while not met():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)
