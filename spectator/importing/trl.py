"""Completions that TRL's trainers log: a table a step, or lines of JSON, a row a completion."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from spectator.events import encode_json
from spectator.importing.file_rows import Entries, FileRow, Source, each_row, guarded, is_table, table_rows
from spectator.importing.foreign import (
    ForeignEpisode,
    UnreadableEntry,
    completed,
    count,
    integers,
    messages_of,
    number,
    reals,
    text,
)

NAME: Final = "trl"

_OWN: Final = frozenset(
    {"step", "prompt", "completion", "advantage", "mode", "completion_ids", "prompt_ids", "logprobs", "image",
     "images", "tools", "num_turns"}
)  # fmt: skip
"""Columns that are no rewards."""


def known_by(row: Mapping[str, Any]) -> bool:
    """Whether a line or a row of a table is one of this format."""
    return {"step", "prompt", "completion"} <= row.keys() and "example_id" not in row


def read(source: Source) -> Entries:
    """The completions of a file, each an episode of one answer or of several."""
    if not is_table(source.path):
        yield from each_row(source, lambda row, of: iter([_completion(row, of)]))
        return
    for row in table_rows(source):
        yield from guarded(f"row {row.number}", lambda row=row: iter([_completion(row, source)]))  # type: ignore[misc]


def _completion(row: FileRow, source: Source) -> ForeignEpisode:
    value = row.value
    step = count(value.get("step"))
    if step is None:
        raise UnreadableEntry("step is missing: it must be a whole number")
    prompt = messages_of(value["prompt"], "prompt")
    turns, after = completed(prompt, value["completion"])
    rewards = _rewards(value, source)
    total = value.get("reward") if not source.rewards else None
    advantage = number(value.get("advantage"))
    ids = integers(value.get("completion_ids"))
    if len(turns) == 1 and ids is not None:
        turns[0].token_ids = ids
        turns[0].prompt_token_ids = integers(value.get("prompt_ids"))
        turns[0].logprobs = reals(value.get("logprobs"), len(ids))
    told = encode_json(value["prompt"]) if not isinstance(value["prompt"], str) else value["prompt"]
    return ForeignEpisode(
        key=[NAME, row.number, row.digest],
        environment=NAME,
        agent=f"policy at step {step}",
        title="TRL completions",
        turns=turns,
        after=after,
        group=f"step-{step}-{sha256(told.encode('utf-8', 'replace')).hexdigest()[:8]}",
        reward=number(total) if number(total) is not None else (sum(rewards.values()) if rewards else None),
        rubric=rewards,
        result=None if advantage is None else f"advantage {advantage:+.4g}, by TRL's own account",
        order_ms=min(step, 2**24) * 2**20 + row.number % 2**20,
    )


def _rewards(value: Mapping[str, Any], source: Source) -> dict[str, float]:
    """The rewards by function; one that gave none is not there.

    Raises:
        UnreadableEntry: A column that was asked for is not there.
    """
    names = source.rewards or tuple(name for name in value if name not in _OWN and name != "reward")
    for name in source.rewards:
        if name not in value:
            raise UnreadableEntry(f"{text(name)} is missing: it was named as a reward")
    return {name: known for name in names if (known := number(value[name])) is not None}
