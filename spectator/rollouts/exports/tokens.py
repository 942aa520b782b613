"""Rows of tokens to train on, made from the recorded calls of an episode; see docs/training-record.md."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from spectator.journal.attachments import RecordedCall
from spectator.journal.base import Journal
from spectator.journal.outline import END_COLUMNS, EPISODE_COLUMNS, EpisodeOutline
from spectator.model_calls import ModelCall
from spectator.rollouts.exports.transcript import calls_by_decision
from spectator.rollouts.token_rows import RowJoiner, SampledCall, TokenRow

COLUMNS: Final[Mapping[str, str]] = {
    **EPISODE_COLUMNS,
    "seed": "int64",
    "row": "int64",
    "token_ids": "list<int64>",
    "loss_mask": "list<int8>",
    "logprobs": "list<double>",
    "weight_versions": "list<string>",
    "seqs": "list<int64>",
    "joins": "list<string>",
    "reward": "double",
    **END_COLUMNS,
    "failure_class": "string",
    "calls_without_tokens": "int64",
}
"""Name and Arrow type of every column; new ones come at the end."""


async def rows_of_tokens(journal: Journal, outline: EpisodeOutline) -> AsyncIterator[dict[str, Any]]:
    """The calls of the agent's model, joined where their tokens agree, row by row.

    A token is trained on where a model wrote it, it became the action, it was decided in this episode, and
    the episode has a verdict; every other token is context. Calls of which the engine gave no token ids are
    counted in the row that is written next.

    Raises:
        JournalError: A call cannot be read.
    """
    joiner, seqs, missing, number = RowJoiner(), list[int](), 0, 0

    def row_of(row: TokenRow) -> dict[str, Any]:
        nonlocal missing, number
        made = _row(outline, number, row, [seqs[place] for place in row.calls], missing)
        missing, number = 0, number + 1
        return made

    async for decision, behind in calls_by_decision(journal, outline):
        for one in behind:
            last = one.place == len(decision.requests) - 1
            sampled = _sampled(one, trainable=last and outline.trainable(decision))
            if sampled is None:
                missing += 1
                continue
            seqs.append(decision.seq)
            if (row := joiner.add(sampled)) is not None:
                yield row_of(row)
    if (row := joiner.rest()) is not None:
        yield row_of(row)


def _sampled(recorded: RecordedCall, *, trainable: bool) -> SampledCall | None:
    call = recorded.call
    if call.prompt_token_ids is None or call.token_ids is None:
        return None
    given = call.logprobs if call.logprobs is not None and len(call.logprobs) == len(call.token_ids) else None
    return SampledCall(
        call.prompt_token_ids,
        call.token_ids,
        given,
        _versions(call),
        trainable=trainable,
    )


def _versions(call: ModelCall) -> list[str | None] | str | None:
    """The version of the weights of each token, or of all."""
    runs = call.weight_versions
    if not runs:
        return None
    if len(runs) == 1:
        return runs[0][0]
    assert call.token_ids is not None
    told: list[str | None] = [version for version, tokens in runs for _ in range(tokens)]
    wanted = len(call.token_ids)
    return told[:wanted] + [None] * (wanted - len(told))


def _row(
    outline: EpisodeOutline, number: int, row: TokenRow, seqs: list[int], missing: int
) -> dict[str, Any]:
    return {
        **outline.columns,
        "seed": outline.summary.seed,
        "row": number,
        "token_ids": row.token_ids,
        "loss_mask": row.loss_mask,
        "logprobs": [value if value is not None and math.isfinite(value) else None for value in row.logprobs],
        "weight_versions": row.weight_versions,
        "seqs": seqs,
        "joins": row.joins,
        "reward": outline.reward,
        **outline.end_columns,
        "failure_class": outline.failure,
        "calls_without_tokens": missing,
    }
