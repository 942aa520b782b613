"""A run that is played in a thread as another process would, and stands still until it is let go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spectator.catalog import load_world
from tests.llm.brains import Said, read_situation
from tests.rollouts.exported_run import play_run, wavering

PATIENCE_S = 60.0


@contextmanager
def gated_run(folder: Path, *, stop_at: int = 3, **changes: Any) -> Iterator[threading.Event]:
    """Play two groups of four into ``folder``; every episode waits before counting to ``stop_at``.

    Yields:
        What lets them go on.
    """
    gate, held = threading.Event(), threading.Event()

    def brain(body: Mapping[str, Any]) -> Said:
        if read_situation(body)["next"] >= stop_at:
            held.set()
            assert gate.wait(PATIENCE_S), "nobody let the run go on"
        return wavering(body)

    def play() -> None:
        play_run(folder, brain=brain, load=load_world, episodes=8, **changes)

    thread = threading.Thread(target=play, name="gated run")
    thread.start()
    try:
        assert held.wait(PATIENCE_S), "no episode came so far"
        yield gate
    finally:
        gate.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
