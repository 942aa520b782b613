"""What of a conversation is sent when it has grown long: ``message_cut``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Message = Mapping[str, Any]


def trim(messages: Sequence[Message], message_cut: int, *, keep_task: bool = True) -> list[Message]:
    """The system message, the task, and the newest ``2 * message_cut - 1`` messages.

    The answer to a tool call is never sent without the call, and what is kept never begins with an answer to
    something that was dropped. The list is new; ``messages`` is left as it is.

    Args:
        messages: The whole conversation, oldest first.
        message_cut: Newest exchanges to keep; 0 or less keeps everything.
        keep_task: Whether the first message of the user, which states the task, is always kept.

    Example:
        >>> talk = [{"role": "system", "content": "s"}] + [
        ...     {"role": role, "content": f"{role} {n}"} for n in range(4) for role in ("user", "assistant")
        ... ][:-1]
        >>> [message["content"] for message in trim(talk, 1)]
        ['s', 'user 0', 'user 3']
        >>> len(trim(talk, 0)) == len(talk)
        True
    """
    if message_cut <= 0:
        return list(messages)
    first = 1 if messages and messages[0]["role"] == "system" else 0
    start = max(first, len(messages) - (2 * message_cut - 1))
    start = _with_its_call(messages, start, first)
    head = list(messages[:first])
    if keep_task:
        head += [message for message in messages[first:start] if message["role"] == "user"][:1]
    if len(head) == first:  # nobody asked what an assistant's message would answer
        while (
            start < len(messages) - 1
            and messages[start]["role"] == "assistant"
            and not _calls(messages[start])
        ):
            start += 1
    return head + list(messages[start:])


def _with_its_call(messages: Sequence[Message], start: int, first: int) -> int:
    """``start``, or the place of the call that the tool's answer there belongs to."""
    while start > first and start < len(messages) and messages[start]["role"] == "tool":
        start -= 1
    return start


def _calls(message: Message) -> bool:
    return bool(message.get("tool_calls"))
