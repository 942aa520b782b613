"""Options of a world in words: those that are not as usual."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from spectator.catalog import load_world
from spectator.errors import ConfigurationError, InvalidRequest


def unusual_options(environment: str, options: Mapping[str, Any]) -> list[str]:
    """The options that are not the default of their world, in words.

    >>> unusual_options("counting", {"turns": 7, "payload_bytes": 0})
    ['turns 7']
    """
    usual = _usual(environment)
    return [f"{name} {_said(value)}" for name, value in options.items() if usual.get(name) != value]


def _usual(environment: str) -> dict[str, Any]:
    """What a world's options are by default; none of a world that is not here."""
    try:
        return load_world(environment).options_type().model_dump(mode="json")
    except (ConfigurationError, InvalidRequest, ValidationError):
        return {}


def _said(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
