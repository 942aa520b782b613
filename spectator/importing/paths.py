"""Where a value is in a row: expressions of JMESPath, with functions of our own.

An expression is compiled once; its usual parts are functions that need no interpreter, which takes ten times
as long.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from spectator.errors import ConfigurationError
from spectator.events import encode_json
from spectator.importing.foreign import count, number, text

Path = Callable[[Any], Any]


@cache
def path(expression: str) -> Path:
    """Return a function that evaluates an expression.

    >>> path("a.b || c")({"a": {"b": None}, "c": 3}), path("text('task-{}', n)")({"n": 7})
    (3, 'task-7')

    Raises:
        ConfigurationError: The expression is invalid.
    """
    import jmespath

    try:
        return _compiled(jmespath.compile(expression).parsed)
    except jmespath.exceptions.JMESPathError as error:
        raise ConfigurationError(f"{expression!r} is not a path of jmespath.org: {error}") from error


def _compiled(node: Mapping[str, Any]) -> Path:
    """Return a function that evaluates a node of a parsed expression."""
    kind, children = node["type"], node["children"]
    value: Any = node.get("value")
    if kind in ("identity", "current"):
        return lambda given: given
    if kind == "literal":
        return lambda given: value
    if kind == "field":
        return lambda given: given.get(value) if isinstance(given, dict) else None
    if kind == "function_expression" and value in FUNCTIONS and FUNCTIONS[value][1] == len(children):
        function, arguments = FUNCTIONS[value][0], [_compiled(one) for one in children]
        return lambda given: function(*[one(given) for one in arguments])
    if kind in ("subexpression", "index_expression", "pipe"):
        return _then(*map(_compiled, children))
    if kind in ("or_expression", "and_expression"):
        return (_or if kind == "or_expression" else _and)(*map(_compiled, children))
    if kind == "not_expression":
        inner = _compiled(children[0])
        return lambda given: not _holds(inner(given))
    interpreter = _interpreter()
    return lambda given: interpreter.visit(node, given)


def _then(first: Path, *others: Path) -> Path:
    def read(given: Any) -> Any:
        found = first(given)
        for one in others:
            found = one(found)
        return found

    return read


def _or(first: Path, second: Path) -> Path:
    return lambda given: found if _holds(found := first(given)) else second(given)


def _and(first: Path, second: Path) -> Path:
    return lambda given: second(given) if _holds(found := first(given)) else found


def _holds(value: Any) -> bool:
    """Whether a value is true in JMESPath, as 0 is."""
    return bool(value) or (value is not False and isinstance(value, int | float))


@cache
def _interpreter() -> Any:
    from jmespath import functions, visitor

    def declared(function: Callable[..., Any], count: int) -> Callable[..., Any]:
        signature = functions.signature(*[{"types": []}] * count)
        return signature(lambda self, *given: function(*given))  # type: ignore[no-any-return]

    members = {f"_func_{name}": declared(function, count) for name, (function, count) in FUNCTIONS.items()}
    known = type("Functions", (functions.Functions,), members)()
    return visitor.TreeInterpreter(visitor.Options(custom_functions=known))


LETTERS: Final = {
    "C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0,
}  # fmt: skip
"""Scores that inspect_ai writes as words: correct, partial, incorrect, no answer."""


def _decoded(value: Any) -> Any:
    """Return the messages that a JSON text holds; other texts as they are."""
    held = _json(value)
    first = held[0] if isinstance(held, list) and held else held
    return held if isinstance(first, Mapping) and {"role", "type", "from"} & first.keys() else value


def _json(value: Any) -> Any:
    """Return what a JSON text holds; other values as they are."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _text(pattern: str, value: Any) -> str | None:
    """Return a text with a value, or null if there is none."""
    if value is None or value == "":
        return None
    return pattern.replace("{}", value if isinstance(value, str) else json.dumps(value))


def _zip(lists: Any) -> list[list[Any]]:
    """Return the items of the first list, each with those of the other lists at its place."""
    first, *others = (one if isinstance(one, list) else [] for one in lists)
    if others and len(others[0]) != len(first):
        raise ValueError(f"{len(first)} entries and {len(others[0])} rewards: their numbers must be equal")
    return [[one, *(more[n] if n < len(more) else None for more in others)] for n, one in enumerate(first)]


def _attached(items: Any, others: Any) -> Any:
    """Return items, each with what the others say of the ``node`` at its place, as ``call``."""
    of = {one.get("node"): one for one in others or () if isinstance(one, Mapping)}
    if not isinstance(items, list) or not of:
        return items
    return [{**one, "call": of.get(n)} if isinstance(one, Mapping) else one for n, one in enumerate(items)]


