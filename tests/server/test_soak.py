"""Viewers of a real server that is killed while they come, go, stall and resume: nothing is lost."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from benchmarks.kills import kill
from benchmarks.soak import soak
from benchmarks.witness import PREFIX, Witness, _compared
from spectator.json_values import apply_patch


def test_after_five_kills_every_viewer_was_shown_every_event_once() -> None:
    figure, wrong = asyncio.run(kill(5, viewers=20, seed=7))
    assert not wrong, figure.value


def test_whatever_viewers_do_meanwhile_they_have_the_fold_of_the_record() -> None:
    figure, wrong, did = asyncio.run(soak(8.0, viewers=16, kills=1, seed=7))
    assert not wrong, figure.value
    assert did["kills"] == 1 and did["resumed"] > 5 and did["episodes"] >= 1


def event(seq: int, **fields: Any) -> dict[str, Any]:
    return {"type": "step.taken", "seq": seq, "patch": {"n": seq}, **fields}


def frame(fields: dict[str, Any]) -> str:
    return PREFIX + json.dumps(fields)[1:]


def witness(*seqs: int) -> Witness:
    """One that was shown these events, in this order, after a snapshot at 1."""
    seeing = Witness("http://nowhere", "/live/x", random.Random(0))
    seeing.take('{"frame":"hello","episode_id":"x","epoch":"ab","head_seq":1,"viewers":1}')
    seeing.take('{"frame":"snapshot","epoch":"ab","seq":1,"state":{"n":1}}')
    for seq in seqs:
        seeing.take(frame(event(seq)))
    return seeing


@pytest.mark.parametrize(
    ("seqs", "wrong"),
    [
        ((2, 3, 4), {}),
        ((2, 4), {"lost": 1}),
        ((2, 2, 3), {"doubled": 1}),
        ((3, 2), {"lost": 1, "reordered": 1}),
        ((2, 3, 2), {"doubled": 1}),
    ],
)
def test_a_witness_sees_what_goes_wrong(seqs: tuple[int, ...], wrong: dict[str, int]) -> None:
    assert dict(witness(*seqs).wrong) == wrong


def test_a_comparison_sees_what_the_record_does_not_have() -> None:
    lines = [json.dumps(event(seq)) for seq in range(1, 5)]
    seen = witness(2, 3, 4).episodes["x"]
    assert not _compared(lines, [seen])
    assert _compared(lines[:3], [seen]) == {"never recorded": 1}
    changed = [*lines[:2], json.dumps(event(3, note="another")), lines[3]]
    assert _compared(changed, [seen]) == {"changed": 1}
    seen.state = apply_patch(seen.state, {"n": 99})
    assert _compared(lines, [seen]) == {"another state": 1}
