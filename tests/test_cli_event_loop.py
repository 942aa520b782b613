"""The loop of commands that keep many requests under way."""

from __future__ import annotations

import gc

from spectator.cli.event_loop import run_busily


def test_what_was_imported_is_not_looked_at_again_by_full_collections() -> None:
    before = gc.get_freeze_count()

    async def frozen() -> int:
        return gc.get_freeze_count()

    try:
        assert run_busily(frozen()) > before
    finally:
        gc.unfreeze()
