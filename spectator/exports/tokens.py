"""Rows of token ids to train on, joined from the recorded model calls of an episode."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from spectator.exports.transcript import calls_by_decision
from spectator.journal.contract import Journal, RecordedCall
from spectator.journal.outline import END_COLUMNS, EPISODE_COLUMNS, OWN_COLUMNS, EpisodeOutline
from spectator.model_calls import ModelCall
from spectator.text import common_length

Join = Literal["first", "clean", "realigned", "forked"]
"""How a call was joined to the previous row.

``first`` begins the first row. ``clean``: its prompt begins with all tokens of the row. ``realigned``: its
prompt has the last few tokens in another form; the row continues with that form, and they are not trained on.
``forked``: the conversation was trimmed or changed; a new row begins, in which everything before the reply is
context.
"""

REALIGN_TOKENS: Final = 8
"""Maximum sampled tokens dropped to keep an episode in one row (an end mark, a stripped blank)."""


@dataclass(frozen=True, slots=True)
class SampledCall:
    """One model call with the engine's tokens.

    Args:
        prompt_ids: Ids of the prompt's tokens, shape ``(p,)``.
        completion_ids: Ids of the reply's tokens, shape ``(c,)``.
        logprobs: Log probability of each reply token, shape ``(c,)``; ``None`` if unknown.
        weight_versions: Version of the weights for each reply token, shape ``(c,)``, or one for all.
        trainable: Whether the reply may be trained on; false if a fallback replaced it.
    """

    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    logprobs: Sequence[float] | None = None
    weight_versions: Sequence[str | None] | str | None = None
    trainable: bool = True

    def __post_init__(self) -> None:
        written = len(self.completion_ids)
        if self.logprobs is not None and len(self.logprobs) != written:
            raise ValueError(f"logprobs: {len(self.logprobs)} for {written} tokens")
        versions = self.weight_versions
        if versions is not None and not isinstance(versions, str) and len(versions) != written:
            raise ValueError(f"weight_versions: {len(versions)} for {written} tokens")

    def versions(self) -> list[str | None]:
        """Return the version of the weights for each reply token."""
        if self.weight_versions is None or isinstance(self.weight_versions, str):
            return [self.weight_versions] * len(self.completion_ids)
        return list(self.weight_versions)


@dataclass(slots=True)
class TokenRow:
    """A sequence to train on; all lists have the same length.

    Args:
        loss_mask: 1 for tokens of the model to train on, else 0.
        logprobs: Log probability of each token to train on; ``None`` for others or if unknown.
        weight_versions: Version of the weights that sampled the token; ``None`` for context.
        calls: Indexes of its calls, in order.
        joins: How each of them was joined.
    """

    token_ids: list[int] = field(default_factory=list)
    loss_mask: list[int] = field(default_factory=list)
    logprobs: list[float | None] = field(default_factory=list)
    weight_versions: list[str | None] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    joins: list[Join] = field(default_factory=list)

    def _cut(self, length: int) -> None:
        del (
            self.token_ids[length:],
            self.loss_mask[length:],
            self.logprobs[length:],
            self.weight_versions[length:],
        )

    def _context(self, token_ids: Sequence[int]) -> None:
        self.token_ids += token_ids
        self.loss_mask += [0] * len(token_ids)
        self.logprobs += [None] * len(token_ids)
        self.weight_versions += [None] * len(token_ids)

    def _answer(self, call: SampledCall) -> None:
        written = len(call.completion_ids)
        self.token_ids += call.completion_ids
        self.loss_mask += [int(call.trainable)] * written
        known = call.trainable and call.logprobs is not None
        self.logprobs += list(call.logprobs or ()) if known else [None] * written
        self.weight_versions += call.versions()


def token_rows(calls: Iterable[SampledCall], *, realign_tokens: int = REALIGN_TOKENS) -> list[TokenRow]:
    """Join the calls of one episode into as few rows as their tokens allow; no token is trained on twice.

    Args:
        calls: The calls, in order.
        realign_tokens: Maximum sampled tokens at the end of a row that may be dropped to continue it.

    Example:
        >>> first = SampledCall([1, 2], [3, 4])
        >>> rows = token_rows([first, SampledCall([1, 2, 3, 4, 5], [6])])
        >>> rows[0].token_ids, rows[0].loss_mask, rows[0].joins
        ([1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 0, 1], ['first', 'clean'])
        >>> [row.joins for row in token_rows([first, SampledCall([9, 5], [6])])]
        [['first'], ['forked']]
    """
    joiner = RowJoiner(realign_tokens)
    rows = [row for call in calls if (row := joiner.add(call)) is not None]
    return rows if (last := joiner.rest()) is None else [*rows, last]


class RowJoiner:
    """Joins calls one at a time, holding only one row; see :func:`token_rows`.

    Args:
        realign_tokens: Maximum sampled tokens at the end of a row that may be dropped to continue it.
    """

    def __init__(self, realign_tokens: int = REALIGN_TOKENS) -> None:
        self._realign_tokens = realign_tokens
        self._row: TokenRow | None = None
        self._calls = 0

    def add(self, call: SampledCall) -> TokenRow | None:
        """Add the next call; return the previous row if the call begins a new one."""
        before = self._row
        join = self._joined(list(call.prompt_ids))
        assert self._row is not None
        self._row._answer(call)
        self._row.calls.append(self._calls)
        self._row.joins.append(join)
        self._calls += 1
        return before if before is not self._row else None

    def rest(self) -> TokenRow | None:
        """Return the last row; ``None`` if there is none."""
        row, self._row = self._row, None
        return row

    def _joined(self, prompt: list[int]) -> Join:
        """Continue the row with ``prompt``, or begin a new one."""
        row = self._row
        if row is not None:
            same = common_length(row.token_ids, prompt)
            if same == len(row.token_ids):
                row._context(prompt[same:])
                return "clean"
            if sum(row.loss_mask[same:]) <= self._realign_tokens and _ends_the_last_answer(row, same):
                row._cut(same)
                row._context(prompt[same:])
                return "realigned"
        self._row = TokenRow()
        self._row._context(prompt)
        return "first" if row is None else "forked"


def _ends_the_last_answer(row: TokenRow, start: int) -> bool:
    """Return whether the tokens from ``start`` on are a proper suffix of the last reply."""
    return start > 0 and all(row.loss_mask[start - 1 :])


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
    **OWN_COLUMNS,
    "seat": "string",
}
"""Name and Arrow type of every column; new ones come at the end."""


async def rows_of_tokens(journal: Journal, outline: EpisodeOutline) -> AsyncIterator[dict[str, Any]]:
    """Yield the token rows of the agent's model calls.

    A token is trained on if a model sampled it, its reply became the action in this episode, and the episode
    has a verdict; every other token is context. Calls without token ids are counted in the next row.

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
    return SampledCall(call.prompt_token_ids, call.token_ids, given, _versions(call), trainable=trainable)


def _versions(call: ModelCall) -> list[str | None] | str | None:
    """Return the version of the weights of each token, or one for all."""
    runs = call.weight_versions
    if not runs:
        return None
    if len(runs) == 1:
        return runs[0][0]
    assert call.token_ids is not None
    versions: list[str | None] = [version for version, tokens in runs for _ in range(tokens)]
    wanted = len(call.token_ids)
    return versions[:wanted] + [None] * (wanted - len(versions))


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
        **outline.own_columns,
        "seat": outline.agent,
    }
