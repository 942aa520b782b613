"""The command line ``spectator``: the group of all commands and its error handling.

Commands import heavy modules only when they run, so that ``--help`` is fast.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from typing import Any, Final

import click

from spectator import __version__
from spectator.cli.bundles import board, verify_bundle
from spectator.cli.captain import captain, catalog, train
from spectator.cli.collider import collider
from spectator.cli.cricket import cricket
from spectator.cli.evaluate import evaluate
from spectator.cli.export import export
from spectator.cli.journal import copy_journal, import_files, prune, replay
from spectator.cli.play import play, simulate
from spectator.cli.rollouts import rollouts
from spectator.cli.serve import doctor, serve
from spectator.cli.verify import claim, verify
from spectator.cli.watch import narrate, watch
from spectator.errors import SpectatorError

INTERRUPTED: Final = 130
"""The exit code after Ctrl-C; :mod:`spectator.command` uses it while this module loads."""

SECTIONS: Final = {
    "Play and watch": (play, watch, serve, catalog, captain, cricket),
    "Compare captains": (evaluate, verify_bundle, board, collider),
    "Train models": (rollouts, export, import_files, train, simulate),
    "Recorded episodes": (replay, verify, claim, narrate),
    "Operate": (doctor, prune, copy_journal),
}
"""The commands in the order of the help."""


class _Commands(click.Group):
    """A group that reports expected errors in one line with exit code 1.

    Expected are the errors of this library and of the system. Ctrl-C gives exit code 130.
    """

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except (SpectatorError, OSError) as error:
            raise _reported(error) from error
        except BaseExceptionGroup as group:
            known, others = group.split((SpectatorError, OSError))
            if known is None or others is not None:
                raise
            raise _reported(next(_leaves(known))) from group

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        longest = max(map(len, self.commands))
        limit = formatter.width - 6 - longest
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                rows = [(f"{one.name:<{longest}}", one.get_short_help_str(limit)) for one in commands]
                formatter.write_dl(rows)


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[SpectatorError | OSError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _reported(error: SpectatorError | OSError) -> Exception:
    """Return the exception with which click reports ``error``.

    A broken pipe is returned as it is: click exits silently on it.
    """
    if not isinstance(error, OSError) or error.strerror is None:
        return click.ClickException(str(error))
    if error.errno == errno.EPIPE:
        return error
    if error.errno == errno.ENOSPC and error.filename is None:
        sys.stdout = open(os.devnull, "w")
    where = "" if error.filename is None else f"{error.filename}: "
    return click.ClickException(f"{where}{error.strerror}")


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__, prog_name="spectator")
def main() -> None:
    """Watch, record, replay and compare agents that play games.

    \b
    First steps:
      spectator catalog                       list worlds and captains
      spectator play cricket > match.ndjson   play one episode
      spectator serve                         open http://localhost:8000 in a browser

    `spectator COMMAND --help` shows options and examples.
    """


for _commands in SECTIONS.values():
    for _command in _commands:
        main.add_command(_command)
