"""The command ``spectator``: loads the command line, during which Ctrl-C ends it without a trace, too."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130
"""The exit code after Ctrl-C."""


def main() -> None:
    """Run the command line; from here on Ctrl-C is exit code 130.

    While modules are loaded nothing is open that would have to be closed, and an exception in the midst of it
    could become another one.
    """
    usual = signal.signal(signal.SIGINT, _leave)
    from spectator.cli import main as command_line

    signal.signal(signal.SIGINT, usual)
    command_line()


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)
