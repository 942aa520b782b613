"""Steppers for tests of pools: nothing is stepped, and closing is counted."""

from __future__ import annotations

from typing import Any


class ClosingStepper:
    """Counts how often it was closed."""

    def __init__(self) -> None:
        self.closed = 0

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"nothing steps it: {name}")

    async def aclose(self) -> None:
        self.closed += 1
