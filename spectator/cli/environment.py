"""Owns the command line's only reading of the process environment: who can be chosen, and their keys."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spectator.cast import Cast


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
