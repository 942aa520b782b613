"""The conversation that a model is sent for each decision, in the first edition of the prompt.

Episodes recorded with it are still replayed and played on with it; new ones have the second edition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from spectator.events import encode_json
from spectator.llm.chat import Message, SettledTools
from spectator.observations import LegalAction, Observation
from spectator.policies.base import Action
from spectator.policies.decision_in_progress import DecisionInProgress
from spectator.policies.history import History, TokenEstimate, Turn
from spectator.policies.model_settings import ModelSettings
from spectator.policies.prompting import (
    Briefing,
    TextCache,
    as_json,
    instructions,
    question,
    situation,
    tools,
)


class PromptBuilder:
    """Builds the conversations of one seat, each with the turns before it, in full where they are new.

    Args:
        settings: How the model is asked.
        briefing: What it must know of its seat.
        edit: Changes the conversation before it is sent and recorded; nothing when left out.
    """

    edition: Final = 1

    def __init__(
        self,
        settings: ModelSettings,
        briefing: Briefing,
        edit: Callable[[Sequence[Message]], Sequence[Message]] | None = None,
    ) -> None:
        self.estimate = TokenEstimate()
        """Counts tokens where nobody else does."""
        self.history = History(max(1, settings.context_tokens - settings.max_tokens), self.estimate)
        """The turns before."""
        self.note = ""
        """What became of the last answer, where that is not in the situation."""
        self._settings = settings
        self._briefing = briefing
        self._edit = edit
        self._offered: tuple[Sequence[LegalAction], Sequence[Mapping[str, Any]], int] | None = None
        self._texts = TextCache()

    def messages(self, asking: DecisionInProgress) -> list[Message]:
        """The conversation that asks for a decision; what it shows is noted in ``asking``."""
        observation, conversation = asking.observation, self._briefing.conversation
        asking.seen = situation(observation, self._texts, self._briefing.rendering.later)
        asking.shown = self.shown(observation, asking.seen)
        messages = self._own(asking) if conversation is None else conversation(observation)
        edited = messages if self._edit is None else self._edit(messages)
        return edited if isinstance(edited, list) and edited is messages else list(edited)

    @property
    def characters(self) -> int:
        """Characters of the last prompt."""
        return self.history.characters

    def add(self, turn: Turn) -> None:
        """Remember a decision that the model made."""
        self.history.add(turn)

    def recall(self, observation: Observation, text: str, action: Action) -> Turn:
        """Remember a decision of which no more is known than what was written and what was done."""
        seen = situation(observation, without=self._briefing.rendering.later)
        turn = Turn(seen=seen, shown=self.shown(observation, seen), text=text, outcomes=["carried out"])
        self.add(turn)
        return turn

    def shown(self, observation: Observation, seen: Mapping[str, str]) -> str:
        """What the actor sees as text: by the world's own rendering, or else as JSON."""
        render = self._briefing.render
        return as_json(seen) if render is None else render(observation)

    def _own(self, asking: DecisionInProgress) -> list[Message]:
        settings, briefing = self._settings, self._briefing
        in_text = briefing.text_field is not None
        legal = () if in_text else briefing.legal(asking.observation)
        system = instructions(
            asking.observation.actor or "",
            briefing.task,
            settings.style,
            settings.actions_per_answer,
            free_text=in_text,
        )
        shown = question(asking.shown, legal, settings.style, self.note)
        beside = 0
        if settings.style == "tools" and not in_text:
            asking.tools, beside = self._tools(legal)
        return self.history.messages(system, shown, beside=beside)

    def _tools(self, legal: Sequence[LegalAction]) -> tuple[Sequence[Mapping[str, Any]], int]:
        """The tools and their size; worlds often offer the very same ones again."""
        if self._offered is None or self._offered[0] is not legal:
            made = SettledTools(tools(legal))
            self._offered = (legal, made, len(encode_json(made)))
        return self._offered[1:]
