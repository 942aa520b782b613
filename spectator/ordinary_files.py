"""The rule for every file that is written in place of another: what is no ordinary file is left alone."""

from __future__ import annotations

from pathlib import Path

from spectator.errors import ConfigurationError


def need_ordinary(path: Path) -> None:
    """Let a path through where a file may be put: nothing is there yet, or an ordinary file.

    Raises:
        ConfigurationError: A folder, a device, a pipe or a socket is there.

    >>> need_ordinary(Path("not-there-yet.json"))
    >>> need_ordinary(Path("/dev/null"))
    Traceback (most recent call last):
        ...
    spectator.errors.ConfigurationError: /dev/null is no ordinary file; it is not replaced
    """
    if path.exists() and not path.is_file():
        raise ConfigurationError(f"{path} is no ordinary file; it is not replaced")
