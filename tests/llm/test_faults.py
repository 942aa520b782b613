"""Every sign in the table of faults, as an endpoint gives it: what a decision makes of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from spectator.errors import INVALID_ANSWERS
from spectator.llm.chat import ChatAnswer
from spectator.llm.client import ChatClient
from spectator.llm.faults import FAULTS, Fault, Sign
from spectator.llm.retry import RetryPolicy
from spectator.llm.tool_calls import find_calls
from spectator.observations import Observation
from spectator.policies.model import ModelPolicy
from spectator.policies.model_settings import ModelSettings
from spectator.policies.policy import Decision, ScriptedPolicy
from spectator.policies.prompts import Briefing
from tests.fakes import ManualClock
from tests.llm.test_client import FakeReply, FakeTransport, client
from tests.policies.seats import observed

LEGAL: list[Any] = [{"tool": "go", "arguments": {"type": "object", "properties": {"to": {"type": "string"}}}}]
GO = '{"reason": "on", "tool": "go", "arguments": {"to": "n"}}'
CUT = '{"reason": "on", "tool": "go", "arguments": {"to": "n'

KINDS = {"waited for": "busy", "sent again": "unavailable", "ends": "refused"}


class Steady(ScriptedPolicy):
    def choose(self, observation: Observation) -> Decision:
        return Decision({"tool": "go", "arguments": {"to": "s"}}, "heuristic", "as ever")


def whole(text: str, reason: str | None, **more: Any) -> FakeReply:
    """A whole answer."""
    choice = {"message": {"content": text}, "finish_reason": reason}
    return FakeReply(body=json.dumps({"choices": [choice], **more}).encode())


def stream(*events: Any, done: bool = True) -> FakeReply:
    """A streamed answer."""
    lines = [f"data: {json.dumps(event)}\n\n" for event in events] + ["data: [DONE]\n\n"] * done
    return FakeReply(body="".join(lines).encode())


def delta(text: str, reason: str | None = None, **more: Any) -> dict[str, Any]:
    """One chunk."""
    return {"choices": [{"delta": {"content": text}, "finish_reason": reason, **more}]}


def decide(reply: FakeReply, *, streamed: bool = False, **settings: Any) -> tuple[Decision, int]:
    """Ask once over ``reply``, which the endpoint gives to every request; return the requests' number too."""

    async def again() -> FakeReply:
        return FakeReply(reply.status, reply.body, reply.headers)

    async def run() -> tuple[Decision, int]:
        clock, transport = ManualClock(), FakeTransport(again)
        chat: ChatClient = client(transport, clock, retry=RetryPolicy(busy=1, unavailable=1, base_s=0.0))
        policy = ModelPolicy(
            chat,
            ModelSettings(model="m", style="json", stream=streamed, **settings),
            Briefing("A game."),
            fallback=Steady(),
            seed=5,
            clock=clock,
        )
        deciding = asyncio.create_task(policy.decide(observed(LEGAL), deadline=100))
        while not deciding.done():
            await asyncio.sleep(0)
            if clock.sleepers:
                clock.advance(0.1)
        return deciding.result(), len(transport.urls)

    return asyncio.run(run())


def signs(*kinds: str) -> pytest.MarkDecorator:
    found = [(word, sign) for sign in FAULTS if sign.kind in kinds for word in sign.words]
    return pytest.mark.parametrize(("word", "sign"), found, ids=[word for word, _ in found])


def judged(fault: Fault, decision: Decision, requests: int) -> None:
    """Check a decision whose every request ended with ``fault``."""
    assert (decision.source, decision.failure_class) == ("fallback", fault.failure_class)
    assert requests == (1 if fault.reaction == "ends" else 2)
    assert (decision.parse == "failed") == (fault.owner == "model")
    assert (fault.owner == "model") == (fault.failure_class in INVALID_ANSWERS)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("shout", [False, True], ids=["lower", "upper"])
@signs("finish reason")
def test_a_finish_reason(word: str, sign: Sign, shout: bool, streamed: bool) -> None:
    reason = word.upper() if shout else word
    accepted = sign.fault.reaction == "accepted"
    text = GO if accepted else CUT
    reply = stream(delta(text), delta("", reason)) if streamed else whole(text, reason)
    decision, requests = decide(reply, streamed=streamed)
    if accepted:
        assert (decision.source, decision.parse, requests) == ("model", "ok", 1)
        return
    judged(sign.fault, decision, requests)
    if sign.fault.error is None:
        kept = [one["reply"]["finish_reason"] for one in decision.exchanges]
        assert kept == [sign.fault.finish] * 2


@signs("code", "type")
@pytest.mark.parametrize("where", ["chunk", "choice", "whole", "flat"])
@pytest.mark.parametrize("member", ["code", "type"])
def test_a_code_within_an_answer(word: str, sign: Sign, where: str, member: str) -> None:
    error = {"message": "no", member: word, "failed_generation": CUT}
    reply = {
        "chunk": stream(delta("{"), {"error": error}),
        "choice": stream(delta("", "error", error=error)),
        "whole": FakeReply(body=json.dumps({"error": error}).encode()),
        "flat": stream({"object": "error", **error}),
    }[where]
    decision, requests = decide(reply, streamed=where != "whole")
    judged(sign.fault, decision, requests)
    if sign.fault.error is not None:
        assert decision.exchanges[0]["failure"]["status"] == sign.status


