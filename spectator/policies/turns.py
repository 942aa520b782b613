"""A model's turns: past ones that fit into the prompt, and the one in progress, which makes the `Decision`.

A turn is kept or dropped as a whole, and the tool messages after an answer are made from the turn itself, so
that no answer loses its question and no tool message loses its call.
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
from spectator.llm.exchanges import answer_of, answered
from spectator.llm.faults import CUT_REASONS, MALFORMED_CALL
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
"""Characters of an earlier answer in later prompts."""

KEPT_SHARE: Final = 0.75
"""Share of the token limit that is used after dropping turns: many are dropped at once, so that the beginning
of the prompt stays the same for many turns and endpoints can cache it."""


class TokenEstimate:
    """Estimates tokens without a tokenizer, from the endpoint's earlier counts.

    Args:
        per_character: Initial tokens per character; JSON has about a third.
        least: Minimum per character: an endpoint that cuts prompts counts only what it keeps.
    """

    def __init__(self, per_character: float = 0.34, least: float = 0.1) -> None:
        self.per_character = per_character
        """Tokens per character, from the last count."""
        self._least = least

    def of(self, characters: int) -> int:
        """Return the estimated tokens of ``characters`` characters."""
        return int(characters * self.per_character) + 4

    def learn(self, characters: int, tokens: int) -> None:
        """Adapt to a prompt with ``characters`` characters and ``tokens`` counted tokens."""
        if characters > 0 and tokens > 0:
            self.per_character = min(2.0, max(self._least, tokens / characters))


@dataclass(slots=True)
class Turn:
    """One decision that the model made itself.

    Args:
        text: Text of the answer, without native calls.
        calls: Native tool calls; empty if the calls were written as text.
        outcomes: Result of each call, as far as known.
        made: The calls in either form.
        changed: Changes of the situation since the previous turn, as text; set by the history.
        asked: The frozen messages before the answer; set by the history.
        answer: The model's message; set by the history.
        weight: Characters in a prompt, without outcomes and ``shown``; set by the history.
        verbatim: Unknown members of the model's message, to send back unchanged.
        seen: The situation, by member; for :class:`History`.
        shown: The situation as text, in full; for :class:`History`.
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
        """Return what a conversation needs to continue after this turn, as plain JSON."""
        calls = {"calls": self.calls, "made": self.made}
        return {
            **{name: [asdict(call) for call in of] for name, of in calls.items()},
            "text": self.text,
            "outcomes": list(self.outcomes),
            "verbatim": dict(self.verbatim),
        }

    @classmethod
    def of_snapshot(cls, kept: Mapping[str, Any]) -> Turn:
        """Return the turn of a :meth:`snapshot`, without its situation."""
        calls, made = ([ParsedCall(**call) for call in kept[name]] for name in ("calls", "made"))
        outcomes, verbatim = list(kept["outcomes"]), kept["verbatim"]
        return cls(kept["text"], calls, outcomes, made, verbatim=verbatim)

    def reply(self, shown: str) -> list[Message]:
        """Return the messages after the turn: outcomes, and ``shown``, the new situation."""
        if not self.calls:
            return [{"role": "user", "content": shown}]
        return tool_messages(self.calls, self.outcomes, shown)


def answer_message(
    text: str, calls: Sequence[ParsedCall], verbatim: Mapping[str, Any] | None = None
) -> Message:
    """Return an assistant message, with ``verbatim`` as further members."""
    text = text if len(text) <= ANSWER_LIMIT else f"{text[:ANSWER_LIMIT]}…"
    others = verbatim or {}
    if not calls:
        return {"role": "assistant", "content": text or "(no answer)", **others}
    return {"role": "assistant", "content": text, "tool_calls": list(map(_call_message, calls)), **others}


def _call_message(call: ParsedCall) -> dict[str, Any]:
    others = dict(call.verbatim)
    function = {"name": call.tool, "arguments": encode_json(dict(call.arguments))}
    return {
        "id": call.id,
        "type": "function",
        "function": {**function, **others.pop("function", {})},
        **others,
    }


def tool_messages(calls: Sequence[ParsedCall], outcomes: Sequence[str], last: str) -> list[Message]:
    """Return one tool message per call; ``last`` is appended to the last one."""
    messages: list[Message] = []
    for number, call in enumerate(calls):
        outcome = outcomes[number] if number < len(outcomes) else "not carried out"
        content = f"{outcome}\n\n{last}" if number == len(calls) - 1 else outcome
        messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    return messages


