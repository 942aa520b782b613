"""Few lines wait, the most important goes first, and none is said when it is old."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.narration.narrator import CAPACITY, LIFE_S, LineQueue
from tests.fakes import ManualClock


def queue_of(*priorities: int) -> tuple[LineQueue, ManualClock]:
    clock = ManualClock()
    queue = LineQueue(clock)
    for seq, priority in enumerate(priorities, 1):
        queue.put(seq, f"line {seq}", priority)
    return queue, clock


def taken(queue: LineQueue) -> list[int]:
    seqs = []
    while (line := queue.take()) is not None:
        seqs.append(line.seq)
    return seqs


def test_the_most_important_goes_first_and_overtakes_what_was_before_it() -> None:
    queue, _ = queue_of(2, 0, 1)
    assert taken(queue) == [2, 3]
    assert queue.dropped == {"overtaken": 1}


def test_of_equals_the_newest_is_said() -> None:
    queue, _ = queue_of(1, 1, 1)
    assert taken(queue) == [3]


def test_none_that_must_be_heard_is_overtaken() -> None:
    queue, _ = queue_of(0, 2, 0)
    assert taken(queue) == [1, 3]


def test_a_new_ball_takes_the_place_of_an_unspoken_one() -> None:
    queue, _ = queue_of(3, 3, 3)
    assert len(queue) == 1
    assert queue.dropped == {"replaced": 2}
    assert taken(queue) == [3]


def test_without_room_the_least_important_goes_the_oldest_of_them_first() -> None:
    queue, _ = queue_of(2, 1, 2, 1, 0)
    assert queue.dropped == {"overflow": 1}
    assert taken(queue) == [5]


@pytest.mark.parametrize(("priority", "life_s"), LIFE_S.items())
def test_a_line_grows_old(priority: int, life_s: float) -> None:
    for waited_s, said in ((life_s, [1]), (life_s + 0.01, [])):
        queue, clock = queue_of(priority)
        clock.advance(waited_s)
        assert taken(queue) == said


def test_an_old_line_is_not_said() -> None:
    queue, clock = queue_of(3)
    clock.advance(LIFE_S[3] + 0.01)
    assert queue.take() is None
    assert queue.dropped == {"stale": 1}


@given(st.lists(st.integers(0, 3), max_size=200))
def test_it_never_grows_and_every_line_is_accounted_for(priorities: list[int]) -> None:
    clock = ManualClock()
    queue = LineQueue(clock)
    for seq, priority in enumerate(priorities, 1):
        queue.put(seq, "", priority)
        assert len(queue) <= CAPACITY
    said = taken(queue)
    assert len(said) + queue.dropped.total() == len(priorities)
    urgent = [seq for seq in said if priorities[seq - 1] == 0]
    assert urgent == sorted(urgent)


def test_a_queue_has_room() -> None:
    with pytest.raises(ValueError, match="capacity"):
        LineQueue(ManualClock(), capacity=0)
