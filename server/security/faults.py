"""Maps errors to problem documents and WebSocket close codes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from spectator.errors import (
    ConfigurationError,
    EpisodeBusy,
    EpisodeDamaged,
    EpisodeElsewhere,
    EpisodeNotFound,
    EpisodeOver,
    FieldError,
    InvalidRequest,
    JournalDamaged,
    JournalError,
    NoDecisionPending,
    ProtocolError,
    Recovering,
    RunNotFound,
    SpectatorError,
    StepTimeout,
    TruthSealed,
    field_errors,
)
from spectator.text import clean_text

from .requests import ProblemAnswer, request_id_of
from .slot_queue import QueuePosition


class Close(Enum):
    """Why a viewer's connection closes: code, whether to reconnect, and the reason."""

    ENDED = (1000, False, "ended")
    UNENDED = (1000, False, "its record has no end, and it is not running here")
    BROKEN = (1002, False, "not a WebSocket's framing")
    NOT_UTF8 = (1007, False, "not UTF-8")
    TOO_BIG = (1009, False, "message too big")
    FAILED = (1011, True, "the server failed here")
    UNRECORDED = (1011, True, "its end could not be recorded")
    SILENT = (1011, True, "no answer to a ping")
    RESTARTING = (1012, True, "the server restarts")
    NOT_FOUND = (4001, False, "no such episode")
    FOREIGN_ORIGIN = (4003, False, "pages of other sites may not watch from here")
    TOO_SLOW = (4008, True, "too slow; reconnect and resume")
    FULL = (4029, True, "too many viewers; try again later")
    DAMAGED = (4500, False, "its record is damaged")
    BAD_MESSAGE = (4400, False, "bad message")

    def __init__(self, code: int, reconnect: bool, reason: str) -> None:
        self.code = code
        self.reconnect = reconnect
        self.reason = reason


logger = logging.getLogger(__name__)

MEDIA_TYPE: Final = ProblemAnswer.media_type

MAX_DETAIL: Final = 2000
"""Characters of a detail, which may quote what the client sent."""

AGAIN_S: Final = "1"
"""Retry-After in seconds while episodes are recovered or the journal cannot be used; most take less."""


class WrongField(BaseModel):
    """One invalid field of a request."""

    field: str = Field(description="Dotted path of the field, as in the request")
    rule: str = Field(description="The rule that it breaks, which says what is valid")


