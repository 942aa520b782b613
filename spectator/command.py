"""Entry point of the ``spectator`` command; Ctrl-C during imports ends it without a traceback."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130
"""The exit code after Ctrl-C."""


def main() -> None:
    """Run the command line; from here on Ctrl-C exits with code 130.

    While modules are imported nothing is open that must be closed, and an exception raised inside an import
    could turn into another one. So the handler exits at once.
    """
    usual = signal.signal(signal.SIGINT, _leave)
    from spectator.cli import main as command_line

    signal.signal(signal.SIGINT, usual)
    command_line()


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)
