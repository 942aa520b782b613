"""A model's memory of one episode: its past turns, as many as the prompt has room for.

A turn is kept or dropped as a whole, and the tool messages after an answer are made from the turn itself: no
answer can lose its question, and no tool message its call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, Final

from spectator.events import encode_json
from spectator.llm.chat import Conversation, Message, SettledBeginning, SettledMessage
from spectator.llm.parsing import ParsedCall
from spectator.policies.prompting import changes

ANSWER_LIMIT: Final = 2_000
"""Characters of an earlier answer that are shown again."""

KEPT_SHARE: Final = 0.75
"""What is used of the room after dropping: a good deal is dropped at once, so that the beginning of the
prompt stays the same for many turns and endpoints can reuse it."""


class TokenEstimate:
    """Tokens of a text without a tokenizer, corrected by what the endpoint counted.

    Args:
        per_character: Tokens a character to begin with; JSON has about a third.
        least: Fewest that an endpoint is believed; one that cuts prompts counts no more than it keeps.
    """

    def __init__(self, per_character: float = 0.34, least: float = 0.1) -> None:
        self.per_character = per_character
        """Tokens a character, by what was counted last."""
        self._least = least

    def of(self, characters: int) -> int:
        """Tokens of so many characters."""
        return int(characters * self.per_character) + 4

    def learn(self, characters: int, tokens: int) -> None:
        """Take in that a prompt of ``characters`` had ``tokens``."""
        if characters > 0 and tokens > 0:
            self.per_character = min(2.0, max(self._least, tokens / characters))


@dataclass(slots=True)
class Turn:
    """One decision that the model made itself.

    Args:
        text: What it wrote beside its calls.
        calls: Its calls in the endpoint's own form; empty when it wrote them as text.
        outcomes: What became of each call, as far as it is known.
        made: Its calls in whichever form it wrote them.
        changed: What the situation changed of the one of the turn before; set by the history.
        asked: The messages before its answer; set by the history, once nothing of them changes any more.
        answer: The model's message; set by the history.
        weight: Characters that it takes in a prompt, but for the outcomes and ``shown``; set by the history.
        verbatim: What else its message held, to be sent back as it is.
        seen: The situation, member by member; for :class:`History`.
        shown: The same as text, in full; for :class:`History`.
    """

    text: str
    calls: Sequence[ParsedCall] = ()
    outcomes: list[str] = field(default_factory=list)
    made: Sequence[ParsedCall] = ()
    changed: str = ""
    asked: Sequence[Message] = ()
    answer: Message = field(default_factory=dict)
    weight: int = 0
    verbatim: Mapping[str, Any] = field(default_factory=dict)
    seen: Mapping[str, str] = field(default_factory=dict)
    shown: str = ""

    def snapshot(self) -> dict[str, Any]:
        """What a conversation goes on from after this turn, as plain JSON."""
        calls = {"calls": self.calls, "made": self.made}
        return {
            **{name: [asdict(call) for call in of] for name, of in calls.items()},
            "text": self.text,
            "outcomes": list(self.outcomes),
            "verbatim": dict(self.verbatim),
        }

    @classmethod
    def of_snapshot(cls, kept: Mapping[str, Any]) -> Turn:
        """The turn whose :meth:`snapshot` it is, without the situation that it was shown."""
        calls, made = ([ParsedCall(**call) for call in kept[name]] for name in ("calls", "made"))
        outcomes, verbatim = list(kept["outcomes"]), kept["verbatim"]
        return cls(kept["text"], calls, outcomes, made, verbatim=verbatim)

    def reply(self, shown: str) -> list[Message]:
        """The messages that follow: what became of it, with ``shown``, the next situation."""
        if not self.calls:
            return [{"role": "user", "content": shown}]
        return tool_messages(self.calls, self.outcomes, shown)


def answer_message(
    text: str, calls: Sequence[ParsedCall], verbatim: Mapping[str, Any] | None = None
) -> Message:
    """A message of the model's own, with what else it held as it came."""
    text = text if len(text) <= ANSWER_LIMIT else f"{text[:ANSWER_LIMIT]}…"
    beside = verbatim or {}
    if not calls:
        return {"role": "assistant", "content": text or "(no answer)", **beside}
    return {"role": "assistant", "content": text, "tool_calls": list(map(_call_message, calls)), **beside}


