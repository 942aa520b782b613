"""Export records as tables: one row per event or model call, in Parquet.

A Parquet file appears once it is complete, and is written one group of rows at a time. See docs/journal.md
for the columns of events and docs/exports.md for those of model calls.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from spectator.core_events import UNDECIDED_IN
from spectator.errors import ConfigurationError
from spectator.events import Event, encode_json
from spectator.journal.contract import EpisodeSummary, RecordedCall
from spectator.journal.encoding import chat_message, check_replaceable, reply_message
from spectator.journal.outline import END_COLUMNS, EPISODE_COLUMNS, OWN_COLUMNS, EpisodeOutline
from spectator.text import encodable

ROW_GROUP: Final = 4096
"""Rows that are kept before they are written together."""

GROUP_BYTES: Final = 32_000_000
"""About how large rows may become before they are written, however few they are."""


class ParquetFile:
    """Writes rows of one schema; as a context manager it leaves a whole file or none.

    Args:
        columns: Name and Arrow type of every column, in order; ``list<TYPE>`` for lists.
        name: Key of the file's metadata that says which table it is.

    Raises:
        ConfigurationError: pyarrow is not installed, or ``path`` is not a regular file.
    """

    def __init__(self, path: Path, columns: Mapping[str, str], *, name: str) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"{error.name} is not installed; Parquet needs: pip install 'openenv-spectator[parquet]'"
            ) from error
        check_replaceable(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._arrow = pyarrow
        fields = [(column, _type_of(pyarrow, kind)) for column, kind in columns.items()]
        self._schema = pyarrow.schema(fields, metadata={name: "1"})
        self._writer = parquet.ParquetWriter(self._part, self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._flush()
        self._writer.close()
        if kind is None:
            self._part.replace(self._path)
        else:
            self._part.unlink(missing_ok=True)

    def extend(self, rows: Iterable[dict[str, Any]], size: int = 0) -> None:
        """Add ``rows``, which take about ``size`` bytes beyond the usual."""
        self._rows.extend(rows)
        self._size += size
        if len(self._rows) >= ROW_GROUP or self._size >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(self._arrow.Table.from_pylist(self._rows, schema=self._schema))
            self._rows, self._size = [], 0


BYTES_A_NUMBER: Final = 32
"""About what a number in a list takes while its row waits to be written."""


class RowFile(ParquetFile):
    """Writes rows of plain JSON, one at a time; in some columns the value is written as JSON text.

    Args:
        columns: Name and Arrow type of every column, in order.
        as_json: Columns of type ``string`` whose values are encoded as JSON.
        name: Key of the file's metadata that says which table it is.

    Raises:
        ConfigurationError: pyarrow is not installed.
    """

    def __init__(
        self, path: Path, columns: Mapping[str, str], as_json: Collection[str], *, name: str
    ) -> None:
        super().__init__(path, columns, name=name)
        self._as_json = as_json

    def add(self, row: Mapping[str, Any]) -> None:
        """Write a row, which has every column."""
        encoded = {
            name: None if row[name] is None else json.dumps(row[name], ensure_ascii=False)
            for name in self._as_json
        }
        texts = {name: None if text is None else encodable(text) for name, text in encoded.items()}
        numbers = sum(len(value) for value in row.values() if isinstance(value, list))
        size = sum(len(text or "") for text in texts.values()) + BYTES_A_NUMBER * numbers
        self.extend([{**row, **texts}], size)


def _type_of(arrow: Any, kind: str) -> Any:
    if kind.startswith("list<"):
        return arrow.list_(_type_of(arrow, kind[5:-1]))
    named = {"timestamp[ms, tz=UTC]": arrow.timestamp("ms", tz="UTC"), "bool": arrow.bool_()}
    return named[kind] if kind in named else arrow.type_for_alias(kind)


EVENT_COLUMNS: Final[Mapping[str, str]] = {
    "episode_id": "string",
    "epoch": "string",
    "environment": "string",
    "captain": "string",
    "opponent": "string",
    "pack": "string",
    "seed": "int64",
    "episode_reason": "string",
    "episode_score": "double",
    "seq": "int64",
    "at": "timestamp[ms, tz=UTC]",
    "turn": "int64",
    "type": "string",
    "actor": "string",
    "source": "string",
    "action": "string",
    "reasoning": "string",
    "raw_text": "string",
    "parse": "string",
    "fallback_reason": "string",
    "model": "string",
    "latency_s": "double",
    "tokens_in": "int64",
    "tokens_out": "int64",
    "cost": "double",
    "refused_rule": "string",
    "reward": "double",
    "done": "bool",
    "rubric": "string",
    "data": "string",
    "failure_class": "string",
    "run_id": "string",
    "group_id": "string",
    "attempt": "int64",
    "own": "bool",
}
"""Name and Arrow type of every column, in order; a new one is only ever added at the end."""

FROM_DATA: Final = (
    "actor",
    "source",
    "reasoning",
    "raw_text",
    "parse",
    "fallback_reason",
    "model",
    "latency_s",
    "tokens_in",
    "tokens_out",
    "cost",
    "reward",
    "done",
)
"""Columns that hold the field of the same name of a core event."""

OUTCOMES: Final = ("action.refused", "step.taken")
"""Event types that tell what came of a decision."""

CORE: Final = ("decision.made", *OUTCOMES)
"""Event types whose fields have columns of their own; those of every type are in ``data``."""


class Table(ParquetFile):
    """Writes the events of episodes into one Parquet file, which is there once all of them are.

    Raises:
        ConfigurationError: pyarrow is not installed.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, EVENT_COLUMNS, name="spectator.table")

    async def add(self, summary: EpisodeSummary, events: AsyncIterator[Event]) -> None:
        """Write the events of one episode, in order."""
        decided: list[dict[str, Any]] = []
        async for event in events:
            row = row_of(summary, event)
            if event.type == "decision.made":
                self.extend(decided)
                decided = [row]
            elif decided and event.type in OUTCOMES:
                _add_outcome(decided[0], row)
                self.extend([*decided, row])
                decided = []
            elif decided:
                decided.append(row)
            else:
                self.extend([row])
        self.extend(decided)


