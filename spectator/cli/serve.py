"""The command ``spectator serve``."""

from __future__ import annotations

from importlib import import_module

import click


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def serve(arguments: tuple[str, ...]) -> None:
    """Serve the cockpit; takes the arguments of `server`.

    \b
    Example: spectator serve --port 8000
    """
    try:
        edge = import_module("spectator.server.app")
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"{error.name} is not installed; the server needs: pip install 'openenv-spectator[server]'"
        ) from error
    edge.main(list(arguments))
