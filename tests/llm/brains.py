"""The scripted brains of the fake endpoint: each really reads its prompt, as a model would."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Said:
    """What a brain answers; ``served`` are further members of the completion, such as ``provider``."""

    text: str = ""
    thought: str = ""
    calls: Sequence[tuple[str, Any]] = ()
    refusal: str = ""
    finish: str = "stop"
    served: Mapping[str, Any] = field(default_factory=dict)


Brain = Callable[[Mapping[str, Any]], Said]

_DECODER = json.JSONDecoder()


def last_content(body: Mapping[str, Any]) -> str:
    """The newest message."""
    content: str = body["messages"][-1]["content"]
    return content


def read_lines(body: Mapping[str, Any]) -> dict[str, str]:
    """The lines of the situation as they stand after every message."""
    lines: dict[str, str] = {}
    for message in body["messages"][1:]:
        if message["role"] == "assistant":
            continue
        for mark in ("Situation now:\n", "Changed:\n"):
            _, found, after = message["content"].partition(mark)
            if found:
                lines = {} if mark.startswith("Situation") else lines
                lines |= dict(line.split(": ", 1) for line in after.splitlines() if ": " in line)
    return lines


def read_situation(body: Mapping[str, Any]) -> dict[str, Any]:
    """The situation that the prompt shows as the present one."""
    for message in reversed(body["messages"]):
        _, found, after = message["content"].partition("Situation now:\n{")
        if found:
            whole: dict[str, Any] = _DECODER.raw_decode("{" + after)[0]
            return whole
    lines = read_lines(body)
    if not lines:
        raise AssertionError("the prompt shows no situation")
    return _of_cricket(lines) if "decide" in lines else _of_members(lines)


def _of_members(lines: Mapping[str, str]) -> dict[str, Any]:
    """A situation from lines that hold its members as JSON, large ones in parts."""
    situation: dict[str, Any] = {}
    for name, text in lines.items():
        *above, last = name.split(".")
        held = situation
        for part in above:
            inner = held.get(part)
            held = inner if isinstance(inner, dict) else {}
        if text == "in parts":
            held[last] = {}
        elif " " in name or text == "none":
            held.pop(last, None)
        else:
            held[last] = json.loads(text)
    return situation


def _of_cricket(lines: Mapping[str, str]) -> dict[str, Any]:
    """What the brains below want to know of a match that is told in words."""
    phase = lines["decide"].partition(":")[0]
    orders = re.search(r"next shot .* at ([\d.]+|None)", lines.get("your orders", ""))
    shot = None if orders is None or orders[1] == "None" else float(orders[1])
    seen: dict[str, Any] = {
        "phase": phase,
        "task": lines["decide"].partition(": ")[2],
        "side": "mine",
        "you": {"shot_aggression": shot},
        "recent": lines.get("last balls", "").split(),
        "choices": {"bowlers": _bowlers(lines)},
    }
    if (score := lines.get("score")) is None:
        return seen
    runs, wickets, overs, balls, left = (
        found[1] if (found := re.search(pattern, score)) else "0"
        for pattern in (r" (\d+)/", r"/(\d+) ", r"after ([\d.]+)", r"after \d+\.(\d)", r"(\d+) balls left")
    )
    seen["score"] = {
        "runs": int(runs), "wickets": int(wickets), "overs": overs,
        "balls": 6 * int(overs.split(".")[0]) + int(balls), "balls_left": int(left),
    }  # fmt: skip
    rate, need = re.search(r"required rate ([\d.]+)", score), re.search(r"need (\d+)", score)
    seen["required_rate"], seen["need"] = rate and float(rate[1]), need and int(need[1])
    *_, whose, segment = lines["innings"].split(", ")
    seen |= {"batting": "mine" if whose == "you bat" else "theirs", "segment": segment}
    seen |= {"powerplay": segment == "powerplay", "field": {"preset": lines["field"].partition(",")[0]}}
    return seen


def _bowlers(lines: Mapping[str, str]) -> list[dict[str, Any]]:
    """Who may bowl, with the runs off them so far."""
    figures = dict(re.findall(r"([^;]+?) [\d.]+-\d+-(\d+)-\d+", lines.get("bowled so far", "")))
    named = lines.get("select_bowler now", "").removeprefix("bowler is one of ")
    return [
        {"name": name, "runs": int(figures.get(name, 0))} for name in map(str.strip, named.split("|")) if name
    ]


_LISTED = re.compile(r"^(?:- |action )([a-z_]+):? (\{.*\})$", re.MULTILINE)


def read_legal(body: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Schemas of the legal tools by name, from the tools or from the text."""
    listed = {tool["function"]["name"]: tool["function"]["parameters"] for tool in body.get("tools") or ()}
    for message in body["messages"]:
        if message["role"] != "assistant":
            listed |= {name: json.loads(schema) for name, schema in _LISTED.findall(message["content"])}
    if not listed:
        raise AssertionError("the prompt lists no legal actions")
    lines = read_lines(body)
    if "legal now" not in lines:
        return listed
    return {
        name: _narrowed(listed[name], lines.get(f"{name} now")) for name in lines["legal now"].split(", ")
    }


def _narrowed(schema: dict[str, Any], told: str | None) -> dict[str, Any]:
    """A schema as it is now."""
    properties = {**schema.get("properties", {})}
    for part in (told or "").split("; "):
        name, found, names = part.partition(" is one of ")
        if found:
            properties[name] = {**properties.get(name, {}), "enum": names.split(" | ")}
    required = [name for name in schema.get("required", ()) if name != "reason"]
    return {**schema, "properties": properties, "required": required}


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
