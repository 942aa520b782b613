"""The command ``spectator captain``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import click

from spectator.process_environment import read_captain, read_key

if TYPE_CHECKING:
    from spectator.policies.captain_check import CheckedPoint
    from spectator.policies.captain_table import ModelCaptain

UNFIT: Final = 3
"""The exit code where the captain cannot play as it is."""

_MARKS: Final = {True: "works", False: "fails", None: "note"}


@click.group()
def captain() -> None:
    """See to the language models that can take a seat."""


@captain.command()
@click.argument("name", metavar="NAME")
@click.option("--no-context", is_flag=True, help="Do not send a prompt as long as the captain may.")
def check(name: str, no_context: bool) -> None:
    """Ask a captain's endpoint a handful of questions, and say what works and what to change.

    It costs what seven short answers and one long prompt cost. Exits with 3 where the captain cannot play.

    \b
    Example: spectator captain check llm:hf
    """
    model = read_captain(name)
    fit = asyncio.run(_check(name, model, context=not no_context))
    if not fit:
        click.echo(f"{name} cannot play as it is", err=True)
        raise SystemExit(UNFIT)
    click.echo(f"{name} can play", err=True)


async def _check(name: str, model: ModelCaptain, *, context: bool) -> bool:
    import random

    from spectator.clock import SystemClock
    from spectator.llm.transport import HttpTransport
    from spectator.policies.captain_check import CaptainCheck, NotingTransport
    from spectator.policies.captain_client import captain_client

    transport = NotingTransport(HttpTransport(max_connections=4))
    key = read_key(model.api_key_env)
    client = captain_client(model, key, clock=SystemClock(), rng=random.SystemRandom(), transport=transport)
    fit = True
    try:
        async for found in CaptainCheck(model, client, transport.said, context=context).findings():
            _show(found)
            fit &= found.works is not False or not found.needed
    finally:
        await client.aclose()
    return fit


def _show(found: CheckedPoint) -> None:
    click.echo(f"{_MARKS[found.works]:<6} {found.about:<10} {found.told}")
    if found.change and found.works is False:
        click.echo(f"{'':<6} {'':<10} → {found.change}")
