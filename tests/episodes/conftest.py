"""What the tests of episodes may ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx

from spectator.catalog import load_world, world_names


@pytest.fixture
def nothing_blocks() -> Iterator[None]:
    """Fails whatever blocks the event loop."""
    for name in world_names():
        load_world(name)  # a server imports its worlds before it serves
    with blockbuster_ctx():
        yield