def _grown(steps: Any) -> Any:
    """Return a collector's steps, each with the new part of a prompt that continues."""
    before, said, messages = "", "", []
    for place, step in enumerate(steps if isinstance(steps, list) else ()):
        if not isinstance(step, Mapping):
            raise ValueError(f"steps[{place}] must be an object")
        prompt = text(step.get("prompt"))
        if "prompt_added" in step:
            kept = step.get("prompt_kept")
            if type(kept) is not int or not 0 <= kept <= len(before):
                raise ValueError(f"steps[{place}].prompt_kept is {kept!r}: it must be within the last prompt")
            prompt = before[:kept] + text(step["prompt_added"])
        goes_on = bool(said) and prompt.startswith(before + said)
        asked = prompt[len(before + said) :] if goes_on else prompt
        answer = text(step.get("completion"))
        messages.append({**step, "asked": asked, "goes_on": goes_on, "answer": answer})
        before, said = prompt, answer
    return messages


def _weighted(rewards: Any) -> float | None:
    """Return the sum of scores, each times its weight, which is 1 unless given."""
    known = [
        score * (1.0 if (weight := number(one.get("weight"))) is None else weight)
        for one in (rewards.values() if isinstance(rewards, Mapping) else ())
        if isinstance(one, Mapping) and (score := number(one.get("score"))) is not None
    ]
    return math.fsum(known) if known else None


def _total(values: Any) -> float | None:
    """Return the sum of the numbers in a list, or null."""
    known = [one for value in values or () if (one := number(value)) is not None]
    return math.fsum(known) if known else None


def _scores(scores: Any, scorers: Any) -> dict[str, float]:
    """Return the scores of a sample of inspect_ai that have a value, in the order of the log's scorers."""
    given = scores if isinstance(scores, Mapping) else {}
    listed = [one.get("name") for one in scorers or () if isinstance(one, Mapping)]
    found = {}
    for name in [*(one for one in listed if one in given), *(one for one in given if one not in listed)]:
        value = given[name].get("value") if isinstance(given[name], Mapping) else None
        if isinstance(value, str):
            word = LETTERS.get(value, LETTERS.get(value.lower()) if len(value) > 1 else None)
            value = number(_json(value)) if word is None else word
        if (known := number(value)) is not None:
            found[str(name)] = known
    return found


def _resolved(value: Any, attached: Any) -> Any:
    """Return a value with the attachments of inspect_ai inserted."""
    if isinstance(value, str) and value.startswith("attachment://") and isinstance(attached, Mapping):
        return attached.get(value.removeprefix("attachment://"), value)
    if isinstance(value, Mapping):
        return {name: _resolved(one, attached) for name, one in value.items()}
    return [_resolved(one, attached) for one in value] if isinstance(value, list) else value


def _attributes(span: Any) -> Any:
    """Return a span of OpenTelemetry with its attributes as an object, and those with numbers as lists."""
    given = span.get("attributes")
    if isinstance(given, list):
        given = {one["key"]: _attribute(one.get("value")) for one in given if isinstance(one, Mapping)}
    return {**span, "attributes": {**(given or {}), **_numbered(given or {})}}


