"""Recorded exchanges played back: the reply to a request that was made before, and to no other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spectator.errors import SpectatorError
from spectator.llm.chat import Message
from spectator.llm.exchange import fingerprint
from spectator.model_calls import ModelCall

EXCERPT: Final = 60
"""Characters that are quoted on each side of where two questions part."""


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """One question to a model as an episode recorded it.

    Args:
        turn: The turn that it was about.
        actor: Who was to decide.
        request: Fingerprint of the question.
        messages: The question itself.
        tools: Its tools.
        reply: What came back; ``None`` when nothing did.
        failure: Why nothing came back: ``kind``, ``status``, ``retry_after_s``.
        call: The whole call, with its tokens.
    """

    turn: int
    actor: str
    request: str
    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    reply: Mapping[str, Any] | None = None
    failure: Mapping[str, Any] | None = None
    call: ModelCall | None = None


class NotRecorded(SpectatorError):
    """A question that was never asked.

    Args:
        message: The nearest question that was, and how this one differs.
        where: Where they part, such as ``messages[3]``.
    """

    def __init__(self, message: str, where: str) -> None:
        self.where = where
        super().__init__(message)


class Playback:
    """Answers the questions of one episode, as often as they are asked.

    A question that was answered in different ways gives its answers in turn, then begins again.

    Args:
        exchanges: What was recorded, in order.
    """

    def __init__(self, exchanges: Sequence[RecordedExchange]) -> None:
        self._exchanges = exchanges
        self._by_request: dict[str, list[RecordedExchange]] = defaultdict(list)
        self._asked: dict[str, int] = defaultdict(int)
        for exchange in exchanges:
            self._by_request[exchange.request].append(exchange)

    def __len__(self) -> int:
        return len(self._exchanges)

    @property
    def models(self) -> list[str]:
        """Names of the models that answered, by their own account."""
        return sorted(
            {str(one.reply["model"]) for one in self._exchanges if one.reply and one.reply["model"]}
        )

    def answer(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> RecordedExchange:
        """The exchange that began with this question.

        Raises:
            NotRecorded: None did.
        """
        request = fingerprint(messages, tools)
        kept = self._by_request.get(request)
        if kept is None:
            raise self._unknown(messages, tools)
        exchange = kept[self._asked[request] % len(kept)]
        self._asked[request] += 1
        return exchange

    def _unknown(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> NotRecorded:
        if not self._exchanges:
            return NotRecorded("no question is recorded", "messages")
        nearest = max(self._exchanges, key=lambda one: _nearness(one.messages, messages))
        where, how = _difference(nearest, messages, tools)
        near = f"the nearest is that of turn {nearest.turn} for {nearest.actor}"
        return NotRecorded(f"this question is not recorded; {near}: {how}", where)


def _nearness(recorded: Sequence[Message], asked: Sequence[Message]) -> tuple[int, int, int]:
    """Equal messages at the beginning; how many more there are; equal characters of the next."""
    same = _same(recorded, asked)
    follow = zip(recorded[same : same + 1], asked[same : same + 1], strict=False)
    characters = sum(_shared(_content(one), _content(other)) for one, other in follow)
    return same, -abs(len(recorded) - len(asked)), characters


def _same(recorded: Sequence[Message], asked: Sequence[Message]) -> int:
    pairs = enumerate(zip(recorded, asked, strict=False))
    return next((number for number, (one, other) in pairs if one != other), min(len(recorded), len(asked)))


def _difference(
    nearest: RecordedExchange, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
) -> tuple[str, str]:
    recorded = nearest.messages
    place = _same(recorded, messages)
    if place == len(recorded) == len(messages):
        return "tools", _different_tools(nearest.tools, tools)
    if place in (len(recorded), len(messages)):
        return "messages", f"it has {len(recorded)} messages, this one {len(messages)}; the others are equal"
    one, other = recorded[place], messages[place]
    where = f"messages[{place}]"
    before, after = _content(one), _content(other)
    if before == after:
        names = [name for name in {*one, *other} if one.get(name) != other.get(name)]
        return where, f"message {place} differs in {', '.join(sorted(names))}"
    at = _shared(before, after)
    return where, (
        f"message {place} ({other.get('role')}) differs from character {at} on: recorded "
        f"{_excerpt(before, at)!r}, asked {_excerpt(after, at)!r}"
    )


def _different_tools(recorded: Sequence[Mapping[str, Any]], asked: Sequence[Mapping[str, Any]]) -> str:
    one, other = ([_tool_name(tool) for tool in tools] for tools in (recorded, asked))
    if one != other:
        return f"its tools are {', '.join(one) or 'none'}; this one's {', '.join(other) or 'none'}"
    changed = [name for name, a, b in zip(one, recorded, asked, strict=True) if a != b]
    return f"the messages are equal, and the tools differ in the schema of {', '.join(changed)}"


def _tool_name(tool: Mapping[str, Any]) -> str:
    function = tool.get("function")
    return str(function.get("name")) if isinstance(function, Mapping) else "unnamed"


def _shared(one: str, other: str) -> int:
    """Characters that both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _content(message: Message) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else ""


def _excerpt(text: str, at: int) -> str:
    return text[max(0, at - EXCERPT // 3) : at + EXCERPT]