class Problem(BaseModel):
    """A problem document (RFC 9457)."""

    type: str = Field(description="A stable name of the kind of problem, such as `/problems/episode-busy`")
    title: str = Field(description="The kind of problem in words; the same for every occurrence")
    status: int = Field(description="The HTTP status")
    detail: str = Field(description="What went wrong this time, for people")
    instance: str | None = Field(default=None, description="The requested path")
    request_id: str | None = Field(
        default=None, description="Of this request, as in the header X-Request-Id and in the server's log"
    )
    errors: list[WrongField] | None = Field(default=None, description="Every invalid field, if there are any")
    running: list[dict[str, Any]] | None = Field(
        default=None, description="The episodes that hold the slots, if all are taken, as in /custom/status"
    )
    queue: QueuePosition | None = Field(
        default=None,
        description="The queue for slots, if all are taken: send `wait_s` to wait in it, and the `ticket` "
        "within 5 s to keep your `place`",
    )


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem.

    Args:
        name: Last part of its ``type``.
    """

    name: str
    status: int
    title: str


class Refused(Exception):
    """The server rejects a request."""

    def __init__(
        self,
        kind: Kind,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.kind = kind
        self.detail = detail
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})
        super().__init__(detail)


MALFORMED: Final = Kind("malformed-body", 400, "The body is not JSON")
UNAUTHENTICATED: Final = Kind("token-needed", 401, "The operator's token is needed")
NOT_HERE: Final = Kind("not-allowed-here", 403, "This is not allowed here")
NOT_YOURS: Final = Kind("not-your-episode", 403, "Another client started this episode")
NOT_YOUR_SEAT: Final = Kind("not-your-seat", 403, "This needs the key of the seat")
FOREIGN_ORIGIN: Final = Kind("foreign-origin", 403, "Pages of other sites may not do this")
FOREIGN_HOST: Final = Kind("foreign-host", 421, "This server has another name")
NOT_FOUND: Final = Kind("not-found", 404, "Not found")
NO_EPISODE: Final = Kind("episode-not-found", 404, "Episode not found")
NO_RUN: Final = Kind("run-not-found", 404, "Run not found")
NO_QUESTIONS: Final = Kind("no-questions", 404, "Viewers cannot call along here")
NO_VOTER: Final = Kind("voter-not-found", 404, "No calls of this viewer on this day")
NO_TRUTH: Final = Kind("no-truth", 404, "No hidden truth is recorded")
METHOD: Final = Kind("method-not-allowed", 405, "This method is not allowed here")
BUSY: Final = Kind("episode-busy", 409, "Every slot is taken")
NOT_ASKED: Final = Kind("not-asked", 409, "It is not this seat's turn")
ELSEWHERE: Final = Kind("episode-elsewhere", 409, "Another server runs the episode")
VOTING_CLOSED: Final = Kind("voting-closed", 409, "This decision cannot be called now")
VOTED: Final = Kind("already-voted", 409, "You have called this decision already")
SEALED: Final = Kind("truth-sealed", 409, "The truth is sealed until the episode has ended")
OVER: Final = Kind("episode-over", 409, "The episode has ended")
UNENDED: Final = Kind("episode-unended", 409, "The episode has not ended")
TOO_LARGE: Final = Kind("body-too-large", 413, "The body is too large")
NOT_JSON: Final = Kind("not-json", 415, "The content type must be application/json")
INVALID: Final = Kind("invalid-request", 422, "The request has invalid fields")
TOO_MANY: Final = Kind("too-many-requests", 429, "Too many requests")
SPENT: Final = Kind("allowance-spent", 429, "Today's model budget is spent")
INTERNAL: Final = Kind("internal-error", 500, "The server failed")
NO_JOURNAL: Final = Kind("journal-unavailable", 503, "The journal cannot be used now")
NO_PLAYER: Final = Kind("player-unavailable", 503, "The server that runs the episode does not answer")
DAMAGED: Final = Kind("record-damaged", 500, "The record of this episode is damaged")
TIMED_OUT: Final = Kind("step-timeout", 504, "The environment did not answer in time")
RECOVERING: Final = Kind("recovering", 503, "Earlier episodes are still being recovered")
NO_VOICE: Final = Kind("no-voice", 503, "No voice can speak this line now")
NO_ROOM: Final = Kind("too-many-connections", 503, "All connections are in use")
FULL: Final = Kind("too-many-viewers", 503, "All places for viewers are taken")
CROWDED: Final = Kind("too-many-reads", 503, "Too many concurrent reads")
PAUSED: Final = Kind("starts-paused", 503, "The operator has paused starts")


def too_many(wait_s: float, what: str, setting: str = "") -> Refused:
    """Return the rejection of an action that was done too often.

    Args:
        wait_s: Seconds until it may be done again.
    """
    seconds = max(1, round(wait_s + 0.5))
    named = f" ({setting})" if setting else ""
    detail = f"Too many {what}{named}; try again in {seconds} s."
    return Refused(TOO_MANY, detail, headers={"Retry-After": str(seconds)})


FAULTS: Final[Mapping[type[SpectatorError], Kind]] = {
    InvalidRequest: INVALID,
    EpisodeNotFound: NO_EPISODE,
    RunNotFound: NO_RUN,
    EpisodeBusy: BUSY,
    EpisodeOver: OVER,
    EpisodeElsewhere: ELSEWHERE,
    NoDecisionPending: NOT_ASKED,
    TruthSealed: SEALED,
    EpisodeDamaged: DAMAGED,
    JournalError: NO_JOURNAL,
    Recovering: RECOVERING,
    StepTimeout: TIMED_OUT,
    ConfigurationError: INTERNAL,
    SpectatorError: INTERNAL,
}
"""The kind of problem of each library error; the nearest base class decides."""

CLOSES: Final[Mapping[type[SpectatorError], Close]] = {
    EpisodeDamaged: Close.DAMAGED,
    EpisodeNotFound: Close.NOT_FOUND,
    ProtocolError: Close.BAD_MESSAGE,
    SpectatorError: Close.RESTARTING,
}
"""How each library error closes a viewer's connection; the nearest base class decides."""

BY_STATUS: Final[Mapping[int, Kind]] = {
    kind.status: kind
    for kind in (MALFORMED, UNAUTHENTICATED, NOT_FOUND, METHOD, TOO_LARGE, NOT_JSON, TOO_MANY)
}


