"""A model's conversation in which nothing that was sent is changed: each prompt begins with the last.

Past messages stay as they were sent, so that endpoints find the beginning of a prompt in their caches. When
the conversation outgrows its room it begins anew: what never changes, the model's last decisions with its
own reasons, and the whole situation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spectator.events import encode_json
from spectator.llm.chat import Conversation, Message, SettledBeginning, SettledMessage
from spectator.llm.parsing import REASON, ParsedCall
from spectator.policies.history import TokenEstimate, Turn, answer_message
from spectator.policies.prompting import Style
from spectator.policies.situation_lines import all_lines, changed_lines

DECISIONS_KEPT: Final = 12
"""Last decisions that are told again when a conversation begins anew."""

REASON_KEPT: Final = 240
"""Characters of the reason of each of them."""

ANSWER_KEPT: Final = 600
"""Characters of a written answer that are shown again; of a longer one its decision is, too."""


class Dialogue:
    """The conversation of one seat in one episode. ``characters`` is how many the last prompt had.

    Args:
        room: Tokens that a whole prompt may have; the rules and the present situation are always in it.
        history_room: Tokens that the messages after the beginning may have.
        estimate: Counts.
        style: How the model names its actions.
        whole_situations: Whether every message states the whole situation, and not only what changed.
    """

    def __init__(
        self,
        room: int,
        history_room: int,
        estimate: TokenEstimate,
        style: Style,
        *,
        whole_situations: bool = False,
    ) -> None:
        self._whole = whole_situations
        self._room = room
        self._history_room = history_room
        self._estimate = estimate
        self._style = style
        self._rules: Message = {}
        self._said: list[Message] = []
        self._beginning = SettledBeginning()
        self._sizes = [0, 0]
        self._last: Turn | None = None
        self._asked: list[Message] = []
        self._asked_size = 0
        self._lines: Mapping[str, str] = {}
        self._told: dict[str, str] = {}
        self._decided: list[ParsedCall | str] = []  # the last ones: a call, or its words
        self._decisions = 0
        self.characters = 0

    def messages(
        self,
        system: str,
        opening: str,
        lines: Mapping[str, str],
        *,
        note: str = "",
        beside: int = 0,
        in_full: frozenset[str] = frozenset(),
    ) -> list[Message]:
        """The conversation that asks for the next decision.

        Args:
            system: The rules; never dropped.
            opening: What never changes in the episode; begins the first message.
            lines: The situation, in named lines.
            note: What became of the last answer, where that is not in the situation.
            beside: Characters that travel beside the messages, such as the tools.
            in_full: Lines that only a whole statement of the situation has.
        """
        if self._rules.get("content") != system:
            self._rules = SettledMessage({"role": "system", "content": system})
            self._begin_anew()
        shown = self._question(opening, lines, note, in_full)
        if self._too_long(len(system) + beside, len(shown)):
            self._begin_anew()
            shown = self._question(opening, lines, note, in_full)
        asked = [{"role": "user", "content": shown}] if self._last is None else self._last.reply(shown)
        self._asked = list(map(SettledMessage, asked))
        self._asked_size = sum(map(_size, self._asked))
        self._lines = lines
        self.characters = len(system) + beside + sum(self._sizes) + self._asked_size
        return Conversation(self._said + self._asked, len(self._said), self._beginning)

    def add(self, turn: Turn) -> None:
        """Keep the last question and its answer; nothing of them changes any more."""
        self._decisions += 1
        if turn.made:
            self._decided = [*self._decided[-DECISIONS_KEPT + 1 :], turn.made[0]]
        if not self._asked:
            return
        answer = SettledMessage(self._answer(turn))
        self._sizes[len(self._said) > 1] += self._asked_size
        self._sizes[1] += _size(answer)
        self._said += [*self._asked, answer]
        self._told |= self._lines
        self._asked, self._last = [], turn

    @property
    def last(self) -> Turn | None:
        """The turn that the next question answers; ``None`` where the conversation begins with it."""
        return self._last

    def snapshot(self) -> dict[str, Any]:
        """All that its next prompts depend on, as plain JSON; as large as its room at most."""
        return {
            "rules": dict(self._rules),
            "said": list(self._said),
            "sizes": list(self._sizes),
            "last": None if self._last is None else self._last.snapshot(),
            "asked": list(self._asked),
            "lines": dict(self._lines),
            "told": dict(self._told),
            "decided": list(map(_in_words, self._decided)),
            "decisions": self._decisions,
            "characters": self.characters,
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Go on from there."""
        self._rules = SettledMessage(kept["rules"])
        self._said, self._beginning = [SettledMessage(one) for one in kept["said"]], SettledBeginning()
        self._sizes, self._asked = list(kept["sizes"]), [SettledMessage(one) for one in kept["asked"]]
        self._asked_size = sum(map(_size, self._asked))
        self._last = None if kept["last"] is None else Turn.of_snapshot(kept["last"])
        self._lines, self._told = dict(kept["lines"]), dict(kept["told"])
        self._decided = list(kept["decided"])[-DECISIONS_KEPT:]
        self._decisions, self.characters = kept["decisions"], kept["characters"]

    def _begin_anew(self) -> None:
        self._said, self._beginning, self._sizes = [self._rules], SettledBeginning(), [0, 0]
        self._told, self._last, self._asked = {}, None, []

    def _too_long(self, always: int, shown: int) -> bool:
        if len(self._said) == 1:
            return False
        history = self._sizes[1] + shown
        return (
            self._estimate.of(history) > self._history_room
            or self._estimate.of(always + self._sizes[0] + history) > self._room
        )

    def _question(self, opening: str, lines: Mapping[str, str], note: str, in_full: frozenset[str]) -> str:
        parts = [note] if note else []
        if len(self._said) > 1:
            told = all_lines(lines) if self._whole else changed_lines(self._told, lines, in_full)
            return "\n\n".join([*parts, told])
        if self._decided:
            earlier = "\n".join(f"- {words}" for words in self._kept_decisions())
            parts.insert(
                0, f"Your last decisions, of {self._decisions} in all, each with your reason:\n{earlier}"
            )
        return "\n\n".join([*([opening] if opening else []), *parts, all_lines(lines)])

    def _kept_decisions(self) -> list[str]:
        """The last decisions, as many as a quarter of the room holds."""
        kept: list[str] = []
        for words in map(_in_words, reversed(self._decided)):
            if kept and self._estimate.of(sum(map(len, kept)) + len(words)) > self._room // 4:
                break
            kept.insert(0, words)
        return kept

    def _answer(self, turn: Turn) -> Message:
        """The model's message as it is shown again: its calls with their reasons, or what it wrote."""
        if turn.calls:
            calls = [
                ParsedCall(call.tool, _reasoned(call), call.reason, call.id, call.verbatim)
                for call in turn.calls
            ]
            return answer_message(turn.text[:ANSWER_KEPT], calls, turn.verbatim)
        text = turn.text
        if len(text) > ANSWER_KEPT and turn.made:
            text = "\n".join([f"{text[:ANSWER_KEPT]}…", *(_written(call, self._style) for call in turn.made)])
        return answer_message(text, (), turn.verbatim)


def _reasoned(call: ParsedCall) -> dict[str, Any]:
    return {REASON: call.reason, **call.arguments} if call.reason else dict(call.arguments)


def _in_words(call: ParsedCall | str) -> str:
    if isinstance(call, str):
        return call
    reason = call.reason if len(call.reason) <= REASON_KEPT else f"{call.reason[:REASON_KEPT]}…"
    return f"{call.tool} {encode_json(dict(call.arguments))}" + (f": {reason}" if reason else "")


def _written(call: ParsedCall, style: Style) -> str:
    """A call in the form in which the model was asked to write it."""
    arguments = dict(call.arguments)
    if style == "xml":
        return f"<tool_call>{encode_json({'name': call.tool, 'arguments': arguments})}</tool_call>"
    return encode_json({"tool": call.tool, "arguments": arguments})


def _size(message: Message) -> int:
    """Characters of a message that a model reads."""
    content = len(message["content"])
    if len(message) == 2:
        return content
    beside = {name: value for name, value in message.items() if name not in ("role", "content")}
    return content + (len(encode_json(beside)) if beside else 0)
