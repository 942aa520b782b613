"""What an event says of a decision is what its model makes of it, checked by the model or at a glance."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from spectator.core_events import DecisionMade
from spectator.episodes.steps import checked_decision
from spectator.errors import PolicyError
from spectator.llm.chat import ChatAnswer, ChatRequest, ToolCall, Usage
from spectator.llm.exchanges import answered, call_answered
from spectator.policies.policy import Decision

texts = st.sampled_from([None, "", "It is due.", "\x1b[31mé", "\ud800", "x" * 9000, 0, 5, ["a"]])
numbers = st.sampled_from([None, 0, 7, -1, 0.0, 0.5, -0.5, True, "7", float("nan"), float("inf"), 2**70])


def exchange(text: str, verbatim: dict[str, Any]) -> tuple[Any, Any]:
    call = ToolCall("c", "bat", '{"a":1}', verbatim)
    answer = ChatAnswer(
        text=text,
        tool_calls=(call,),
        model="m",
        usage=Usage(5, 2, cache_written=len(text)),
        verbatim=verbatim,
    )
    request = ChatRequest(model="m", messages=[{"role": "user", "content": "?"}])
    made = call_answered(request, answer)
    return answered(made), made


@st.composite
def decisions(draw: st.DrawFn) -> Decision:
    given_: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {"source": st.sampled_from(["model", "heuristic", "fallback", "nobody"]), "reasoning": texts},
            optional={
                "raw_text": texts,
                "model": texts,
                "fallback_reason": texts,
                "failure_class": st.sampled_from([None, "spent", "so"]),
                "parse": st.sampled_from([None, "ok", "failed", "so"]),
                "latency_s": numbers,
                "tokens_in": numbers,
                "tokens_out": numbers,
                "tokens_estimated": st.sampled_from([True, False, 1, None]),
                "cost": numbers,
                "prompt": st.sampled_from([None, 1, 2, "2", 2.0]),
            },
        )
    )
    asked = draw(
        st.lists(
            st.tuples(st.sampled_from(["", "yes", "\ud800"]), st.sampled_from([{}, {"b": [1], "a": None}])),
            max_size=2,
        )
    )
    made = [exchange(*one) for one in asked]
    return Decision({"n": 1}, exchanges=[one for one, _ in made], calls=[one for _, one in made], **given_)


def said(decision: Decision) -> str:
    try:
        _, fact = checked_decision("home", decision, 0.25, [{"tool": "bat", "arguments": {}}])
    except PolicyError as error:
        return f"{type(error).__name__}"
    assert (
        DecisionMade.model_validate(json.loads(json.dumps(dict(fact.data)))).model_dump(mode="json")
        == fact.data
    )
    return f"{fact.type} {json.dumps(dict(fact.data))}"


@given(decision=decisions())
@settings(deadline=None, max_examples=400)
def test_what_is_recorded_of_a_decision_is_what_its_event_allows(decision: Decision) -> None:
    assert said(decision).startswith(("decision.made {", "PolicyError"))
