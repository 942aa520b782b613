"""Model calls as rows for trainers: what was shown and answered, by tokens; see docs/training-record.md."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from spectator.journal.attachments import RecordedCall
from spectator.journal.chat_form import chat_message, reply_message
from spectator.journal.outline import END_COLUMNS, EPISODE_COLUMNS, EpisodeOutline

COLUMNS: Final[Mapping[str, str]] = {
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
}
"""Name and Arrow type of every column; strings of what is no text hold JSON. New ones come at the end."""

JSON_COLUMNS: Final = (
    "failure",
    "messages",
    "tools",
    "reply",
    "weight_versions",
    "sampling",
    "measured",
    "completion",
)
"""Those that hold neither text nor numbers."""


def row_of_call(outline: EpisodeOutline, recorded: RecordedCall) -> dict[str, Any]:
    """One call as plain JSON.

    Args:
        outline: Its episode.
        recorded: The call.

    Returns:
        ``mask`` has a number for each token of prompt and answer: 1 where the model wrote it and it may be
        trained on, else 0; ``None`` unless the tokens of both are known. ``decided`` says whether the answer
        became the action, ``trainable`` whether it did so for the agent, in this episode, and there is a
        verdict. ``reward`` is what a trainable decision earned. What the server did not give is ``None``; so
        is a log probability that is not finite.
    """
    summary, call, event = outline.summary, recorded.call, recorded.decided
    exchange, decision = recorded.exchange, outline.asked(event.seq)
    assert decision is not None, "its event was outlined"
    decided = decision.by_model and recorded.place == len(decision.requests) - 1
    trainable = decided and outline.trainable(decision)
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
    }


def finite(logprobs: Iterable[float] | None) -> list[float | None] | None:
    """Log probabilities as JSON has them: ``None`` for one that is not finite."""
    return None if logprobs is None else [value if math.isfinite(value) else None for value in logprobs]


def _mask(recorded: RecordedCall, trainable: bool) -> list[int] | None:
    prompt, answer = recorded.call.prompt_token_ids, recorded.call.token_ids
    if prompt is None or answer is None:
        return None
    return [0] * len(prompt) + [int(trainable)] * len(answer)
