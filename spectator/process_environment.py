"""Read models, keys and spending caps from the process environment; no other module reads it."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spectator.cast import Cast
    from spectator.catalog import LoadWorld
    from spectator.llm.endpoints import ApiKey
    from spectator.policies.cap_settings import CapSettings
    from spectator.policies.captains import ModelCaptain


CAPS: Final = "SPECTATOR_MODEL_"
"""Prefix of the variables for spending caps."""


def read_cast(data_dir: Path | None = None) -> Cast:
    """Read the worlds with their captains, imported packs, and the model captains of the user's file.

    Args:
        data_dir: Folder of imported packs; by default the folder that the server uses.

    Raises:
        ConfigurationError: The file in ``SPECTATOR_CAPTAINS_FILE`` is invalid, or ``SPECTATOR_LLM_LIVE``
            does not name a model captain.
    """
    from spectator.cast import DEFAULT_LIVE, Cast
    from spectator.clock import SystemClock

    user_file = os.environ.get("SPECTATOR_CAPTAINS_FILE")
    return Cast.from_file(
        Path(user_file) if user_file else None,
        live=os.environ.get("SPECTATOR_LLM_LIVE", DEFAULT_LIVE),
        variables=os.environ,
        clock=SystemClock(),
        data_dir=data_dir or Path(os.environ.get("SPECTATOR_DATA_DIR", "data")),
    )


def read_captain(name: str) -> ModelCaptain:
    """Read the model captain called ``name`` from the user's file or the built-in ones.

    Raises:
        ConfigurationError: There is no such captain, or the file is invalid.
    """
    from spectator.errors import ConfigurationError
    from spectator.policies.captains import load_captains

    user_file = os.environ.get("SPECTATOR_CAPTAINS_FILE")
    captains = load_captains(Path(user_file) if user_file else None)
    if name not in captains:
        raise ConfigurationError(f"unknown model captain {name!r}; use one of {', '.join(captains)}")
    return captains[name]


def read_worlds() -> LoadWorld:
    """Return a loader of worlds with the cast of :func:`read_cast`; for worker processes of a run."""
    return read_cast().load


def private_variables() -> dict[str, str]:
    """Return the whole environment, to check that none of its keys is published."""
    return dict(os.environ)


def operator_token() -> str | None:
    """Return the operator's token for requests to a server; ``None`` if unset."""
    return os.environ.get("SPECTATOR_OPERATOR_TOKEN") or None


def journal_url() -> str | None:
    """Return the URL of a journal on a database server; ``None`` if commands read a folder's journal."""
    return os.environ.get("SPECTATOR_JOURNAL_URL") or None


def read_caps() -> CapSettings:
    """Read the spending caps from the variables that the server uses.

    Raises:
        ConfigurationError: A variable is unknown or has an invalid value.
    """
    from pydantic import ValidationError

    from spectator.errors import ConfigurationError
    from spectator.policies.cap_settings import CapSettings

    known = {f"SPECTATOR_{name.upper()}": name for name in CapSettings.model_fields}
    given = {name: text for name, text in os.environ.items() if name.startswith(CAPS)}
    problems = [
        f"{name}: there is no such setting; did you mean {difflib.get_close_matches(name, known, 1, 0)[0]}?"
        for name in given
        if name not in known
    ]
    try:
        caps = CapSettings.model_validate(
            {known[name]: text for name, text in given.items() if name in known}
        )
    except ValidationError as error:
        problems += [
            f"SPECTATOR_{str(problem['loc'][0]).upper()}: {problem['msg']}"
            for problem in error.errors(include_input=False)
        ]
    if problems:
        raise ConfigurationError("; ".join(problems))
    return caps


def read_key(variable: str | None) -> ApiKey | None:
    """Read the API key in ``variable``; ``None`` if no key is needed.

    Raises:
        ConfigurationError: The variable is not set or its value cannot be a key.
    """
    from spectator.errors import ConfigurationError
    from spectator.llm.endpoints import ApiKey

    if variable is None:
        return None
    value = os.environ.get(variable, "")
    if not value:
        raise ConfigurationError(f"there is no key in the variable {variable}")
    return ApiKey(value)
