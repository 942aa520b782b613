"""An endpoint that is gone: waited for if it was ever there, by all together, and not for ever."""

from __future__ import annotations

import asyncio
import random

import pytest

from spectator.errors import (
    EndpointBusy,
    EndpointError,
    EndpointRefused,
    EndpointResting,
    EndpointTimeout,
    EndpointUnavailable,
)
from spectator.rollouts.model_seat import ENDPOINT_PAUSES, ModelOutage
from tests.fakes import ManualClock

GONE = EndpointUnavailable("the endpoint closed the connection")


def an_outage(clock: ManualClock, answers: int = 1) -> ModelOutage:
    outage = ModelOutage(clock, random.Random(1), 60.0)
    for _ in range(answers):
        outage.answered()
    return outage


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (GONE, True),
        (EndpointBusy("it asks to wait", retry_after_s=30), True),
        (EndpointResting("left alone", retry_after_s=5), True),
        (EndpointTimeout("no answer within 300 s"), False),
        (EndpointRefused("a field is wrong", status=400), False),
        (EndpointRefused("the key is wrong", status=401), False),
    ],
)
def test_only_what_a_restart_shows_is_waited_for(error: EndpointError, waits: bool) -> None:
    pause = an_outage(ManualClock()).pause_after(error, 1, 0)
    assert (pause is not None) == waits
    if pause is not None:
        asked = error.retry_after_s or 0.0
        assert asked <= pause <= max(asked, ENDPOINT_PAUSES.limit(0))


def test_one_that_never_answered_is_waited_for_until_it_is_left_alone() -> None:
    outage = an_outage(ManualClock(), answers=0)
    assert outage.pause_after(GONE, 0, 0) is not None
    assert outage.pause_after(EndpointBusy("it asks to wait"), 0, 1) is not None
    assert outage.pause_after(EndpointResting("left alone", retry_after_s=5), 0, 2) is None


def test_one_that_refuses_every_request_from_the_start_is_given_up_soon() -> None:
    clock, wrong = ManualClock(), EndpointRefused("it refuses", status=400, detail="max_tokens: too many")
    outage = an_outage(clock, answers=0)
    assert outage.pause_after(wrong, 0, 0) is not None, "another request may be answered meanwhile"
    clock.advance(60.0)
    with pytest.raises(EndpointResting, match=r"refused every request for 60 s: it refuses \(max_tokens"):
        outage.pause_after(wrong, 0, 8)
    outage.answered()
    assert outage.pause_after(wrong, 1, 0) is None, "this one alone is refused"


def test_a_request_that_alone_fails_is_not_waited_for() -> None:
    outage = an_outage(ManualClock())
    assert outage.pause_after(GONE, 1, 0) is not None
    outage.answered()
    assert outage.pause_after(GONE, 1, 1) is None, "others were answered meanwhile"


def test_patience_is_counted_from_the_first_failure_of_anybody() -> None:
    clock = ManualClock()
    outage = an_outage(clock)
    outage.pause_after(GONE, 1, 0)
    clock.advance(55.0)
    pause = outage.pause_after(GONE, 1, 8)
    assert pause is not None and pause <= 5.0, "no longer than the patience lasts"
    clock.advance(5.0)
    with pytest.raises(EndpointResting, match="gone for 60 s"):
        outage.pause_after(GONE, 1, 9)
    outage.answered()
    assert outage.since_s is None and outage.pause_after(GONE, 2, 0) is not None


async def test_who_waits_is_woken_when_it_is_hopeless() -> None:
    outage = an_outage(ManualClock())
    waiting = asyncio.create_task(outage.wait(1000.0))
    await asyncio.sleep(0)
    assert outage.pause_after(EndpointRefused("the key is wrong", status=401), 1, 0) is None
    async with asyncio.timeout(5):
        await waiting
    assert outage.pause_after(GONE, 1, 1) is None