class History:
    """Past turns of one episode, newest last.

    ``characters`` is the length of the last conversation.

    Args:
        room: Token limit of a prompt; the task and the current situation are always included.
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
        """Add ``turn``; from now on, outcomes of earlier turns must not change."""
        if self._turns:
            turn.changed = changes(self._turns[-1].seen, turn.seen)
            self._turns[-1].seen = {}  # no longer needed
            turn.asked = [FrozenMessage(said) for said in self._turns[-1].reply(turn.changed)]
            self._settled += _characters(self._turns[-1])
        else:
            self._begin_with(turn)
        turn.answer = FrozenMessage(answer_message(turn.text, turn.calls, turn.verbatim))
        turn.weight = len(turn.changed) + len(encode_json(turn.answer))
        self._said += [*(turn.asked if self._turns else (self._first,)), turn.answer]
        self._turns.append(turn)

    def messages(self, system: str, shown: str, *, beside: int = 0) -> list[Message]:
        """Return the conversation that asks for the next decision.

        Args:
            system: The rules and the task; always included.
            shown: The question with the current situation; always included.
            beside: Characters sent in addition to the messages, such as the tools.
        """
        fixed = len(system) + len(shown) + beside
        self._make_room(fixed)
        self.characters = self._characters(fixed)
        if self._rules.get("content") != system:
            self._rules = FrozenMessage({"role": "system", "content": system})
            self._restart()
        alone: list[Message] = [{"role": "user", "content": shown}]
        asked = self._turns[-1].reply(shown) if self._turns else alone
        return Conversation(self._said + asked, len(self._said), self._beginning)

    def _restart(self) -> None:
        """Collect the frozen messages again from the beginning."""
        self._beginning, self._said = FrozenPrefix(), [self._rules]
        if self._turns:
            self._said += [self._first, self._turns[0].answer]
        for turn in islice(self._turns, 1, None):
            self._said += [*turn.asked, turn.answer]

    def _begin_with(self, turn: Turn) -> None:
        """Show the situation of ``turn``, the oldest kept one, in full."""
        left_out = f"({self._dropped} earlier turns are left out.)\n" if self._dropped else ""
        self._first = FrozenMessage({"role": "user", "content": f"{left_out}Situation then:\n{turn.shown}"})

    def _make_room(self, fixed: int) -> None:
        if self._estimate.of(self._characters(fixed)) <= self._room:
            return
        while self._turns and self._estimate.of(self._characters(fixed)) > KEPT_SHARE * self._room:
            oldest = self._turns.popleft()
            self._dropped += 1
            if self._turns:
                self._settled -= _characters(oldest)
                self._begin_with(self._turns[0])
        self._restart()

    def _characters(self, fixed: int) -> int:
        if self._turns:
            first, newest = self._turns[0], self._turns[-1]
            fixed += len(self._first["content"]) - len(first.changed) + self._settled + _characters(newest)
        return fixed


def _characters(turn: Turn) -> int:
    return turn.weight + sum(map(len, turn.outcomes))


MAX_CALLS_SHOWN: Final = 8
"""Calls of a rejected answer that are sent back to the model."""


@dataclass(slots=True)
class DecisionInProgress:
    """One decision in progress.

    Args:
        began: Start time, on the monotonic clock.
        limit: Time limit, seconds.
        tools: The actions as tools, for the style ``tools``.
        legal: The legal actions as shown to the model; empty if it answers in free text.
        avoided: Tools that the world rejected since the last action that it carried out.
        constraint: How the last answer was constrained.
        answers: The model's answers so far.
        parse: How the answer became an action, so far.
        exchanges: Requests so far and their results, as event data.
        calls: The complete calls.
        written: Characters received of the streamed answer.
        used: Tokens so far; ``None`` before the first answer.
        estimated: Whether some tokens were estimated instead of counted by the endpoint.
        cost: Cost so far; ``None`` without prices.
    """

    observation: Observation
    began: float
    limit: float
    tools: Sequence[Mapping[str, Any]] = ()
    legal: Sequence[LegalAction] = ()
    avoided: Sequence[str] = ()
    constraint: str | None = None
    answers: list[ChatAnswer] = field(default_factory=list)
    parse: Literal["ok", "repaired", "failed"] | None = "ok"
    exchanges: list[Mapping[str, Any]] = field(default_factory=list)
    calls: list[ModelCall] = field(default_factory=list)
    written: int = 0
    used: Usage | None = None
    estimated: bool = False
    cost: float | None = None

    def left(self, clock: Clock) -> float:
        """Return the remaining seconds."""
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
        """Return the decision, with the spending of all answers so far."""
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
            constraint=self.constraint,
            exchanges=self.exchanges,
            calls=self.calls,
        )


def model_decision(
    action: Action,
    calls: Sequence[ModelCall],
    model: str,
    named: ParsedCall | None = None,
    parse: Literal["ok", "failed"] | None = None,
) -> Decision:
    """Return a model's decision, with the words of its last call.

    Args:
        calls: The model calls behind it; empty if it continues the plan of an earlier answer.
        model: Name of the model, if its endpoint does not state it.
        named: The call in the answer, with its reason; by default the answer's text is the reason.
        parse: How the answer became the action.
    """
    if not calls:
        return Decision(action, "model", "Planned in the answer before.", model=model)
    last = calls[-1]
    reply = ChatAnswer(text="") if last.reply is None else answer_of(last.reply)
    prompt, written, usage = last.prompt_token_ids, last.token_ids, reply.usage
    counted = (None, None) if usage is None else (usage.tokens_in, usage.tokens_out)
    return Decision(
        action,
        "model",
        stated_reasoning(named or ParsedCall("", {}), reply),
        raw_text=written_form(reply),
        parse=parse,
        model=reply.model or model,
        tokens_in=counted[0] if prompt is None else len(prompt),
        tokens_out=counted[1] if written is None else len(written),
        exchanges=[answered(one) for one in calls],
        calls=calls,
    )


def read_calls(
    answer: ChatAnswer, legal: Sequence[LegalAction], text_field: str | None, most: int
) -> list[ParsedCall]:
    """Return the calls of an answer; only the first is checked now.

    Args:
        answer: The model's answer.
        text_field: The argument for the whole answer, in worlds that are played in free text.
        most: Maximum number of calls.

    Raises:
        CallRejected: There is no call, or the first is not legal.
        UnsupportedSchema: The world's schema uses an unsupported keyword.
    """
    try:
        if answer.finish_reason == MALFORMED_CALL:
            rule = "the endpoint could not read the tool call that you wrote"
            raise CallRejected(rule, failure_class="unparsable")
        if text_field is not None:
            written = [free_text(answer, legal[0]["tool"], text_field)]
        else:
            written = find_calls(answer, legal)
        if not written:
            raise no_call(answer)
        if most > 1:
            return [check_call(written[0], legal), *map(unchecked_call, written[1:most])]
        # A text may discuss several actions before it ends with one; tool calls are all meant.
        return [check_call(written[0] if answer.tool_calls else written[-1], legal)]
    except CallRejected as broken:
        if answer.finish_reason in CUT_REASONS:
            broken.failure_class = "truncated" if answer.finish_reason == "length" else "declined"
        raise


def no_call(answer: ChatAnswer) -> CallRejected:
    """Return the error for an answer without a call."""
    if answer.refusal or answer.finish_reason == "content_filter":
        return CallRejected("the model declined to answer", failure_class="declined")
    if answer.finish_reason == "length":
        cut = "the answer was cut at the longest length before it named an action"
        return CallRejected(cut, failure_class="truncated")
    if not answer.text:
        return CallRejected("the answer is empty", failure_class="unparsable")
    return CallRejected("the answer names no action in the form asked for", failure_class="unparsable")


def free_text(answer: ChatAnswer, tool: str, field: str) -> WrittenCall:
    """Return the call for an answer that is the action itself, word for word.

    Raises:
        CallRejected: The answer is empty, declined, too long, or cut: half a text is another text.
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
    """Return the calls with unique ids of at most 64 characters."""
    if len(calls) == 1 and 0 < len(calls[0].id) <= 64:
        return (calls[0],)
    taken = [call.id for call in calls]
    return tuple(
        call
        if call.id and len(call.id) <= 64 and call.id not in taken[:number]
        else replace(call, id=f"call_{number}")
        for number, call in enumerate(calls)
    )