def _attribute(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    if isinstance(array := value.get("arrayValue"), Mapping):
        return [_attribute(one) for one in array.get("values") or ()]
    if isinstance(pairs := value.get("kvlistValue"), Mapping):
        return {one["key"]: _attribute(one.get("value")) for one in pairs.get("values") or ()}
    if "intValue" in value:
        return int(value["intValue"])
    return next(iter(value.values()), None)


def _numbered(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes such as ``gen_ai.prompt.0.role`` as lists of objects."""
    found: dict[str, dict[int, Any]] = {}
    for name, value in given.items():
        if match := re.fullmatch(r"(.*?)\.(\d{1,6})\.(.+)", name):
            inner = found.setdefault(match[1], {}).setdefault(int(match[2]), {})
            name = match[3].removeprefix("message.")
            inner[name if re.search(r"\.\d+\.", name) else name.rsplit(".", 1)[-1]] = value
    return {
        name: [{**one, **_numbered(one)} for _, one in sorted(ones.items())] for name, ones in found.items()
    }


def _prompt_of(request: Any) -> list[Any]:
    """Return the prompt of a request to OpenAI's Responses API."""
    given, rule = request.get("input"), request.get("instructions")
    said = [{"role": "user", "content": given}] if isinstance(given, str) else given or []
    return [*([{"role": "system", "content": rule}] if rule else []), *said]


def _replaced(steps: Any) -> str:
    """Return how many of a collector's decisions were not the model's."""
    others = [
        one for one in steps if one.get("parsed_ok") is False or one.get("source") not in (None, "model")
    ]
    return f"{len(others)} of {len(steps)} decisions were a fallback's" if others else ""


def _span(time: Any) -> float | None:
    """Return the seconds of a span with a start and an end."""
    start, end = (number((time or {}).get(name)) for name in ("start", "end"))
    return end - start if start and end else None


def _needed(row: Any, name: str) -> Any:
    if not isinstance(row, Mapping) or row.get(name) is None:
        raise ValueError(f"it is not a sample: {name} is missing")
    return row[name]


def _order(value: Any, most: int, scale: int) -> int | None:
    known = count(value)
    return None if known is None else min(known, most) * scale


def _model_prompt(given: Any) -> Any:
    """Return the messages in the input of a traced model call."""
    if isinstance(given, list) and len(given) == 1 and isinstance(given[0], list):
        return given[0]
    if not isinstance(given, Mapping):
        return given
    held = next((given[one] for one in ("messages", "prompts", "prompt", "input") if given.get(one)), None)
    if held is None or isinstance(held, Mapping):
        return given if held is None else _model_prompt(held)
    nested = isinstance(held, list) and held and isinstance(held[0], list | str)
    return held[0] if nested else held


def _averages(rows: Any) -> dict[str, Any]:
    """Return the mean of each kind of feedback on a trace of LangSmith."""
    stats: Any = next((_json(one["feedback_stats"]) for one in rows if one.get("feedback_stats")), {})
    return {name: one.get("avg") for name, one in stats.items() if isinstance(one, Mapping)}


def _named_scores(scores: Any) -> dict[str, float]:
    """Return the mean of the numeric scores of each name."""
    found: dict[str, list[float]] = {}
    for one in scores if isinstance(scores, list) else ():
        if isinstance(one, Mapping) and (known := number(one.get("value"))) is not None:
            found.setdefault(str(one.get("name")), []).append(known)
    return {name: math.fsum(values) / len(values) for name, values in found.items()}


def _span_messages(attributes: Any, *names: str) -> list[Any]:
    held = (_json(attributes.get(name)) for name in names)
    return next((one for one in held if isinstance(one, list)), [])


def _span_prompt(attributes: Any) -> list[Any]:
    """Return the prompt of a span."""
    rules = _json(attributes.get("gen_ai.system_instructions"))
    said = _span_messages(attributes, "gen_ai.input.messages", "gen_ai.prompt", "llm.input_messages")
    return [{"role": "system", "content": rules}, *said] if rules else said


def _span_answer(attributes: Any) -> Any:
    """Return the answer of a span."""
    said = _span_messages(attributes, "gen_ai.output.messages", "gen_ai.completion", "llm.output_messages")
    return {"role": "assistant", **said[-1]} if said and isinstance(said[-1], Mapping) else said or None


def _lm_prompt(arguments: Any) -> Any:
    """Return the prompt of a request of lm-evaluation-harness."""
    first = arguments
    while isinstance(first, list | Mapping) and first:
        first = first[min(first)] if isinstance(first, Mapping) else first[0]
        held = _decoded(first)
        if isinstance(held, list):
            return held
    return first if isinstance(first, str) else None


def _lm_answer(responses: Any, filtered: Any) -> str:
    """Return the only text of the responses, or all of them as JSON."""
    first = responses
    while isinstance(first, list) and len(first) == 1:
        first = first[0]
    return first if isinstance(first, str) else encode_json(filtered)


def _lm_metrics(row: Any) -> dict[str, Any]:
    """Return the metrics of a sample of lm-evaluation-harness."""
    named = row.get("metrics")
    if isinstance(named, list):
        return {name: row.get(name) for name in named}
    return {
        name: one for name, one in row.items() if name not in ("doc_id", "target") and number(one) is not None
    }


def _task_of(file: str, kind: Any) -> str:
    """Return the task that the name of a file of samples has, with the filter."""
    task = re.sub(r"_\d{4}-\d\d-\d\dT[\d-]+(\.\d+)?$", "", file.removeprefix("samples_"))
    return f"{task}:{kind}" if isinstance(kind, str) and kind not in ("", "none") else task


FUNCTIONS: Final[Mapping[str, tuple[Callable[..., Any], int]]] = {
    "attached": (_attached, 2),
    "attributes": (_attributes, 1),
    "averages": (_averages, 1),
    "decoded": (_decoded, 1),
    "digits": (lambda value: int(value) if isinstance(value, str) and value.isdecimal() else value, 1),
    "flag": (lambda row, names: any(row.get(one) in (True, 1) for one in names.split()), 2),
    "grown": (_grown, 1),
    "json": (_json, 1),
    "last_part": (lambda name: name.rsplit("/", 1)[-1] if isinstance(name, str) else None, 1),
    "lm_answer": (_lm_answer, 2),
    "lm_metrics": (_lm_metrics, 1),
    "lm_prompt": (_lm_prompt, 1),
    "model_prompt": (_model_prompt, 1),
    "named_scores": (_named_scores, 1),
    "needed": (_needed, 2),
    "order": (_order, 3),
    "parts": (
        lambda of: {n: one.get("score") for n, one in (of or {}).items() if isinstance(one, Mapping)},
        1,
    ),
    "plus": (lambda one, more: one if number(one) is None else one + (number(more) or 0), 2),
    "prompt_of": (_prompt_of, 1),
    "replaced": (_replaced, 1),
    "resolved": (_resolved, 2),
    "scores": (_scores, 2),
    "signed": (lambda value: f"{value:+.4g}" if number(value) is not None else None, 1),
    "span": (_span, 1),
    "span_answer": (_span_answer, 1),
    "span_prompt": (_span_prompt, 1),
    "task_of": (_task_of, 2),
    "text": (_text, 2),
    "total": (_total, 1),
    "unless": (lambda condition, named: None if condition else named, 2),
    "weighted": (_weighted, 1),
    "zip": (_zip, 1),
}
"""Functions of expressions besides those of JMESPath, with the number of their arguments."""
