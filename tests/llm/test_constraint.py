"""Constraints: every legal action fits the schema of its turn, and whatever fits it is a legal call."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import orjson
import pytest

from spectator.catalog import load_world
from spectator.evaluation.estimate import rehearse
from spectator.llm.anthropic import AnthropicForm
from spectator.llm.chat import ChatAnswer, ChatRequest
from spectator.llm.constraint import Subset, answer_schema, fits_style, strict_schema, strongest
from spectator.llm.gemini import GeminiForm
from spectator.llm.schema import UnsupportedSchema, first_violation
from spectator.llm.tool_calls import check_call, find_calls
from spectator.llm.wire_forms import encode_request
from spectator.observations import LegalAction
from spectator.policies.action_catalogue import strict_tools
from spectator.policies.model_settings import ModelSettings
from spectator.policies.policy import Decision
from spectator.policies.turns import DecisionInProgress

MATCHES: Sequence[tuple[str, Mapping[str, Any], str]] = (
    ("counting", {}, "heuristic"),
    ("collider", {}, "reference"),
    ("cricket", {"max_overs": 2}, "tactician"),
    ("cricket", {"max_overs": 3, "decisions": "over"}, "random"),
    ("cricket", {"max_overs": 3, "decisions": "session"}, "heuristic"),
)


def turns(
    monkeypatch: pytest.MonkeyPatch, name: str, options: Mapping[str, Any], captain: str
) -> list[tuple[Sequence[LegalAction], Mapping[str, Any]]]:
    """The legal actions of each turn of a match, and the action that was taken."""
    seen: list[tuple[Sequence[LegalAction], Mapping[str, Any]]] = []
    made = DecisionInProgress.decision

    def watched(self: DecisionInProgress, clock: Any, action: Any, *given: Any, **more: Any) -> Decision:
        seen.append((self.observation.legal_actions, action))
        return made(self, clock, action, *given, **more)

    monkeypatch.setattr(DecisionInProgress, "decision", watched)
    rehearse(load_world(name), ModelSettings(model="m", style="json"), options, 7, captain=captain)
    assert seen
    return seen


def drawn(rng: random.Random, schema: Mapping[str, Any]) -> Any:
    """A random value that fits a strict schema."""
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "anyOf" in schema:
        return drawn(rng, rng.choice(schema["anyOf"]))
    kind = schema.get("type", "object")
    if kind == "object":
        return {name: drawn(rng, rule) for name, rule in schema.get("properties", {}).items()}
    if kind == "array":
        least = schema.get("minItems", 0)
        length = rng.randint(least, min(schema.get("maxItems", least + 2), least + 2))
        return [drawn(rng, schema["items"]) for _ in range(length)]
    if kind == "string":
        if "pattern" in schema:
            return f"ACTION: {rng.randint(-5, 99)}"
        return "x" * max(1, schema.get("minLength", 1))
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "null":
        return None
    low = schema.get("minimum", schema.get("exclusiveMinimum", -9))
    high = schema.get("maximum", max(9, low + 9))
    return (
        rng.randint(int(low) + ("exclusiveMinimum" in schema), int(high))
        if kind == "integer"
        else (rng.uniform(low, high) or high)
    )


def filled(value: Any, schema: Mapping[str, Any]) -> Any:
    """A value with null for each member that it omits."""
    options = schema.get("anyOf", [schema])
    if isinstance(value, dict):
        described = [one for one in options if "properties" in one]
        for one in described:
            made = {
                name: filled(value.get(name), rule) if name in value else None
                for name, rule in one["properties"].items()
            }
            made |= {name: inner for name, inner in value.items() if name not in made}
            if first_violation(made, one) is None:
                return made
        return value
    if isinstance(value, list):
        return [filled(one, options[0].get("items", {})) for one in value]
    return value


@pytest.mark.parametrize(("name", "options", "captain"), MATCHES)
def test_whatever_fits_the_schema_of_a_turn_is_read_as_a_legal_call(
    monkeypatch: pytest.MonkeyPatch, name: str, options: Mapping[str, Any], captain: str
) -> None:
    rng = random.Random(1)
    subsets: tuple[Subset, ...] = ("local", "openai")
    for legal, _ in turns(monkeypatch, name, options, captain)[:60]:
        for subset in subsets:
            schema = answer_schema(legal, subset)
            for _ in range(4):
                answer = drawn(rng, schema)
                assert first_violation(answer, schema) is None
                [written] = find_calls(ChatAnswer(text=json.dumps(answer)), legal)
                assert check_call(written, legal).tool in [one["tool"] for one in legal]


@pytest.mark.parametrize(("name", "options", "captain"), MATCHES)
def test_every_action_that_captains_take_fits_the_schema_of_its_turn(
    monkeypatch: pytest.MonkeyPatch, name: str, options: Mapping[str, Any], captain: str
) -> None:
    for legal, action in turns(monkeypatch, name, options, captain):
        taken = action if "tool" in action else {"tool": "say", "arguments": action}
        [rule] = [one["arguments"] for one in legal if one["tool"] == taken["tool"]]
        strict = strict_schema(rule, "local")
        assert first_violation(filled(taken["arguments"], strict), strict) is None, taken


def nodes(schema: Any) -> list[Mapping[str, Any]]:
    if isinstance(schema, list):
        return [node for one in schema for node in nodes(one)]
    if not isinstance(schema, Mapping):
        return []
    inner = [node for name, one in schema.items() if name != "properties" for node in nodes(one)]
    return [schema, *inner, *(node for one in schema.get("properties", {}).values() for node in nodes(one))]


@pytest.mark.parametrize("subset", get_args(Subset))
@pytest.mark.parametrize("world", ["counting", "collider", "cricket"])
def test_objects_are_closed_require_all_members_and_give_the_reason_first(world: str, subset: Subset) -> None:
    loaded = load_world(world)
    legal = list(loaded.tools) or [{"tool": "say", "arguments": {"properties": {"text": {"type": "string"}}}}]
    schema = answer_schema(legal, subset)
    kept = {"type", "enum", "properties", "required", "additionalProperties", "items", "anyOf"}
    for node in nodes(schema):
        if "properties" in node:
            assert node["additionalProperties"] is False and node["required"] == list(node["properties"])
        if subset == "anthropic":
            assert node.keys() <= kept
    answers = schema if subset == "local" else schema["properties"]["actions"]["items"]
    for answer in answers.get("anyOf", [answers]):
        assert list(answer["properties"]) == ["reason", "tool", "arguments"]
    if subset != "local":
        assert schema["type"] == "object" and "anyOf" not in schema
    for tool in strict_tools(legal, subset):
        assert next(iter(tool["function"]["parameters"]["properties"])) == "reason"


def test_at_least_one_member_is_required_where_the_world_requires_one() -> None:
    share = {"type": "number", "exclusiveMinimum": 0}
    rule = {"type": "object", "properties": {"a": share, "b": share}, "minProperties": 1}
    schema = strict_schema({"properties": {"cuts": rule}, "required": ["cuts"]}, "openai")
    assert first_violation({"cuts": {"a": None, "b": 2.0}}, schema) is None
    assert first_violation({"cuts": {"a": None, "b": None}}, schema) is not None


def test_a_recursive_schema_is_rejected() -> None:
    rule = {"$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
            "properties": {"tree": {"$ref": "#/$defs/tree"}}}  # fmt: skip
    with pytest.raises(UnsupportedSchema, match="recursive"):
        strict_schema(rule, "local")


def test_constraints_fit_styles() -> None:
    assert [strongest("auto", style) for style in ("tools", "json", "xml")] == [
        "tools",
        "json_schema",
        "none",
    ]
    assert fits_style("json_schema", "json") and fits_style("tools", "tools") and fits_style("auto", "xml")
    assert not fits_style("json_schema", "tools") and not fits_style("tools", "json")
    assert not fits_style("json_object", "xml") and not fits_style("tools", "xml")


LEGAL: Sequence[LegalAction] = [{"tool": "hit", "arguments": {"properties": {"n": {"type": "integer"}}}}]
ASKED: Sequence[Mapping[str, Any]] = [{"role": "user", "content": "Well?"}]


def test_a_schema_on_the_wire() -> None:
    schema = answer_schema(LEGAL, "openai")
    request = ChatRequest(model="m", messages=ASKED, constraint="json_schema", schema=schema)
    body = orjson.loads(encode_request(request))
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "decision", "strict": True, "schema": schema},
    }
    assert orjson.loads(AnthropicForm().encode(request))["output_config"] == {
        "format": {"type": "json_schema", "schema": schema}
    }
    assert orjson.loads(GeminiForm().encode(request))["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": schema,
    }


def test_a_json_object_on_the_wire() -> None:
    request = ChatRequest(model="m", messages=ASKED, constraint="json_object")
    assert orjson.loads(encode_request(request))["response_format"] == {"type": "json_object"}
    config = orjson.loads(GeminiForm().encode(request))["generationConfig"]
    assert config == {"responseMimeType": "application/json"}


def test_strict_tools_on_the_wire() -> None:
    tools = strict_tools(LEGAL, "openai")
    request = ChatRequest(model="m", messages=ASKED, constraint="tools", tools=tools)
    body = orjson.loads(encode_request(request))
    assert (body["tool_choice"], body["parallel_tool_calls"]) == ("required", False)
    assert body["tools"][0]["function"]["strict"] is True
    body = orjson.loads(AnthropicForm().encode(request))
    assert body["tool_choice"] == {"type": "any"} and body["tools"][0]["strict"] is True
    thinks = ChatRequest(
        model="m", messages=ASKED, constraint="tools", tools=tools, extra={"thinking": {"type": "enabled"}}
    )
    assert orjson.loads(AnthropicForm().encode(thinks))["tool_choice"] == {"type": "auto"}
    config = orjson.loads(GeminiForm().encode(request))["toolConfig"]["functionCallingConfig"]
    assert config == {"mode": "ANY"}


def test_an_unconstrained_request_has_no_further_fields() -> None:
    body = orjson.loads(encode_request(ChatRequest(model="m", messages=ASKED)))
    assert body.keys() == {"model", "messages"}
