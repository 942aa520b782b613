"""The catalogue of language models that can take a seat: built-in ones and the user's own."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from spectator.errors import ConfigurationError
from spectator.policies.captain_table import ModelCaptain
from spectator.policies.captain_table_errors import table_problems

PREFIX: Final = "llm:"
"""What the names of these presets begin with, before the name of their table."""

NAME: Final = re.compile(r"[a-z0-9._-]{1,48}")
"""What the table of a captain may be called."""


def load_captains(user_file: Path | None = None) -> dict[str, ModelCaptain]:
    """The catalogue by preset name, in the order of the files; the user's tables replace built-in ones.

    Args:
        user_file: The user's own TOML file; ``None`` when there is none.

    Raises:
        ConfigurationError: A file cannot be read, or a table is wrong; every wrong field is named.
    """
    built_in = files("spectator.policies").joinpath("captains.toml").read_text(encoding="utf-8")
    captains = parse_captains(built_in, "captains.toml")
    if user_file is not None:
        captains |= parse_captains(read_user_file(user_file), str(user_file))
    return captains


def unpriced_captains(captains: Mapping[str, ModelCaptain], variables: Mapping[str, str]) -> list[str]:
    """Those that can be asked for money, by a key in ``variables``, at a price that nobody here knows.

    Whoever is asked without a key is paid by nobody.
    """
    return [
        name
        for name, captain in captains.items()
        if captain.price is None and captain.api_key_env and variables.get(captain.api_key_env)
    ]


def read_user_file(user_file: Path) -> str:
    """The text of the user's file.

    Raises:
        ConfigurationError: It cannot be read.
    """
    try:
        return user_file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the captains file {user_file} cannot be read: {error}") from error


def parse_captains(text: str, name: str) -> dict[str, ModelCaptain]:
    """The captains in ``text``, the TOML of the file called ``name``; see :func:`load_captains`."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{name} is not TOML: {error}") from error
    tables = document.pop("captains", {})
    problems = [f"{name}: {key}: only tables [captains.NAME] are known" for key in document]
    if not isinstance(tables, dict):
        raise ConfigurationError(f"{name}: captains: must be tables [captains.NAME]")
    captains: dict[str, ModelCaptain] = {}
    for key, table in tables.items():
        if not NAME.fullmatch(key):
            problems.append(f"{name}: captains.{key}: a name has 1 to 48 of the characters a-z 0-9 . _ -")
            continue
        try:
            captains[PREFIX + key] = ModelCaptain.model_validate(table)
        except ValidationError as error:
            problems += table_problems(name, key, error, ModelCaptain)
    if problems:
        raise ConfigurationError("; ".join(problems))
    return captains
