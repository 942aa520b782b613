"""A model's policy with constraints, where its endpoint keeps, rejects or ignores them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from spectator.errors import EndpointRefused, EndpointTimeout
from spectator.llm.chat import ChatAnswer, ChatRequest
from spectator.observations import LegalAction, Observation, Refusal
from spectator.policies.captains import ModelCaptain, parse_captains
from spectator.policies.model import SHORT_REFUSALS, ModelPolicy
from spectator.policies.policy import Decision, ScriptedPolicy
from tests.policies.seats import ScriptedClient, model_policy, said

GO = LegalAction(tool="go", arguments={"type": "object", "properties": {"to": {"enum": ["a", "b"]}}})
STAY = LegalAction(tool="stay", arguments={"type": "object", "properties": {}})
ANSWER = said(json.dumps({"reason": "why not", "tool": "go", "arguments": {"to": "a"}}))
REJECTED = EndpointRefused(
    "the endpoint rejected the request with status 400", status=400, detail="bad schema"
)


class Steady(ScriptedPolicy):
    def choose(self, observation: Observation) -> Decision:
        return Decision({"tool": "go", "arguments": {"to": "b"}}, "heuristic", "as always")

    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, snapshot: Any) -> None:
        pass


def decide(policy: ModelPolicy, *legal: LegalAction, refused: Refusal | None = None) -> Decision:
    seen = Observation("home", legal or (GO, STAY), {"ball": 1}, refused=refused)
    return asyncio.run(policy.decide(seen, deadline=30.0))


def test_each_request_constrains_its_answer_to_the_actions_that_are_legal_now() -> None:
    client = ScriptedClient(ANSWER)
    policy = model_policy(client, Steady(), style="json", constraint="auto")
    assert decide(policy).constraint == "json_schema" and decide(policy, GO).source == "model"
    first, second = [request.schema for request in client.requests]
    assert first is not None and len(first["anyOf"]) == 2
    assert second is not None and second["properties"]["tool"] == {"type": "string", "enum": ["go"]}
    assert client.requests[0].constraint == "json_schema"


def test_strict_tools_are_those_that_are_legal_now() -> None:
    client = ScriptedClient(said("", ("go", {"reason": "so", "to": "a"})))
    policy = model_policy(client, Steady(), style="tools", constraint="auto")
    assert [decide(policy, GO, STAY).constraint, decide(policy, GO).constraint] == ["tools", "tools"]
    named = [[tool["function"]["name"] for tool in request.tools] for request in client.requests]
    assert named == [["go", "stay"], ["go"]]


def test_a_rejected_constraint_gives_way_to_the_next_weaker_one_for_the_whole_episode() -> None:
    client = ScriptedClient(REJECTED, ANSWER)
    policy = model_policy(client, Steady(), style="json", constraint="auto")
    made = decide(policy)
    assert (made.source, made.constraint) == ("model", "json_object")
    assert [("failure" in one) for one in made.exchanges] == [True, False]
    assert decide(policy).constraint == "json_object"
    assert [one.constraint for one in client.requests] == ["json_schema", "json_object", "json_object"]


def test_where_every_constraint_is_rejected_answers_are_unconstrained() -> None:
    client = ScriptedClient(REJECTED, REJECTED, ANSWER)
    made = decide(model_policy(client, Steady(), style="json", constraint="auto"))
    assert (made.source, made.constraint) == ("model", None) and len(made.exchanges) == 3


def test_a_request_that_fails_without_a_constraint_too_changes_nothing() -> None:
    client = ScriptedClient(REJECTED, REJECTED, REJECTED, ANSWER)
    policy = model_policy(client, Steady(), style="json", constraint="auto")
    assert decide(policy).source == "fallback" and decide(policy).constraint == "json_schema"


def test_other_failures_do_not_weaken_a_constraint() -> None:
    client = ScriptedClient(EndpointTimeout("no answer"), ANSWER)
    policy = model_policy(client, Steady(), style="json", constraint="auto")
    assert decide(policy).source == "fallback" and decide(policy).constraint == "json_schema"


def test_a_constraint_that_the_captain_names_is_kept_and_its_rejection_explained() -> None:
    client = ScriptedClient(REJECTED)
    made = decide(model_policy(client, Steady(), style="json", constraint="json_schema"))
    assert made.source == "fallback" and len(client.requests) == 1
    assert "with constraint = json_schema; set constraint to auto or none" in (made.fallback_reason or "")
    assert made.failure_class == "model_rejected"


def test_an_endpoint_that_ignores_its_constraint_is_named() -> None:
    made = decide(model_policy(ScriptedClient(said("Well.")), Steady(), style="json", constraint="auto"))
    assert "accepted constraint = json_schema but ignored it" in (made.fallback_reason or "")
    free = decide(model_policy(ScriptedClient(said("Well.")), Steady(), style="json"))
    assert "constraint" not in (free.fallback_reason or "") and free.constraint is None


def test_a_record_replays_a_rejected_constraint_and_a_snapshot_keeps_the_weaker_one() -> None:
    def policy(client: ScriptedClient) -> ModelPolicy:
        return model_policy(client, Steady(), style="json", constraint="auto")

    played = policy(ScriptedClient(REJECTED, ANSWER))
    made = decide(played)
    recorded = {
        "source": made.source, "action": made.action, "reasoning": made.reasoning, "raw_text": made.raw_text,
        "fallback_reason": None, "failure_class": None,
        "exchanges": [{"reply": None, "failure": None, **one} for one in made.exchanges],
    }  # fmt: skip
    client = ScriptedClient(ANSWER)
    again = policy(client)
    assert again.remember(Observation("home", (GO, STAY), {"ball": 1}), recorded).same_requests
    restored = policy(client)
    restored.restore(again.snapshot())
    assert again.snapshot() == played.snapshot() == restored.snapshot()
    assert [decide(again).constraint, decide(restored).constraint] == ["json_object", "json_object"]


def test_after_a_fallback_the_note_shows_its_action_in_the_form_that_is_asked_for() -> None:
    for style, form in (
        ("json", '{"reason":"as always","tool":"go","arguments":{"to":"b"}}'),
        ("xml", '<tool_call>{"name":"go","arguments":{"reason":"as always","to":"b"}}</tool_call>'),
        ("tools", 'go with the arguments {"reason":"as always","to":"b"}'),
    ):
        client = ScriptedClient(said("Well."))
        policy = model_policy(client, Steady(), style=style)
        decide(policy)
        decide(policy)
        assert f"Done in your place: {form}" in client.requests[2].messages[-1]["content"]


def test_a_small_model_is_not_offered_what_the_world_has_just_rejected() -> None:
    def first_legal(request: ChatRequest) -> ChatAnswer:
        tool = "go" if "- go(" in request.messages[-1]["content"] else "stay"
        return said(json.dumps({"tool": tool, "arguments": {}}))

    refusal = Refusal("redundant", "You are there already.")
    client = ScriptedClient(first_legal)
    policy = model_policy(client, Steady(), style="json", constraint="auto", prompt="short")
    assert decide(policy).action["tool"] == "go"
    made = decide(policy, refused=refusal)
    assert made.action["tool"] == "stay" and client.requests[1].schema is not None
    assert client.requests[1].schema["properties"]["tool"]["enum"] == ["stay"]
    assert decide(policy).action["tool"] == "go"
    rejected = [decide(policy, refused=refusal).source for _ in range(SHORT_REFUSALS + 1)]
    assert rejected == ["model"] * SHORT_REFUSALS + ["fallback"]


TABLE: dict[str, Any] = {"label": "x", "model": "m", "base_url": "http://127.0.0.1/v1"}


def test_the_form_of_asking_is_part_of_the_fingerprint() -> None:
    tables = [
        ModelCaptain(**TABLE, style="json", **more)
        for more in ({}, {"constraint": "auto"}, {"constraint": "json_object"}, {"prompt": "short"})
    ]
    assert len({table.fingerprint for table in tables}) == 4


def test_providers_name_their_constraint_and_a_captain_may_name_another() -> None:
    def named(provider: str, **more: Any) -> str:
        return ModelCaptain(label="x", model="m", provider=provider, **more).constraint

    assert [named(name) for name in ("llama.cpp", "vllm", "openai", "anthropic")] == ["auto"] * 2 + [
        "none"
    ] * 2
    assert named("llama.cpp", constraint="none") == "none"
    assert named("llama.cpp", extra={"grammar": 'root ::= "x"'}) == "none"
    assert ModelCaptain(**TABLE).constraint == "none"


@pytest.mark.parametrize(
    ("lines", "rule"),
    [
        ('style = "tools"\nconstraint = "json_schema"', "does not fit the style 'tools'"),
        ('style = "json"\nconstraint = "tools"', "'tools' needs the style 'tools'"),
        ('style = "json"\nconstraint = "gbnf"', "constraint: Input should be"),
        ('style = "json"\nprompt = "tiny"', "prompt: Input should be"),
        (
            'style = "json"\nconstraint = "auto"\nextra = { grammar = "x" }',
            "grammar in extra needs constraint",
        ),
        ('style = "json"\nform = "anthropic"\nconstraint = "json_object"', "has no constraint 'json_object'"),
    ],
)
def test_settings_that_do_not_fit_are_rejected(lines: str, rule: str) -> None:
    table = f'[captains.x]\nlabel = "x"\nmodel = "m"\nbase_url = "http://127.0.0.1/v1"\n{lines}\n'
    with pytest.raises(Exception, match=r"captains\.toml") as caught:
        parse_captains(table, "captains.toml")
    assert rule in str(caught.value)
