"""The command line: one command a module; heavy imports happen only when a command runs."""

from __future__ import annotations

from typing import Any

import click

from spectator import __version__
from spectator.cli.cache import cache
from spectator.cli.catalog import catalog
from spectator.cli.claim import claim
from spectator.cli.evaluate import evaluate
from spectator.cli.export import export
from spectator.cli.narrate import narrate
from spectator.cli.play import play
from spectator.cli.prune import prune
from spectator.cli.replay import replay
from spectator.cli.rollouts import rollouts
from spectator.cli.serve import serve
from spectator.cli.simulate import simulate
from spectator.cli.verify import verify
from spectator.cli.watch import watch
from spectator.errors import SpectatorError


class _Commands(click.Group):
    """A group whose commands turn this library's errors into one line and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SpectatorError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="spectator")
def main() -> None:
    """Spectator: the live cockpit for agents that play."""


for command in (
    serve,
    play,
    simulate,
    evaluate,
    rollouts,
    export,
    replay,
    verify,
    prune,
    watch,
    cache,
    catalog,
    claim,
    narrate,
):
    main.add_command(command)
