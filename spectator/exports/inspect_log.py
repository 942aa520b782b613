"""Recorded episodes as one evaluation log of inspect_ai, which its viewer and its data frames read.

A sample is an episode in which a model decided: its conversation, its score, what its calls took. The form is
version 2 of the JSON log that ``inspect_ai.log.read_eval_log`` reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spectator import __version__
from spectator.exports.transcript import Transcript, calls_by_decision
from spectator.journal.contract import Journal
from spectator.journal.encoding import ChatMessage, json_text
from spectator.journal.outline import EpisodeOutline, OwnCount
from spectator.runs.run_plan import standard_error

LOG_VERSION: Final = 2
"""Version of the log's form."""

SCORE: Final = "reward"
"""Name of the score: the episode's reward."""

SEVERAL: Final = "several"
"""Model name of a log whose samples have different models."""

_STOPS: Final[Mapping[str, str]] = {
    "stop": "stop", "length": "max_tokens", "tool_calls": "tool_calls", "content_filter": "content_filter",
}  # fmt: skip
"""inspect_ai's stop reasons by the endpoint's finish reasons."""


@dataclass(slots=True)
class InspectLog:
    """The head of a log, collected while its samples are written.

    Args:
        rewards: The rewards of those that have one.
        own: How far models decided all samples themselves.
        models: The models that answered, by their own account.
        began: When the first episode began, RFC 3339.
    """

    samples: int = 0
    rewards: list[float] = field(default_factory=list)
    own: OwnCount = field(default_factory=OwnCount)
    models: dict[str, None] = field(default_factory=dict)
    usage: dict[str, dict[str, int]] = field(default_factory=dict)
    environments: dict[str, str] = field(default_factory=dict)
    began: str = ""
    ended: str = ""
    runs: dict[str, None] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)

    async def sample(
        self, journal: Journal, outline: EpisodeOutline, transcript: Transcript
    ) -> dict[str, Any]:
        """One episode as a sample, counted for the head.

        Raises:
            JournalError: A call cannot be read.
        """
        summary = outline.summary
        model = transcript.model or "unknown"
        usage, stop = await _usage(journal, outline)
        self._count(outline, model, usage)
        messages = [*_messages(transcript, outline, model)]
        last = next((one for one in reversed(messages) if one["role"] == "assistant"), None)
        return {
            "id": summary.episode_id,
            "epoch": 1,
            "input": messages[: transcript.asked],
            "target": "",
            "messages": messages,
            "output": {
                "model": model,
                "choices": [] if last is None else [{"message": last, "stop_reason": stop}],
                "usage": usage,
            },
            "scores": _score(outline),
            "metadata": {
                "environment": summary.environment,
                "environment_version": outline.started.get("environment_version"),
                "options": dict(outline.started.get("options") or {}),
                "seed": summary.seed,
                "pack": summary.pack,
                "captain": summary.captain,
                "opponent": summary.opponent or None,
                "run_id": summary.run_id,
                "reason": summary.reason,
                "failure_class": outline.failure,
                "rubric": dict(outline.rubric),
                "decisions": len(outline.of_agent),
                "fallbacks": outline.fallbacks,
                **outline.own_columns,
                "digest": summary.digest,
            },
            "model_usage": {model: usage},
            "started_at": summary.started_at,
            "completed_at": summary.ended_at,
            "turn_count": len(transcript.answers),
        }

    def _count(self, outline: EpisodeOutline, model: str, usage: Mapping[str, int]) -> None:
        summary = outline.summary
        self.samples += 1
        self.ids.append(summary.episode_id)
        self.models[model] = None
        self.environments[summary.environment] = summary.title
        self.began = min(self.began or summary.started_at, summary.started_at)
        self.ended = max(self.ended, summary.ended_at or "")
        if summary.run_id is not None:
            self.runs[summary.run_id] = None
        if outline.reward is not None:
            self.rewards.append(outline.reward)
        own = outline.own
        self.own.asked, self.own.own = self.own.asked + own.asked, self.own.own + own.own
        total = self.usage.setdefault(model, dict.fromkeys(usage, 0))
        for name, tokens in usage.items():
            total[name] += tokens

    def head(self) -> dict[str, Any]:
        """Return the log without its samples."""
        task = "_".join(self.environments) or "none"
        title = ", ".join(self.environments.values())
        runs = list(self.runs)
        return {
            "version": LOG_VERSION,
            "status": "success",
            "eval": {
                "run_id": runs[0] if len(runs) == 1 else "",
                "created": self.began,
                "task": f"spectator/{task}",
                "task_id": task,
                "task_display_name": title,
                "dataset": {"name": task, "samples": self.samples, "sample_ids": self.ids, "shuffled": False},
                "model": next(iter(self.models)) if len(self.models) == 1 else SEVERAL,
                "config": {},
                "packages": {"openenv-spectator": __version__},
                "metadata": {"runs": runs},
            },
            "plan": {},
            "results": {
                "total_samples": self.samples,
                "completed_samples": len(self.rewards),
                "scores": [_metrics(self.rewards, self.own.share)] if self.rewards else [],
            },
            "stats": {"started_at": self.began, "completed_at": self.ended, "model_usage": self.usage},
        }


