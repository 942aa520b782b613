"""Files that Spectator exports: events, model calls, groups, OpenEnv records.

Exported events become the same episodes again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spectator.events import RecordedEvent, decode, encode_json
from spectator.importing.file_rows import (
    Entries,
    FileRow,
    SkippedEntry,
    Source,
    each_row,
    guarded,
    row_at,
    rows,
)
from spectator.importing.foreign import (
    ForeignEpisode,
    ForeignTurn,
    UnreadableEntry,
    count,
    digest_of,
    group_within,
    integers,
    message_of,
    messages_of,
    need,
    number,
    numbers,
    reals,
    text,
    tools_of,
    turns_of,
    usage_of,
)

NAME: Final = "ndjson"

BATCH: Final = 500
"""Maximum events per batch."""


@dataclass(slots=True)
class EventBatch:
    """Consecutive events of one episode.

    Args:
        line: Line of the first event.
    """

    line: int
    events: list[RecordedEvent] = field(default_factory=list)


def matches(row: Mapping[str, Any]) -> bool:
    """Whether a line is an event."""
    return {"v", "episode_id", "epoch", "seq", "type", "data"} <= row.keys()


def batches(source: Source) -> Any:
    """Yield the events of a file in batches; other lines as :class:`SkippedEntry`."""
    batch: EventBatch | None = None
    for row in rows(source):
        event = row if isinstance(row, SkippedEntry) else _event(row)
        if isinstance(event, SkippedEntry):
            yield event
            continue
        assert isinstance(row, FileRow)
        full = batch is not None and not _fits(batch, event)
        if batch is not None and full:
            yield batch
            batch = None
        batch = batch or EventBatch(row.number)
        batch.events.append(event)
    if batch is not None:
        yield batch


def _fits(batch: EventBatch, event: RecordedEvent) -> bool:
    last = batch.events[-1]
    follows = (last.episode_id, last.seq + 1) == (event.episode_id, event.seq)
    return follows and len(batch.events) < BATCH


def _event(row: FileRow) -> RecordedEvent | SkippedEntry:
    try:
        return decode(encode_json(dict(row.value)))
    except ValueError as error:
        return SkippedEntry(f"line {row.number}", str(error)[:300])


CALLS: Final = "messages"
GROUPS: Final = "groups"
RECORDS: Final = "episode-record"


def is_call(row: Mapping[str, Any]) -> bool:
    """Whether a line is a call to a model."""
    return {"episode_id", "seq", "call", "messages", "reply"} <= row.keys()


def is_group(row: Mapping[str, Any]) -> bool:
    """Whether a line is a group."""
    return {"group_id", "completions", "rewards", "prompt"} <= row.keys()


def is_record(row: Mapping[str, Any]) -> bool:
    """Whether a line is an ``EpisodeRecord``."""
    return {"episode_id", "messages", "tool_trace", "reward"} <= row.keys()


def _group(environment: str, value: Mapping[str, Any]) -> str | None:
    return group_within(environment, value["group_id"]) if text(value.get("group_id")) else None


def read_calls(source: Source) -> Entries:
    """Yield the episodes of model calls, in whatever order their lines are."""
    found: dict[str, dict[tuple[int, int], tuple[int, int]]] = {}
    for row in rows(source):
        if isinstance(row, SkippedEntry):
            yield row
            continue
        place = (count(row.value.get("seq")) or 0, count(row.value.get("call")) or 0)
        found.setdefault(text(row.value.get("episode_id")), {})[place] = (row.number, row.start)
    source.done = 0
    with source.path.open("rb") as file:
        for lines in found.values():
            calls = [row_at(file, *lines[place]) for place in sorted(lines)]
            kept = [one for one in calls if isinstance(one, FileRow)]
            source.done = max(source.done, *(one.start for one in kept))
            yield from guarded(f"line {kept[0].number}", lambda of=kept: iter([_calls_episode(of)]))  # type: ignore[misc]
    source.done = source.size


def _calls_episode(calls: list[FileRow]) -> ForeignEpisode:
    first, last = calls[0].value, calls[-1].value
    turns = [
        _turn(row.value) for row in calls if row.value.get("reply") is not None and row.value.get("decided")
    ]
    reason = last.get("episode_reason")
    failed = last.get("episode_failure")
    environment = text(first.get("environment"))
    return ForeignEpisode(
        key=[CALLS, text(first.get("episode_id"))],
        environment=environment,
        agent=next((one.model for one in turns if one.model), ""),
        turns=turns,
        group=_group(environment, first),
        reward=number(last.get("episode_reward")),
        error=f"{reason}: {failed}" if failed and failed != "truncated" else None,
        cut=text(reason) if failed == "truncated" else None,
        ended=reason is not None,
        tools=tools_of(first.get("tools")),
    )


def _turn(value: Mapping[str, Any]) -> ForeignTurn:
    reply = need(value, "reply", dict, "it must be the answer")
    completion = value.get("completion") or [{"role": "assistant", "content": text(reply.get("content"))}]
    message = message_of(completion[0], "completion[0]")
    ids = integers(value.get("token_ids"))
    measured = value.get("measured") if isinstance(value.get("measured"), Mapping) else {}
    return ForeignTurn(
        asked=messages_of(value.get("messages"), "messages"),
        reply=message,
        fresh_prompt=True,
        reward=number(value.get("reward")),
        model=text(reply.get("model")) or None,
        finish_reason=text(reply.get("finish_reason")) or None,
        usage=usage_of(reply.get("usage"), "tokens_in", "tokens_out"),
        latency_s=max(0.0, number((measured or {}).get("latency_s")) or 0.0),
        prompt_token_ids=integers(value.get("prompt_token_ids")),
        token_ids=ids,
        logprobs=None if ids is None else reals(value.get("logprobs"), len(ids)),
    )


def read_groups(source: Source) -> Entries:
    """Yield the members of each group."""
    return each_row(source, _members)


def _members(row: FileRow, source: Source) -> Iterator[ForeignEpisode]:
    value = row.value
    completions = need(value, "completions", list, "it must list the conversations")
    rewards = need(value, "rewards", list, "it must list the rewards")
    if len(completions) != len(rewards):
        raise UnreadableEntry(
            f"{len(completions)} completions and {len(rewards)} rewards: their numbers must be equal"
        )
    prompt = messages_of(value.get("prompt"), "prompt")
    ids = value.get("episode_ids") or []
    environment = text(value.get("environment"))
    shared = [value.get(name) for name in ("environment", "group_id", "seed", "prompt")]
    for place, (completion, reward) in enumerate(zip(completions, rewards, strict=True)):
        turns, after = turns_of(messages_of(completion, f"completions[{place}]"))
        if turns:
            turns[0].asked = [*prompt, *turns[0].asked]
        cut = value.get("truncated") or []
        yield ForeignEpisode(
            key=[GROUPS, ids[place] if place < len(ids) else digest_of([shared, completion, reward])],
            anonymous=place >= len(ids),
            environment=environment,
            turns=turns,
            after=after,
            group=_group(environment, value),
            seed=count(value.get("seed")),
            reward=number(reward),
            cut="truncated" if place < len(cut) and cut[place] is True else None,
            tools=tools_of(value.get("tools")),
        )


def read_records(source: Source) -> Entries:
    """Yield records of whole episodes, as OpenEnv's harness writes them."""
    return each_row(source, _record)


def _record(row: FileRow, source: Source) -> Iterator[ForeignEpisode]:
    value = row.value
    turns, after = turns_of(messages_of(value.get("messages"), "messages"))
    task = value.get("task") if isinstance(value.get("task"), Mapping) else {}
    extra = value.get("extra") if isinstance(value.get("extra"), Mapping) else {}
    assert isinstance(task, Mapping) and isinstance(extra, Mapping)
    metrics = value.get("metrics") if isinstance(value.get("metrics"), Mapping) else {}
    environment = text(task.get("environment")) or text(task.get("name")) or "openenv"
    yield ForeignEpisode(
        key=[RECORDS, text(value.get("episode_id")) or row.digest],
        anonymous=not text(value.get("episode_id")),
        environment=environment,
        agent=text(extra.get("model")),
        turns=turns,
        after=after,
        group=_group(environment, extra),
        seed=count(task.get("seed")),
        reward=number(value.get("reward")),
        rubric=numbers(value.get("verify_metrics")),
        cut="truncated" if (metrics or {}).get("truncated") is True else None,
    )
