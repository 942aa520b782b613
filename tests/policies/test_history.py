"""A model's memory: bounded by tokens, never without its task, never with half a turn."""

from __future__ import annotations

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from spectator.llm.chat import ChatRequest, Message
from spectator.llm.exchanges import fingerprint
from spectator.llm.tool_calls import ParsedCall
from spectator.llm.wire_forms import encode_request
from spectator.policies.prompts import as_json
from spectator.policies.turns import ANSWER_LIMIT, History, TokenEstimate, Turn

SYSTEM = "You decide."
NOW = "Situation now: 9"


def turn(number: int, *, calls: int = 0, length: int = 20) -> Turn:
    seen = {"ball": str(number), "squad": json.dumps("x" * length)}
    made = tuple(
        ParsedCall("go", {"n": number, "step": step}, id=f"c{number}-{step}") for step in range(calls)
    )
    return Turn(f"answer {number}", made, ["carried out"] * calls, seen=seen, shown=as_json(seen))


def size(messages: list[Message]) -> int:
    """Characters that travel."""
    return sum(
        len(message["content"]) + len(json.dumps(message.get("tool_calls", ""))) for message in messages
    )


def check_form(messages: list[Message]) -> None:
    """What endpoints insist on: the system first, question and answer in turns, each call answered once."""
    assert [messages[0]["role"], messages[1]["role"]] == ["system", "user"]
    open_calls: list[str] = []
    before = "user"
    for message in messages[2:]:
        match message["role"]:
            case "assistant":
                assert before in ("user", "tool") and not open_calls
                open_calls = [call["id"] for call in message.get("tool_calls", ())]
                assert all(
                    json.loads(call["function"]["arguments"]) is not None
                    for call in message.get("tool_calls", ())
                )
            case "tool":
                assert message["tool_call_id"] == open_calls.pop(0)
            case "user":
                assert before == "assistant" and not open_calls
            case other:
                raise AssertionError(other)
        before = message["role"]
    assert not open_calls
    assert messages[-1]["role"] in ("user", "tool")


def test_an_empty_history_asks_with_the_task_and_the_situation() -> None:
    assert History(1_000, TokenEstimate()).messages(SYSTEM, NOW) == [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": NOW},
    ]


def test_past_situations_are_told_by_what_changed() -> None:
    history = History(10_000, TokenEstimate())
    for number in range(3):
        history.add(turn(number))
    messages = history.messages(SYSTEM, NOW)
    check_form(messages)
    assert messages[1]["content"] == 'Situation then:\n{"ball":0,"squad":"xxxxxxxxxxxxxxxxxxxx"}'
    assert messages[3]["content"] == 'Situation then, only what had changed:\n{"ball":1}'
    assert messages[-1] == {"role": "user", "content": NOW}


def test_a_call_is_answered_by_the_next_situation() -> None:
    history = History(10_000, TokenEstimate())
    history.add(turn(0, calls=2))
    messages = history.messages(SYSTEM, NOW)
    check_form(messages)
    assert messages[-2:] == [
        {"role": "tool", "tool_call_id": "c0-0", "content": "carried out"},
        {"role": "tool", "tool_call_id": "c0-1", "content": f"carried out\n\n{NOW}"},
    ]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 400)), max_size=25), st.integers(10, 3_000))
def test_the_form_holds_and_the_task_stays_whatever_is_dropped(
    turns: list[tuple[int, int]], room: int
) -> None:
    estimate = TokenEstimate()
    history = History(room, estimate)
    for number, (calls, length) in enumerate(turns):
        history.add(turn(number, calls=calls, length=length))
        messages = history.messages(SYSTEM, NOW)
        check_form(messages)
        assert messages[0]["content"] == SYSTEM
        assert messages[-1]["content"].endswith(NOW)
        past = any(message["role"] == "assistant" for message in messages)
        assert not past or estimate.of(size(messages)) <= room
        assert abs(size(messages) - history.characters) <= 40 * len(messages)


def test_dropping_makes_room_for_many_turns_at_once() -> None:
    """So that the beginning of the prompt, which endpoints can reuse, changes seldom."""
    history = History(700, TokenEstimate())
    beginnings = []
    for number in range(60):
        history.add(turn(number, length=100))
        beginnings.append(history.messages(SYSTEM, NOW)[1]["content"])
    changes = sum(before != after for before, after in itertools.pairwise(beginnings))
    assert 0 < changes < 15
    assert "earlier turns are left out" in beginnings[-1]


def test_a_long_answer_is_cut_in_memory() -> None:
    history = History(100_000, TokenEstimate())
    history.add(Turn("x" * 50_000, shown="{}"))
    assert len(history.messages(SYSTEM, NOW)[2]["content"]) == ANSWER_LIMIT + 1


def test_an_answer_without_text_still_has_content() -> None:
    history = History(100_000, TokenEstimate())
    history.add(Turn("", shown="{}"))
    assert history.messages(SYSTEM, NOW)[2]["content"]


def test_the_estimate_learns_from_the_endpoint() -> None:
    estimate = TokenEstimate()
    assert 300 < estimate.of(1_000) < 400
    estimate.learn(1_000, 600)
    assert 590 < estimate.of(1_000) < 610
    for characters, tokens in ((0, 5), (5, 0), (-1, -1)):
        estimate.learn(characters, tokens)
    assert 590 < estimate.of(1_000) < 610
    estimate.learn(1_000, 10**9)
    assert estimate.of(1_000) < 2_100


def test_what_travels_beside_the_messages_counts() -> None:
    def kept(beside: int) -> int:
        history = History(1_000, TokenEstimate())
        for number in range(20):
            history.add(turn(number))
        return sum(m["role"] == "assistant" for m in history.messages(SYSTEM, NOW, beside=beside))

    assert kept(0) > kept(1_500) > kept(5_000) == 0


@given(st.lists(st.integers(0, 400), min_size=1, max_size=30), st.integers(200, 3000))
def test_what_is_kept_of_a_conversation_is_what_its_messages_say(lengths: list[int], room: int) -> None:
    history = History(room, TokenEstimate())
    for number, length in enumerate(lengths):
        asked = history.messages(SYSTEM if number < 20 else "You decide anew.", f"Situation now: {number}")
        assert fingerprint(asked) == fingerprint(list(asked))
        whole, plain = (encode_request(ChatRequest(model="m", messages=one)) for one in (asked, list(asked)))
        assert whole == plain
        history.add(turn(number, calls=number % 3, length=length))
