"""The policy alone: what it asks, how it reads, when it repairs, falls back, remembers and plans ahead."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectator.episodes.steps import checked_decision
from spectator.errors import EndpointBusy, EndpointRefused, EndpointResting
from spectator.llm.chat import ChatAnswer, ChatRequest
from spectator.llm.wire_forms import encode_request
from spectator.observations import LegalAction, Observation, Refusal
from spectator.policies.model import ModelPolicy
from spectator.policies.policy import Decision, ScriptedPolicy, Thought
from tests.fakes import ManualClock
from tests.policies.seats import ScriptedClient, model_policy, observed, said
from tests.policies.test_history import check_form

LEGAL: tuple[LegalAction, ...] = (
    {
        "tool": "plan",
        "arguments": {
            "type": "object",
            "properties": {"level": {"type": "number", "minimum": 0, "maximum": 1}},
            "additionalProperties": False,
        },
    },
    {"tool": "play", "arguments": {"type": "object", "properties": {}, "additionalProperties": False}},
)
PLAN = '{"reason": "behind the rate", "tool": "plan", "arguments": {"level": 0.8}}'


class Steady(ScriptedPolicy):
    """A fallback that always plays."""

    def choose(self, observation: Observation) -> Decision:
        return Decision({"tool": "play", "arguments": {}}, "heuristic", "steady as she goes")


def decide(policy: ModelPolicy, *observations: Observation, deadline: float = 60.0) -> list[Decision]:
    async def run() -> list[Decision]:
        return [await policy.decide(observation, deadline=deadline) for observation in observations]

    return asyncio.run(run())


def one(client: ScriptedClient, observation: Observation | None = None, **settings: Any) -> Decision:
    settings.setdefault("style", "json")
    return decide(model_policy(client, Steady(), **settings), observation or observed(LEGAL, ball=1))[0]


def test_a_good_answer_becomes_a_decision_with_its_whole_story() -> None:
    decision = one(ScriptedClient(said(PLAN, thought="They need nine an over.")))
    assert decision.action == {"tool": "plan", "arguments": {"level": 0.8}}
    assert decision.source == "model" and decision.parse == "ok"
    assert decision.reasoning == "behind the rate\n\nThey need nine an over."
    assert (decision.raw_text, decision.fallback_reason) == (PLAN, None)
    assert decision.model == "m-by-its-own-account"
    assert (decision.tokens_in, decision.tokens_out) == (100, 10)
    assert decision.latency_s is not None and decision.latency_s >= 0


@pytest.mark.parametrize("style", ["tools", "json", "xml"])
def test_the_request_holds_the_settings(style: str) -> None:
    client = ScriptedClient(said(PLAN))
    one(
        client,
        style=style,
        temperature=0.3,
        max_tokens=77,
        tool_choice="required",
        extra={"top_k": 2},
        stream=False,
    )
    [request] = client.requests
    assert (request.model, request.temperature, request.max_tokens) == ("m", 0.3, 77)
    assert (request.stream, request.extra, request.seed) == (False, {"top_k": 2}, 6)
    assert bool(request.tools) == (style == "tools")
    check_form(list(request.messages))


def test_no_seed_is_sent_where_the_endpoint_takes_none() -> None:
    client = ScriptedClient(said(PLAN))
    one(client, send_seed=False)
    assert client.requests[0].seed is None


def test_of_several_calls_in_text_the_last_is_meant_and_of_tool_calls_the_first() -> None:
    weighed = 'Maybe {"tool": "play"}. No: {"tool": "plan", "arguments": {"level": 0.1}}'
    assert one(ScriptedClient(said(weighed))).action["tool"] == "plan"
    assert one(ScriptedClient(said("", ("play", {}), ("plan", {}))), style="tools").action["tool"] == "play"


def test_prose_before_the_call_is_the_reason_when_none_is_stated() -> None:
    assert one(ScriptedClient(said('We must score.\n{"tool": "play"}'))).reasoning == "We must score."
    assert (
        one(ScriptedClient(said("We must score.", ("play", {}))), style="tools").reasoning == "We must score."
    )


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        (said('{"tool": "plan", "arguments": {"level": 7}}'), "plan: level: must be at most 1, not 7"),
        (said('{"tool": "fly"}'), "'fly' is not legal now; legal: plan, play"),
        (said("I would rather not say."), "the answer names no action in the form asked for"),
        (said(""), "the answer is empty"),
        (said("", refusal="I cannot."), "the model declined to answer"),
        (
            said('{"tool": "plan", "arguments": {"level": 0', finish_reason="length"),
            "the answer was cut at the longest length",
        ),
        (said("", ("fly", {})), "'fly' is not legal now"),
        (said("", ("plan", '{"level": ')), "the arguments of plan are not a JSON object"),
        (
            said("", ("plan", '{"level": 0'), finish_reason="length"),
            "the arguments of plan are not a JSON object",
        ),
        (said("", ("plan", "not json")), "the arguments of plan are not a JSON object"),
    ],
)
@pytest.mark.parametrize("style", ["tools", "json", "xml"])
def test_a_broken_rule_is_quoted_and_one_more_answer_asked_for(
    style: str, answer: ChatAnswer, rule: str
) -> None:
    client = ScriptedClient(answer, said(PLAN))
    decision = one(client, style=style)
    first, second = client.requests
    check_form(list(second.messages))
    assert list(second.messages[: len(first.messages)]) == list(first.messages)
    assert rule in second.messages[-1]["content"]
    assert (decision.source, decision.parse) == ("model", "repaired")
    assert (decision.tokens_in, decision.tokens_out) == (200, 20)
    assert decision.raw_text is not None and decision.raw_text.endswith(PLAN)


def test_a_second_failure_is_the_fallbacks_turn_and_says_so() -> None:
    client = ScriptedClient(said("no"), said("still no"), said(PLAN))
    policy = model_policy(client, Steady(), style="json")
    failed, next_one = decide(policy, observed(LEGAL, ball=1), observed(LEGAL, ball=2))
    assert failed.action == {"tool": "play", "arguments": {}}
    assert (failed.source, failed.parse) == ("fallback", "failed")
    assert failed.fallback_reason == "unusable: the answer names no action in the form asked for"
    assert failed.reasoning == "steady as she goes"
    assert failed.raw_text == "no\n\nstill no"
    assert (failed.tokens_in, failed.tokens_out, failed.model) == (200, 20, "m")
    assert next_one.source == "model"
    assert "could not be used" in client.requests[2].messages[-1]["content"]
    assert "no\n" not in json.dumps(list(client.requests[2].messages))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (EndpointBusy("the endpoint asks to wait", status=429), "busy: the endpoint asks to wait"),
        (
            EndpointRefused("the endpoint does not accept the key", detail="secret"),
            "refused: the endpoint does not",
        ),
        (EndpointResting("left alone"), "resting: left alone"),
    ],
)
def test_an_endpoint_that_fails_is_the_fallbacks_turn(error: Any, reason: str) -> None:
    decision = one(ScriptedClient(error))
    assert (decision.source, decision.parse, decision.raw_text) == ("fallback", None, None)
    assert decision.fallback_reason is not None and decision.fallback_reason.startswith(reason)
    assert "secret" not in str(decision)
    assert (decision.tokens_in, decision.tokens_out) == (None, None)


def test_an_endpoint_that_fails_while_repairing_keeps_what_was_said() -> None:
    decision = one(ScriptedClient(said("hm"), EndpointBusy("wait")))
    assert (decision.source, decision.raw_text, decision.tokens_in) == ("fallback", "hm", 100)
    assert decision.fallback_reason == "busy: wait"


def test_a_schema_that_is_not_understood_does_not_end_the_match() -> None:
    odd: LegalAction = {"tool": "plan", "arguments": {"type": "object", "if": {}}}
    decision = one(ScriptedClient(said('{"tool": "plan"}')), observed([odd]))
    assert decision.source == "fallback" and "'if' is not supported" in str(decision.fallback_reason)


def test_the_deadline_leaves_time_for_the_fallback() -> None:
    client = ScriptedClient(said(PLAN))
    policy = model_policy(client, Steady(), clock=ManualClock(), style="json", timeout_s=50.0)
    for deadline in (60.0, 30.0, 2.0):
        decide(policy, observed(LEGAL), deadline=deadline)
    assert client.deadlines == [50.0, 29.0, pytest.approx(1.6)]


def test_no_second_answer_is_asked_for_without_time() -> None:
    clock = ManualClock()

    def slow(request: ChatRequest) -> ChatAnswer:
        clock.advance(59.98)
        return said("no")

    client = ScriptedClient(slow, said(PLAN))
    [decision] = decide(
        model_policy(client, Steady(), clock=clock, style="json", timeout_s=60), observed(LEGAL), deadline=90
    )
    assert (decision.source, len(client.requests), decision.latency_s) == ("fallback", 1, 59.98)


def refused_observation(message: str = "Not twice in a row.") -> Observation:
    observation = observed(LEGAL, ball=1)
    observation.refused = Refusal("law.7", message)
    return observation


def test_the_worlds_refusal_is_told_and_a_stubborn_model_is_relieved_for_once() -> None:
    client = ScriptedClient(said(PLAN))
    policy = model_policy(client, Steady(), style="json")
    decisions = decide(policy, observed(LEGAL, ball=1), *[refused_observation() for _ in range(3)])
    assert [decision.source for decision in decisions] == ["model", "model", "fallback", "model"]
    assert decisions[2].fallback_reason == "refused: 2 actions in a row by the world's rules"
    assert "by the rule law.7: Not twice" in client.requests[1].messages[-1]["content"]


def test_tool_calls_are_remembered_with_what_became_of_them() -> None:
    client = ScriptedClient(said("", ("plan", {"level": 0.5})))
    policy = model_policy(client, Steady(), style="tools")
    decide(policy, observed(LEGAL, ball=1), observed(LEGAL, ball=2), refused_observation("No."))
    messages = list(client.requests[-1].messages)
    check_form(messages)
    tool_messages = [message["content"] for message in messages if message["role"] == "tool"]
    assert tool_messages[0].startswith("carried out")
    assert tool_messages[1].startswith("refused: No.")


def test_ids_that_an_endpoint_forgets_or_repeats_are_made_to_differ() -> None:
    same = said("", ("plan", {}), ("play", {}), ("play", {}))
    same = ChatAnswer(
        text="",
        tool_calls=tuple(
            call.__class__(name, call.name, call.arguments)
            for call, name in zip(same.tool_calls, ["x", "x", ""], strict=True)
        ),
    )
    client = ScriptedClient(same)
    decide(
        model_policy(client, Steady(), style="tools", actions_per_answer=3),
        *[observed(LEGAL, ball=n) for n in range(4)],
    )
    check_form(list(client.requests[1].messages))
    ids = [call["id"] for message in client.requests[1].messages for call in message.get("tool_calls", ())]
    assert len(ids) == len(set(ids)) == 3


def test_a_plan_is_played_without_asking_again_while_it_stays_legal() -> None:
    steps = [{"tool": "plan", "arguments": {"level": 1}}, *[{"tool": "play"}] * 3]
    plan = json.dumps({"actions": steps})
    client = ScriptedClient(said(plan), said(PLAN))
    policy = model_policy(client, Steady(), style="json", actions_per_answer=3)
    decisions = decide(policy, *[observed(LEGAL, ball=n) for n in range(4)])
    assert [d.action["tool"] for d in decisions] == ["plan", "play", "play", "plan"]
    assert [d.source for d in decisions] == ["model"] * 4
    assert len(client.requests) == 2
    assert [d.tokens_in for d in decisions] == [100, None, None, 100]
    assert decisions[1].reasoning == "Planned in the answer before."


def test_a_plan_is_dropped_when_it_is_no_longer_legal_or_was_refused() -> None:
    plan = '{"actions": [{"tool": "plan"}, {"tool": "play"}, {"tool": "play"}]}'
    for interruption in (observed(LEGAL[:1], ball=2), refused_observation()):
        client = ScriptedClient(said(plan), said('{"tool": "plan"}'))
        policy = model_policy(client, Steady(), style="json", actions_per_answer=3)
        decisions = decide(policy, observed(LEGAL, ball=1), interruption, observed(LEGAL, ball=3))
        assert [d.action["tool"] for d in decisions] == ["plan", "plan", "plan"]
        assert len(client.requests) == 3


def test_thoughts_are_heard_while_they_form_and_voided_by_a_second_asking() -> None:
    heard: list[Thought] = []
    client = ScriptedClient(said("no", thought="hm \u202e\x1b[31m"), said(PLAN, thought="so"))
    policy = model_policy(client, Steady(), style="json")
    policy.stream_thoughts(heard.append)
    decide(policy, observed(LEGAL, ball=1))
    assert [(thought.kind, thought.text) for thought in heard] == [
        ("thought", "hm [31m"),
        ("text", "no"),
        ("restart", ""),
        ("thought", "so"),
        ("text", PLAN),
    ]
    assert {(thought.actor, thought.decision) for thought in heard} == {("home", 1)}
    policy.stream_thoughts(None)
    decide(policy, observed(LEGAL, ball=2))
    assert len(heard) == 5


def test_what_it_costs_is_stated_and_closing_closes_its_own_client_only() -> None:
    client = ScriptedClient(said(PLAN))
    policy = model_policy(client, Steady(), style="json", price_in=0.5, price_out=2.0)
    (decision,) = decide(policy, observed(LEGAL))
    assert decision.cost == pytest.approx((100 * 0.5 + 10 * 2.0) / 1e6)
    assert not decision.tokens_estimated
    asyncio.run(policy.aclose())
    assert client.closed == 1


fragments = st.sampled_from([
    PLAN, '{"tool": "play"}', '{"tool": ', "plan", "play", "<tool_call>", "</tool_call>",
    "{", "}", '"', "'", "level", ": ", "0.5", "-1", "NaN", "1e999", "null", "true", "[", "]", ",", "\\ud800",
    "\\n", "\n", "\x00", "\u202e", "<function=plan>", "<parameter=level>", "</parameter>", "</function>",
    '"reason"', "arguments", "x" * 5_000, "<think>", "</think>",
])  # fmt: skip
texts = st.lists(fragments, max_size=14).map("".join)


@pytest.mark.parametrize(
    "arguments",
    ['{"level": NaN}', '{"level": "\\ud800"}', f'{{"level": {"[" * 99}{"]" * 99}}}', '{"level": 1e999}'],
)
@pytest.mark.parametrize("several", [1, 2])
def test_arguments_that_nobody_can_carry_are_a_broken_rule_and_no_accident(
    arguments: str, several: int
) -> None:
    """As the only call, and as the second of a plan."""
    bad = said("", ("plan", arguments))
    planned = said("", ("plan", '{"level": 0.5}'), ("plan", arguments))
    client = ScriptedClient(bad if several == 1 else planned, said(PLAN), said(PLAN))
    policy = model_policy(client, Steady(), style="tools", actions_per_answer=several)
    first, second = decide(policy, observed(LEGAL, ball=1), observed(LEGAL, ball=2))
    assert (first.source, first.parse) == ("model", "repaired" if several == 1 else "ok")
    assert second.source == "model"
    for request in client.requests:
        encode_request(request).decode()


@settings(max_examples=300, deadline=None)
@given(
    st.lists(texts, min_size=2, max_size=2),
    st.lists(st.tuples(st.sampled_from(["plan", "play", "fly", "", "functions.plan"]), texts), max_size=3),
    st.sampled_from(["stop", "length", "tool_calls", None]),
    st.integers(1, 3),
)
def test_whatever_is_answered_a_legal_decision_is_made(
    answers: list[str], calls: list[tuple[str, str]], finish: str | None, several: int
) -> None:
    """And it is one that can be recorded, and remembered, and sent again."""
    client = ScriptedClient(
        said(answers[0], *calls, finish_reason=finish), said(answers[1], finish_reason=finish)
    )
    policy = model_policy(client, Steady(), style="tools", actions_per_answer=several)
    schemas = {action["tool"]: action["arguments"] for action in LEGAL}
    for decision in decide(policy, *[observed(LEGAL, ball=n) for n in range(3)]):
        checked_decision("home", decision, 0.0)
        assert (decision.fallback_reason is None) == (decision.source == "model")
        jsonschema.validate(decision.action["arguments"], schemas[decision.action["tool"]])
    for request in client.requests:
        check_form(list(request.messages))
        encode_request(request).decode()


def test_every_exchange_is_recorded_with_its_decision() -> None:
    """What was asked, by fingerprint, and what came back: a repair is two, a failure one without a reply."""
    nonsense = said("I would rather not say")
    repaired = one(ScriptedClient(nonsense, said(PLAN)))
    first, second = repaired.exchanges
    assert first["request"] != second["request"]
    assert (first["reply"]["content"], second["reply"]["content"]) == (nonsense.text, PLAN)
    busy = one(ScriptedClient(EndpointBusy("wait", status=429, detail="for account 4711")))
    assert [exchange["failure"]["kind"] for exchange in busy.exchanges] == ["busy"]
    assert not one(ScriptedClient(EndpointResting("later"))).exchanges
    _, fact = checked_decision("home", repaired, 0.1)
    assert [kept["request"] for kept in fact.data["exchanges"]] == [first["request"], second["request"]]


def test_the_same_question_has_the_same_fingerprint_whoever_asks() -> None:
    once, again = one(ScriptedClient(said(PLAN))), one(ScriptedClient(said(PLAN)), temperature=0.9)
    assert once.exchanges[0]["request"] == again.exchanges[0]["request"]


def resting(rest_s: float, status: int | None = None) -> EndpointResting:
    return EndpointResting("the endpoint is left alone", status=status, retry_after_s=rest_s)


def decided_by_the_clock(client: ScriptedClient, **settings: Any) -> tuple[Decision, float]:
    """A decision on a clock that runs whenever somebody sleeps, and how long it took."""
    clock = ManualClock()
    policy = model_policy(client, Steady(), clock=clock, style="json", **settings)

    async def run() -> Decision:
        task = asyncio.ensure_future(policy.decide(observed(LEGAL, ball=1), deadline=100))
        while not task.done():
            await asyncio.sleep(0)
            if clock.sleepers:
                clock.advance(1.0)
        return task.result()

    return asyncio.run(run()), clock.monotonic()


def test_a_captain_that_is_to_waits_for_an_endpoint_that_rests() -> None:
    client = ScriptedClient(resting(20.0), resting(0.0), said(PLAN))
    decision, took = decided_by_the_clock(client, waits_for_rest=True)
    assert decision.source == "model" and 20 <= took <= 25 and len(client.requests) == 3


@pytest.mark.parametrize(
    ("rest", "waits"), [(resting(20.0), False), (resting(70.0), True), (resting(20.0, 401), True)]
)
def test_it_does_not_where_that_is_not_asked_for_or_cannot_help(rest: EndpointResting, waits: bool) -> None:
    decision, took = decided_by_the_clock(ScriptedClient(rest, said(PLAN)), waits_for_rest=waits)
    assert (decision.source, decision.failure_class, took) == ("fallback", "model_resting", 0.0)
