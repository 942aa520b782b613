"""A world whose captains wait, in the catalogue for the length of a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spectator import catalog
from tests.evaluation import worlds


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(catalog, "BUILT_IN", {**catalog.BUILT_IN, "waiting": "tests.evaluation.worlds:WORLD"})
    worlds.GATE.update(open=True, asked=0, after=0)
    yield "waiting"
    catalog.load_world.cache_clear()
