"""Fake endpoints beside tests that have no event loop of their own, and catalogues that name them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.llm.brains import Brain
from tests.llm.fake_server import FakeModelServer, Mode, serving


@contextmanager
def endpoint(brain: Brain, modes: Iterable[Mode] | None = None, **more: Any) -> Iterator[FakeModelServer]:
    """Run :func:`serving` on a thread of its own; its counters may be read from any thread."""
    ready: list[FakeModelServer] = []
    begun = threading.Event()
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def run() -> None:
        over = asyncio.Event()
        async with serving(brain, modes, **more) as fake:
            ready.append(fake)
            loops.append((asyncio.get_running_loop(), over))
            begun.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="fake endpoint")
    thread.start()
    assert begun.wait(20), "the fake endpoint did not start"
    try:
        yield ready[0]
    finally:
        loop, over = loops[0]
        loop.call_soon_threadsafe(over.set)
        thread.join(20)
    assert not thread.is_alive()


def write_captains(path: Path, **captains: dict[str, Any]) -> Path:
    """A captains file; every table has a label, a model and quick limits unless it says otherwise."""
    lines = []
    for name, table in captains.items():
        lines.append(f"[captains.{name}]")
        full = {"label": f"Model {name}", "model": f"{name}-1", "retries": 1, "timeout_s": 20, **table}
        lines += [f"{key} = {_toml(value)}" for key, value in full.items()]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)
