"""A model's turns: the past ones that fit the prompt, and the one in progress.

A turn is kept or dropped as a whole, and the tool messages after an answer are made from the turn itself,
so no answer loses its question and no tool message loses its call.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any, Final, Literal

from spectator.clock import Clock
from spectator.errors import FailureClass
from spectator.events import encode_json
from spectator.llm.chat import ChatAnswer, Conversation, FrozenMessage, FrozenPrefix, Message, Usage
from spectator.llm.tool_calls import (
    MAX_TEXT,
    CallRejected,
    ParsedCall,
    WrittenCall,
    check_call,
    find_calls,
    unchecked_call,
    written_form,
)
from spectator.model_calls import ModelCall
from spectator.observations import LegalAction, Observation
from spectator.policies.policy import Action, Decision
from spectator.policies.prompts import EDITION, Briefing, changes, correction

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
        self._beginning = FrozenPrefix()
        self.characters = 0

    def add(self, turn: Turn) -> None:
        """Remember ``turn``; from now on no outcome of those before it changes."""
        if self._turns:
            turn.changed = changes(self._turns[-1].seen, turn.seen)
            self._turns[-1].seen = {}  # nothing is compared with it any more
            turn.asked = [FrozenMessage(said) for said in self._turns[-1].reply(turn.changed)]
            self._settled += _characters(self._turns[-1])
        else:
            self._begin_with(turn)
        turn.answer = FrozenMessage(answer_message(turn.text, turn.calls, turn.verbatim))
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
            self._rules = FrozenMessage({"role": "system", "content": system})
            self._restart()
        alone: list[Message] = [{"role": "user", "content": shown}]
        asked = self._turns[-1].reply(shown) if self._turns else alone
        return Conversation(self._said + asked, len(self._said), self._beginning)

    def _restart(self) -> None:
        """Collect what is settled from its beginning on."""
        self._beginning, self._said = FrozenPrefix(), [self._rules]
        if self._turns:
            self._said += [self._first, self._turns[0].answer]
        for turn in islice(self._turns, 1, None):
            self._said += [*turn.asked, turn.answer]

    def _begin_with(self, turn: Turn) -> None:
        """Show ``turn``, the oldest that is kept, in full."""
        left_out = f"({self._dropped} earlier turns are left out.)\n" if self._dropped else ""
        self._first = FrozenMessage({"role": "user", "content": f"{left_out}Situation then:\n{turn.shown}"})

    def _make_room(self, always: int) -> None:
        if self._estimate.of(self._characters(always)) <= self._room:
            return
        while self._turns and self._estimate.of(self._characters(always)) > KEPT_SHARE * self._room:
            oldest = self._turns.popleft()
            self._dropped += 1
            if self._turns:
                self._settled -= _characters(oldest)
                self._begin_with(self._turns[0])
        self._restart()

    def _characters(self, always: int) -> int:
        if self._turns:
            first, newest = self._turns[0], self._turns[-1]
            always += len(self._first["content"]) - len(first.changed) + self._settled + _characters(newest)
        return always


def _characters(turn: Turn) -> int:
    return turn.weight + sum(map(len, turn.outcomes))


MAX_CALLS_SHOWN: Final = 8
"""Calls of a rejected answer that are shown back to the model."""


@dataclass(slots=True)
class DecisionInProgress:
    """One decision under way.

    Args:
        observation: What is to be decided on.
        began: When, by the clock's ``monotonic``.
        limit: Seconds that it may take.
        tools: The legal actions in the endpoint's form, where the style has them.
        answers: What the model answered so far.
        parse: How the answer became an action, as far as it did.
        exchanges: The questions so far and what came back, as the event holds them.
        calls: The same, whole.
        written: Characters that were heard of the answer that forms.
        used: Tokens so far; ``None`` before any.
        estimated: Whether some of them were not counted by the endpoint.
        cost: What they cost; ``None`` without prices.
    """

    observation: Observation
    began: float
    limit: float
    tools: Sequence[Mapping[str, Any]] = ()
    answers: list[ChatAnswer] = field(default_factory=list)
    parse: Literal["ok", "repaired", "failed"] | None = "ok"
    exchanges: list[Mapping[str, Any]] = field(default_factory=list)
    calls: list[ModelCall] = field(default_factory=list)
    written: int = 0
    used: Usage | None = None
    estimated: bool = False
    cost: float | None = None

    def left(self, clock: Clock) -> float:
        """Seconds left."""
        return self.began + self.limit - clock.monotonic()

    def decision(
        self,
        clock: Clock,
        action: Mapping[str, Any],
        source: Literal["model", "fallback"],
        reasoning: str,
        *,
        model: str,
        fallback_reason: str | None = None,
        failure_class: FailureClass | None = None,
    ) -> Decision:
        """The decision, with what the answers so far cost."""
        return Decision(
            action,
            source,
            reasoning,
            raw_text="\n\n".join([written_form(answer) for answer in self.answers]) if self.answers else None,
            parse=self.parse,
            fallback_reason=fallback_reason,
            failure_class=failure_class,
            model=model,
            latency_s=round(clock.monotonic() - self.began, 6),
            tokens_in=None if self.used is None else self.used.tokens_in,
            tokens_out=None if self.used is None else self.used.tokens_out,
            tokens_estimated=self.estimated,
            cost=self.cost,
            prompt=EDITION,
            exchanges=self.exchanges,
            calls=self.calls,
        )


def read_calls(
    answer: ChatAnswer, legal: Sequence[LegalAction], text_field: str | None, most: int
) -> list[ParsedCall]:
    """The calls of an answer: the first is legal, the others are judged when they are due.

    Args:
        answer: What the model wrote.
        legal: What may be done now.
        text_field: The argument that takes the whole answer as it is, in worlds that are played in free text.
        most: How many calls may be taken.

    Raises:
        CallRejected: There is none, or the first is not legal.
        UnsupportedSchema: What is legal cannot be told from its schema.
    """
    try:
        if text_field is not None:
            written = [free_text(answer, legal[0]["tool"], text_field)]
        else:
            written = find_calls(answer, legal)
        if not written:
            raise no_call(answer)
        if most > 1:
            return [check_call(written[0], legal), *map(unchecked_call, written[1:most])]
        # A text may weigh several actions before it ends with one; tool calls are meant to be carried out.
        return [check_call(written[0] if answer.tool_calls else written[-1], legal)]
    except CallRejected as broken:
        if answer.finish_reason == "length":
            broken.failure_class = "truncated"
        raise


def no_call(answer: ChatAnswer) -> CallRejected:
    """The rule that an answer without any call broke."""
    if answer.refusal or answer.finish_reason == "content_filter":
        return CallRejected("the model declined to answer", failure_class="declined")
    if answer.finish_reason == "length":
        cut = "the answer was cut at the longest length before it named an action"
        return CallRejected(cut, failure_class="truncated")
    if not answer.text:
        return CallRejected("the answer is empty", failure_class="unparsable")
    return CallRejected("the answer names no action in the form asked for", failure_class="unparsable")


def free_text(answer: ChatAnswer, tool: str, field: str) -> WrittenCall:
    """An answer that is the action itself, word for word.

    Raises:
        CallRejected: It is empty, was declined, is too long or was cut: half a text is another text.
    """
    if answer.finish_reason == "length":
        raise CallRejected("the answer was cut at the longest length", failure_class="truncated")
    if not answer.text.strip() or answer.refusal or answer.finish_reason == "content_filter":
        raise no_call(answer)
    text = answer.text.strip()
    if len(text) > MAX_TEXT:
        raise CallRejected(f"the answer has more than {MAX_TEXT} characters", failure_class="truncated")
    return WrittenCall(tool, {field: text})


def with_ids(calls: Sequence[ParsedCall]) -> tuple[ParsedCall, ...]:
    """The calls with ids that differ, whatever the endpoint gave."""
    if len(calls) == 1 and 0 < len(calls[0].id) <= 64:
        return (calls[0],)
    taken = [call.id for call in calls]
    return tuple(
        call
        if call.id and len(call.id) <= 64 and call.id not in taken[:number]
        else replace(call, id=f"call_{number}")
        for number, call in enumerate(calls)
    )


def rejected(answer: ChatAnswer, rule: str) -> list[Message]:
    """The answer that broke ``rule``, and the words that ask for another."""
    words = correction(rule)
    written = find_calls(answer, ())[:MAX_CALLS_SHOWN] if answer.tool_calls else []
    if not written:
        return [
            answer_message(answer.text or answer.refusal or "", (), answer.verbatim),
            {"role": "user", "content": words},
        ]
    calls = with_ids([replace(one, tool=one.tool or "unnamed") for one in map(unchecked_call, written)])
    return [answer_message(answer.text, calls, answer.verbatim), *tool_messages(calls, (), words)]


def stated_reasoning(call: ParsedCall, answer: ChatAnswer) -> str:
    """The stated reason first, then the thoughts behind it."""
    prose = answer.text if answer.tool_calls else re.split(r"```|[{<]", answer.text, maxsplit=1)[0]
    stated = call.reason or prose.strip()
    return "\n\n".join([part for part in (stated, answer.thought) if part])


def action_in(said: str, briefing: Briefing, observation: Observation) -> Action:
    """The last legal action that ``said`` names: as a tool call in JSON or in marks, or the text itself.

    Args:
        said: The whole answer.
        briefing: What is known of the seat.
        observation: What it was asked about.

    Raises:
        CallRejected: It names none.

    >>> from spectator.observations import LegalAction
    >>> legal = LegalAction(tool="hit", arguments={"type": "object", "properties": {}})
    >>> seen = Observation("home", [legal], {})
    >>> action_in('I go: {"tool": "hit", "arguments": {}}', Briefing("Hit it."), seen)
    {'tool': 'hit', 'arguments': {}}
    """
    legal, answer = briefing.legal(observation), ChatAnswer(text=said)
    if briefing.text_field is not None:
        written = [free_text(answer, legal[0]["tool"], briefing.text_field)]
    else:
        written = find_calls(answer, legal)
    if not written:
        raise no_call(answer)
    call = check_call(written[-1], legal)
    return briefing.as_action(call.tool, call.arguments)
