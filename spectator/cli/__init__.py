"""The command line: one command a module; heavy imports happen only when a command runs."""

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
"""The exit code after Ctrl-C; :mod:`spectator.command` gives it while this is loaded."""


class _Commands(click.Group):
    """A group whose commands turn errors of this library and of the system into one line and exit code 1.

    Ctrl-C is exit code 130 everywhere.
    """

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except (SpectatorError, OSError) as error:
            raise _in_words(error) from error
        except BaseExceptionGroup as group:
            known, others = group.split((SpectatorError, OSError))
            if known is None or others is not None:
                raise
            raise _in_words(next(_leaves(known))) from group


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[SpectatorError | OSError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _in_words(error: SpectatorError | OSError) -> Exception:
    """What click is to say of an error; of a reader that went away it says nothing itself."""
    if not isinstance(error, OSError) or error.strerror is None:
        return click.ClickException(str(error))
    if error.errno == errno.EPIPE:
        return error
    if error.errno == errno.ENOSPC and error.filename is None:
        sys.stdout = open(os.devnull, "w")
    where = "" if error.filename is None else f"{error.filename}: "
    return click.ClickException(f"{where}{error.strerror}")


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="spectator")
def main() -> None:
    """Spectator: the live cockpit for agents that play."""


for command in (
    serve,
    doctor,
    play,
    simulate,
    train,
    evaluate,
    rollouts,
    export,
    import_files,
    replay,
    verify,
    verify_bundle,
    board,
    prune,
    copy_journal,
    watch,
    captain,
    catalog,
    claim,
    narrate,
):
    main.add_command(command)