def _call_message(call: ParsedCall) -> dict[str, Any]:
    beside = dict(call.verbatim)
    function = {"name": call.tool, "arguments": encode_json(dict(call.arguments))}
    return {
        "id": call.id,
        "type": "function",
        "function": {**function, **beside.pop("function", {})},
        **beside,
    }


def tool_messages(calls: Sequence[ParsedCall], outcomes: Sequence[str], last: str) -> list[Message]:
    """One message for each of ``calls``; ``last`` goes with the last one."""
    messages: list[Message] = []
    for number, call in enumerate(calls):
        outcome = outcomes[number] if number < len(outcomes) else "not carried out"
        content = f"{outcome}\n\n{last}" if number == len(calls) - 1 else outcome
        messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    return messages


class History:
    """Past turns of one episode, newest last. ``characters`` is how many the last conversation had.

    Args:
        room: Tokens that a whole prompt may have; the task and the present situation are always in it.
        estimate: Counts.
    """

    def __init__(self, room: int, estimate: TokenEstimate) -> None:
        self._room = room
        self._estimate = estimate
        self._turns: deque[Turn] = deque()
        self._rules: Message = {}
        self._first: Message = {}
        self._settled = 0
        self._dropped = 0
        self._said: list[Message] = []
        self._beginning = SettledBeginning()
        self.characters = 0

    def add(self, turn: Turn) -> None:
        """Remember ``turn``; from now on no outcome of those before it changes."""
        if self._turns:
            turn.changed = changes(self._turns[-1].seen, turn.seen)
            self._turns[-1].seen = {}  # nothing is compared with it any more
            turn.asked = [SettledMessage(said) for said in self._turns[-1].reply(turn.changed)]
            self._settled += _characters(self._turns[-1])
        else:
            self._begin_with(turn)
        turn.answer = SettledMessage(answer_message(turn.text, turn.calls, turn.verbatim))
        turn.weight = len(turn.changed) + len(encode_json(turn.answer))
        self._said += [*(turn.asked if self._turns else (self._first,)), turn.answer]
        self._turns.append(turn)

    def messages(self, system: str, shown: str, *, beside: int = 0) -> list[Message]:
        """The conversation that asks for the next decision.

        Args:
            system: The rules and the task; never dropped.
            shown: The question with the present situation; never dropped.
            beside: Characters that travel beside the messages, such as the tools.
        """
        always = len(system) + len(shown) + beside
        self._make_room(always)
        self.characters = self._characters(always)
        if self._rules.get("content") != system:
            self._rules = SettledMessage({"role": "system", "content": system})
            self._begin_anew()
        alone: list[Message] = [{"role": "user", "content": shown}]
        asked = self._turns[-1].reply(shown) if self._turns else alone
        return Conversation(self._said + asked, len(self._said), self._beginning)

    def _begin_anew(self) -> None:
        """Collect what is settled from its beginning on."""
        self._beginning, self._said = SettledBeginning(), [self._rules]
        if self._turns:
            self._said += [self._first, self._turns[0].answer]
        for turn in islice(self._turns, 1, None):
            self._said += [*turn.asked, turn.answer]

    def _begin_with(self, turn: Turn) -> None:
        """Show ``turn``, the oldest that is kept, in full."""
        left_out = f"({self._dropped} earlier turns are left out.)\n" if self._dropped else ""
        self._first = SettledMessage({"role": "user", "content": f"{left_out}Situation then:\n{turn.shown}"})

    def _make_room(self, always: int) -> None:
        if self._estimate.of(self._characters(always)) <= self._room:
            return
        while self._turns and self._estimate.of(self._characters(always)) > KEPT_SHARE * self._room:
            oldest = self._turns.popleft()
            self._dropped += 1
            if self._turns:
                self._settled -= _characters(oldest)
                self._begin_with(self._turns[0])
        self._begin_anew()

    def _characters(self, always: int) -> int:
        if self._turns:
            first, newest = self._turns[0], self._turns[-1]
            always += len(self._first["content"]) - len(first.changed) + self._settled + _characters(newest)
        return always


def _characters(turn: Turn) -> int:
    return turn.weight + sum(map(len, turn.outcomes))
