"""The commands ``serve`` and ``doctor``: run a server, check an installation."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

import click

from spectator.process_environment import operator_token


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


@click.command()
@click.argument("url", required=False)
@click.option("--inside", is_flag=True, help="Check this machine, too, when a URL is given.")
def doctor(url: str | None, inside: bool) -> None:
    """Check a deployment: from outside where a URL is given, else this machine and its settings.

    One line a check: ok, warning or failed, with what to do. The exit code is 1 if a check failed. The
    operator's token is read from SPECTATOR_OPERATOR_TOKEN. Nothing that lasts is changed.

    \b
    Example: spectator doctor
    Example: spectator doctor https://me-spectator.hf.space
    """
    if url is not None and not url.startswith(("http://", "https://")):
        raise click.BadParameter("begins with http:// or https://", param_hint="URL")
    try:
        checks = import_module("spectator.server.doctor")
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"{error.name} is not installed; the doctor needs: pip install 'openenv-spectator[server]'"
        ) from error

    async def examine() -> bool:
        looks: list[Any] = []
        if url is not None:
            looks.append(checks.OutsideChecks(url, operator_token()).findings())
        if inside or url is None:
            looks.append(checks.inside_checks())
        failed = False
        for look in looks:
            async for finding in look:
                click.echo(str(finding))
                failed = failed or finding.verdict == "failed"
        return failed

    if asyncio.run(examine()):
        raise click.exceptions.Exit(1)