def row_of(summary: EpisodeSummary, event: Event) -> dict[str, Any]:
    """Make the row of one event, without empty columns."""
    row: dict[str, Any] = {
        "episode_id": summary.episode_id,
        "epoch": summary.epoch,
        "environment": summary.environment,
        "captain": summary.captain,
        "opponent": summary.opponent,
        "pack": summary.pack,
        "seed": summary.seed,
        "episode_reason": summary.reason,
        "episode_score": summary.score,
        "seq": event.seq,
        "at": _moment(event.at),
        "turn": event.turn,
        "type": event.type,
        "data": encode_json(event.data),
        "run_id": summary.run_id,
        "group_id": summary.group_id,
        "attempt": summary.attempt,
    }
    if event.type in UNDECIDED_IN and (asked := event.data.get("undecided")):
        return {**row, **{name: value for name, value in asked.items() if name in FROM_DATA}}
    return {**row, **dict(_core_fields(event))} if event.type in CORE else row


def _core_fields(event: Event) -> Iterator[tuple[str, Any]]:
    data = event.data
    for name in FROM_DATA:
        if name in data:
            yield name, data[name]
    if event.type == "decision.made":
        yield "failure_class", (failure_class := data.get("failure_class"))
        yield "own", failure_class is None
    for name in ("action", "rubric"):
        if name in data:
            yield name, encode_json(data[name])
    if event.type == "action.refused":
        yield "refused_rule", data["rule"]


def _add_outcome(decision: dict[str, Any], row: Mapping[str, Any]) -> None:
    """Put what came of a decision into the decision's own row."""
    for name in ("reward", "done", "rubric", "refused_rule"):
        if name in row:
            decision[name] = row[name]


def _moment(at: str) -> datetime | None:
    try:
        return datetime.fromisoformat(at)
    except ValueError:
        return None


