"""What a message holds beyond what we know goes back to its endpoint exactly as it came."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spectator.llm.answers import Assembly
from spectator.llm.chat import ChatAnswer, ToolCall
from spectator.llm.endpoints import MASK, ApiKey
from spectator.llm.exchanges import MAX_REPLY, answer_of, answered, call_answered
from spectator.llm.playback_server import chunks, completion
from tests.llm.test_playback import asking
from tests.policies.seats import ScriptedClient, model_policy, observed, said
from tests.policies.test_model import LEGAL, Steady, decide

SIGNED = {"google": {"thought_signature": "c2lnbmVk"}}


def assembled(*pieces: dict[str, Any], key: ApiKey | None = None) -> ChatAnswer:
    assembly = Assembly(key)
    assembly.feed_all(pieces)
    return assembly.answer(latency_s=0.0, first_token_s=None, attempts=1)


def whole(**message: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", **message}, "finish_reason": "stop"}]}


def delta(**message: Any) -> dict[str, Any]:
    return {"choices": [{"delta": message}]}


def test_thoughts_go_back_under_the_name_that_they_came_by() -> None:
    answer = assembled(whole(content="Four.", reasoning_content=" 2 + 2\n"))
    assert answer.thought == "2 + 2" and answer.verbatim == {"reasoning_content": " 2 + 2\n"}
    streamed = assembled(*(delta(reasoning=part) for part in ("ha", "ha", "!")), delta(content="Four."))
    assert streamed.thought == "haha!" and streamed.verbatim == {"reasoning": "haha!"}


def test_signatures_of_calls_and_details_of_reasoning_are_put_together_from_a_stream() -> None:
    call = {"index": 0, "id": "c1", "type": "function", "extra_content": SIGNED}
    answer = assembled(
        delta(role="assistant", reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "Sh"}]),
        delta(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "ort", "signature": "s1"}]),
        delta(reasoning_details=[{"type": "reasoning.encrypted", "index": 1, "data": "e30="}]),
        delta(tool_calls=[{**call, "function": {"name": "say", "arguments": ""}}]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": "{}"}}]),
    )
    assert answer.verbatim["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "Short", "signature": "s1"},
        {"type": "reasoning.encrypted", "index": 1, "data": "e30="},
    ]
    assert answer.tool_calls == (ToolCall("c1", "say", "{}", {"extra_content": SIGNED}),)


def test_what_is_empty_or_known_is_not_sent_back() -> None:
    answer = assembled(whole(content="Four.", refusal=None, annotations=[], audio=None, function_call=None))
    assert answer.verbatim == {}


def test_a_text_that_every_chunk_repeats_is_not_doubled() -> None:
    answer = assembled(delta(content="a", kind="message"), delta(content="b", kind="message"))
    assert answer.verbatim == {"kind": "message"}


def test_the_key_is_masked_there_too() -> None:
    key = ApiKey("sk-canary-4711")
    answer = assembled(whole(content="x", note={"sk-canary-4711": ["it is sk-canary-4711"]}), key=key)
    assert answer.verbatim == {"note": {MASK: [f"it is {MASK}"]}}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "answer",
    [
        ChatAnswer(text="Four.", thought="2 + 2", model="m"),
        ChatAnswer(text="Four.", thought="2 + 2", verbatim={"reasoning_content": "2 + 2\n"}, model="m"),
        ChatAnswer(text="Four.", thought="2 + 2\n\nhm", verbatim={"reasoning": "2 + 2"}, model="m"),
        ChatAnswer(
            text="",
            tool_calls=(ToolCall("c", "say", "{}", {"extra_content": SIGNED, "function": {"x": 1}}),),
            verbatim={"reasoning_details": [{"type": "t", "index": 0, "text": "a"}]},
            model="m",
        ),
    ],
)
def test_a_recorded_reply_is_played_back_with_all_of_it(answer: ChatAnswer, stream: bool) -> None:
    reply = call_answered(asking("hi"), answer).reply
    assert reply is not None
    kept = json.loads(json.dumps(reply))
    pieces = chunks(kept, {"id": "1"}, with_usage=False) if stream else [completion(kept, {"id": "1"})]
    back, recorded = assembled(*pieces), answer_of(kept)
    assert (back.text, back.thought, back.verbatim) == (recorded.text, recorded.thought, recorded.verbatim)
    assert back.tool_calls == recorded.tool_calls == answer.tool_calls


def test_a_record_without_such_members_is_what_it_was() -> None:
    reply = call_answered(asking("hi"), ChatAnswer(text="x", tool_calls=(ToolCall("c", "say", "{}"),))).reply
    assert reply is not None and "verbatim" not in reply and "verbatim" not in reply["tool_calls"][0]


def test_their_size_counts_towards_what_an_event_holds() -> None:
    request = asking("hi")
    long = ChatAnswer(text="x", verbatim={"blocks": [{"signature": "s" * MAX_REPLY}]})
    assert answered(call_answered(request, long))["reply"] is None


def asked_twice(**settings: Any) -> list[dict[str, Any]]:
    """The messages of the second question, after an answer with a signed call and thoughts."""
    call = ToolCall("c-1", "play", "{}", {"extra_content": SIGNED})
    first = ChatAnswer(text="", tool_calls=(call,), verbatim={"reasoning_content": "think"})
    client = ScriptedClient(first, said("", ("play", {})))
    policy = model_policy(client, Steady(), **settings)
    decide(policy, observed(LEGAL, ball=1), observed(LEGAL, ball=2))
    return [dict(message) for message in client.requests[1].messages]


def test_a_models_own_message_goes_back_with_what_came_beside_it() -> None:
    own = asked_twice()[2]
    assert own["reasoning_content"] == "think"
    assert own["tool_calls"][0]["extra_content"] == SIGNED and own["tool_calls"][0]["id"] == "c-1"


def test_a_captain_whose_endpoint_refuses_that_can_leave_it_out() -> None:
    own = asked_twice(send_back=False)[2]
    assert own.keys() == {"role", "content", "tool_calls"}
    assert own["tool_calls"][0].keys() == {"id", "type", "function"}
