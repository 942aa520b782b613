"""Prompts of the second edition, asked for by a model's policy; and records of the first."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from spectator.observations import LegalAction, Observation, Refusal
from spectator.policies.model import ModelPolicy
from spectator.policies.policy import Decision, ScriptedPolicy
from spectator.policies.prompts import EDITION
from tests.policies.seats import ScriptedClient, model_policy, said

GO = LegalAction(tool="go", arguments={"type": "object", "properties": {"to": {"type": "string"}}})
PLAN = LegalAction(tool="plan", arguments={"type": "object", "properties": {}})


class Steady(ScriptedPolicy):
    def choose(self, observation: Observation) -> Decision:
        return Decision({"tool": "go", "arguments": {}}, "heuristic", "as always")


def decide(policy: ModelPolicy, *seen: Observation) -> list[Decision]:
    return [asyncio.run(policy.decide(one, deadline=30.0)) for one in seen]


def sees(*legal: LegalAction, refused: Refusal | None = None, **content: Any) -> Observation:
    return Observation("home", legal, content, refused=refused)


def narrowed(*names: str) -> LegalAction:
    return LegalAction(tool="go", arguments={**GO["arguments"], "properties": {"to": {"enum": [*names]}}})


def test_tools_stay_the_same_while_what_is_legal_changes() -> None:
    client = ScriptedClient(said("", ("go", {"reason": "why not", "to": "a"})))
    decide(
        model_policy(client, Steady(), style="tools"),
        sees(GO, PLAN, ball=1),
        sees(narrowed("a", "b"), ball=2),
        sees(GO, PLAN, ball=3),
    )
    assert client.requests[0].tools == client.requests[1].tools == client.requests[2].tools
    assert [tool["function"]["name"] for tool in client.requests[0].tools] == ["go", "plan"]
    assert all(tool["function"]["parameters"]["required"] == ["reason"] for tool in client.requests[0].tools)
    told = [request.messages[-1]["content"] for request in client.requests]
    assert "legal now: go, plan" in told[0] and told[2].endswith("ball: 3\nlegal now: go, plan")
    assert told[1].endswith("ball: 2\nlegal now: go\ngo now: to is one of a | b")


def test_an_action_that_comes_up_later_is_told_with_its_schema_even_after_a_turn_that_failed() -> None:
    answers = [said(json.dumps({"tool": "go", "arguments": {}})), said("hm"), said("hm")]
    client = ScriptedClient(*answers, answers[0])
    made = decide(
        model_policy(client, Steady(), style="json"),
        sees(GO, ball=1),
        sees(GO, PLAN, ball=2),
        sees(GO, PLAN, ball=3),
        sees(GO, ball=4),
    )
    assert [one.source for one in made] == ["model", "fallback", "model", "model"]
    schema = 'action plan: {"type":"object","properties":{}}'
    assert schema not in client.requests[0].messages[-1]["content"]
    assert schema in client.requests[1].messages[-1]["content"]
    assert schema in client.requests[3].messages[-1]["content"]
    assert schema not in client.requests[4].messages[-1]["content"]


def test_the_same_refusal_twice_is_told_twice() -> None:
    client = ScriptedClient(said(json.dumps({"tool": "go", "arguments": {}})))
    no = Refusal("law.7", "Not twice in a row.")
    decide(
        model_policy(client, Steady(), style="json"), sees(GO, ball=1), *[sees(GO, refused=no, ball=1)] * 2
    )
    for request in client.requests[1:]:
        assert "Refused, by the rule law.7: Not twice in a row." in request.messages[-1]["content"]


def test_a_large_member_is_told_by_its_parts_and_one_that_went_as_none() -> None:
    client = ScriptedClient(said(json.dumps({"tool": "go", "arguments": {}})))
    squads = {"home": {"players": ["x" * 300], "name": "H"}, "away": {"name": "A" * 100}}
    changed = {**squads, "home": {"players": ["x" * 300], "name": "I"}}
    decide(
        model_policy(client, Steady(), style="json"),
        sees(GO, squads=squads, last=4),
        sees(GO, squads=changed),
    )
    assert client.requests[0].messages[-1]["content"].count("in parts") == 2
    assert client.requests[1].messages[-1]["content"] == 'Changed:\nsquads.home.name: "I"\nlast: none'


def test_an_endpoint_that_counts_what_it_keeps_does_not_make_prompts_grow() -> None:
    """Ollama cuts a prompt at its own context and counts what is left of it."""
    client = ScriptedClient(said(json.dumps({"tool": "go", "arguments": {}, "reason": "y" * 300})))
    policy = model_policy(
        client, Steady(), style="json", context_tokens=4_000, max_tokens=500, history_tokens=50_000
    )
    decide(policy, *[sees(GO, ball=number, crowd=f"{number} " * 150) for number in range(60)])
    longest = max(sum(len(one["content"]) for one in request.messages) for request in client.requests)
    assert longest * 0.2 <= 3_500


def test_a_decision_says_with_which_edition_it_was_asked() -> None:
    client = ScriptedClient(said(json.dumps({"tool": "go", "arguments": {}})), said("hm"))
    made = decide(model_policy(client, Steady(), style="json"), sees(GO, ball=1), sees(GO, ball=2))
    assert [(one.source, one.prompt) for one in made] == [("model", EDITION), ("fallback", EDITION)]


def test_where_earlier_messages_are_removed_each_message_states_the_whole_situation() -> None:
    client = ScriptedClient(said(json.dumps({"tool": "go", "arguments": {}})))
    policy = model_policy(client, Steady(), style="json", whole_situations=True)
    decide(policy, sees(GO, ball=1, squad="a"), sees(GO, ball=2, squad="a"))
    second = client.requests[1].messages
    assert "Each message states the whole situation" in second[0]["content"]
    assert 'squad: "a"' in second[-1]["content"] and "ball: 2" in second[-1]["content"]
