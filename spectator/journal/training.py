"""Model calls as rows for trainers: what was shown and answered, by tokens; see docs/training-record.md."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from spectator.journal.attachments import RecordedCall
from spectator.journal.base import EpisodeSummary
from spectator.journal.parquet import ParquetFile

COLUMNS: Final[Mapping[str, str]] = {
    "episode_id": "string",
    "environment": "string",
    "run_id": "string",
    "group_id": "string",
    "attempt": "int64",
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
}
"""Name and Arrow type of every column; strings of what is no text hold JSON. New ones come at the end."""

JSON_COLUMNS: Final = ("failure", "messages", "tools", "reply", "weight_versions", "sampling", "measured")

BYTES_A_TOKEN: Final = 64
"""About what a token takes in a row while the row waits to be written."""


class CallTable(ParquetFile):
    """Writes model calls into one Parquet file, which is there once all of them are.

    Args:
        path: The file.

    Raises:
        ConfigurationError: pyarrow is not installed.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, COLUMNS, name="spectator.calls")

    def add(self, row: dict[str, Any]) -> None:
        """Write a row of :func:`row_of_call`."""
        told = {
            name: None if row[name] is None else json.dumps(row[name], ensure_ascii=False)
            for name in JSON_COLUMNS
        }
        texts = {name: _encodable(text) for name, text in told.items()}
        tokens = sum(len(row[name] or ()) for name in ("prompt_token_ids", "token_ids", "mask"))
        size = sum(len(text or "") for text in texts.values()) + BYTES_A_TOKEN * tokens
        self.extend([{**row, **texts}], size)


def row_of_call(summary: EpisodeSummary, recorded: RecordedCall) -> dict[str, Any]:
    """One call as plain JSON.

    Args:
        summary: Its episode.
        recorded: The call.

    Returns:
        ``mask`` has a number for each token of prompt and answer: 1 where the model wrote it, 0 where it was
        shown it; ``None`` unless the tokens of both are known. ``decided`` says whether the answer became the
        action. What the server did not give is ``None``; so is a log probability that is not finite.
    """
    call, decided = recorded.call, recorded.decided
    exchange, data = recorded.exchange, decided.data
    return {
        "episode_id": summary.episode_id,
        "environment": summary.environment,
        "run_id": summary.run_id,
        "group_id": summary.group_id,
        "attempt": summary.attempt,
        "episode_reason": summary.reason,
        "episode_score": summary.score,
        "seq": decided.seq,
        "turn": decided.turn,
        "call": recorded.place,
        "actor": data["actor"],
        "decided": data["source"] == "model" and recorded.place == len(data["exchanges"]) - 1,
        "failure": exchange["failure"],
        "messages": [dict(message) for message in call.messages],
        "tools": [dict(tool) for tool in call.tools],
        "reply": None if call.reply is None else dict(call.reply),
        "prompt_token_ids": None if call.prompt_token_ids is None else call.prompt_token_ids.tolist(),
        "token_ids": None if call.token_ids is None else call.token_ids.tolist(),
        "logprobs": _finite(recorded),
        "mask": _mask(recorded),
        "weight_versions": [[version, tokens] for version, tokens in call.weight_versions],
        "sampling": dict(call.about),
        "measured": dict(call.measured),
    }


def _encodable(text: str | None) -> str | None:
    """``text`` with a question mark for every half of a surrogate pair, which has no UTF-8."""
    return text if text is None else text.encode("utf-8", "replace").decode()


def _mask(recorded: RecordedCall) -> list[int] | None:
    prompt, answer = recorded.call.prompt_token_ids, recorded.call.token_ids
    return None if prompt is None or answer is None else [0] * len(prompt) + [1] * len(answer)


def _finite(recorded: RecordedCall) -> list[float | None] | None:
    logprobs = recorded.call.logprobs
    if logprobs is None:
        return None
    return [value if math.isfinite(value) else None for value in logprobs]
