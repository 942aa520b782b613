"""The keys that are pressed in a terminal, one by one, without waiting for a line to end."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

SEQUENCES: Final = {
    "\x1b[C": "right", "\x1bOC": "right", "\x1b[D": "left", "\x1bOD": "left",
    "\x1b[H": "home", "\x1bOH": "home", "\x1b[1~": "home", "\x1b[7~": "home",
    "\x1b[F": "end", "\x1bOF": "end", "\x1b[4~": "end", "\x1b[8~": "end",
}  # fmt: skip
"""What terminals send for the keys that have no character of their own."""

LONGEST: Final = 12
"""Characters of a sequence at most; what is longer is none."""


def keys_of(text: str) -> tuple[list[str], str]:
    """The keys in what a terminal sent, and what may be the beginning of a sequence that is still to come.

    Args:
        text: What was read.

    >>> keys_of("q\\x1b[D \\x1b[")
    (['q', 'left', ' '], '\\x1b[')
    """
    keys: list[str] = []
    while text:
        if text[0] != "\x1b":
            keys.append(text[0])
            text = text[1:]
            continue
        end = _end_of(text)
        if end == 0:
            return (keys, text) if len(text) < LONGEST else (keys, "")
        if (key := SEQUENCES.get(text[:end])) is not None:
            keys.append(key)
        text = text[end:]
    return keys, ""


def _end_of(text: str) -> int:
    """Where the sequence that ``text`` begins with ends; 0 where that is still to come."""
    if len(text) < 2:
        return 0
    if text[1] == "O":
        return 3 if len(text) > 2 else 0
    if text[1] != "[":
        return 1
    return next((at + 1 for at in range(2, len(text)) if "\x40" <= text[at] <= "\x7e"), 0)


def has_keyboard() -> bool:
    """Whether somebody can press keys that are read one by one here."""
    try:
        import termios  # noqa: F401 - not everywhere
    except ModuleNotFoundError:
        return False
    return sys.stdin.isatty()


@contextmanager
def pressed(take: Callable[[str], None]) -> Iterator[None]:
    """While inside, ``take`` is given every key that is pressed; the terminal is left as it was.

    Args:
        take: Called in the running event loop. Ctrl+C still interrupts.
    """
    import termios
    import tty

    loop, handle = asyncio.get_running_loop(), sys.stdin.fileno()
    before, rest = termios.tcgetattr(handle), ""

    def read() -> None:
        nonlocal rest
        text = os.read(handle, 1024).decode("utf-8", "replace")
        if not text:  # the terminal is gone
            loop.remove_reader(handle)
            return
        keys, rest = keys_of(rest + text)
        for key in keys:
            take(key)

    try:
        tty.setcbreak(handle)
        loop.add_reader(handle, read)
        yield
    finally:
        loop.remove_reader(handle)
        termios.tcsetattr(handle, termios.TCSADRAIN, before)
