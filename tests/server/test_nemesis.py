"""The checks of the nemesis runs find each broken promise, and a short run of them finds none."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.nemesis import planted_bugs
from benchmarks.nemesis.checker import Record, RunHistory, ShownFrame, Spending, ViewerHistory, check
from benchmarks.nemesis.command import perform, tools
from benchmarks.nemesis.nemeses import NEMESES
from benchmarks.nemesis.plan import draw
from benchmarks.nemesis.planted_bugs import BUGS

EPISODE = "ep-1"


def line(seq: int, kind: str, turn: int, epoch: str = "e1", **data: Any) -> str:
    body = {"v": 1, "episode_id": EPISODE, "epoch": epoch, "seq": seq, "turn": turn, "type": kind}
    return json.dumps({**body, "data": data, "patch": {"seq": seq}})


RECORD = (
    line(1, "episode.started", 0),
    line(2, "decision.made", 1),
    line(3, "step.taken", 1),
    line(4, "episode.ended", 1, reason="stopped"),
)


def frame(name: str, **fields: Any) -> str:
    return json.dumps({"frame": name, **fields})


def shown(text: str) -> str:
    return '{"frame":"event",' + text[1:]


HELLO = frame("hello", epoch="e1")
SNAPSHOT = frame("snapshot", epoch="e1", seq=1, state={"seq": 1})


def history(*frames: str, record: Record | None = None, **changes: Any) -> RunHistory:
    """A run of one episode with one viewer."""
    viewer = ViewerHistory("v", EPISODE, [ShownFrame(1, text) for text in frames])
    base: dict[str, Any] = {"started": [EPISODE], "stopped": [EPISODE]}
    records = {EPISODE: record or Record(RECORD)}
    return RunHistory(records=records, viewers=[viewer], **(base | changes))


GOOD = (HELLO, SNAPSHOT, *(shown(text) for text in RECORD[1:]))


def promises(found: RunHistory) -> set[str]:
    return {one.promise for one in check(found)}


def test_a_history_without_a_fault_breaks_no_promise() -> None:
    assert promises(history(*GOOD)) == set()
    resumed = (*GOOD[:3], HELLO, *GOOD[3:])
    assert promises(history(*resumed)) == set()


BROKEN: dict[str, tuple[Callable[[], RunHistory], str]] = {
    "an event that is not recorded": (
        lambda: history(*GOOD[:3], shown(line(3, "step.taken", 1, note="another")), GOOD[4]),
        "shown is recorded",
    ),
    "an event twice": (lambda: history(*GOOD[:3], GOOD[2], *GOOD[3:]), "once and in order"),
    "a gap": (lambda: history(*GOOD[:2], *GOOD[3:]), "once and in order"),
    "moved back": (lambda: history(*GOOD[:4], HELLO, SNAPSHOT, *GOOD[2:]), "once and in order"),
    "another state": (
        lambda: history(HELLO, frame("snapshot", epoch="e1", seq=1, state={"seq": 9}), *GOOD[2:]),
        "states agree",
    ),
    "a broken chain": (lambda: history(*GOOD, record=Record(RECORD, ["event 3"])), "the record is whole"),
    "two epochs": (
        lambda: history(*GOOD[:2], record=Record((*RECORD[:2], line(3, "step.taken", 1, "e2"), RECORD[3]))),
        "the record is whole",
    ),
    "two ends": (lambda: history(*GOOD, record=Record((*RECORD, RECORD[3]))), "one end"),
    "an end by a fault": (
        lambda: history(
            *GOOD[:4], record=Record((*RECORD[:3], line(4, "episode.ended", 1, reason="interrupted")))
        ),
        "no end by a fault",
    ),
    "half a step": (
        lambda: history(
            *GOOD[:3], record=Record((*RECORD[:2], line(3, "episode.ended", 1, reason="stopped")))
        ),
        "a step is whole",
    ),
    "a start that is not recorded": (
        lambda: history(record=Record(), stopped=[]),
        "acknowledged is recorded",
    ),
    "a stop that is not recorded": (
        lambda: history(*GOOD[:4], record=Record(RECORD[:3])),
        "acknowledged is recorded",
    ),
    "an unplayed episode": (lambda: history(*GOOD, unplayed={EPISODE: 30.0}), "played or named"),
    "a viewer without the end": (lambda: history(*GOOD[:4]), "every viewer sees the end"),
    "a lease of the dead": (lambda: history(*GOOD, dead_leases=["a holds ep-1"]), "no lease of the dead"),
    "spending": (lambda: history(*GOOD, spending=Spending(100, 131, 30)), "spending under its cap"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_promise_is_found(name: str) -> None:
    make, promise = BROKEN[name]
    assert promise in promises(make())


def test_a_viewer_who_is_told_of_the_loss_may_have_seen_what_is_lost() -> None:
    lost = shown(line(3, "step.taken", 1, note="lost"))
    record = Record(
        (*RECORD[:2], line(3, "step.taken", 1, "e2"), line(4, "episode.ended", 1, "e2", reason="stopped"))
    )
    renewed = (frame("hello", epoch="e2"), frame("snapshot", epoch="e2", seq=2, state={"seq": 2}))
    told = (*GOOD[:3], lost, *renewed, *(shown(text) for text in record.lines[2:]))
    assert promises(history(*told, record=record, lost=True)) == set()
    assert "shown is recorded" in promises(history(*GOOD[:3], lost, record=record, lost=True))


def test_the_same_seed_draws_the_same_run_and_every_nemesis_is_drawn() -> None:
    plans = [draw(seed, list(NEMESES)) for seed in range(200)]
    assert plans == [draw(seed, list(NEMESES)) for seed in range(200)]
    assert {one.name for plan in plans for one in plan.nemeses} == set(NEMESES)
    assert all(one.postgres if plan.postgres else one.sqlite for plan in plans for one in plan.nemeses)
    assert all(set(bug.nemeses) <= set(NEMESES) for bug in BUGS.values())


def test_every_planted_bug_replaces_something_that_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    replaced: list[str] = []

    def look(owner: Any, name: str, value: Any) -> None:
        assert getattr(owner, name) is not value
        replaced.append(name)

    monkeypatch.setattr(planted_bugs, "_put", look)
    for name in BUGS:
        planted_bugs.plant(name)
    assert len(BUGS) >= 10 and len(replaced) >= len(BUGS)


def test_a_short_run_breaks_no_promise_and_finds_a_planted_bug() -> None:
    with tools(postgres=False) as (shared, folder):
        sound = perform(draw(3, ["kill"], postgres=False, most=1), shared, folder)
        assert not sound.violations, sound.logs
        assert sound.effects["frames"] > 20
        bug = "resume-repeats"
        buggy = perform(draw(3, BUGS[bug].nemeses, postgres=False, most=1, bug=bug), shared, folder)
    assert {one.promise for one in buggy.violations} == {"once and in order"}
