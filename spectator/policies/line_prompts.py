"""The prompts of a model: a beginning that never changes, then only what changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from spectator.errors import PolicyError
from spectator.llm.chat import Message
from spectator.llm.parsing import ParsedCall
from spectator.observations import Observation
from spectator.policies.action_catalogue import ActionCatalogue
from spectator.policies.base import Action
from spectator.policies.decision_in_progress import DecisionInProgress
from spectator.policies.dialogue import Dialogue
from spectator.policies.history import TokenEstimate, Turn
from spectator.policies.model_settings import ModelSettings
from spectator.policies.prompting import TEXT_ALONE, Briefing, answer_form, how_many
from spectator.policies.situation_lines import READING, READING_WHOLE, SituationLines, refusal_in_words

LEAST_PER_CHARACTER: Final = 0.2
"""Fewest tokens a character that an endpoint is believed to count: some count no more than they keep."""

_IN_TOOLS: Final = (
    "The tools are those of the whole game: in each turn only those under `legal now` can be used."
)


class LinePrompts:
    """Builds the conversations of one seat so that each begins with the one before.

    Args:
        settings: How the model is asked.
        briefing: What it must know of its seat.
        edit: Changes the conversation before it is sent and recorded; nothing when left out.
    """

    def __init__(
        self,
        settings: ModelSettings,
        briefing: Briefing,
        edit: Callable[[Sequence[Message]], Sequence[Message]] | None = None,
    ) -> None:
        self.estimate = TokenEstimate(least=LEAST_PER_CHARACTER)
        """Counts tokens where nobody else does."""
        self.note = ""
        """What became of the last answer, where that is not in the situation."""
        self._settings = settings
        self._briefing = briefing
        self._edit = edit
        room = max(1, settings.context_tokens - settings.max_tokens)
        self._dialogue = Dialogue(
            room,
            settings.history_tokens,
            self.estimate,
            settings.style,
            whole_situations=settings.whole_situations,
        )
        self.characters = 0
        """Characters of the last prompt."""
        self.add = self._dialogue.add
        """Remembers a decision that the model made."""
        self._telling = SituationLines(briefing)
        self._catalogue: ActionCatalogue | None = None
        self._opening: str | None = None
        self._system = ""
        self._later: dict[str, str] = {}

    def messages(self, asking: DecisionInProgress) -> list[Message]:
        """The conversation that asks for a decision; what it shows is noted in ``asking``."""
        observation, conversation = asking.observation, self._briefing.conversation
        messages = self._own(asking) if conversation is None else conversation(observation)
        edited = messages if self._edit is None else self._edit(messages)
        return edited if isinstance(edited, list) and edited is messages else list(edited)

    def recall(self, observation: Observation, text: str, action: Action) -> Turn:
        """Remember a decision of which no more is known than what was written and what was done."""
        tool, arguments = action.get("tool"), action.get("arguments")
        if not isinstance(tool, str) or not isinstance(arguments, Mapping):
            tool, arguments = self._briefing.legal(observation)[0]["tool"], action
        made = () if self._briefing.text_field is not None else (ParsedCall(tool, arguments),)
        turn = Turn(text=text, outcomes=["carried out"], made=made)
        self.add(turn)
        return turn

    @property
    def last(self) -> Turn | None:
        """See :attr:`Dialogue.last`."""
        return self._dialogue.last

    def snapshot(self) -> dict[str, Any]:
        """All that its next prompts depend on, as plain JSON.

        Raises:
            PolicyError: Somebody else changes them, and may remember anything.
        """
        if self._edit is not None:
            raise PolicyError("what changes its prompts may remember more than can be kept")
        return {
            "note": self.note,
            "per_character": self.estimate.per_character,
            "dialogue": self._dialogue.snapshot(),
            "actions": None if self._catalogue is None else self._catalogue.known,
            "opening": self._opening,
            "system": self._system,
            **self._telling.snapshot(),
            "later": dict(self._later),
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.note, self.estimate.per_character = kept["note"], kept["per_character"]
        self._dialogue.restore(kept["dialogue"])
        self._catalogue = None if kept["actions"] is None else ActionCatalogue(kept["actions"])
        self._opening, self._system = kept["opening"], kept["system"]
        self._telling.restore(kept)
        self._later = dict(kept["later"])

    def _own(self, asking: DecisionInProgress) -> list[Message]:
        observation, rendering = asking.observation, self._briefing.rendering
        in_text = self._briefing.text_field is not None
        legal = () if in_text else self._briefing.legal(observation)
        if self._catalogue is None:
            known = () if rendering.actions is None or in_text else rendering.actions(observation)
            self._catalogue = ActionCatalogue(known)
            self._opening = "" if rendering.opening is None else rendering.opening(observation)
            self._system = self._rules(observation, in_text=in_text)
        lines = self._telling.lines(observation)
        beside = 0
        if legal:
            new = self._catalogue.learn(legal)
            if self._settings.style == "tools":
                asking.tools, beside = self._catalogue.tools()
            else:
                self._later |= new
            lines |= {**self._later, **self._catalogue.lines(legal)}
        told = refusal_in_words(observation)
        messages = self._dialogue.messages(
            self._system,
            self._opening or "",
            lines,
            note="\n".join([part for part in (self.note, told) if part]),
            beside=beside,
            in_full=rendering.in_full,
        )
        self.characters = self._dialogue.characters
        return messages

    def _rules(self, observation: Observation, *, in_text: bool) -> str:
        """The system message: who the model is, the guide, and how it must answer."""
        settings, briefing = self._settings, self._briefing
        parts = [
            f"You decide for {observation.actor or ''!r}. {briefing.task}",
            briefing.rendering.guide,
            READING_WHOLE if settings.whole_situations else READING,
        ]
        if in_text:
            return "\n\n".join(part for part in (*parts, TEXT_ALONE) if part)
        if settings.style == "tools":
            parts.append(_IN_TOOLS)
        elif self._catalogue is not None and self._catalogue.listed:
            parts.append(f"Actions, each with the JSON schema of its arguments:\n{self._catalogue.listed}")
        several = settings.actions_per_answer
        parts += [how_many(several), answer_form(settings.style, several > 1)]
        return "\n\n".join(part for part in parts if part)
