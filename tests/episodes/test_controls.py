"""What is asked of a running episode from outside: here, that it waits a little for a big moment."""

from __future__ import annotations

import asyncio

import pytest

from spectator.episodes.controls import Control, EndRequest, Pace, step_duration
from tests.fakes import ManualClock, until


async def waited(pace: Pace, breaths: tuple[float, ...]) -> float:
    """Seconds from the beginning of a step to the next, where play was asked to breathe so long."""
    clock = ManualClock()
    control = Control(pace, clock)
    for seconds in breaths:
        control.breathe(seconds)
    keeping = asyncio.get_running_loop().create_task(control.keep_pace(0.0, 1.0))
    await until(lambda: keeping.done() or clock.sleepers == 1)
    while not keeping.done():
        clock.advance(0.125)
        for _ in range(10):
            await asyncio.sleep(0)
    await keeping
    return clock.monotonic()


BEAT_S = step_duration(Pace.BROADCAST, 1.0)


@pytest.mark.parametrize(
    ("pace", "breaths", "wait"),
    [
        (Pace.BROADCAST, (), BEAT_S),
        (Pace.BROADCAST, (BEAT_S + 1.5,), BEAT_S + 1.5),
        (Pace.BROADCAST, (BEAT_S + 1.5, BEAT_S + 0.5), BEAT_S + 1.5),
        (Pace.BROADCAST, (BEAT_S / 2,), BEAT_S),
        (Pace.FAST, (BEAT_S + 1.5,), step_duration(Pace.FAST, 1.0)),
        (Pace.MAX, (BEAT_S + 1.5,), 0.0),
    ],
)
def test_play_breathes_as_long_as_asked_at_the_pace_of_a_broadcast_only(
    pace: Pace, breaths: tuple[float, ...], wait: float
) -> None:
    assert asyncio.run(waited(pace, breaths)) == pytest.approx(wait, abs=0.125)


async def test_a_breath_is_over_where_the_pace_is_raised_meanwhile() -> None:
    clock = ManualClock()
    control = Control(Pace.BROADCAST, clock)
    control.breathe(60.0)
    keeping = asyncio.get_running_loop().create_task(control.keep_pace(0.0, 1.0))
    await until(lambda: clock.sleepers == 1)
    control.set_pace(Pace.MAX)
    await asyncio.wait_for(keeping, 5)
    assert clock.monotonic() == 0.0


@pytest.mark.parametrize("pace", list(Pace))
def test_only_the_pace_max_never_keeps_a_step_waiting(pace: Pace) -> None:
    control = Control(pace, ManualClock())
    assert (control.pace is not Pace.MAX) is (step_duration(pace, 1.0) > 0)
    control.set_pace(Pace.MAX)
    assert control.pace is Pace.MAX


def test_a_control_is_held_by_a_pause_and_by_a_requested_end_only() -> None:
    control = Control(Pace.MAX, ManualClock())
    assert not control.held
    control.pause()
    assert control.held
    control.resume()
    assert not control.held
    control.request_end(EndRequest("stopped", None))
    assert control.held
