"""Which refusals are waited out, which are not, and how long an endpoint asks to wait."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spectator.errors import EndpointBusy, EndpointError, EndpointRefused, EndpointUnavailable
from spectator.llm.retry import error_of

QUOTA = "You exceeded your current quota, please check your plan and billing details."


def body(message: str = "", **more: Any) -> bytes:
    return json.dumps({"error": {"message": message, **more}}).encode()


def google(*details: Any) -> bytes:
    return body(QUOTA, code=429, status="RESOURCE_EXHAUSTED", details=details)


RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "38s"}
MINUTE = {"violations": [{"quotaId": "GenerateContentInputTokensPerModelPerMinute-FreeTier"}]}
DAY = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}


@pytest.mark.parametrize(
    ("status", "said", "kind", "wait"),
    [
        (429, body(QUOTA, code="insufficient_quota", type="insufficient_quota"), EndpointRefused, None),
        (429, body(QUOTA), EndpointBusy, None),
        (429, body("requests per min; see billing", code="rate_limit_exceeded"), EndpointBusy, None),
        (429, google(MINUTE, RETRY), EndpointBusy, 38.0),
        (429, google(RETRY), EndpointBusy, 38.0),
        (429, google(), EndpointBusy, None),
        (429, google(DAY, RETRY), EndpointRefused, 38.0),
        (429, b"[" + google(MINUTE, RETRY) + b"]", EndpointBusy, 38.0),
        (429, body("Your prepayment credits are depleted. Manage your billing."), EndpointRefused, None),
        (400, body("Your credit balance is too low to access the API"), EndpointRefused, None),
        (402, b"", EndpointRefused, None),
        (429, b"slow down", EndpointBusy, None),
        (529, body("Overloaded", type="overloaded_error"), EndpointBusy, None),
        (503, body("The model is overloaded.", status="UNAVAILABLE"), EndpointUnavailable, None),
        (503, google(RETRY), EndpointBusy, 38.0),
        (500, b"\xff\xfe", EndpointUnavailable, None),
    ],
)  # fmt: skip
def test_quotas_of_a_minute_are_waited_out_and_empty_purses_are_not(
    status: int, said: bytes, kind: type[EndpointError], wait: float | None
) -> None:
    error = error_of(status, said)
    assert type(error) is kind and error.retry_after_s == wait and error.status == status


def test_a_used_up_day_is_told_as_one_and_counts_as_a_rate_limit() -> None:
    error = error_of(429, google(DAY, RETRY))
    assert str(error) == "the endpoint's daily quota is used up"
    assert error.failure_class == "rate_limited" and not error.retryable


def test_the_head_of_a_response_wins_over_its_body() -> None:
    assert error_of(429, google(RETRY), retry_after_s=2.0).retry_after_s == 2.0


@pytest.mark.parametrize(
    "said", [b"", b"[]", b"7", b'{"error": 7}', b'{"error": {"details": [7, {"violations": [7]}]}}']
)
def test_whatever_a_body_holds_it_is_read(said: bytes) -> None:
    assert isinstance(error_of(429, said), EndpointBusy)
