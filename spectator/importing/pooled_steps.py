"""Files with a row per step of a pooled rollout system."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from spectator.importing.file_rows import (
    Entries,
    FileRow,
    SkippedEntry,
    Source,
    guarded,
    row_at,
    rows,
)
from spectator.importing.foreign import (
    ForeignEpisode,
    ForeignTurn,
    count,
    group_within,
    message_of,
    messages_of,
    moment,
    number,
    text,
)

STEPS: Final = "steps"


def is_step(row: Mapping[str, Any]) -> bool:
    """Whether a line is a step of a session."""
    return {"session_id", "step_id", "messages", "response"} <= row.keys()


def read_steps(source: Source) -> Entries:
    """Yield the sessions of a file of steps, in any order of their lines."""
    found: dict[tuple[str, str], dict[int, tuple[int, int]]] = {}
    for row in rows(source):
        if isinstance(row, SkippedEntry):
            yield row
            continue
        step = count(row.value.get("step_id"))
        if step is None or not text(row.value.get("session_id")):
            yield SkippedEntry(f"line {row.number}", "a step needs a session_id and a step_id of at least 0")
            continue
        session = (text(row.value.get("env_name")), row.value["session_id"])
        found.setdefault(session, {})[step] = (row.number, row.start)
    source.done = 0
    with source.path.open("rb") as file:
        for places in found.values():
            steps = [row_at(file, *places[step]) for step in sorted(places)]
            kept = [one for one in steps if isinstance(one, FileRow)]
            source.done = max(source.done, *(one.start for one in kept))
            yield from guarded(f"line {kept[0].number}", lambda of=kept: iter([_session(of)]))  # type: ignore[misc]
    source.done = source.size


def _session(steps: list[FileRow]) -> ForeignEpisode:
    first, last = steps[0].value, steps[-1].value
    environment, group = text(first.get("env_name")), text(first.get("group_id"))
    terminal, cut = (_flag(last, name) for name in ("terminal", "truncated"))
    rewards = [number(one.value.get("step_reward")) for one in steps]
    known = [one for one in rewards if one is not None]
    return ForeignEpisode(
        key=[STEPS, environment, text(first.get("session_id"))],
        environment=environment,
        agent=text(first.get("llm_model")),
        turns=[_step(one) for one in steps],
        group=group_within(environment, group) if group else None,
        reward=sum(known) if known else None,
        cut="truncated" if cut and not terminal else None,
        ended=terminal or cut or last.get("is_session_completed") in (True, 1),
        began=moment(first.get("created_at")),
    )


def _flag(step: Mapping[str, Any], name: str) -> bool:
    """Return the flag of a step under one of its two names."""
    names = (f"is_{name}", name if name == "truncated" else "terminated")
    return any(step.get(one) in (True, 1) for one in names)


def _step(row: FileRow) -> ForeignTurn:
    value = row.value
    response = _decoded(value.get("response"))
    is_message = isinstance(response, Mapping) and "role" in response
    state = _decoded(value.get("env_state"))
    version = state.get("weight_version") if isinstance(state, Mapping) else None
    return ForeignTurn(
        asked=messages_of(_decoded(value.get("messages")), "messages"),
        reply=message_of(
            response if is_message else {"role": "assistant", "content": value.get("response")}, "response"
        ),
        fresh_prompt=True,
        reward=number(value.get("step_reward")),
        model=text(value.get("llm_model")) or None,
        weight_version=None if version is None else str(version),
        at=moment(value.get("created_at")),
    )


def _decoded(value: Any) -> Any:
    """Return a value that may be stored as JSON text; other texts as they are."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
