"""What a decision that failed does to its episode."""

from __future__ import annotations

from collections.abc import Callable

from spectator.errors import PolicyError
from spectator.events import OnFailure
from spectator.policies.base import Decision

FailureRule = Callable[[str, Decision], OnFailure]
"""Given an actor and each of its decisions, says what to do about it, if it failed."""


class Suspending(PolicyError):
    """A decision failed, and the episode is to stand still for it."""
