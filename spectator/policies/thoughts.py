"""A model's thoughts while they form, sent to a listener."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, runtime_checkable

from spectator.llm.chat import DeltaKind

THOUGHT_LIMIT: Final = 8_192
"""Characters of one part of a thought."""


class Thought(NamedTuple):
    """A part of a decision that is forming; for viewers, and gone once the decision is there.

    Args:
        actor: Who is thinking.
        decision: Which of the actor's decisions, 1 the first.
        kind: What grew; ``restart`` voids what came before it in the same decision.
        text: What was added.
    """

    actor: str
    decision: int
    kind: DeltaKind
    text: str


@runtime_checkable
class ThinksAloud(Protocol):
    """A policy whose thoughts can be heard while they form."""

    def think_aloud(self, listener: Callable[[Thought], None] | None) -> None:
        """Send thoughts to ``listener``, which is called on the event loop and returns at once."""
        ...
