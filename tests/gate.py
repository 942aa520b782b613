"""A gate that holds worlds until a test opens it."""

from __future__ import annotations

import threading
from typing import ClassVar


class Gate:
    """Holds whoever comes to it until it is opened."""

    current: ClassVar[Gate]

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._opened = threading.Event()

    def pass_through(self) -> None:
        """Wait, on the environment's own thread, as a busy world would."""
        self.reached.set()
        self._opened.wait(60)

    def open(self) -> None:
        """Let everybody pass."""
        self._opened.set()
