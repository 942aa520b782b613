"""The fingerprint of a request; a conversation that grew is hashed from where it left off."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import orjson

from spectator.llm.chat import Conversation, Message, SettledMessage, SettledTools

_BEGINNING: Final[hashlib._Hash] = hashlib.sha256(b'{"messages":[')


_canonical: Final = partial(orjson.dumps, option=orjson.OPT_SORT_KEYS)


def hash_question(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> str:
    """SHA-256, in hex, of messages and tools as one JSON object with sorted keys.

    Raises:
        TypeError: Something in them is not JSON.
    """
    try:
        if isinstance(messages, Conversation) and messages.beginning.hashed_of <= messages.settled:
            whole = _grown(messages)
        else:
            whole = _after(messages).copy()
        whole.update(b'],"tools":' + _canonical_tools(tools) + b"}")
    except orjson.JSONEncodeError:
        # Lone surrogates and integers beyond 64 bits: the standard library writes both.
        question = {"messages": list(messages), "tools": list(tools)}
        return hashlib.sha256(
            json.dumps(question, sort_keys=True, separators=(",", ":")).encode()
        ).hexdigest()
    return whole.hexdigest()


def _after(messages: Sequence[Message]) -> hashlib._Hash:
    """The state of the hash after ``messages``; what is settled keeps it."""
    state = _BEGINNING
    for message in messages:
        settled = message if isinstance(message, SettledMessage) else None
        if settled is not None and settled.hashed is not None and settled.hashed[0] is state:
            state = settled.hashed[1]
            continue
        before, state = state, state.copy()
        state.update(_canonical(message) if before is _BEGINNING else b"," + _canonical(message))
        if settled is not None:
            settled.hashed = before, state
    return state


def _grown(messages: Conversation) -> hashlib._Hash:
    """The same after a conversation that grew; nobody else holds it."""
    beginning, settled = messages.beginning, messages.settled
    if beginning.hashed is None:
        beginning.hashed = _BEGINNING.copy()
    for message in messages[beginning.hashed_of : settled]:
        canonical = _canonical(message)
        beginning.hashed.update(b"," + canonical if beginning.hashed_of else canonical)
        beginning.hashed_of += 1
    state: hashlib._Hash = beginning.hashed.copy()
    for place, message in enumerate(messages[settled:], settled):
        state.update(b"," + _canonical(message) if place else _canonical(message))
    return state


def _canonical_tools(tools: Sequence[Mapping[str, Any]]) -> bytes:
    if not isinstance(tools, SettledTools):
        return _canonical(list(tools))
    if tools.canonical is None:
        tools.canonical = _canonical(tools)
    return tools.canonical
