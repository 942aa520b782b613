"""Episodes of other programs in one form for all formats, and their JSON.

What a file does not say is ``None``. A member of the wrong type is rejected with a sentence that says
why. Messages come in several common forms and become those of chat templates.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from spectator.events import encode_json
from spectator.journal.encoding import ChatMessage, tool_call
from spectator.text import encodable


class UnreadableEntry(ValueError):
    """An entry of a file is not what its format says; the message names the field and the rule."""


@dataclass(slots=True, kw_only=True)
class ForeignTurn:
    """One answer of a model.

    Args:
        asked: The messages that its prompt adds to everything before; all of its prompt where ``anew``.
        reply: The answer as a message of the assistant.
        anew: Whether the prompt does not go on from the answer before it.
        reward: What it earned, where the file says so.
        prompt_token_ids: Ids of the prompt's tokens.
        token_ids: Ids of the answer's tokens, shape ``(n,)``.
        logprobs: Their log probabilities in nats, shape ``(n,)``.
        usage: ``tokens_in`` and ``tokens_out``, where counted.
        model: The model that answered.
        finish_reason: Why it stopped.
        at: When it was there.
        latency_s: How long it took, seconds.
    """

    asked: Sequence[ChatMessage]
    reply: ChatMessage
    anew: bool = False
    reward: float | None = None
    prompt_token_ids: Sequence[int] | None = None
    token_ids: Sequence[int] | None = None
    logprobs: Sequence[float] | None = None
    usage: Mapping[str, int] | None = None
    model: str | None = None
    finish_reason: str | None = None
    at: datetime | None = None
    latency_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class ForeignEpisode:
    """An episode that was played by another program.

    Args:
        key: What it is, as JSON: of no other episode, and the same whenever its file is read.
        environment: What was played, in whatever words.
        turns: The answers, in order.
        after: What was said after the last answer.
        agent: The model, or whoever decided; empty where the file does not say.
        title: The environment's name as shown to people.
        group: Name of the episodes of one prompt.
        seed: Its seed.
        reward: What it came to; ``None`` where the file gives no reward, which is not 0.
        rubric: Named parts of the reward.
        error: What went wrong; then there is no verdict.
        cut: Why it was cut short.
        ended: Whether it came to its end.
        result: What came of it, in words.
        began: When it began.
        tools: The tools that were offered, in the endpoint's form.
        notes: What of it is not shown, a sentence each.
        order_ms: By which episodes without a time sort, 0 .. 2**48 - 1.
    """

    key: Sequence[Any]
    environment: str
    turns: Sequence[ForeignTurn]
    after: Sequence[ChatMessage] = ()
    agent: str = ""
    title: str = ""
    group: str | None = None
    seed: int | None = None
    reward: float | None = None
    rubric: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None
    cut: str | None = None
    ended: bool = True
    result: str | None = None
    began: datetime | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()
    order_ms: int = 0


LATEST_S: Final = 253_402_300_799
"""Unix time up to which a date has four digits for its year."""


def number(value: object) -> float | None:
    """A finite number, a truth value as 0 or 1; ``None`` for anything else, so that nothing becomes 0.

    >>> number(1), number(True), number("1"), number(float("nan"))
    (1.0, 1.0, None, None)
    """
    if not isinstance(value, bool | int | float):
        return None
    try:
        known = float(value)
    except OverflowError:
        return None
    return known if math.isfinite(known) else None


def numbers(value: object) -> dict[str, float]:
    """The members of an object that are numbers."""
    if not isinstance(value, Mapping):
        return {}
    return {str(name): known for name, one in value.items() if (known := number(one)) is not None}


def text(value: object) -> str:
    """A text, or an empty one."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int | None:
    """A whole number of at least 0; ``None`` for anything else."""
    known = number(value)
    return int(known) if known is not None and known >= 0 and not isinstance(value, bool) else None


def usage_of(value: object, tokens_in: str, tokens_out: str) -> dict[str, int] | None:
    """Counted tokens, by the names under which an object has them; ``None`` where it is none.

    >>> usage_of({"input_tokens": 3, "output_tokens": None}, "input_tokens", "output_tokens")
    {'tokens_in': 3}
    """
    if not isinstance(value, Mapping):
        return None
    counted = {"tokens_in": count(value.get(tokens_in)), "tokens_out": count(value.get(tokens_out))}
    return {name: known for name, known in counted.items() if known is not None}