@signs("code")
def test_a_code_decides_over_the_status(word: str, sign: Sign) -> None:
    body = json.dumps({"error": {"message": "no", "code": word}}).encode()
    decision, requests = decide(FakeReply(500, body))
    judged(sign.fault, decision, requests)


@signs("text")
def test_a_text_in_the_message_of_an_error(word: str, sign: Sign) -> None:
    for status in sign.within:
        body = json.dumps({"error": {"message": f"Sorry: {word.upper()}!", "type": "server_error"}}).encode()
        decision, requests = decide(FakeReply(status, body))
        judged(sign.fault, decision, requests)


def statuses() -> list[tuple[int, dict[str, str], Sign]]:
    return [
        (int(word[:3]), {"Retry-After": "0"} if "Retry" in word else {}, sign)
        for sign in FAULTS
        for word in (sign.words if sign.kind == "status" else ())
        if "quota" not in word
    ]


@pytest.mark.parametrize(("status", "headers", "sign"), statuses())
def test_a_status(status: int, headers: dict[str, str], sign: Sign) -> None:
    judged(sign.fault, *decide(FakeReply(status, b"no", headers)))


@pytest.mark.parametrize("text", [CUT, '{"tool": "go", "arguments": {to: "n"', "go"])
def test_a_stream_without_a_finish_reason_is_cut_and_never_repaired(text: str) -> None:
    decision, requests = decide(stream(delta(text)), streamed=True)
    assert (decision.source, decision.failure_class, requests) == ("fallback", "truncated", 2)
    decision, requests = decide(stream(delta(text), done=False), streamed=True)
    assert (decision.source, decision.failure_class, requests) == ("fallback", "model_infra", 2)


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_a_cut_answer_is_never_repaired(reason: str) -> None:
    assert find_calls(ChatAnswer(text=CUT, finish_reason=reason), LEGAL) == []


def test_what_groq_failed_to_read_is_shown_to_the_model_and_not_played() -> None:
    error = {"code": "tool_use_failed", "message": "no", "failed_generation": f"<go>{GO}"}
    decision, requests = decide(FakeReply(400, json.dumps({"error": error}).encode()))
    assert (decision.source, decision.failure_class, requests) == ("fallback", "unparsable", 2)
    assert decision.calls[1].messages[-2] == {"role": "assistant", "content": f"<go>{GO}"}
    assert "could not read the tool call" in decision.calls[1].messages[-1]["content"]


@pytest.mark.parametrize(
    "said",
    [
        {"message": "This model's maximum context length is 4096 tokens.", "type": "BadRequestError"},
        {"message": "request (4476 tokens) exceeds the available context size (4096 tokens)"},
        {"message": "prompt is too long: 210000 tokens > 200000 maximum", "type": "invalid_request_error"},
        {"message": "The input token count (9) exceeds the maximum", "status": "INVALID_ARGUMENT"},
        {"message": "`inputs` tokens + `max_new_tokens` must be <= 4097", "type": "validation"},
    ],
)  # fmt: skip
def test_a_prompt_beyond_the_models_context_is_the_fault_of_our_limits(said: dict[str, str]) -> None:
    decision, requests = decide(FakeReply(400, json.dumps({"error": said}).encode()))
    assert (decision.failure_class, requests) == ("context_exceeded", 1)
    assert decision.exchanges[0]["failure"]["kind"] == "overflow", "so a replay fails in the same way"
    assert "lower context_tokens" in (decision.fallback_reason or "")


def test_a_refusal_of_azures_filter_is_the_models() -> None:
    said = {
        "message": "The response was filtered due to Azure OpenAI's content management policy",
        "type": None, "param": "prompt", "code": "content_filter", "status": 400,
    }  # fmt: skip
    decision, _ = decide(FakeReply(400, json.dumps({"error": said}).encode()))
    assert (decision.failure_class, decision.parse) == ("declined", "failed")


USAGE = {"prompt_tokens": 70, "completion_tokens": 7}


@pytest.mark.parametrize(
    "reply",
    [
        whole(GO, "stop", usage=USAGE),
        whole(GO, "stop", x_groq={"usage": USAGE}),
        FakeReply(
            body=json.dumps(
                {"choices": [{"message": {"content": GO}, "finish_reason": "stop", "usage": USAGE}]}
            ).encode()
        ),
        whole(GO, "stop", timings={"prompt_n": 30, "cache_n": 40, "predicted_n": 7}),
        stream(delta(GO), delta("", "stop"), {"choices": [], "usage": USAGE}),
        stream(delta(GO), delta("", "stop", usage=USAGE)),
        stream(delta(GO), {**delta("", "stop"), "x_groq": {"usage": USAGE}}),
        stream(delta(GO), {**delta("", "stop"), "timings": {"prompt_n": 70, "predicted_n": 7}}),
    ],
)  # fmt: skip
def test_usage_is_read_wherever_it_stands(reply: FakeReply) -> None:
    decision, _ = decide(reply, streamed=reply.body.startswith(b"data"))
    assert (decision.tokens_in, decision.tokens_out, decision.tokens_estimated) == (70, 7, False)
