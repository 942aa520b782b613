"""Retries: full jitter, two budgets, the endpoint's own wish, and dates."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.errors import (
    EndpointBusy,
    EndpointMalformed,
    EndpointRefused,
    EndpointResting,
    EndpointTimeout,
    EndpointUnavailable,
)
from spectator.llm.retry import FOREVER, Attempts, RetryPolicy, parse_retry_after

NOW = datetime(2026, 11, 21, 5, tzinfo=UTC)


def test_waits_are_drawn_evenly_below_a_growing_bound() -> None:
    policy = RetryPolicy(busy=0, unavailable=6, base_s=1.0, longest_s=5.0)
    drawn: list[list[float]] = [[] for _ in range(6)]
    for seed in range(2_000):
        attempts = Attempts(policy, random.Random(seed))
        for waits in drawn:
            wait = attempts.wait_after(EndpointUnavailable("x"))
            assert wait is not None
            waits.append(wait)
        assert attempts.wait_after(EndpointUnavailable("x")) is None
    for bound, waits in zip((1, 2, 4, 5, 5, 5), drawn, strict=True):
        assert 0.0 <= min(waits) < 0.02 * bound
        assert 0.98 * bound < max(waits) <= bound
        assert sum(waits) / len(waits) == pytest.approx(bound / 2, rel=0.05)


def test_rate_limits_and_the_rest_have_budgets_of_their_own() -> None:
    attempts = Attempts(RetryPolicy(busy=2, unavailable=1), random.Random(1))
    assert attempts.wait_after(EndpointBusy("x")) is not None
    assert attempts.wait_after(EndpointTimeout("x")) is not None
    assert attempts.wait_after(EndpointBusy("x")) is not None
    assert attempts.failed == 3
    assert attempts.wait_after(EndpointMalformed("x")) is None
    assert attempts.wait_after(EndpointBusy("x")) is None


@pytest.mark.parametrize("error", [EndpointRefused("x"), EndpointResting("x")])
def test_what_cannot_pass_is_not_tried_again(error: EndpointRefused) -> None:
    assert Attempts(RetryPolicy.patient(), random.Random(1)).wait_after(error) is None


def test_the_endpoints_wish_is_kept_and_spread() -> None:
    waits = [
        Attempts(RetryPolicy(base_s=0.5), random.Random(seed)).wait_after(EndpointBusy("x", retry_after_s=7))
        for seed in range(50)
    ]
    assert all(wait is not None and 7.0 <= wait <= 7.5 for wait in waits)
    assert len(set(waits)) > 40


def test_patience_has_no_end_and_no_overflow() -> None:
    policy = RetryPolicy.patient()
    attempts = Attempts(policy, random.Random(1))
    waits = [attempts.wait_after(EndpointUnavailable("x")) for _ in range(5_000)]
    assert all(wait is not None and wait <= policy.longest_s for wait in waits)


@pytest.mark.parametrize(
    "wrong", [{"busy": -2}, {"unavailable": -3}, {"base_s": -1.0}, {"base_s": 9.0, "longest_s": 1.0}]
)
def test_nonsense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        RetryPolicy(**wrong)  # type: ignore[arg-type]
    assert FOREVER == -1


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("2.5", 2.5),
        ("120", 120.0),
        ("Sat, 21 Nov 2026 05:00:30 GMT", 30.0),
        ("Sat, 21 Nov 2026 06:00:30 +0100", 30.0),
        ("Sat, 21 Nov 2026 04:00:00 GMT", 0.0),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("soon", None),
        ("", None),
        (None, None),
        ("Sat, 99 Nov 2026 05:00:30 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, NOW) == seconds


@given(st.text(max_size=60))
def test_no_header_can_break_it(value: str) -> None:
    seconds = parse_retry_after(value, NOW)
    assert seconds is None or 0 <= seconds < float("inf")
