"""The commands ``serve`` (run a server) and ``doctor`` (check an installation)."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

import click

from spectator.process_environment import operator_token


@click.command(context_settings={"ignore_unknown_options": True}, options_metavar="")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def serve(arguments: tuple[str, ...]) -> None:
    """Start the web server: pages, API and live streams.

    \b
    Arguments: --host HOST   address to listen on
               --port PORT   port to listen on

    Everything else is set by environment variables; see docs/settings.md.

    \b
    Example: spectator serve --port 8000
    """
    try:
        app = import_module("spectator.server.app")
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"{error.name} is not installed; the server needs: pip install 'openenv-spectator[server]'"
        ) from error
    app.main(list(arguments))


@click.command()
@click.argument("url", required=False)
@click.option("--inside", is_flag=True, help="With URL: also check this machine and its settings.")
def doctor(url: str | None, inside: bool) -> None:
    """Check this machine, or a deployed server at URL.

    Without URL, checks this machine and its settings; with URL, checks that server from outside, with the
    operator token in SPECTATOR_OPERATOR_TOKEN if set. Prints one line per check (ok, warning or failed) with
    what to do. Makes no lasting changes.

    \b
    Exit code: 0 no check failed
               1 a check failed

    \b
    Example: spectator doctor
             spectator doctor https://me-spectator.hf.space
    """
    if url is not None and not url.startswith(("http://", "https://")):
        raise click.BadParameter("must begin with http:// or https://", param_hint="URL")
    try:
        checks = import_module("spectator.server.doctor")
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"{error.name} is not installed; the doctor needs: pip install 'openenv-spectator[server]'"
        ) from error

    async def examine() -> bool:
        groups: list[Any] = []
        if url is not None:
            groups.append(checks.OutsideChecks(url, operator_token()).findings())
        if inside or url is None:
            groups.append(checks.inside_checks())
        failed = False
        for group in groups:
            async for finding in group:
                click.echo(str(finding))
                failed = failed or finding.verdict == "failed"
        return failed

    if asyncio.run(examine()):
        raise click.exceptions.Exit(1)
