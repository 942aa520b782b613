"""The loop of commands that keep many requests under way."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from spectator.cli.rollouts_run import YOUNG_OBJECTS, run_busily


@pytest.fixture
def usual_collections() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("usual_collections")
def test_what_was_imported_is_not_looked_at_again_and_new_objects_rarely() -> None:
    before = gc.get_freeze_count()

    async def now() -> tuple[int, int]:
        return gc.get_freeze_count(), gc.get_threshold()[0]

    frozen, threshold = run_busily(now())
    assert frozen > before and threshold == YOUNG_OBJECTS
