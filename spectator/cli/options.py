"""Parses ``--option NAME=VALUE``."""

from __future__ import annotations

import json
from typing import Any

import click


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
