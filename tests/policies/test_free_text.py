"""A model plays worlds without a tool list: free text is its whole answer, a schema is one action."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from spectator.environments.world import World
from spectator.llm.chat import ChatAnswer
from spectator.llm.tool_calls import MAX_TEXT
from spectator.observations import Observation
from spectator.policies.model import ModelPolicy
from spectator.policies.model_settings import ModelSettings
from spectator.policies.policy import Decision, ScriptedPolicy
from tests.fakes import ManualClock
from tests.policies.seats import ScriptedClient, said
from tests.profiled_worlds import ESSAY, ORDERING

SEEN = Observation("agent", (), {"round": 1, "asked": "round 1"})


def decide(world: World, client: ScriptedClient, **settings: Any) -> Decision:
    fallback = world.captains["heuristic"].build(1)
    assert isinstance(fallback, ScriptedPolicy)
    made = ModelSettings(model="m", **settings)
    policy = ModelPolicy(client, made, world.briefing, fallback=fallback, seed=1, clock=ManualClock())
    return asyncio.run(policy.decide(SEEN, deadline=60.0))


@pytest.mark.parametrize("style", ["tools", "json", "xml"])
def test_the_whole_answer_is_the_action(style: str) -> None:
    text = 'I say "1"; {"tool": "trap"} <tool_call>{}</tool_call>'
    client = ScriptedClient(said(f"  {text}\n", thought="one, surely"))
    decision = decide(ESSAY, client, style=style, actions_per_answer=3)
    assert decision.action == {"said": text}
    assert (decision.source, decision.parse, decision.reasoning) == ("model", "ok", "one, surely")
    (request,) = client.requests
    assert not request.tools
    words = "\n".join(str(message["content"]) for message in request.messages)
    assert "word for word" in words and "Legal actions" not in words and "JSON object" not in words


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (said(""), "unparsable"),
        (said("   \n"), "unparsable"),
        (said("half a", finish_reason="length"), "truncated"),
        (said("no", finish_reason="content_filter"), "declined"),
        (said("x" * (MAX_TEXT + 1)), "truncated"),
        (said("x" * 2001), "illegal_action"),
    ],
)
def test_what_is_no_text_to_be_carried_out_falls_back(answer: ChatAnswer, failure: str) -> None:
    client = ScriptedClient(answer)
    decision = decide(ESSAY, client)
    assert (decision.source, decision.failure_class, decision.parse) == ("fallback", failure, "failed")
    assert decision.action == {"said": "round 1"}
    assert len(client.requests) == 2, "it was asked once more"


def test_a_second_answer_is_taken_as_repaired() -> None:
    decision = decide(ESSAY, ScriptedClient(said(""), said("one")))
    assert (decision.action, decision.parse) == ({"said": "one"}, "repaired")


@pytest.mark.parametrize("style", ["tools", "json", "xml"])
def test_an_action_by_its_schema_is_one_tool(style: str) -> None:
    order = {"parts": [{"name": "nut", "count": 2}], "urgent": True}
    given = json.dumps({"reason": "cheap", **order})
    written = {
        "tools": said("", ("act", {"reason": "cheap", **order})),
        "json": said('{"reason": "cheap", "tool": "act", "arguments": ' + json.dumps(order) + "}"),
        "xml": said(f'<tool_call>{{"name": "act", "arguments": {given}}}</tool_call>'),
    }[style]
    client = ScriptedClient(written)
    decision = decide(ORDERING, client, style=style)
    assert (decision.action, decision.source, decision.reasoning) == (order, "model", "cheap")
    assert bool(client.requests[0].tools) is (style == "tools")


def test_an_action_that_breaks_the_schema_is_told_the_rule() -> None:
    wrong = {"parts": [{"name": "nut", "count": 99}], "urgent": True}
    right = {"parts": [{"name": "nut", "count": 9}], "urgent": True}
    client = ScriptedClient(said("", ("act", wrong)), said("", ("act", right)))
    decision = decide(ORDERING, client, style="tools")
    assert (decision.action, decision.parse) == (right, "repaired")
    assert "count" in str(client.requests[1].messages[-1])