def problem(
    kind: Kind,
    detail: str,
    *,
    instance: str | None = None,
    errors: Sequence[FieldError] = (),
    headers: Mapping[str, str] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> ProblemAnswer:
    """Return the response with a problem document."""
    document = Problem(
        type=f"/problems/{kind.name}",
        title=kind.title,
        status=kind.status,
        detail=clean_text(detail, MAX_DETAIL),
        instance=None if instance is None else clean_text(instance, MAX_DETAIL),
        errors=[
            WrongField(field=clean_text(wrong.field, MAX_DETAIL), rule=clean_text(wrong.rule, MAX_DETAIL))
            for wrong in errors
        ]
        or None,
        **(extra or {}),
    )
    body = document.model_dump(mode="json", exclude_none=True)
    return ProblemAnswer(body, kind.status, {"Cache-Control": "no-store", **(headers or {})})


def kind_of(error: SpectatorError) -> Kind:
    """Return the kind of problem of a library error."""
    return next(FAULTS[base] for base in type(error).__mro__ if base in FAULTS)


def close_of(error: SpectatorError) -> tuple[Close, str]:
    """Return how a library error closes a viewer's connection, and the reason to send."""
    close = next(CLOSES[base] for base in type(error).__mro__ if base in CLOSES)
    if close is Close.RESTARTING:
        logger.error("closing a viewer's connection: %s", error)
        return close, _unreadable(error, "the record cannot be read now; try again later")
    return close, str(error)


def _unreadable(error: SpectatorError, passing: str) -> str:
    """Return ``passing``, unless waiting does not help."""
    damaged = "the journal is damaged; only the operator can repair it"
    return damaged if isinstance(error, JournalDamaged) else passing


def documented(*kinds: Kind) -> dict[int | str, dict[str, Any]]:
    """Return ``responses=`` of a route that may answer with these problems."""
    described: dict[int, list[str]] = {}
    for kind in kinds:
        described.setdefault(kind.status, []).append(kind.title)
    return {
        status: {
            "description": "; ".join(titles),
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status, titles in described.items()
    }


def describe(app: FastAPI, *bodies: type[BaseModel]) -> None:
    """Let the OpenAPI document include problems, and bodies that routes read themselves."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
            schemas = made.setdefault("components", {}).setdefault("schemas", {})
            models: tuple[type[BaseModel], ...] = (Problem, *bodies)
            for model in models:
                schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
                schemas.update(schema.pop("$defs", {}))
                schemas[model.__name__] = schema
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


Handler = Callable[[Request, Any], Awaitable[Response]]


async def _refused(request: Request, error: Refused) -> Response:
    return problem(
        error.kind, error.detail, instance=request.url.path, headers=error.headers, extra=error.extra
    )


async def _library(request: Request, error: SpectatorError) -> Response:
    kind = kind_of(error)
    if kind is INTERNAL:
        return await _unexpected(request, error)
    if kind is NO_JOURNAL:
        logger.error("%s: %s", _named(request), error)
        detail = _unreadable(error, "The journal cannot be used now; try again soon.")
        headers = None if isinstance(error, JournalDamaged) else {"Retry-After": AGAIN_S}
        return problem(kind, detail, instance=request.url.path, headers=headers)
    if kind is DAMAGED:
        logger.error("%s: %s", _named(request), error)
    if kind is TIMED_OUT:
        logger.warning("%s: %s", _named(request), error)
    errors = error.fields if isinstance(error, InvalidRequest) else ()
    headers = {"Retry-After": AGAIN_S} if kind is RECOVERING else None
    return problem(kind, str(error), instance=request.url.path, errors=errors, headers=headers)


async def _validation(request: Request, error: RequestValidationError) -> Response:
    errors = [
        FieldError(wrong.field.partition(".")[2] or wrong.field, wrong.rule)
        for wrong in field_errors(error.errors())
    ]
    detail = "; ".join(f"{wrong.field}: {wrong.rule}" for wrong in errors)
    return problem(INVALID, detail, instance=request.url.path, errors=errors)


async def http_problem(request: Request, error: HTTPException) -> Response:
    """Answer an error of the web framework with a problem document."""
    known = BY_STATUS.get(error.status_code)
    phrase = HTTPStatus(error.status_code).phrase
    kind = known or Kind(phrase.lower().replace(" ", "-"), error.status_code, phrase)
    detail = kind.title if error.detail == phrase else str(error.detail)
    return problem(kind, detail, instance=request.url.path, headers=error.headers)


async def _gone(request: Request, error: ClientDisconnect) -> Response:
    """Handle a client that disconnected within its body.

    It does not get this response.
    """
    return problem(MALFORMED, "The body is incomplete.", instance=request.url.path)


async def _unexpected(request: Request, error: Exception) -> Response:
    logger.error("%s failed", _named(request), exc_info=error)
    return problem(INTERNAL, "The server failed; the log has details.", instance=request.url.path)


def _named(request: Request) -> str:
    return f"request {request_id_of(request.scope)}: {request.method} {request.url.path}"


def install_faults(app: FastAPI) -> None:
    """Answer every error of ``app`` with a problem document."""
    handlers: Mapping[type[Exception], Handler] = {
        Refused: _refused,
        ClientDisconnect: _gone,
        SpectatorError: _library,
        RequestValidationError: _validation,
        HTTPException: http_problem,
        Exception: _unexpected,
    }
    for error, handler in handlers.items():
        app.add_exception_handler(error, handler)
