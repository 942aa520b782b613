"""The scripted brains of the fake endpoint: each really reads its prompt, as a model would."""

from __future__ import annotations

import json
import math
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
                told = [line for line in after.splitlines() if ": " in line and not line.startswith("- ")]
                lines |= dict(line.split(": ", 1) for line in told)
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
            held[last] = _read_json(text)
    return situation


def _read_json(text: str) -> Any:
    """A member; short prompts cut long ones, and list the legal actions after it."""
    try:
        return json.loads(text)
    except ValueError:
        return text


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
    *_, whose, segment = lines.get("innings", "you bat, middle").split(", ")
    seen |= {"batting": "mine" if whose == "you bat" else "theirs", "segment": segment}
    seen |= {
        "powerplay": segment == "powerplay",
        "field": {"preset": lines.get("field", "").partition(",")[0]},
    }
    return seen


def _bowlers(lines: Mapping[str, str]) -> list[dict[str, Any]]:
    """Who may bowl, with the runs off them so far."""
    figures = dict(re.findall(r"([^;]+?) [\d.]+-\d+-(\d+)-\d+", lines.get("bowled so far", "")))
    named = lines.get("select_bowler now", "").removeprefix("bowler is one of ")
    return [
        {"name": name, "runs": int(figures.get(name, 0))} for name in map(str.strip, named.split("|")) if name
    ]


_LISTED = re.compile(r"^(?:- |action )([a-z_]+):? (\{.*\})$", re.MULTILINE)
_SIGNED = re.compile(r"^- ([a-z_]+)\((.*)\)(?:: .*)?$", re.MULTILINE)


