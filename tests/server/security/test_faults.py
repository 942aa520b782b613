"""Whatever goes wrong is told as a problem document, and never with a trace."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import httpx
import pytest
from starlette.exceptions import HTTPException

from server.app import create_app
from server.security.faults import CLOSES, FAULTS, Close, close_of, kind_of
from spectator import errors
from spectator.errors import (
    ConfigurationError,
    EnvironmentFault,
    EpisodeBusy,
    EpisodeNotFound,
    EpisodeOver,
    FieldError,
    InvalidRequest,
    JournalError,
    ProtocolError,
    SequenceConflict,
    SpectatorError,
    StepTimeout,
)
from tests.serving import test_settings

RAISED: list[tuple[Exception, int]] = [
    (InvalidRequest([FieldError("a.b", "must be right")]), 422),
    (EpisodeNotFound("ep-1"), 404),
    (EpisodeBusy(["ep-1"], 1), 409),
    (EpisodeOver("ep-1"), 409),
    (JournalError("disk at /secret/path is full"), 503),
    (SequenceConflict("taken"), 503),
    (ConfigurationError("a /secret/path"), 500),
    (EnvironmentFault("a /secret/path"), 500),
    (StepTimeout("the environment did not answer within 1 s"), 504),
    (SpectatorError("a /secret/path"), 500),
    (HTTPException(418, "short and stout"), 418),
    (RuntimeError("a /secret/path"), 500),
    (KeyError("a /secret/path"), 500),
]


@pytest.mark.parametrize(("error", "status"), RAISED, ids=[type(error).__name__ for error, _ in RAISED])
def test_an_error_becomes_a_problem_document(
    tmp_path: Path, error: Exception, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    app = create_app(test_settings(tmp_path))

    async def boom() -> None:
        raise error

    app.add_api_route("/boom/now", boom)

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get("/boom/now")

    with caplog.at_level(logging.ERROR):
        answer = asyncio.run(ask())
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert ("retry-after" in answer.headers) == (status == 503)
    assert "/secret/path" not in answer.text and "Traceback" not in answer.text
    assert answer.json()["instance"] == "/boom/now"
    logged = [record for record in caplog.records if record.name == "server.security.faults"]
    assert bool(logged) == (status >= 500 and status != 504), "what is ours to mend is logged"
    if isinstance(error, InvalidRequest):
        assert answer.json()["errors"] == [{"field": "a.b", "rule": "must be right"}]


def test_every_error_of_the_library_has_its_answer() -> None:
    tree = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SpectatorError)
    ]
    assert set(FAULTS) <= set(tree) and set(CLOSES) <= set(tree)
    for kind in tree:
        error = kind.__new__(kind)
        assert 400 <= kind_of(error).status < 600
        assert isinstance(close_of(error)[0], Close)


def test_errors_end_a_viewers_connection_by_their_kind() -> None:
    assert close_of(EpisodeNotFound("ep-1"))[0] is Close.NOT_FOUND
    assert close_of(ProtocolError("bad", close_code=4400)) == (Close.BAD_MESSAGE, "bad")
    close, reason = close_of(JournalError("disk at /secret/path"))
    assert close is Close.RESTARTING and close.reconnect
    assert "/secret" not in reason