CALL_COLUMNS: Final[Mapping[str, str]] = {
    **EPISODE_COLUMNS,
    "episode_reason": "string",
    "episode_score": "double",
    "seq": "int64",
    "turn": "int64",
    "call": "int64",
    "actor": "string",
    "decided": "bool",
    "failure": "string",
    "messages": "string",
    "tools": "string",
    "reply": "string",
    "prompt_token_ids": "list<int64>",
    "token_ids": "list<int64>",
    "logprobs": "list<double>",
    "mask": "list<int8>",
    "weight_versions": "string",
    "sampling": "string",
    "measured": "string",
    "completion": "string",
    "trainable": "bool",
    "reward": "double",
    "source": "string",
    "failure_class": "string",
    "inherited": "bool",
    "episode_reward": "double",
    **END_COLUMNS,
    "episode_failure": "string",
    **OWN_COLUMNS,
    "seat": "string",
}
"""Name and Arrow type of every column; strings that are not text contain JSON. New ones come at the end."""

CALL_JSON_COLUMNS: Final = (
    "failure",
    "messages",
    "tools",
    "reply",
    "weight_versions",
    "sampling",
    "measured",
    "completion",
)
"""Columns with JSON instead of text or numbers."""


def row_of_call(outline: EpisodeOutline, recorded: RecordedCall) -> dict[str, Any]:
    """One call as plain JSON.

    Returns:
        ``mask`` has a number for each token of prompt and answer: 1 where the model wrote it and it may be
        trained on, else 0; ``None`` unless the tokens of both are known. ``decided`` says whether the answer
        became the action, ``trainable`` whether it did so for the agent, or was penalised, in this episode,
        and there is a verdict. ``reward`` is what a trainable decision earned. What the server did not give
        is ``None``; so is a log probability that is not finite.
    """
    summary, call, event = outline.summary, recorded.call, recorded.decided
    exchange, decision = recorded.exchange, outline.asked(event.seq)
    assert decision is not None, "its event was outlined"
    last = recorded.place == len(decision.requests) - 1
    decided, trainable = decision.by_model and last, last and outline.trainable(decision)
    return {
        **outline.columns,
        "episode_reason": summary.reason,
        "episode_score": summary.score,
        "seq": event.seq,
        "turn": decision.turn,
        "call": recorded.place,
        "actor": decision.actor,
        "decided": decided,
        "failure": exchange["failure"],
        "messages": [chat_message(message) for message in call.messages],
        "tools": [dict(tool) for tool in call.tools],
        "reply": None if call.reply is None else dict(call.reply),
        "prompt_token_ids": None if call.prompt_token_ids is None else call.prompt_token_ids.tolist(),
        "token_ids": None if call.token_ids is None else call.token_ids.tolist(),
        "logprobs": finite(call.logprobs),
        "mask": _mask(recorded, trainable),
        "weight_versions": [[version, tokens] for version, tokens in call.weight_versions],
        "sampling": dict(call.about),
        "measured": dict(call.measured),
        "completion": None if call.reply is None else [reply_message(call.reply)],
        "trainable": trainable,
        "reward": outline.reward_of(decision) if trainable else None,
        "source": decision.source if event.seq in outline.decisions else None,
        "failure_class": decision.failure_class,
        "inherited": decision.inherited,
        "episode_reward": outline.reward,
        **outline.end_columns,
        "episode_failure": outline.failure,
        **outline.own_columns,
        "seat": outline.agent,
    }


def finite(logprobs: Iterable[float] | None) -> list[float | None] | None:
    """Log probabilities as JSON has them: ``None`` for one that is not finite."""
    return None if logprobs is None else [value if math.isfinite(value) else None for value in logprobs]


def _mask(recorded: RecordedCall, trainable: bool) -> list[int] | None:
    prompt, answer = recorded.call.prompt_token_ids, recorded.call.token_ids
    if prompt is None or answer is None:
        return None
    return [0] * len(prompt) + [int(trainable)] * len(answer)
