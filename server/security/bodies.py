"""Reads JSON bodies into models, and reports every invalid field."""

from __future__ import annotations

import asyncio
import difflib
import json
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request

from spectator.errors import FieldError, InvalidRequest, field_errors

from .faults import MALFORMED, NOT_JSON, Refused

_Model = TypeVar("_Model", bound="Body")
_Sent = TypeVar("_Sent")
_Read = TypeVar("_Read")

MAX_DEPTH: Final = 32
"""Deepest nesting of a body."""

MAX_VALUES: Final = 10_000
"""Most values in a body, as in the OpenEnv validator; reading more would take long."""

MAX_COMMAS: Final = 100_000
"""Most commas, including those in strings; bodies with more are not parsed."""

LARGE: Final = 16 * 1024
"""Bytes of JSON that parse in well under 10 ms, whatever they contain."""


class Body(BaseModel):
    """Base of request bodies: strict types, no unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class ParsedBody(Generic[_Model]):
    """A parsed body.

    Args:
        fields: The model with the valid fields; the others hold their defaults.
    """

    fields: _Model
    wrong: list[FieldError]


async def read_object(request: Request) -> dict[str, Any]:
    """Read the JSON object in the body; empty if there is no body.

    Raises:
        Refused: The content type is not JSON, or the body is not.
        InvalidRequest: The body is JSON but not an object.
    """
    content = await request.body()
    declared = request.headers.get("content-type")
    if declared is None and not content:
        return {}
    if (declared or "").partition(";")[0].strip().lower() != "application/json":
        raise Refused(NOT_JSON, f"Send application/json, not {declared or 'a body without a content type'}.")
    return await in_thread_if_large(len(content), _object_in, content)


def _object_in(content: bytes) -> dict[str, Any]:
    try:
        value = parse_json(content)
    except ValueError as error:
        raise Refused(MALFORMED, f"The body is not JSON: {str(error)[:200]}.") from error
    if not isinstance(value, dict):
        raise InvalidRequest([FieldError("body", "must be a JSON object")])
    if (rule := excess(value)) is not None:
        raise InvalidRequest([FieldError("body", rule)])
    if not (content.isascii() and b"\\u" not in content) and not encodable(value):
        raise InvalidRequest([FieldError("body", "must not contain half of a surrogate pair")])
    return value


async def in_thread_if_large(size: int, function: Callable[[_Sent], _Read], sent: _Sent) -> _Read:
    """Return ``function(sent)``, run on a thread if the input is large."""
    return function(sent) if size <= LARGE else await asyncio.to_thread(function, sent)


def parse_json(content: str | bytes) -> Any:
    """Parse strict JSON: no NaN, no infinity, no number beyond a float such as 1e999.

    A byte order mark at its beginning is ignored (RFC 8259, 8.1).

    Raises:
        ValueError: It is not strict JSON, nested too deeply, or holds too many commas.
    """
    commas = content.count(",") if isinstance(content, str) else content.count(b",")
    if commas > MAX_COMMAS:
        raise ValueError(f"it contains more than {MAX_COMMAS} commas")
    try:
        text = content if isinstance(content, str) else content.decode()
        return _DECODER.decode(text.removeprefix("\ufeff"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def read_fields(model: type[_Model], sent: dict[str, Any]) -> ParsedBody[_Model]:
    """Check ``sent`` field by field; every field of ``model`` has a default."""
    try:
        return ParsedBody(model.model_validate(sent), [])
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
    wrong = [
        FieldError(
            field.field, unknown_field(field.field, model) if raw["type"] == "extra_forbidden" else field.rule
        )
        for field, raw in zip(field_errors(problems), problems, strict=True)
    ]
    bad = {str(raw["loc"][0]) for raw in problems if raw["loc"]}
    return ParsedBody(model.model_validate({name: sent[name] for name in sent if name not in bad}), wrong)


def body_of(model: type[_Model]) -> Callable[[Request], Coroutine[Any, Any, _Model]]:
    """Return a dependency that reads ``model`` from the body.

    It raises what :func:`read_object` does, and InvalidRequest with every invalid field.
    """

    async def read(request: Request) -> _Model:
        reading = read_fields(model, await read_object(request))
        if reading.wrong:
            raise InvalidRequest(reading.wrong)
        return reading.fields

    return read


def documented_body(model: type[Body]) -> dict[str, Any]:
    """Return ``openapi_extra=`` of a route that reads ``model`` from its body."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": False, "content": {"application/json": {"schema": schema}}}}


def unknown_field(name: str, model: type[BaseModel]) -> str:
    """Return the rule for a field that ``model`` does not have."""
    within = [field for field in model.model_fields if name in field.split("_")]
    near = within[:1] or difflib.get_close_matches(name, model.model_fields, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known fields: {', '.join(model.model_fields)}"
    return f"unknown field; {hint}"


def _reject_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise ValueError(f"{digits[:40]} is too large a number")
    return number


_DECODER: Final = json.JSONDecoder(parse_constant=_reject_constant, parse_float=_finite)


def encodable(value: object) -> bool:
    """Whether every string in ``value`` can be encoded as UTF-8; surrogates cannot."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def excess(value: object) -> str | None:
    """Return the rule on depth or number of values that ``value`` breaks, if any."""
    level: list[Any] = [value]
    count = 1
    for _ in range(MAX_DEPTH + 1):
        holders = [item for item in level if isinstance(item, dict | list)]
        count += sum(map(len, holders))
        if count > MAX_VALUES:
            return f"must not contain more than {MAX_VALUES} values"
        if not holders:
            return None
        level = [item for one in holders for item in (one.values() if isinstance(one, dict) else one)]
    return f"must not be nested deeper than {MAX_DEPTH}"
