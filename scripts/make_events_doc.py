"""Write docs/events.md, which lists every event type with its fields, from the models.

Run ``python scripts/make_events_doc.py`` after a model has changed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from spectator.catalog import BUILT_IN, load_world
from spectator.core_events import CORE_EVENTS
from spectator.events import SCHEMA_VERSION, EventData

PAGE = Path(__file__).resolve().parent.parent / "docs" / "events.md"

HEAD = f"""# Events

Written by `python scripts/make_events_doc.py` from the models; do not edit.

An event is a past fact about an episode. Every event has the same envelope, version {SCHEMA_VERSION}:

| field | what it is |
|---|---|
| `v` | version of the envelope and of the core types |
| `episode_id` | the episode |
| `epoch` | identity of the numbering; a new one makes older numbers meaningless |
| `seq` | 1, 2, 3, ... without a gap within `(episode_id, epoch)` |
| `at` | time of the record, RFC 3339 in UTC with milliseconds |
| `turn` | number of its action; 0 before the first |
| `type` | a namespace and a past participle, as below |
| `data` | the fields of the type, as below |
| `patch` | JSON merge patch (RFC 7396) from the viewers' state before the event to the state after it |

The first event of an episode is `episode.started`, its last one `episode.ended`. The events of one step
share a turn and are recorded and published together.
"""


def page() -> str:
    """Return the whole page."""
    parts = [HEAD, *section("Core types", "Events of every world.", CORE_EVENTS)]
    for name in BUILT_IN:
        world = load_world(name)
        parts += section(f"{world.title} (`{name}` {world.version})", world.summary, world.events)
    return "\n".join(parts)


def section(title: str, summary: str, events: Mapping[str, type[EventData]]) -> Iterator[str]:
    """Yield the part of the page on some event types."""
    yield f"## {title}\n\n{summary}\n"
    for name, model in events.items():
        yield f"### `{name}`\n\n{cell(model.__doc__ or '').strip()}\n"
        schema = model.model_json_schema()
        if schema.get("properties"):
            yield "| field | type | what it is |\n|---|---|---|\n" + "\n".join(rows(schema)) + "\n"
        for part, inner in schema.get("$defs", {}).items():
            yield f"{part}: {cell(inner.get('description', ''))}\n"
            if inner.get("properties"):
                yield "| field | type | what it is |\n|---|---|---|\n" + "\n".join(rows(inner)) + "\n"


def rows(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield a row for each field."""
    required = schema.get("required", ())
    for name, field in schema["properties"].items():
        optional = "" if name in required else f" (default `{cell(json.dumps(field.get('default')))}`)"
        yield f"| `{name}` | {cell(kind(field))} | {cell(field.get('description', ''))}{optional} |"


def kind(field: Mapping[str, Any]) -> str:
    """Return the type of a field in words."""
    if "anyOf" in field:
        return " or ".join(kind(option) for option in field["anyOf"])
    if "$ref" in field:
        return str(field["$ref"]).rsplit("/", 1)[-1]
    if "enum" in field:
        return ", ".join(f'`"{value}"`' for value in field["enum"])
    if "const" in field:
        return f'`"{field["const"]}"`'
    name = str(field.get("type", "any JSON"))
    if name == "array" and "prefixItems" in field:
        return f"array of {', '.join(kind(item) for item in field['prefixItems'])}"
    if name == "array":
        return f"array of {kind(field.get('items', {}))}"
    if name == "object" and isinstance(field.get("additionalProperties"), Mapping):
        return f"object of {kind(field['additionalProperties'])}"
    return name + limits(field)


def limits(field: Mapping[str, Any]) -> str:
    """Return the range of a number."""
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    found = [f"{sign} {field[name]}" for name, sign in signs.items() if name in field]
    return f" {', '.join(found)}" if found else ""


def cell(text: str) -> str:
    """Escape text for a table cell."""
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(Path.cwd()) if PAGE.is_relative_to(Path.cwd()) else PAGE, file=sys.stderr)
