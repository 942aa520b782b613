"""Options that commands share: ``--option NAME=VALUE``, seconds, and environments on other servers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from spectator.errors import ConfigurationError

if TYPE_CHECKING:
    from spectator.environments.world import World

Command = TypeVar("Command", bound=Callable[..., Any])


def parse_options(_: click.Context, __: click.Parameter, pairs: tuple[str, ...]) -> dict[str, Any]:
    """The values by name; what is no JSON is taken as text.

    Raises:
        click.BadParameter: A pair without an equals sign.

    >>> parse_options(None, None, ("max_overs=5", "start=chase"))
    {'max_overs': 5, 'start': 'chase'}
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE")
        try:
            options[name] = json.loads(value)
        except json.JSONDecodeError:
            options[name] = value
    return options


world_options = click.option(
    "--option", "options", multiple=True, callback=parse_options, help="NAME=VALUE, repeatable."
)
"""``--option``: values of options of the world, by name."""

overs_option = click.option("--overs", type=int, help="Shorthand for --option max_overs=N.")

rest_option = click.option(
    "--waits-for-rest", is_flag=True,
    help="Let decisions wait, while they have time, for an endpoint that is left alone after failing.",
)  # fmt: skip


def seconds_option(
    flag: str, name: str, default: float, says: str, *, zero: bool = False
) -> Callable[[Command], Command]:
    """An option in seconds, greater than 0, or at least 0 where ``zero`` is allowed."""
    allowed = click.FloatRange(min=0, min_open=not zero)
    return click.option(flag, name, type=allowed, default=default, show_default=True, help=says)


def environment_options(command: Command) -> Command:
    """``--environment-url`` and ``--environment-protocol``; :func:`world_at` reads them."""
    protocol = click.option(
        "--environment-protocol",
        type=click.Choice(["openenv", "http"]),
        default="openenv",
        show_default=True,
        help="What the server at --environment-url speaks.",
    )
    url = click.option(
        "--environment-url",
        help="An environment on another server: http://HOST:8000/envs/NAME of an OpenEnv server, or "
        "http://HOST:36663/ENV_NAME/ENV_ID of a pooled rollout server.",
    )
    return url(protocol(command))


def world_at(url: str, protocol: str) -> World:
    """The world of an environment on another server; see docs/steppers.md.

    Raises:
        ConfigurationError: It is no address, nobody answers there, or the answer is not the protocol's.
    """
    from spectator.steppers.http import HttpEnvironment
    from spectator.steppers.remote_world import http_world, remote_world

    if protocol == "openenv":
        return remote_world(url)
    base, _, env_id = url.rstrip("/").rpartition("/")
    base, _, env_name = base.rpartition("/")
    if not base.startswith(("http://", "https://")) or not env_name or not env_id:
        raise ConfigurationError(f"{url[:200]!r} is not an address such as http://host:36663/ENV_NAME/ENV_ID")
    return http_world(HttpEnvironment(base, env_name, env_id))