def _metrics(rewards: Sequence[float], own_share: float | None) -> dict[str, Any]:
    metrics = {"mean": sum(rewards) / len(rewards)}
    if (error := standard_error(rewards)) is not None:
        metrics["stderr"] = error
    if own_share is not None:
        metrics["own_share"] = own_share
    return {
        "name": SCORE,
        "scorer": SCORE,
        "scored_samples": len(rewards),
        "metrics": {name: {"name": name, "value": value} for name, value in metrics.items()},
    }


def _score(outline: EpisodeOutline) -> dict[str, Any] | None:
    """Return the episode's reward; ``None`` if there is no verdict, which is not 0."""
    if outline.reward is None:
        return None
    return {SCORE: {"value": outline.reward, "explanation": outline.summary.result}}


async def _usage(journal: Journal, outline: EpisodeOutline) -> tuple[dict[str, int], str]:
    """Tokens of all calls for the agent, sent back and failed ones too, and why the last answer stopped."""
    taken = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0, "input_tokens_cache_read": 0}
    taken["reasoning_tokens"] = 0
    stop = "unknown"
    async for _, behind in calls_by_decision(journal, outline):
        for one in behind:
            reply = one.call.reply
            if reply is None:
                continue
            stop = _STOPS.get(reply.get("finish_reason") or "", "unknown")
            counted = reply.get("usage") or {}
            taken["input_tokens"] += counted.get("tokens_in", 0)
            taken["output_tokens"] += counted.get("tokens_out", 0)
            taken["input_tokens_cache_read"] += counted.get("cached_in", 0)
            taken["reasoning_tokens"] += counted.get("thought_out", 0)
    taken["total_tokens"] = taken["input_tokens"] + taken["output_tokens"]
    return taken, stop


def _messages(transcript: Transcript, outline: EpisodeOutline, model: str) -> Sequence[dict[str, Any]]:
    """Convert the conversation to inspect_ai's form."""
    answers = dict(transcript.answers)
    called: dict[str, str] = {}
    found = []
    for place, message in enumerate(transcript.messages):
        line = _message(message, called)
        if line["role"] == "assistant":
            line |= {"model": model, "source": "generate"}
        if place in answers:
            line["metadata"] = outline.answer_columns(answers[place])
        found.append(line)
    return found


def _message(message: ChatMessage, called: dict[str, str]) -> dict[str, Any]:
    content = message.get("content") or ""
    text = content if isinstance(content, str) else json_text(content)
    line: dict[str, Any] = {"role": message["role"], "content": text}
    if thought := message.get("reasoning_content"):
        line["content"] = [{"type": "reasoning", "reasoning": thought}, {"type": "text", "text": text}]
    if calls := message.get("tool_calls"):
        line["tool_calls"] = [_call(call) for call in calls]
        called.update((call["id"], call["function"]["name"]) for call in calls)
    if "tool_call_id" in message:
        line |= {"tool_call_id": message["tool_call_id"], "function": called.get(message["tool_call_id"])}
    return line


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    arguments = call["function"]["arguments"]
    made = {"id": call["id"], "function": call["function"]["name"], "type": "function"}
    if isinstance(arguments, Mapping):
        return {**made, "arguments": dict(arguments)}
    return {**made, "arguments": {}, "parse_error": f"no object: {json.dumps(arguments)[:500]}"}
