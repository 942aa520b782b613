"""Files with a row per episode of a collector, also of its predecessor without a ``format``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from spectator.importing.file_rows import (
    Entries,
    FileRow,
    Source,
    each_row,
)
from spectator.importing.foreign import (
    ForeignEpisode,
    ForeignTurn,
    UnreadableEntry,
    count,
    integers,
    kind_of,
    messages_of,
    moment,
    need,
    number,
    numbers,
    reals,
    text,
)

COLLECTOR: Final = "collector"

VERSION: Final = 1
"""The supported version of collector files."""

_GRADES: Final = ("terminal_reward", "discovered", "correct_mass", "correct_channel", "correct_spin")


def is_collected(row: Mapping[str, Any]) -> bool:
    """Whether a line is an episode of a collector."""
    return row.get("format") == "spectator.collector" or {"seed", "steps", "total_reward"} <= row.keys()


def read_collected(source: Source) -> Entries:
    """Yield the episodes of a collector's file."""
    return each_row(source, _collected)


def _collected(row: FileRow, source: Source) -> Iterator[ForeignEpisode]:
    value = row.value
    if "format" in value and value.get("version") != VERSION:
        raise UnreadableEntry(f"version is {value.get('version')!r}: only version {VERSION} is supported")
    steps = need(value, "steps", list, "it must list the steps")
    turns = list(_turns(steps))
    last = steps[-1] if steps else {}
    reason, reward = text(value.get("end_reason")), number(value.get("total_reward"))
    failed = text(value.get("failure_class"))
    cut = (value["truncated"] if "truncated" in value else last.get("done") is False) is True
    replaced = sum(not _own(step) for step in steps)
    notes = [f"{replaced} of {len(steps)} decisions were a fallback's"] if replaced else []
    if value.get("truth"):
        notes.append("the hidden truth in its file is not imported")
    yield ForeignEpisode(
        key=[COLLECTOR, text(value.get("episode_id")) or row.digest],
        anonymous=not text(value.get("episode_id")),
        environment=text(value.get("environment")) or COLLECTOR,
        agent=text(value.get("model")),
        turns=turns,
        seed=count(value.get("seed")),
        reward=reward,
        rubric=numbers({name: value.get(name) for name in _GRADES}),
        error=": ".join(filter(None, (reason, failed))) if reward is None and reason and not cut else None,
        cut=(reason or "step_cap") if cut else None,
        began=moment(value.get("started_at")),
        notes=notes,
    )


def _own(step: Mapping[str, Any]) -> bool:
    """Whether the action of a step is the model's own."""
    return step.get("parsed_ok") is not False and step.get("source") in (None, "model")


def _turns(steps: list[Any]) -> Iterator[ForeignTurn]:
    """Yield the answers; a prompt that continues from the last answer is a message of its own."""
    before, said = "", ""
    for place, step in enumerate(steps):
        if not isinstance(step, Mapping):
            raise UnreadableEntry(f"steps[{place}] is {kind_of(step)}: it must be an object")
        prompt = _prompt(step, before, place)
        goes_on = bool(said) and prompt.startswith(before + said)
        ids = integers(step.get("token_ids"))
        answer = text(step.get("completion"))
        yield ForeignTurn(
            asked=messages_of(prompt[len(before + said) :] if goes_on else prompt, f"steps[{place}].prompt"),
            reply={"role": "assistant", "content": answer},
            fresh_prompt=not goes_on,
            reward=number(step.get("reward")) if _own(step) else None,
            token_ids=ids,
            logprobs=None if ids is None else reals(step.get("logprobs"), len(ids)),
            usage={
                name: known
                for name in ("tokens_in", "tokens_out")
                if (known := count(step.get(name))) is not None
            },
            latency_s=max(0.0, number(step.get("latency_s")) or 0.0),
        )
        before, said = prompt, answer


def _prompt(step: Mapping[str, Any], before: str, place: int) -> str:
    """Return the whole prompt of a step, which may be stored as its difference from the last."""
    if "prompt_added" not in step:
        return text(step.get("prompt"))
    kept = step.get("prompt_kept")
    if type(kept) is not int or not 0 <= kept <= len(before):
        raise UnreadableEntry(f"steps[{place}].prompt_kept is {kept!r}: it must be within the last prompt")
    return before[:kept] + text(step["prompt_added"])
