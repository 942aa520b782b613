"""What a model policy remembers, as plain JSON, so that it goes on without its past.

That is the conversation as far as its next prompt shows it, which its room bounds, and what its fallback
remembers: much less than the record, which has every prompt of every decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from spectator.errors import PolicyError
from spectator.llm.parsing import WrittenCall
from spectator.policies.base import Restorable, ScriptedPolicy
from spectator.policies.history import Turn
from spectator.policies.line_prompts import LinePrompts


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """What a model policy remembers itself.

    Args:
        planned: Calls of its last answer that are still to be carried out.
        turn: Its last decision, of which the outcome is to be told.
        refused: Actions in a row that the world refused.
        decisions: How many it made.
    """

    planned: list[WrittenCall]
    turn: Turn | None
    refused: int
    decisions: int


def kept_memory(memory: ModelMemory, prompts: LinePrompts, fallback: ScriptedPolicy) -> dict[str, Any]:
    """All of it as plain JSON.

    Args:
        memory: Its own.
        prompts: The conversation.
        fallback: Who decides where the model does not.

    Raises:
        PolicyError: Something else changes the prompts, or the fallback does not offer its memory; the policy
            is then brought through its record.
    """
    scripted = _restorable(fallback)
    turn = memory.turn
    return {
        "prompts": prompts.snapshot(),
        "planned": [asdict(call) for call in memory.planned],
        "turn": None if turn is None else turn.snapshot(),
        "is_last": turn is not None and turn is prompts.last,
        "refused": memory.refused,
        "decisions": memory.decisions,
        "fallback": scripted.snapshot(),
    }


def restored_memory(kept: Mapping[str, Any], prompts: LinePrompts, fallback: ScriptedPolicy) -> ModelMemory:
    """The memory that :func:`kept_memory` kept; new ``prompts`` and ``fallback`` take theirs back.

    Raises:
        PolicyError: They cannot.
    """
    scripted = _restorable(fallback)
    prompts.restore(kept["prompts"])
    scripted.restore(kept["fallback"])
    own = None if kept["turn"] is None else Turn.of_snapshot(kept["turn"])
    turn = prompts.last if kept["is_last"] else own  # the one whose outcomes the conversation tells
    planned = [WrittenCall(**call) for call in kept["planned"]]
    return ModelMemory(planned, turn, kept["refused"], kept["decisions"])


def _restorable(fallback: ScriptedPolicy) -> Restorable:
    if not isinstance(fallback, Restorable):
        raise PolicyError("what it remembers cannot be kept")
    return fallback