def integers(value: object) -> list[int] | None:
    """Token ids; ``None`` where there are none, or something that is none.

    >>> integers([0, 7]), integers([]), integers([1, -1]), integers([1, 2.0]), integers([2**63])
    ([0, 7], None, None, None, None)
    """
    if not isinstance(value, list) or not value:
        return None
    whole = set(map(type, value)) <= {int, bool} and 0 <= min(value) and max(value) < 2**63
    return value if whole else None


def reals(value: object, length: int) -> list[float] | None:
    """``length`` log probabilities; a missing one is not a number; ``None`` where there are not so many.

    >>> reals([-0.5, -1.5], 2), reals([-0.5, None, 1, float("inf")], 4), reals([-0.5], 2)
    ([-0.5, -1.5], [-0.5, nan, 1.0, nan], None)
    """
    if not isinstance(value, list) or len(value) != length:
        return None
    if set(map(type, value)) <= {float} and all(map(math.isfinite, value)):
        return value  # as nearly all are: not looked at one by one
    return [math.nan if (known := number(one)) is None else known for one in value]


def moment(value: object) -> datetime | None:
    """A time, from RFC 3339 or Unix time in seconds or milliseconds; ``None`` where it is none.

    >>> moment(1_700_000_000_000) == moment(1_700_000_000) == moment("2023-11-14T22:13:20Z")
    True
    >>> moment(0) is None
    True
    """
    if isinstance(value, str):
        try:
            said = datetime.fromisoformat(value)
        except ValueError:
            return None
        return said.replace(tzinfo=UTC) if said.tzinfo is None else said.astimezone(UTC)
    known = number(value)
    if known is None or known <= 0 or isinstance(value, bool):
        return None
    seconds = known / 1000 if known > LATEST_S / 10 else known
    return datetime.fromtimestamp(seconds, UTC) if seconds <= LATEST_S else None


def need(row: Mapping[str, Any], name: str, kind: type, rule: str) -> Any:
    """The member ``name``, which must be a ``kind``.

    Raises:
        UnreadableEntry: It is not there or something else; ``rule`` says what it should be.
    """
    if name not in row:
        raise UnreadableEntry(f"{name} is missing: {rule}")
    if not isinstance(row[name], kind):
        raise UnreadableEntry(f"{name} is {kind_of(row[name])}: {rule}")
    return row[name]


def kind_of(value: object) -> str:
    """What a JSON value is, in words.

    >>> kind_of(None), kind_of([]), kind_of(3)
    ('null', 'a list', 'a number')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a truth value"
    kinds = {int: "a number", float: "a number", str: "a text", list: "a list", dict: "an object"}
    return kinds.get(type(value), type(value).__name__)


ROLES: Final = {"developer": "system", "model": "assistant", "ai": "assistant", "human": "user"}
"""Roles under other names."""

THOUGHTS: Final = ("reasoning_content", "reasoningContent", "reasoning", "thinking")
"""Members that hold a model's thoughts."""


def messages_of(value: object, name: str) -> list[ChatMessage]:
    """A conversation: a list of messages, or a text, which is one of the user's.

    Raises:
        UnreadableEntry: It is anything else.
    """
    if value is None:
        return []
    if isinstance(value, str):
        return [{"role": "user", "content": encodable(value)}]
    if not isinstance(value, list):
        raise UnreadableEntry(f"{name} is {kind_of(value)}: it must be a text or a list of messages")
    return [message_of(one, f"{name}[{place}]") for place, one in enumerate(value)]


