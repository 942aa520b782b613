"""The library's only reading of the process environment: models, keys and spending caps."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spectator.cast import Cast
    from spectator.catalog import LoadWorld
    from spectator.llm.endpoints import ApiKey
    from spectator.policies.captains import ModelCaptain
    from spectator.policies.spending import CapSettings


CAPS: Final = "SPECTATOR_MODEL_"
"""What the names of the variables for caps begin with."""


def read_cast() -> Cast:
    """The worlds with their captains and the model captains of the user's file.

    Raises:
        ConfigurationError: The file in ``SPECTATOR_CAPTAINS_FILE`` is wrong, or ``SPECTATOR_LLM_LIVE``
            names no model captain.
    """
    from spectator.cast import DEFAULT_LIVE, Cast
    from spectator.clock import SystemClock

    user_file = os.environ.get("SPECTATOR_CAPTAINS_FILE")
    return Cast.from_file(
        Path(user_file) if user_file else None,
        live=os.environ.get("SPECTATOR_LLM_LIVE", DEFAULT_LIVE),
        variables=os.environ,
        clock=SystemClock(),
    )


def read_captain(name: str) -> ModelCaptain:
    """The model captain called ``name``, of the user's file or of those that ship.

    Raises:
        ConfigurationError: There is none, or the file is wrong.
    """
    from spectator.errors import ConfigurationError
    from spectator.policies.captains import load_captains

    user_file = os.environ.get("SPECTATOR_CAPTAINS_FILE")
    captains = load_captains(Path(user_file) if user_file else None)
    if name not in captains:
        raise ConfigurationError(f"there is no model captain {name!r}; there are {', '.join(captains)}")
    return captains[name]


def read_worlds() -> LoadWorld:
    """What finds worlds with the cast of :func:`read_cast`; for processes that play a part of a run."""
    return read_cast().load


def private_variables() -> dict[str, str]:
    """The whole environment, to make sure that no key of it is published."""
    return dict(os.environ)


def operator_token() -> str | None:
    """The operator's token of a server that is asked; ``None`` without one."""
    return os.environ.get("SPECTATOR_OPERATOR_TOKEN") or None


def journal_url() -> str | None:
    """The journal on a database server that commands read; ``None`` where they read that of a folder."""
    return os.environ.get("SPECTATOR_JOURNAL_URL") or None


def read_caps() -> CapSettings:
    """What asking models may take, by the server's own variables.

    Raises:
        ConfigurationError: A variable is wrong, or there is none of its name.
    """
    from pydantic import ValidationError

    from spectator.errors import ConfigurationError
    from spectator.policies.spending import CapSettings

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
    """The key in ``variable``; ``None`` where none is needed.

    Raises:
        ConfigurationError: The variable is not set, or holds something that cannot be a key.
    """
    from spectator.errors import ConfigurationError
    from spectator.llm.endpoints import ApiKey

    if variable is None:
        return None
    value = os.environ.get(variable, "")
    if not value:
        raise ConfigurationError(f"there is no key in the variable {variable}")
    return ApiKey(value)
