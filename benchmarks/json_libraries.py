"""Compares the JSON repair and the JSON Schema check of ``spectator.llm`` with libraries that do the same.

Needs the extra ``bench``. ``python -m benchmarks.json_libraries`` prints CPU times, the best of some rounds:
the figures of docs/decisions/0004 and 0005.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import fastjsonschema
import json_repair
import jsonschema_rs

from spectator.environments.cricket.captaincy.arguments import argument_schema
from spectator.llm.loose_json import find_mended
from spectator.llm.schema import first_violation

NEARLY = (
    "{'tool': 'plan_shot', 'arguments': {'shot': 'pull', 'aggression': 0.7}}",
    '{"tool": "plan_shot", "arguments": {"shot": "pull", "aggression": 0.7,},} // short ball',
    '{tool: "plan_shot", arguments: {shot: "pull", aggression: 0.7}}',
    '{"tool": "plan_shot", "arguments": {"shot": "pull", "aggression": 0.7',
)
HOSTILE = {
    "16k opening braces": "{" * 16_384,
    "8k braces and quotes": '{"' * 8_192,
    "8k bare words": "{" + "a " * 8_191,
    "800 objects that never end": '{"a": [{\'b\': "c, ' * 800,
}


def best_us(work: Callable[[], object], times: int, rounds: int = 5) -> float:
    """CPU time of one call, microseconds: the best mean of some rounds."""
    found = []
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(times):
            work()
        found.append((time.process_time() - began) / times)
    return 1e6 * min(found)


def once_ms(work: Callable[[], object]) -> str:
    """CPU time of one call, milliseconds, and how it ended."""
    began = time.process_time()
    try:
        work()
        ended = "ok"
    except (ValueError, RecursionError) as error:
        ended = type(error).__name__
    return f"{1e3 * (time.process_time() - began):8.1f} ms {ended}"


def checks() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Arguments and schemas as cricket has them."""
    bowlers = argument_schema("select_bowler")
    names = [f"Bowler {number}" for number in range(9)]
    bowlers["properties"]["bowler"] = {**bowlers["properties"]["bowler"], "enum": names}
    nine = [{"name": "fielder", "x": float(place), "y": 3.0} for place in range(9)]
    return {
        "select_bowler": ({"bowler": names[4]}, bowlers),
        "plan_shot": ({"shot": "pull", "aggression": 0.7}, argument_schema("plan_shot")),
        "set_field, nine fielders": ({"fielders": nine}, argument_schema("set_field")),
    }


def main() -> None:
    """Print both tables."""
    print("repair, us a text: ours, json-repair")
    for text in NEARLY:
        ours = best_us(lambda text=text: list(find_mended(text)), 300)  # type: ignore[misc]
        theirs = best_us(lambda text=text: json_repair.loads(text), 100)  # type: ignore[misc]
        print(f"  {text[:44]:44} {ours:8.1f} {theirs:8.1f}")
    print("repair of 16 kB of hostile text: ours, json-repair")
    for name, text in HOSTILE.items():
        ours_ms = once_ms(lambda text=text: list(find_mended(text)))  # type: ignore[misc]
        print(f"  {name:28} {ours_ms:24} {once_ms(lambda text=text: json_repair.loads(text))}")  # type: ignore[misc]
    print("schema, us a check: ours, jsonschema-rs compiled and not, fastjsonschema compiled and not")
    for name, (value, schema) in checks().items():
        validator, function = jsonschema_rs.validator_for(schema), fastjsonschema.compile(schema)
        figures = (
            best_us(lambda v=value, s=schema: first_violation(v, s), 2000),  # type: ignore[misc]
            best_us(lambda v=value, c=validator: next(c.iter_errors(v), None), 2000),  # type: ignore[misc]
            best_us(lambda v=value, s=schema: jsonschema_rs.validator_for(s).is_valid(v), 500),  # type: ignore[misc]
            best_us(lambda v=value, f=function: f(v), 2000),  # type: ignore[misc]
            best_us(lambda s=schema: fastjsonschema.compile(s), 10),  # type: ignore[misc]
        )
        print(f"  {name:28}" + "".join(f"{figure:10.1f}" for figure in figures))


if __name__ == "__main__":
    main()
