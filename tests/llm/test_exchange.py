"""The record of an exchange: one question has one fingerprint everywhere, and its reply comes back whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.core_events import ModelExchange
from spectator.errors import EndpointBusy
from spectator.events import encode_json
from spectator.json_values import json_encoder
from spectator.llm.chat import (
    ChatAnswer,
    ChatRequest,
    Conversation,
    FrozenMessage,
    FrozenPrefix,
    FrozenTools,
    Message,
    ToolCall,
    Usage,
)
from spectator.llm.exchanges import (
    MAX_REPLY,
    answer_of,
    answered,
    call_answered,
    call_failed,
    failed,
    fingerprint,
)
from spectator.llm.wire_forms import encode_request
from tests.hash_seeds import printed

MESSAGES = [{"role": "system", "content": "Décide."}, {"role": "user", "content": '{"next": 1}'}]
TOOLS = [{"type": "function", "function": {"name": "say", "parameters": {"maximum": 1e-7, "minimum": 2**70}}}]
TOOLS_OF_A_SEAT = [{"type": "function", "function": {"name": "say", "description": "Ü"}}]
encode_ascii = json_encoder(ascii_only=True)
ASKED = ChatRequest(model="m", messages=MESSAGES, tools=TOOLS)


def recorded(answer: ChatAnswer) -> dict[str, Any]:
    return answered(call_answered(ASKED, answer))


def test_a_fingerprint_is_the_same_in_another_process_with_another_hash_seed() -> None:
    script = (
        "import json, sys; from spectator.llm.exchanges import fingerprint; "
        "print(fingerprint(*json.loads(sys.stdin.read())))"
    )
    told = printed(script, 77, given=json.dumps([MESSAGES, TOOLS], sort_keys=True))
    assert told.strip() == fingerprint(MESSAGES, TOOLS)


def test_a_fingerprint_tells_questions_apart_and_not_the_order_of_members() -> None:
    turned = [dict(reversed(message.items())) for message in MESSAGES]
    assert fingerprint(turned, tuple(TOOLS)) == fingerprint(MESSAGES, TOOLS)
    others = [
        fingerprint(MESSAGES),
        fingerprint(MESSAGES[::-1], TOOLS),
        fingerprint([*MESSAGES[:1], {"role": "user", "content": '{"next": 2}'}], TOOLS),
    ]
    assert len({fingerprint(MESSAGES, TOOLS), *others}) == 4


texts = st.text(max_size=30)


@given(
    text=texts,
    thought=texts,
    refusal=st.none() | texts,
    calls=st.lists(st.tuples(texts, texts, texts), max_size=3),
    model=st.none() | texts,
    usage=st.none() | st.just(Usage(3, 2, 1, 1)),
)
def test_a_recorded_reply_gives_the_same_answer_again(
    text: str, thought: str, refusal: str | None, calls: list[Any], model: str | None, usage: Usage | None
) -> None:
    answer = ChatAnswer(
        text=text,
        thought=thought,
        refusal=refusal,
        tool_calls=tuple(ToolCall(*call) for call in calls),
        finish_reason="stop",
        model=model,
        usage=usage,
    )
    kept = ModelExchange.model_validate(recorded(answer)).model_dump(mode="json")
    assert answer_of(json.loads(encode_json(kept))["reply"]) == answer


def test_half_a_surrogate_pair_does_not_keep_a_decision_from_being_recorded() -> None:
    answer = ChatAnswer(text="a\ud800", model="m\udfff", tool_calls=(ToolCall("i", "n", "\ud812"),))
    kept = ModelExchange.model_validate(recorded(answer)).model_dump(mode="json")
    assert json.loads(encode_json(kept))["reply"]["content"] == "a?"


@pytest.mark.parametrize(
    "shape", [lambda text: ChatAnswer(text=text), lambda text: ChatAnswer(text="", thought=text)]
)
def test_a_reply_that_is_too_long_is_not_kept_in_part(shape: Callable[[str], ChatAnswer]) -> None:
    fits, beyond = recorded(shape("x" * MAX_REPLY)), recorded(shape("x" * (MAX_REPLY + 1)))
    assert fits["reply"] is not None and beyond["reply"] is None
    assert beyond["request"] == fits["request"] == fingerprint(MESSAGES, TOOLS)


@pytest.mark.parametrize("temperature", [None, 0, 0.7, 1e-7, 5e-324, 2**70])
@pytest.mark.parametrize("top_p", [None, 1e-5, 0.9])
@pytest.mark.parametrize("latency_s", [3e-6, 0.25])
def test_how_it_was_asked_does_not_change_how_a_call_is_written(
    temperature: float | None, top_p: float | None, latency_s: float
) -> None:
    asked = ChatRequest(model="m\ud800", messages=MESSAGES, temperature=temperature, top_p=top_p)
    call = call_answered(asked, ChatAnswer(text="é\x7f", latency_s=latency_s))
    plain = replace(call, about=dict(call.about), measured=dict(call.measured), reply=dict(call.reply or {}))
    assert call.digest("00") == plain.digest("00")
    for one, usual in ((call.about, plain.about), (call.measured, plain.measured)):
        assert encode_ascii(one) == json.dumps(usual, separators=(",", ":"))


def test_who_served_a_reply_is_recorded_where_it_is_named_and_read_back() -> None:
    kept = recorded(ChatAnswer(text="x", provider="fast", system_fingerprint="fp_1"))
    assert ModelExchange.model_validate(kept).model_dump(mode="json")["reply"] == kept["reply"]
    again = answer_of(kept["reply"])
    assert (again.provider, again.system_fingerprint) == ("fast", "fp_1")
    assert recorded(ChatAnswer(text="x"))["reply"].keys() == kept["reply"].keys() - {
        "provider", "system_fingerprint"
    }  # fmt: skip


def test_settings_are_part_of_a_call_and_of_its_digest() -> None:
    bare = call_answered(ASKED, ChatAnswer(text="x"))
    asked = call_answered(ASKED, ChatAnswer(text="x"), {"style": "json"})
    assert asked.about == {**bare.about, "settings": {"style": "json"}}
    assert asked.digest("00") != bare.digest("00")
    assert call_failed(ASKED, {"style": "json"}).about == asked.about


def test_a_failure_is_recorded_without_the_endpoints_own_words() -> None:
    error = EndpointBusy("wait", status=429, retry_after_s=3.0, detail="account 4711")
    kept = ModelExchange.model_validate(failed(call_failed(ASKED), error))
    assert kept.failure is not None and kept.reply is None
    assert kept.failure.model_dump() == {"kind": "busy", "status": 429, "retry_after_s": 3.0}
    assert "4711" not in kept.model_dump_json()


@pytest.mark.parametrize("tools", [(), TOOLS, TOOLS_OF_A_SEAT])
@pytest.mark.parametrize("said", ["plain", "half a pair \ud800"])
def test_settled_messages_make_the_same_question_time_after_time(said: str, tools: Any) -> None:
    messages = [*MESSAGES, {"role": "user", "content": said}]
    settled = [FrozenMessage(message) for message in messages]
    body = encode_request(ChatRequest(model="m", messages=messages, tools=tools))
    offered = FrozenTools(tools)
    for _ in range(2):
        assert fingerprint(settled, offered) == fingerprint(messages, tools)
        assert encode_request(ChatRequest(model="m", messages=settled, tools=offered)) == body


@pytest.mark.parametrize("said", ["plain", "half a pair \ud800"])
def test_a_conversation_that_grows_makes_the_same_questions_as_its_messages(said: str) -> None:
    beginning = FrozenPrefix()
    settled: list[Message] = []
    for number in range(4):
        asked: list[Message] = [
            {"role": "user", "content": f"now {number}"},
            {"role": "user", "content": "Zoë"},
        ]
        grown = Conversation(settled + asked, len(settled), beginning)
        for _ in range(2):  # asked again, as after a failure
            assert fingerprint(grown, TOOLS) == fingerprint(list(grown), TOOLS)
            body = encode_request(ChatRequest(model="m", messages=grown))
            assert body == encode_request(ChatRequest(model="m", messages=list(grown)))
        settled = [
            *settled,
            {"role": "user", "content": f"then {number}"},
            {"role": "assistant", "content": said},
        ]
        early = Conversation(asked[:1], 0, beginning)  # one that is older than what is kept
        assert fingerprint(early) == fingerprint(asked[:1])


POOL = [
    FrozenMessage({"role": role, "content": f"{role} {n} ä"}) for n in range(3) for role in ("user", "tool")
]


@given(
    st.lists(st.lists(st.sampled_from(POOL) | st.sampled_from(MESSAGES), max_size=6), min_size=1, max_size=4)
)
def test_a_fingerprint_is_that_of_the_canonical_json_whatever_was_asked_before(asked: list[Any]) -> None:
    for messages in asked:
        whole = json.dumps(
            {"messages": messages, "tools": []}, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        assert fingerprint(messages) == hashlib.sha256(whole.encode()).hexdigest()