def read_legal(body: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Schemas of the legal tools by name: from the constraint, the tools, or the text of either prompt."""
    if "response_format" in body and (answers := _answers(body)):
        return {one["tool"]["enum"][0]: one["arguments"] for one in answers}
    if signed := _SIGNED.findall(last_content(body).partition("legal actions:")[2]):
        return {name: _of_signature(arguments) for name, arguments in signed}
    listed = {tool["function"]["name"]: tool["function"]["parameters"] for tool in body.get("tools") or ()}
    for message in body["messages"]:
        if message["role"] != "assistant":
            listed |= {name: json.loads(schema) for name, schema in _LISTED.findall(message["content"])}
    if not listed:
        raise AssertionError(f"the prompt lists no legal actions: {last_content(body)[-1500:]}")
    lines = read_lines(body)
    if "legal now" not in lines:
        return listed
    return {
        name: _narrowed(listed[name], lines.get(f"{name} now"))
        for name in lines["legal now"].split(", ")
        if name in listed
    }


def _answers(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Members of each answer that the schema of the request allows."""
    schema = body["response_format"].get("json_schema", {}).get("schema", {})
    schema = schema.get("properties", {}).get("actions", {}).get("items", schema)
    return [one["properties"] for one in schema.get("anyOf", [schema]) if "properties" in one]


def _of_signature(text: str) -> dict[str, Any]:
    """The schema of arguments as a short prompt writes them."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "[{(") - (character in "]})")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    arguments = [part.strip().partition(": ") for part in parts if ": " in part]
    return {
        "type": "object",
        "properties": {name.rstrip("?"): _of_range(rule) for name, _, rule in arguments},
        "required": [name for name, _, _ in arguments if not name.endswith("?")],
    }


def _of_range(text: str) -> dict[str, Any]:
    if text.startswith("{"):
        return {**_of_signature(text[1:-1]), "required": []}
    if bounds := re.fullmatch(r"(-?[\d.e+]+)\.\.(-?[\d.e+]+)", text):
        return {"type": "number", "minimum": float(bounds[1]), "maximum": float(bounds[2])}
    if text in ("boolean", "number", "integer"):
        return {"type": text}
    if "|" in text or (re.fullmatch(r"[\w.]+", text) and text not in ("any", "text", "string", "object")):
        return {"enum": [_read_json(choice) for choice in text.split("|")]}
    return {"type": "string"}


def _narrowed(schema: dict[str, Any], told: str | None) -> dict[str, Any]:
    """A schema as it is now."""
    properties = {**schema.get("properties", {})}
    for part in (told or "").split("; "):
        name, found, names = part.partition(" is one of ")
        if found:
            properties[name] = {**properties.get(name, {}), "enum": list(map(_choice, names.split(" | ")))}
        elif part.partition(" ")[2].startswith("{"):
            name, _, rule = part.partition(" ")
            properties[name] = {**properties.get(name, {}), **_read_json(rule)}
    required = [name for name in schema.get("required", ()) if name != "reason"]
    return {**schema, "properties": properties, "required": required}


def _choice(text: str) -> Any:
    value = _read_json(text)
    return value if isinstance(value, float) else text


def choices_of(rule: Mapping[str, Any]) -> list[Any]:
    """Values among which an argument is chosen, that of a strict tool too."""
    options = [rule, *rule.get("anyOf", ())]
    return [choice for option in options for choice in option.get("enum", ()) if choice is not None]


def asked_style(body: Mapping[str, Any]) -> str:
    """How the prompt wants the answer."""
    if body.get("tools"):
        return "tools"
    return "xml" if "<tool_call>" in body["messages"][0]["content"] else "json"


def say(body: Mapping[str, Any], tool: str, arguments: Mapping[str, Any], reason: str) -> Said:
    """A decision in the form that the prompt and its constraint ask for."""
    schema = read_legal(body).get(tool, {})
    if schema.get("additionalProperties") is False and _is_strict(body):
        open_ones = [name for name in schema["required"] if name != "reason"]
        arguments = {**dict.fromkeys(open_ones), **arguments}
    match asked_style(body):
        case "tools":
            return Said(
                thought="Let me see.", calls=[(tool, {"reason": reason, **arguments})], finish="tool_calls"
            )
        case "xml":
            call = json.dumps({"name": tool, "arguments": {"reason": reason, **arguments}})
            return Said(text=f"<think>Let me see.</think>{reason}\n<tool_call>\n{call}\n</tool_call>")
    answer: dict[str, Any] = {"reason": reason, "tool": tool, "arguments": arguments}
    if '"actions": [' in body["messages"][0]["content"]:
        answer = {"actions": [answer]}
    return Said(text=json.dumps(answer), thought="Let me see.")


def _is_strict(body: Mapping[str, Any]) -> bool:
    return "response_format" in body or any(
        tool["function"].get("strict") for tool in body.get("tools") or ()
    )


def obedient(body: Mapping[str, Any]) -> Said:
    """Takes the first legal tool and fills in only what its schema requires."""
    tool, schema = next(iter(read_legal(body).items()))
    return say(body, tool, _examples(schema), f"{tool} is the first that is legal")


def _examples(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    needed = [name for name in schema.get("required", ()) if name != "reason"]
    return {name: _example(properties.get(name, {})) for name in needed}


def _example(schema: Mapping[str, Any]) -> Any:
    if any(option.get("type") == "null" for option in schema.get("anyOf", ())):
        return None
    if choices := choices_of(schema):
        return (
            choices[len(choices) // 2] if len(choices) > 1 and schema.get("type") == "number" else choices[0]
        )
    if options := schema.get("anyOf"):
        return _example(options[0])
    if properties := schema.get("properties"):
        kept = schema.get("required") or list(properties)
        return {name: _example(properties[name]) for name in kept}
    by_type = {"integer": schema.get("minimum", 0), "number": _middle(schema), "boolean": True}
    return by_type.get(schema.get("type", ""), "x")


def _middle(schema: Mapping[str, Any]) -> float:
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0.0))
    high = schema.get("maximum", 2 * low)
    return float(f"{math.sqrt(low * high) if low > 0 else (low + high) / 2:.4g}")


def counter(body: Mapping[str, Any]) -> Said:
    """Counts: says the number that the situation names."""
    following = read_situation(body)["next"]
    return say(body, "say", {"text": f"ACTION: {following}"}, f"{following} comes next")


def batsman(body: Mapping[str, Any]) -> Said:
    """Leads a cricket side: hits out when behind the rate, looks after wickets, plans before it plays."""
    seen, legal = read_situation(body), read_legal(body)
    match seen["phase"]:
        case "bat" if "plan_shot" in legal and seen["you"]["shot_aggression"] is None:
            return _hit(body, "plan_shot", seen)
        case "batting_plan" if "play_over" in legal:
            return _hit(body, "play_over", seen)
        case "bowl" if "set_field" in legal and seen["score"]["balls"] % 6 == 0 and seen["powerplay"]:
            preset = choices_of(legal["set_field"]["properties"]["preset"])[0]
            if seen["field"].get("preset") != preset:
                return say(body, "set_field", {"preset": preset}, f"{preset} while the ring is up")
        case "bowler":
            runs = {bowler["name"]: bowler["runs"] for bowler in seen["choices"]["bowlers"]}
            named = choices_of(legal["select_bowler"]["properties"]["bowler"]) or [*runs]
            chosen = min(named, key=lambda name: (runs.get(name, 0), name))
            return say(body, "select_bowler", {"bowler": chosen}, f"{runs.get(chosen, 0)} runs off him")
        case _:
            pass
    tool = next(iter(legal))
    return say(body, tool, {}, f"{tool} goes on with the game")


def _hit(body: Mapping[str, Any], tool: str, seen: Mapping[str, Any]) -> Said:
    rate, wickets = seen.get("required_rate") or 7.5, seen["score"]["wickets"]
    aggression = round(min(0.9, max(0.2, rate / 12 - 0.04 * wickets)), 2)
    if choices := choices_of(read_legal(body)[tool]["properties"]["aggression"]):
        aggression = min(choices, key=lambda choice: abs(choice - aggression))
    reason = f"{seen['score']['runs']} for {wickets}, {rate:.1f} an over to get"
    return say(body, tool, {"aggression": aggression}, reason)


NEXT = {
    "": "configure_beam", "configure_beam": "set_trigger", "set_trigger": "allocate_luminosity",
    "allocate_luminosity": "collect_collisions", "collect_collisions": "select_channel",
    "select_channel": "freeze_selection", "freeze_selection": "unblind", "unblind": "scan_bump",
    "scan_bump": "set_limit", "set_limit": "conclude_null",
}  # fmt: skip


def physicist(body: Mapping[str, Any]) -> Said:
    """Leads one short search at a collider, and concludes that there is nothing."""
    legal = read_legal(body)
    tool = NEXT.get(last_tool(body), "conclude_null")
    tool = tool if tool in legal else "conclude_null"
    return say(body, tool, _examples(legal[tool]), f"{tool} comes next")


def last_tool(body: Mapping[str, Any]) -> str:
    """The last action of the conversation, or of the decisions that the prompt repeats."""
    for message in reversed(body["messages"]):
        if calls := message.get("tool_calls"):
            name: str = calls[0]["function"]["name"]
            return name
        if found := re.findall(r'"(?:tool|name)": ?"([a-z_]+)"', message["content"]):
            if message["role"] == "assistant":
                return str(found[-1])
        if message["role"] == "user" and (
            repeated := re.findall(r"^- ([a-z_]+) \{", message["content"], re.M)
        ):
            return str(repeated[-1])
    return ""


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
    "physicist": physicist,
}
