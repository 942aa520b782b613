"""The page on events is the one that the models make."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from spectator.catalog import BUILT_IN, load_world
from spectator.core_events import CORE_EVENTS

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "make_events_doc.py"))


def test_the_page_is_current(script: dict[str, Any]) -> None:
    kept = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    assert script["page"]() == kept, "run: python scripts/make_events_doc.py"


def test_every_type_and_every_field_has_its_place(script: dict[str, Any]) -> None:
    page = script["page"]()
    worlds = [load_world(name).events for name in BUILT_IN]
    for events in (CORE_EVENTS, *worlds):
        for name, model in events.items():
            assert f"### `{name}`" in page
            for field in model.model_fields:
                assert f"| `{field}` |" in page


def test_every_field_of_a_core_type_is_explained() -> None:
    unexplained = [
        f"{name}.{field}"
        for name, model in CORE_EVENTS.items()
        for field, info in model.model_fields.items()
        if not info.description
    ]
    assert not unexplained
