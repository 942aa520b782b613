"""The page ``/docs``: the OpenAPI document for people, without JavaScript."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse

from .templates import Page, Templates

DONE: Final = "Successful Response"
"""FastAPI's default description of an answer."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One field, parameter or answer."""

    name: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    Args:
        fields: Its parameters and body fields.
    """

    method: str
    path: str
    text: str
    fields: list[Entry]
    answers: list[Entry]


@dataclass(frozen=True, slots=True)
class ReferencePage(Page):
    """Context of ``reference.html``."""

    version: str
    groups: Mapping[str, list[Operation]]


def reference_router(templates: Templates) -> APIRouter:
    """Return the route ``/docs``."""
    router = APIRouter(include_in_schema=False)

    @router.get("/docs")
    def reference(request: Request) -> HTMLResponse:
        document = request.app.openapi()
        page = ReferencePage(
            root="./",
            static=f"./{request.app.state.static_path}",
            title="Spectator: the HTTP interface",
            version=document["info"]["version"],
            groups=_groups(document),
        )
        return templates.render("reference.html", page)

    return router


def _groups(document: Mapping[str, Any]) -> dict[str, list[Operation]]:
    schemas = document["components"]["schemas"]
    groups: dict[str, list[Operation]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            group = operation.get("tags", ["other"])[0]
            groups.setdefault(group, []).append(_operation(method, path, operation, schemas))
    return groups


def _operation(method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Operation:
    parameters = [
        Entry(one["name"], _kind(one["schema"]), one.get("description", ""))
        for one in operation.get("parameters", [])
    ]
    answers = [
        Entry(
            status, _name(answer.get("content", {})), answer["description"].replace("Successful Response", "")
        )
        for status, answer in operation["responses"].items()
    ]
    text = operation.get("description", operation.get("summary", ""))
    fields = parameters + _body(operation.get("requestBody", {}), schemas)
    return Operation(method.upper(), path, text, fields, answers)


def _body(body: Mapping[str, Any], schemas: Mapping[str, Any]) -> list[Entry]:
    name = _name(body.get("content", {}))
    properties = schemas.get(name, {}).get("properties", {})
    return [
        Entry(field, _kind(schema), schema.get("description", "")) for field, schema in properties.items()
    ]


def _name(content: Mapping[str, Any]) -> str:
    for media_type, described in content.items():
        reference = str(described.get("schema", {}).get("$ref", ""))
        return reference.rpartition("/")[2] or str(media_type)
    return ""


def _kind(schema: Mapping[str, Any]) -> str:
    choices = [_kind(choice) for choice in schema.get("anyOf", [])]
    kind = " or ".join(choices) or str(schema.get("$ref", "")).rpartition("/")[2] or schema.get("type", "any")
    if "enum" in schema:
        kind = " | ".join(map(str, schema["enum"]))
    return f"{kind}, {schema['default']!r} if omitted" if schema.get("default") is not None else kind