def message_of(value: object, name: str) -> ChatMessage:
    """One message.

    Raises:
        UnreadableEntry: It has no role.
    """
    if not isinstance(value, Mapping):
        raise UnreadableEntry(f"{name} is {kind_of(value)}: it must be a message")
    role = value.get("role")
    if not isinstance(role, str):
        raise UnreadableEntry(f"{name} has no role")
    said, thought = content_of(value.get("content"))
    message: ChatMessage = {"role": ROLES.get(role, encodable(role)), "content": said}
    thought = next((text(value[one]) for one in THOUGHTS if text(value.get(one))), "") or thought
    if thought:
        message["reasoning_content"] = encodable(thought)
    calls = value.get("tool_calls") or value.get("toolCalls")
    if isinstance(calls, list) and calls:
        message["tool_calls"] = [_call(one, place) for place, one in enumerate(calls)]
    answered = value.get("tool_call_id") or value.get("toolCallId")
    if isinstance(answered, str):
        message["tool_call_id"] = encodable(answered)
    if isinstance(value.get("name"), str) and message["role"] == "tool":
        message["name"] = encodable(value["name"])
    return message


def content_of(value: object) -> tuple[str, str]:
    """What a message says, and the thoughts among its parts; a part that is no text is named in brackets.

    >>> content_of([{"type": "reasoning", "reasoning": "2 + 2"}, {"type": "text", "text": "4"}])
    ('4', '2 + 2')
    >>> content_of([{"type": "image", "image": "data:..."}])
    ('[image]', '')
    """
    if value is None:
        return "", ""
    if isinstance(value, str):
        return encodable(value), ""
    if not isinstance(value, list):
        return encodable(encode_json(value)), ""
    said, thought = [], []
    for part in value:
        if not isinstance(part, Mapping):
            said.append(text(part))
        elif part.get("type") in ("reasoning", "thinking"):
            thought.append(
                text(part.get("reasoning")) or text(part.get("thinking")) or text(part.get("text"))
            )
        elif isinstance(part.get("text"), str):
            said.append(part["text"])
        else:
            said.append(f"[{text(part.get('type')) or 'part'}]")
    return encodable("\n".join(one for one in said if one)), "\n".join(one for one in thought if one)


def _call(value: object, place: int) -> dict[str, Any]:
    """A call of a tool, in the form of OpenAI, of verifiers or of inspect_ai, or as JSON text of one."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = {"name": "unreadable", "arguments": value}
    if not isinstance(value, Mapping):
        raise UnreadableEntry(f"tool_calls[{place}] is {kind_of(value)}: it must be a call")
    function = value.get("function")
    named: Mapping[str, Any] = function if isinstance(function, Mapping) else value
    name = text(named.get("name")) or text(function) or "unnamed"
    given = named.get("arguments")
    arguments = given if isinstance(given, str) else encode_json({} if given is None else given)
    return tool_call(
        encodable(text(value.get("id")) or f"call_{place}"), encodable(name), encodable(arguments)
    )


def tools_of(value: object) -> list[Mapping[str, Any]]:
    """Tools in the endpoint's form, from that form or from flat descriptions; others are left out."""
    found: list[Mapping[str, Any]] = []
    for one in value if isinstance(value, list) else ():
        if not isinstance(one, Mapping):
            continue
        function = one.get("function")
        described = function if isinstance(function, Mapping) else one
        if not isinstance(described.get("name"), str):
            continue
        kept = {key: described[key] for key in ("name", "description", "parameters") if key in described}
        found.append({"type": "function", "function": kept})
    return found


def turns_of(messages: Iterable[ChatMessage]) -> tuple[list[ForeignTurn], list[ChatMessage]]:
    """A conversation cut at the answers of the assistant: the turns, and what was said after the last."""
    turns: list[ForeignTurn] = []
    said: list[ChatMessage] = []
    for message in messages:
        if message["role"] == "assistant":
            turns.append(ForeignTurn(asked=said, reply=message))
            said = []
        else:
            said.append(message)
    return turns, said


def completed(
    prompt: Sequence[ChatMessage], completion: object
) -> tuple[list[ForeignTurn], list[ChatMessage]]:
    """The turns of a prompt and its completion, a text or messages; answers in the prompt are no turns.

    Raises:
        UnreadableEntry: The completion is neither.
    """
    if isinstance(completion, str):
        reply: ChatMessage = {"role": "assistant", "content": encodable(completion)}
        return [ForeignTurn(asked=list(prompt), reply=reply)], []
    turns, after = turns_of(messages_of(completion, "completion"))
    if turns:
        turns[0].asked = [*prompt, *turns[0].asked]
    else:
        after = [*prompt, *after]
    return turns, after
