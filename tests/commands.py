"""The command line, called in this process."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner, Result

from spectator.cli import main


def spectator(*arguments: object, **options: Any) -> Result:
    """Run ``spectator`` with these arguments."""
    return CliRunner().invoke(main, [str(one) for one in arguments], **options)


def run(*arguments: object) -> tuple[int, str, str]:
    """Return the exit code, the output and the errors of ``spectator``, which ended as it should."""
    done = spectator(*arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr
