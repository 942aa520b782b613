"""Traces of episodes, decisions and model calls: OpenTelemetry's GenAI semantics.

Spans are made from events once they are recorded. An episode's span is the parent of its decisions' spans,
and a decision's span of its model calls' spans. Times are those of the record, in milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from spectator.core_events import CALLS_BEHIND
from spectator.events import RecordedEvent
from spectator.journal.contract import Attachments
from spectator.model_calls import ModelCall

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer
    from opentelemetry.util.types import AttributeValue


MAX_OPEN: Final = 10_000
"""Most episodes with open spans; beyond that the oldest span is ended without a reason."""

SOUND_ENDS: Final = frozenset({"finished", "step_cap", "stopped"})
"""End reasons that are not failures."""

PROVIDER: Final = "openai"
"""Provider name that the conventions use for all endpoints of chat completions."""

ASKED: Final = {
    "model": "gen_ai.request.model",
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "max_tokens": "gen_ai.request.max_tokens",
    "stop": "gen_ai.request.stop_sequences",
    "seed": "gen_ai.request.seed",
}
"""Attribute names in the conventions by parameter of a call."""


class EpisodeTracer:
    """Makes spans from recorded events.

    Args:
        content: Whether spans of model calls include prompts and replies.
    """

    def __init__(self, tracer: Tracer, *, content: bool = False) -> None:
        self._tracer = tracer
        self._content = content
        self._open: dict[str, Span] = {}
        self._captains: dict[str, Mapping[str, Any]] = {}

    def note(self, events: Sequence[RecordedEvent], attachments: Attachments | None = None) -> None:
        """Make spans from the events of one commit."""
        calls = iter(attachments.calls if attachments is not None else ())
        took = {
            (one.episode_id, one.event.turn): _ns(one.event.data.get("duration_s", 0.0))
            for one in events
            if one.type == "step.taken"
        }
        for recorded in events:
            behind = next(calls, ()) if recorded.type in CALLS_BEHIND else ()
            self._note(recorded, behind, took.get((recorded.episode_id, recorded.event.turn), 0))

    def close(self) -> None:
        """End open spans; another process may resume the episodes."""
        for span in self._open.values():
            span.set_attribute("spectator.end.reason", "suspended")
            span.end()
        self._open.clear()

    def _note(self, recorded: RecordedEvent, behind: Sequence[ModelCall], took_ns: int) -> None:
        event = recorded.event
        at = round(datetime.fromisoformat(event.at).timestamp() * 1000) * 1_000_000
        episode = self._open.get(event.episode_id) or self._begin(recorded, at)
        data = event.data
        if event.type == "decision.made":
            self._decided(episode, recorded, data, behind, at - took_ns)
        elif (undecided := data.get("undecided")) is not None:
            failure = {"failure_class": data.get("failure_class"), "source": "nobody"}
            self._decided(episode, recorded, {**undecided, **failure}, behind, at)
        if event.type in ("episode.ended", "episode.suspended"):
            reason = str(data.get("reason", "suspended"))
            episode.set_attributes(
                _known(
                    {
                        "spectator.end.reason": reason,
                        "spectator.turns": data.get("turns"),
                        "spectator.score": data.get("score"),
                    }
                )
            )
            if reason not in SOUND_ENDS:
                _fail(episode, data.get("failure_class") or reason)
            episode.end(at)
            del self._open[event.episode_id]
            self._captains.pop(event.episode_id, None)

    def _begin(self, recorded: RecordedEvent, at: int) -> Span:
        """Start the span of an episode at its first event or its resumption."""
        data = recorded.event.data if recorded.type == "episode.started" else {}
        self._captains[recorded.episode_id] = data.get("seats", {})
        world = data.get("environment")
        span = self._tracer.start_span(
            f"invoke_workflow {world}" if world else "invoke_workflow",
            context=trace.set_span_in_context(trace.INVALID_SPAN),
            attributes=_known(
                {
                    "gen_ai.operation.name": "invoke_workflow",
                    "gen_ai.workflow.name": world,
                    "gen_ai.conversation.id": recorded.episode_id,
                    "spectator.seed": data.get("seed"),
                    "spectator.pack": data.get("pack"),
                    "spectator.played_on": None if world else True,
                }
            ),
            start_time=at,
        )
        self._open[recorded.episode_id] = span
        if len(self._open) > MAX_OPEN:
            oldest = next(iter(self._open))
            self._open.pop(oldest).end(at)
            self._captains.pop(oldest, None)
        return span

    def _decided(
        self,
        episode: Span,
        recorded: RecordedEvent,
        data: Mapping[str, Any],
        behind: Sequence[ModelCall],
        until: int,
    ) -> None:
        actor, began = data["actor"], until - _ns(data["latency_s"])
        captain = self._captains.get(recorded.episode_id, {}).get(actor, {}).get("policy", actor)
        action = data.get("action") or {}
        span = self._tracer.start_span(
            f"invoke_agent {captain}",
            context=trace.set_span_in_context(episode),
            attributes=_known(
                {
                    "gen_ai.operation.name": "invoke_agent",
                    "gen_ai.agent.name": captain,
                    "gen_ai.conversation.id": recorded.episode_id,
                    "gen_ai.provider.name": PROVIDER if data.get("model") else None,
                    "gen_ai.request.model": data.get("model"),
                    "gen_ai.usage.input_tokens": data.get("tokens_in"),
                    "gen_ai.usage.output_tokens": data.get("tokens_out"),
                    "spectator.actor": actor,
                    "spectator.turn": recorded.event.turn,
                    "spectator.seq": recorded.event.seq,
                    "spectator.decision.source": data["source"],
                    "spectator.decision.tool": action.get("tool") if isinstance(action, Mapping) else None,
                    "spectator.cost": data.get("cost"),
                }
            ),
            start_time=began,
        )
        exchanges = data.get("exchanges") or []
        for call, exchange, (start, end) in zip(
            behind, exchanges, _times(behind, began, until), strict=False
        ):
            self._called(span, recorded.episode_id, call, exchange.get("failure"), start, end)
        if data.get("failure_class"):
            _fail(span, data["failure_class"])
        span.end(until)

    def _called(
        self,
        decision: Span,
        episode_id: str,
        call: ModelCall,
        failure: Mapping[str, Any] | None,
        start: int,
        end: int,
    ) -> None:
        reply, about = call.reply or {}, call.about
        usage = reply.get("usage") or {}
        finish = reply.get("finish_reason")
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.conversation.id": episode_id,
            "gen_ai.response.model": reply.get("model"),
            "gen_ai.response.finish_reasons": [finish] if finish else None,
            "gen_ai.usage.input_tokens": usage.get("tokens_in"),
            "gen_ai.usage.output_tokens": usage.get("tokens_out"),
            "gen_ai.usage.cache_read.input_tokens": usage.get("cached_in"),
            "gen_ai.response.time_to_first_chunk": call.measured.get("first_token_s"),
            "spectator.attempts": call.measured.get("attempts"),
            **{name: about.get(asked) for asked, name in ASKED.items()},
        }
        if self._content:
            attributes["gen_ai.input.messages"] = json.dumps(_asked(call), ensure_ascii=False)
            attributes["gen_ai.output.messages"] = json.dumps(_answered(reply), ensure_ascii=False)
        model = about.get("model")
        span = self._tracer.start_span(
            f"chat {model}" if model else "chat",
            context=trace.set_span_in_context(decision),
            kind=SpanKind.CLIENT,
            attributes=_known(attributes),
            start_time=start,
        )
        if failure is not None:
            _fail(span, str(failure.get("kind", "_OTHER")))
            if failure.get("status") is not None:
                span.set_attribute("http.response.status_code", failure["status"])
        span.end(end)


def _known(attributes: Mapping[str, Any]) -> dict[str, AttributeValue]:
    return {name: value for name, value in attributes.items() if value is not None}


def _fail(span: Span, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _times(calls: Sequence[ModelCall], began: int, until: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each call; unmeasured ones share the rest."""
    measured = [_ns(call.measured.get("latency_s") or 0.0) for call in calls]
    unknown = sum(not taken for taken in measured)
    rest = max(0, until - began - sum(measured)) // unknown if unknown else 0
    for taken in measured:
        ended = min(began + (taken or rest), until)
        yield began, ended
        began = ended


def _asked(call: ModelCall) -> list[dict[str, Any]]:
    """Return the conversation as the conventions define it: a role and parts."""
    return [{"role": one.get("role"), "parts": _parts(one)} for one in call.messages]


def _answered(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    parts = _parts({**reply, "reasoning": reply.get("thought")})
    return [{"role": "assistant", "parts": parts, "finish_reason": reply.get("finish_reason")}]


def _parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    if message.get("reasoning"):
        parts.append({"type": "reasoning", "content": message["reasoning"]})
    if message.get("content"):
        kind = "tool_call_response" if message.get("role") == "tool" else "text"
        name = "response" if kind == "tool_call_response" else "content"
        parts.append({"type": kind, name: message["content"]})
    for made in message.get("tool_calls") or ():
        called = made.get("function", made)
        parts.append(
            {
                "type": "tool_call",
                "id": made.get("id"),
                "name": called.get("name"),
                "arguments": called.get("arguments"),
            }
        )
    return parts