def rejected(answer: ChatAnswer, rule: str, form: str) -> list[Message]:
    """Return the answer that broke ``rule``, and the correction with the form asked for, as messages."""
    text = correction(rule, form)
    written = find_calls(answer, ())[:MAX_CALLS_SHOWN] if answer.tool_calls else []
    if not written:
        return [
            answer_message(answer.text or answer.refusal or "", (), answer.verbatim),
            {"role": "user", "content": text},
        ]
    calls = with_ids([replace(one, tool=one.tool or "unnamed") for one in map(unchecked_call, written)])
    return [answer_message(answer.text, calls, answer.verbatim), *tool_messages(calls, (), text)]


def stated_reasoning(call: ParsedCall, answer: ChatAnswer) -> str:
    """Return the stated reason, followed by the thoughts."""
    prose = answer.text if answer.tool_calls else re.split(r"```|[{<]", answer.text, maxsplit=1)[0]
    stated = call.reason or prose.strip()
    return "\n\n".join([part for part in (stated, answer.thought) if part])


def call_in(answer: ChatAnswer, briefing: Briefing, observation: Observation) -> ParsedCall:
    """Return the last legal call that an answer names: in JSON, in marks, or as the text itself.

    Args:
        answer: The whole answer.
        briefing: Description of the seat.
        observation: The observation that the answer is for.

    Raises:
        CallRejected: There is no action, or it is not legal.

    >>> from spectator.observations import LegalAction
    >>> legal = LegalAction(tool="hit", arguments={"type": "object", "properties": {}})
    >>> seen = Observation("home", [legal], {})
    >>> call_in(ChatAnswer(text='I go: {"tool": "hit", "arguments": {}}'), Briefing("Hit it."), seen).tool
    'hit'
    """
    legal = briefing.legal(observation)
    if briefing.text_field is not None:
        written = [free_text(answer, legal[0]["tool"], briefing.text_field)]
    else:
        written = find_calls(answer, legal)
    if not written:
        raise no_call(answer)
    return check_call(written[-1], legal)


def action_in(text: str, briefing: Briefing, observation: Observation) -> Action:
    """Return the action of :func:`call_in` for an answer in text.

    Raises:
        CallRejected: There is no action, or it is not legal.
    """
    call = call_in(ChatAnswer(text=text), briefing, observation)
    return briefing.as_action(call.tool, call.arguments)
