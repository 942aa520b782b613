"""The contract of an episode handler: it may add to each prompt, and learns how the episode ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from spectator.errors import FailureClass

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EpisodeContext:
    """Which episode a prompt belongs to.

    Args:
        env_name: Name of the environment, such as ``counting``.
        env_id: The episode's id; one attempt has one id.
        group_id: The group of samples of one prompt, if it belongs to one.
        member: Number of the sample within its group, from 0.
        step: Number of the decision that is asked for, from 1.
    """

    env_name: str
    env_id: str
    group_id: str | None = None
    member: int = 0
    step: int = 1


@dataclass(frozen=True, slots=True)
class EpisodeOutcome:
    """How an episode ended.

    Args:
        total_reward: Sum of its rewards; ``None`` when the environment or the model's endpoint failed, so
            that there is no verdict on what the model did.
        failure_class: Why there is no verdict; ``None`` for an episode that was played to its end.
        info: How it ended: ``end_reason`` and ``turns``, the environment's ``result`` in words where it
            finished, and the ``detail`` of what went wrong where something did.
    """

    total_reward: float | None
    failure_class: FailureClass | None = None
    info: Mapping[str, Any] = field(default_factory=dict)


class EpisodeHandler(Protocol):
    """Sees every prompt before it is sent, and every end."""

    def handle(self, messages: Sequence[Message], context: EpisodeContext) -> Sequence[Message]:
        """The messages to send instead; ``messages`` itself is left as it is."""
        ...

    def on_episode_end(self, context: EpisodeContext, outcome: EpisodeOutcome) -> None:
        """Take in how the episode ended; called once for each that ended, unless a death comes between."""
        ...


class NullHandler:
    """Adds nothing and learns nothing."""

    def handle(self, messages: Sequence[Message], context: EpisodeContext) -> Sequence[Message]:
        """The same messages."""
        return messages

    def on_episode_end(self, context: EpisodeContext, outcome: EpisodeOutcome) -> None:
        """Nothing."""


def with_advice(messages: Sequence[Message], text: str) -> list[Message]:
    """``messages`` with ``text`` at the end of the system message, or as one where there is none.

    Example:
        >>> with_advice([{"role": "system", "content": "Play."}], "Bowl full.")
        [{'role': 'system', 'content': 'Play.\\n\\nBowl full.'}]
        >>> with_advice([{"role": "user", "content": "Go."}], "Bowl full.")[0]
        {'role': 'system', 'content': 'Bowl full.'}
    """
    if not messages or messages[0].get("role") != "system":
        return [{"role": "system", "content": text}, *messages]
    first = messages[0]
    content = first.get("content") or ""
    if isinstance(content, str):
        told: Any = f"{content}\n\n{text}" if content else text
    else:
        told = [*content, {"type": "text", "text": text}]
    return [{**first, "content": told}, *messages[1:]]
