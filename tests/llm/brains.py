"""The scripted brains of the fake endpoint: each really reads its prompt, as a model would."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Said:
    """What a brain answers."""

    text: str = ""
    thought: str = ""
    calls: Sequence[tuple[str, Any]] = ()
    refusal: str = ""
    finish: str = "stop"


Brain = Callable[[Mapping[str, Any]], Said]

_DECODER = json.JSONDecoder()


def last_content(body: Mapping[str, Any]) -> str:
    """The newest message."""
    content: str = body["messages"][-1]["content"]
    return content


def read_situation(body: Mapping[str, Any]) -> dict[str, Any]:
    """The situation that the prompt shows as the present one."""
    for message in reversed(body["messages"]):
        _, found, after = message["content"].partition("Situation now:\n")
        if found:
            situation: dict[str, Any] = _DECODER.raw_decode(after)[0]
            return situation
    raise AssertionError("the prompt shows no situation")


def read_legal(body: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Schemas of the legal tools by name, from the tools or from the text."""
    if body.get("tools"):
        return {tool["function"]["name"]: tool["function"]["parameters"] for tool in body["tools"]}
    legal: dict[str, dict[str, Any]] = {}
    for message in reversed(body["messages"]):
        _, found, after = message["content"].partition("schema of its arguments:\n")
        for line in after.splitlines() if found else ():
            name, _, schema = line.removeprefix("- ").partition(" ")
            legal[name] = json.loads(schema)
        if legal:
            return legal
    raise AssertionError("the prompt lists no legal actions")


def asked_style(body: Mapping[str, Any]) -> str:
    """How the prompt wants the answer."""
    if body.get("tools"):
        return "tools"
    return "xml" if "<tool_call>" in body["messages"][0]["content"] else "json"


def say(body: Mapping[str, Any], tool: str, arguments: Mapping[str, Any], reason: str) -> Said:
    """A decision in the form that the prompt asks for."""
    match asked_style(body):
        case "tools":
            return Said(
                thought="Let me see.", calls=[(tool, {"reason": reason, **arguments})], finish="tool_calls"
            )
        case "xml":
            call = json.dumps({"name": tool, "arguments": {"reason": reason, **arguments}})
            return Said(text=f"<think>Let me see.</think>{reason}\n<tool_call>\n{call}\n</tool_call>")
    return Said(
        text=json.dumps({"reason": reason, "tool": tool, "arguments": arguments}), thought="Let me see."
    )


def obedient(body: Mapping[str, Any]) -> Said:
    """Takes the first legal tool and fills in only what its schema requires."""
    tool, schema = next(iter(read_legal(body).items()))
    properties = schema.get("properties", {})
    arguments = {name: _example(properties.get(name, {})) for name in schema.get("required", ())}
    return say(body, tool, arguments, f"{tool} is the first that is legal")


def _example(schema: Mapping[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    by_type = {"integer": schema.get("minimum", 0), "number": schema.get("minimum", 0.0), "boolean": True}
    return by_type.get(schema.get("type", ""), "x")


def counter(body: Mapping[str, Any]) -> Said:
    """Counts: says the number that the situation names."""
    following = read_situation(body)["next"]
    return say(body, "say", {"text": f"ACTION: {following}"}, f"{following} comes next")


def batsman(body: Mapping[str, Any]) -> Said:
    """Leads a cricket side: hits out when behind the rate, looks after wickets, plans before it plays."""
    seen, legal = read_situation(body), read_legal(body)
    match seen["phase"]:
        case "bat" if "plan_shot" in legal and seen["you"]["shot_aggression"] is None:
            rate, wickets = seen.get("required_rate") or 7.5, seen["score"]["wickets"]
            aggression = round(min(0.9, max(0.2, rate / 12 - 0.04 * wickets)), 2)
            reason = f"{seen['score']['runs']} for {wickets}, {rate:.1f} an over to get"
            return say(body, "plan_shot", {"aggression": aggression}, reason)
        case "bowl" if "set_field" in legal and seen["score"]["balls"] % 6 == 0 and seen["powerplay"]:
            preset = legal["set_field"]["properties"]["preset"]["enum"][0]
            if seen["field"].get("preset") != preset:
                return say(body, "set_field", {"preset": preset}, f"{preset} while the ring is up")
        case "bowler":
            chosen = min(seen["choices"]["bowlers"], key=lambda bowler: (bowler["runs"], bowler["name"]))
            return say(body, "select_bowler", {"bowler": chosen["name"]}, f"{chosen['runs']} runs off him")
        case _:
            pass
    tool = next(iter(legal))
    return say(body, tool, {}, f"{tool} goes on with the game")


def pundit(body: Mapping[str, Any]) -> Said:
    """Leads as the batsman does, and thinks aloud about the very situation before it answers."""
    seen, said = read_situation(body), batsman(body)
    return replace(said, thought=" ".join(_musings(seen)))


def _musings(seen: Mapping[str, Any]) -> list[str]:
    if "score" not in seen:
        return ["Nothing is bowled yet.", f"What is asked of me: {seen['task']}"]
    score, batting = seen["score"], seen["batting"] == seen["side"]
    parts = [
        f"{score['runs']} for {score['wickets']} after {score['overs']}, {score['balls_left']} balls left."
    ]
    if seen.get("need") is not None:
        whose = "We need" if batting else "They need"
        parts.append(f"{whose} {seen['need']} at {seen['required_rate']} an over.")
    if seen.get("striker"):
        striker = seen["striker"]
        parts.append(f"{striker['name']} is on strike with {striker['runs']} from {striker['balls']}.")
    if seen.get("bowler"):
        bowler = seen["bowler"]
        parts.append(f"{bowler['name']} bowls {bowler['kind']}, {bowler['overs_left']} over(s) left in him.")
    if seen["recent"]:
        parts.append(f"The last balls went {', '.join(seen['recent'][-4:])}.")
    job = "keep wickets in hand and hit what is loose" if batting else "make them hit to the longest boundary"
    return [*parts, f"At the {seen['segment']} that means: {job}."]


BRAINS: dict[str, Brain] = {
    "obedient": obedient,
    "counter": counter,
    "batsman": batsman,
    "pundit": pundit,
}
