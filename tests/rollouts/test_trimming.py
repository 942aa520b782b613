"""Trimming a conversation: what is always kept, what is never torn apart."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.errors import EnvironmentMalformed
from spectator.rollouts.model_seat import trim
from spectator.steppers.remote import checked_prompt

SYSTEM = {"role": "system", "content": "rules"}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str, call: str | None = None) -> dict[str, Any]:
    calls = (
        {} if call is None else {"tool_calls": [{"id": call, "function": {"name": "f", "arguments": "{}"}}]}
    )
    return {"role": "assistant", "content": text, **calls}


def tool(call: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": "done"}


def test_a_negative_or_zero_cut_keeps_everything_in_a_list_of_its_own() -> None:
    talk = [SYSTEM, user("task"), assistant("a"), user("b")]
    for cut in (0, -3):
        kept = trim(talk, cut)
        assert kept == talk
        assert kept is not talk


def test_the_system_message_and_the_task_survive() -> None:
    talk = [SYSTEM, user("task"), *[m for n in range(9) for m in (assistant(f"a{n}"), user(f"u{n}"))]]
    assert trim(talk, 2) == [SYSTEM, talk[1], *talk[-3:]]
    assert trim(talk, 2, keep_task=False) == [SYSTEM, *talk[-3:]]


def test_a_tools_answer_is_never_sent_without_its_call() -> None:
    talk = [
        SYSTEM,
        user("task"),
        assistant("", "c1"),
        tool("c1"),
        assistant("", "c2"),
        tool("c2"),
        tool("c2"),
    ]
    kept = trim(talk, 1)
    assert kept == [SYSTEM, user("task"), talk[4], talk[5], talk[6]]


messages = st.lists(
    st.sampled_from(["user", "assistant", "call"]).map(lambda kind: kind), min_size=0, max_size=30
)


@given(kinds=messages, cut=st.integers(-1, 6), with_system=st.booleans(), keep_task=st.booleans())
def test_trimming_any_conversation(kinds: list[str], cut: int, with_system: bool, keep_task: bool) -> None:
    talk: list[dict[str, Any]] = [SYSTEM] if with_system else []
    for place, kind in enumerate(kinds):
        if kind == "call":
            talk += [assistant("", f"c{place}"), tool(f"c{place}")]
        else:
            talk.append(user(f"u{place}") if kind == "user" else assistant(f"a{place}"))
    before = copy.deepcopy(talk)
    kept = trim(talk, cut, keep_task=keep_task)
    assert talk == before
    assert [message for message in talk if any(message is one for one in kept)] == kept, (
        "in order, none twice"
    )
    if talk:
        assert kept[-1] is talk[-1], "the newest message is always sent"
        assert (kept[0] is SYSTEM) == with_system
    called = {call["id"] for message in kept for call in message.get("tool_calls", ())}
    assert all(message["tool_call_id"] in called for message in kept if message["role"] == "tool")
    if cut > 0:
        assert len(kept) <= 2 + 2 * cut


@pytest.mark.parametrize(
    ("prompt", "named"),
    [
        ("text", "str"),
        (None, "NoneType"),
        ({"role": "user"}, "dict"),
        ([1], "message 0"),
        ([{}], "message 0"),
    ],
)
def test_what_is_no_conversation_is_an_environments_fault(prompt: object, named: str) -> None:
    with pytest.raises(EnvironmentMalformed, match=named):
        checked_prompt(prompt)


def test_an_empty_conversation_is_one() -> None:
    assert checked_prompt([]) == []
