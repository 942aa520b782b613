"""Whole episodes for other programs: OpenEnv's ``EpisodeRecord``, and session traces for the Hub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from spectator.exports.transcript import Transcript
from spectator.journal.encoding import ChatMessage, json_text, wire_message
from spectator.journal.outline import EpisodeOutline, OutlinedDecision

HARNESS: Final = "spectator"
"""Name of this software in session traces."""

RECORD_COLUMNS: Final[Mapping[str, str]] = {
    "episode_id": "string",
    "messages": "string",
    "reward": "double",
    "done": "bool",
    "tool_trace": "string",
    "metrics": "string",
    "verify_metrics": "string",
    "artifacts": "string",
    "task": "string",
    "extra": "string",
}
"""Name and Arrow type of every field of an ``EpisodeRecord``; those that hold no text are JSON."""

RECORD_JSON_COLUMNS: Final = (
    "messages", "tool_trace", "metrics", "verify_metrics", "artifacts", "task", "extra",
)  # fmt: skip


def episode_record(outline: EpisodeOutline, transcript: Transcript) -> dict[str, Any] | None:
    """Convert an episode to ``openenv.core.harness.collect.EpisodeRecord``, as plain JSON.

    Returns ``None`` if the episode has no verdict, because the reward must be a number, or no model decided.
    """
    if outline.reward is None or not transcript.answers:
        return None
    summary, started = outline.summary, outline.started
    decisions = outline.of_agent
    shown = _shown_after(transcript)
    return {
        "episode_id": summary.episode_id,
        "messages": [wire_message(message) for message in transcript.messages],
        "reward": outline.reward,
        "done": _terminated(outline),
        "tool_trace": [_trace_entry(one, one is decisions[-1], outline, shown) for one in decisions],
        "metrics": {
            "turns": len(decisions),
            "refused": sum(one.refused is not None for one in decisions),
            "fallbacks": outline.fallbacks,
            **outline.own_columns,
            "truncated": outline.failure == "truncated",
        },
        "verify_metrics": dict(outline.rubric),
        "artifacts": {},
        "task": {
            "environment": summary.environment,
            "options": dict(started.get("options") or {}),
            "pack": summary.pack,
            "seed": summary.seed,
        },
        "extra": {
            "environment_version": started.get("environment_version"),
            "model": transcript.model,
            "run_id": summary.run_id,
            "group_id": summary.group_id,
            "attempt": summary.attempt,
            "end_reason": summary.reason,
            "parent": summary.parent,
        },
    }


def _terminated(outline: EpisodeOutline) -> bool:
    """Whether the world ended by its own rules."""
    return outline.ended is not None and outline.ended["reason"] == "finished"


def _shown_after(transcript: Transcript) -> dict[int, str]:
    """By decision, what its answer was answered with."""
    shown = {}
    for (place, seq), following in zip(
        transcript.answers, [*transcript.answers[1:], (len(transcript.messages), 0)], strict=True
    ):
        said = transcript.messages[place + 1 : following[0]]
        if said:
            shown[seq] = "\n".join(str(message.get("content") or "") for message in said)
    return shown


def _trace_entry(
    decision: OutlinedDecision, last: bool, outline: EpisodeOutline, shown: Mapping[int, str]
) -> dict[str, Any]:
    action = decision.action
    named = isinstance(action.get("tool"), str)
    return {
        "tool_name": action["tool"] if named else (decision.legal or ["act"])[0],
        "arguments": dict(action.get("arguments") or {}) if named else dict(action),
        "result": {
            "data": shown.get(decision.seq),
            "done": last and _terminated(outline),
            "metadata": {
                "turn": decision.turn,
                "reward": decision.earned,
                "source": None if decision.penalised else decision.source,
                "failure_class": decision.failure_class,
            },
            "error": decision.refused,
        },
    }


def session_trace(outline: EpisodeOutline, transcript: Transcript) -> Iterator[dict[str, Any]]:
    """The lines of a session trace: one that describes the session, then one for each message.

    The form is the Hub's Session Trace Simple Format: ``reasoningContent`` for thoughts, ``toolCalls`` with
    arguments as JSON text, ``toolCallId`` with each answer to one. A line may say more than the form asks
    for: the session says how it ended, an answer what its decision earned.
    """
    summary = outline.summary
    began = _milliseconds(summary.started_at)
    yield {
        "type": "session",
        "harness": HARNESS,
        "id": summary.episode_id,
        "name": f"{summary.title}, {summary.captain_label}, seed {summary.seed}",
        "timestamp": began,
        "environment": summary.environment,
        "model": transcript.model,
        "runId": summary.run_id,
        "groupId": summary.group_id,
        "attempt": summary.attempt,
        "reason": summary.reason,
        "reward": outline.reward,
        "failureClass": outline.failure,
        "ownShare": outline.own.share,
        "refusals": outline.own.refused,
        "penalised": outline.penalised,
    }
    answers = dict(transcript.answers)
    for place, message in enumerate(transcript.messages):
        line: dict[str, Any] = {"type": "message", "message": _traced(message, transcript.model)}
        if place in answers:
            line |= outline.answer_columns(answers[place])
        yield line


def _traced(message: ChatMessage, model: str | None) -> dict[str, Any]:
    content = message.get("content") or ""
    traced: dict[str, Any] = {
        "role": message["role"],
        "content": content if isinstance(content, str) else json_text(content),
    }
    if message["role"] == "assistant" and model is not None:
        traced["model"] = model
    if message.get("reasoning_content"):
        traced["reasoningContent"] = message["reasoning_content"]
    if message.get("tool_calls"):
        traced["toolCalls"] = wire_message(message)["tool_calls"]
    if "tool_call_id" in message:
        traced["toolCallId"] = message["tool_call_id"]
    return traced


def _milliseconds(at: str) -> int | None:
    try:
        return int(datetime.fromisoformat(at).timestamp() * 1000)
    except ValueError:
        return None
