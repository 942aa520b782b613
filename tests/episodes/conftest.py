"""What the tests of episodes may ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx

from spectator.catalog import load_world, world_names
from spectator.episodes.replayer import Replay
from spectator.events import Event


@pytest.fixture
def nothing_blocks() -> Iterator[None]:
    """Fails whatever blocks the event loop."""
    for name in world_names():
        load_world(name)  # a server imports its worlds before it serves
    with blockbuster_ctx():
        yield


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the recorded events that are played again."""
    seqs: list[int] = []
    compare = Replay.compare

    async def note(replay: Replay, event: Event) -> list[str]:
        seqs.append(event.seq)
        return await compare(replay, event)

    monkeypatch.setattr(Replay, "compare", note)
    return seqs
