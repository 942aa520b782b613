"""Owns the reading of JSON bodies into models, with every wrong field named."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request

from spectator.errors import FieldError, InvalidRequest, field_errors

from .faults import MALFORMED, NOT_JSON, Refused

_Model = TypeVar("_Model", bound="Body")

MAX_DEPTH: Final = 32
"""Deepest nesting that a body may have."""


class Body(BaseModel):
    """Base of the models of request bodies: strict types, nothing unknown."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Reading(Generic[_Model]):
    """What a body held.

    Args:
        fields: The model made of the fields that are right; the others hold their defaults.
        wrong: Every wrong field.
    """

    def __init__(self, fields: _Model, wrong: list[FieldError]) -> None:
        self.fields = fields
        self.wrong = wrong


async def read_object(request: Request) -> dict[str, Any]:
    """The JSON object in the body; empty when there is no body at all.

    Raises:
        Refused: The content type is another one, or it is not JSON.
        InvalidRequest: It is JSON but not an object.
    """
    content = await request.body()
    declared = request.headers.get("content-type")
    if declared is None and not content:
        return {}
    if (declared or "").partition(";")[0].strip().lower() != "application/json":
        raise Refused(NOT_JSON, f"Send application/json, not {declared or 'a body without a content type'}.")
    try:
        value = parse_json(content)
    except ValueError as error:
        raise Refused(MALFORMED, f"The body is not JSON: {str(error)[:200]}.") from error
    if not isinstance(value, dict):
        raise InvalidRequest([FieldError("body", "must be a JSON object")])
    if deeper_than(value, MAX_DEPTH):
        raise InvalidRequest([FieldError("body", f"must not be nested deeper than {MAX_DEPTH}")])
    if not encodable(value):
        raise InvalidRequest([FieldError("body", "must not hold half a surrogate pair")])
    return value


def parse_json(content: str | bytes) -> Any:
    """The strict JSON in ``content``: no NaN, no infinity.

    Raises:
        ValueError: It is not that, or it is nested beyond all reason.
    """
    try:
        return json.loads(content, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def read_fields(model: type[_Model], sent: dict[str, Any]) -> Reading[_Model]:
    """Check ``sent`` field by field; every field of ``model`` has a default."""
    try:
        return Reading(model.model_validate(sent), [])
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
    wrong = [
        FieldError(
            field.field, unknown_field(field.field, model) if raw["type"] == "extra_forbidden" else field.rule
        )
        for field, raw in zip(field_errors(problems), problems, strict=True)
    ]
    bad = {str(raw["loc"][0]) for raw in problems if raw["loc"]}
    return Reading(model.model_validate({name: sent[name] for name in sent if name not in bad}), wrong)


def body_of(model: type[_Model]) -> Callable[[Request], Coroutine[Any, Any, _Model]]:
    """A dependency that reads ``model`` from the body.

    Its callable raises what :func:`read_object` does, and InvalidRequest naming every wrong field.
    """

    async def read(request: Request) -> _Model:
        reading = read_fields(model, await read_object(request))
        if reading.wrong:
            raise InvalidRequest(reading.wrong)
        return reading.fields

    return read


def documented_body(model: type[Body]) -> dict[str, Any]:
    """``openapi_extra=`` of a route that reads ``model`` by itself."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": False, "content": {"application/json": {"schema": schema}}}}


def unknown_field(name: str, model: type[BaseModel]) -> str:
    """The rule for a field that ``model`` does not have."""
    near = difflib.get_close_matches(name, model.model_fields, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(model.model_fields)}"
    return f"there is no such field; {hint}"


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def encodable(value: object) -> bool:
    """Whether every text in ``value`` has a UTF-8 form; half a surrogate pair has none."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def deeper_than(value: object, depth: int) -> bool:
    """Whether ``value`` nests more than ``depth`` levels of objects and lists."""
    if depth < 0:
        return True
    if isinstance(value, dict):
        return any(deeper_than(item, depth - 1) for item in value.values())
    if isinstance(value, list):
        return any(deeper_than(item, depth - 1) for item in value)
    return False
