"""Completions logged by TRL's trainers: a table per step, or JSON Lines; one row per completion."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from spectator.importing.file_rows import Entries, FileRow, Source, each_row, guarded, is_table, table_rows
from spectator.importing.foreign import (
    ForeignEpisode,
    UnreadableEntry,
    completed,
    count,
    digest_of,
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
"""Columns that are not rewards."""


def matches(row: Mapping[str, Any]) -> bool:
    """Whether a line or a row of a table is one of this format."""
    return {"step", "prompt", "completion"} <= row.keys() and "example_id" not in row


def read(source: Source) -> Entries:
    """Yield the completions of a file, each as an episode with one or more answers."""
    if not is_table(source.path):
        yield from each_row(source, lambda row, of: iter([_completion(row, of)]))
        return
    for row in table_rows(source):
        yield from guarded(f"row {row.number}", lambda row=row: iter([_completion(row, source)]))  # type: ignore[misc]


def _completion(row: FileRow, source: Source) -> ForeignEpisode:
    value = row.value
    step = count(value.get("step"))
    if step is None:
        raise UnreadableEntry("step is missing or not a number: it must be an integer of at least 0")
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
    return ForeignEpisode(
        key=[NAME, row.digest],
        anonymous=True,
        environment=NAME,
        agent=f"policy at step {step}",
        title="TRL completions",
        turns=turns,
        after=after,
        group=f"step-{step}-{digest_of(value['prompt'])[:8]}",
        reward=number(total)
        if number(total) is not None
        else (math.fsum(rewards.values()) if rewards else None),
        rubric=rewards,
        result=None if advantage is None else f"advantage {advantage:+.4g}, as computed by TRL",
        order_ms=min(step, 2**24) * 2**20,
    )


def _rewards(value: Mapping[str, Any], source: Source) -> dict[str, float]:
    """Return the rewards by function, without missing ones.

    Raises:
        UnreadableEntry: A requested reward column is missing.
    """
    names = source.rewards or tuple(name for name in value if name not in _OWN and name != "reward")
    for name in source.rewards:
        if name not in value:
            raise UnreadableEntry(f"{text(name)} is missing: it was requested as a reward")
    return {name: known for name in names if (known := number(value[name])) is not None}
