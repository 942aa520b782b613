"""The breaker: when it opens, for how long, and how it closes again."""

from __future__ import annotations

import asyncio

import pytest

from spectator.errors import (
    EndpointBusy,
    EndpointError,
    EndpointRefused,
    EndpointResting,
    EndpointTimeout,
    EndpointUnavailable,
)
from spectator.llm.retry import CircuitBreaker
from tests.fakes import ManualClock

DOWN = EndpointUnavailable("it is down")


def fail(breaker: CircuitBreaker, error: BaseException = DOWN) -> None:
    with pytest.raises(type(error)), breaker.request():
        raise error


def succeed(breaker: CircuitBreaker) -> None:
    with breaker.request():
        pass


def resting(breaker: CircuitBreaker) -> bool:
    """Whether the next request would be turned away; asks as a request does that is then cancelled."""
    try:
        with breaker.request():
            raise asyncio.CancelledError
    except EndpointResting:
        return True
    except asyncio.CancelledError:
        return False


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def breaker(clock: ManualClock) -> CircuitBreaker:
    return CircuitBreaker(clock, failures=3, rest_s=30, longest_rest_s=100)


def test_it_opens_after_failures_in_a_row_only(breaker: CircuitBreaker) -> None:
    fail(breaker)
    fail(breaker, EndpointTimeout("silent"))
    succeed(breaker)
    fail(breaker)
    fail(breaker)
    assert not resting(breaker)
    fail(breaker)
    assert resting(breaker)
    with pytest.raises(EndpointResting, match="it is down") as turned_away, breaker.request():
        pytest.fail("the request was let through")
    assert turned_away.value.retry_after_s == 30
    assert not turned_away.value.retryable


def test_one_request_tries_it_after_the_rest(breaker: CircuitBreaker, clock: ManualClock) -> None:
    for _ in range(3):
        fail(breaker)
    clock.advance(30)
    with breaker.request():
        with pytest.raises(EndpointResting), breaker.request():
            pytest.fail("a second request was let through beside the first")
    assert not resting(breaker)
    succeed(breaker)


def test_each_failed_try_doubles_the_rest_up_to_the_longest(
    breaker: CircuitBreaker, clock: ManualClock
) -> None:
    for _ in range(3):
        fail(breaker)
    for rest in (30, 60, 100, 100):
        clock.advance(rest - 1)
        with pytest.raises(EndpointResting):
            succeed(breaker)
        clock.advance(1)
        fail(breaker)
    clock.advance(100)
    succeed(breaker)
    for _ in range(3):
        fail(breaker)
    clock.advance(30)
    succeed(breaker)


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_a_hopeless_refusal_opens_it_at_once(breaker: CircuitBreaker, status: int) -> None:
    fail(breaker, EndpointRefused("no", status=status))
    assert resting(breaker)


@pytest.mark.parametrize("error", [EndpointBusy("wait"), EndpointRefused("bad field", status=400)])
def test_an_endpoint_that_speaks_is_not_down(breaker: CircuitBreaker, error: EndpointError) -> None:
    for _ in range(10):
        fail(breaker, error)
    assert not resting(breaker)


def test_a_cancelled_try_leaves_the_place_to_another(breaker: CircuitBreaker, clock: ManualClock) -> None:
    for _ in range(3):
        fail(breaker)
    clock.advance(30)
    fail(breaker, asyncio.CancelledError())
    assert not resting(breaker)
    fail(breaker, EndpointBusy("wait"))
    assert not resting(breaker)
    succeed(breaker)


def test_a_late_failure_from_before_the_rest_does_not_prolong_it(
    breaker: CircuitBreaker, clock: ManualClock
) -> None:
    late = breaker.request()
    late.__enter__()
    for _ in range(3):
        fail(breaker)
    clock.advance(29)
    with pytest.raises(EndpointUnavailable):
        late.__exit__(EndpointUnavailable, DOWN, None)
        raise DOWN
    clock.advance(1)
    succeed(breaker)


@pytest.mark.parametrize("wrong", [{"failures": 0}, {"rest_s": 0}, {"rest_s": 60, "longest_rest_s": 30}])
def test_nonsense_is_refused(clock: ManualClock, wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        CircuitBreaker(clock, **wrong)


def test_who_is_turned_away_learns_whether_waiting_can_help() -> None:
    clock = ManualClock()
    for status, hopeless in ((401, 401), (500, None)):
        breaker = CircuitBreaker(clock, failures=1)
        failure = (
            EndpointRefused("key", status=status) if hopeless else EndpointUnavailable("x", status=status)
        )
        fail(breaker, failure)
        with pytest.raises(EndpointResting) as turned_away:
            succeed(breaker)
        assert turned_away.value.status == hopeless
