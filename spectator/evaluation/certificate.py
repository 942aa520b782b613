"""The certificate of how models were asked: their settings, and what came back.

It is counted from the exchanges in an episode's events, which the digests of the recorded calls
cover; so `spectator verify-bundle` counts it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel, Field

from spectator.llm.exchanges import SETTINGS
from spectator.model_calls import ModelCall
from spectator.policies.captains import ModelCaptain

Counts = Mapping[str, Mapping[str, int]]
"""By field of :class:`Replies`, how often each value occurred."""


class Replies(BaseModel):
    """What the endpoint of one captain said about its replies, by count of requests."""

    requests: int = Field(default=0, ge=0, description="Recorded requests, with or without a reply")
    models: dict[str, int] = Field(default_factory=dict, description="The model, as the reply names it")
    providers: dict[str, int] = Field(
        default_factory=dict, description="Who served the model, as a router names it; often not named"
    )
    system_fingerprints: dict[str, int] = Field(
        default_factory=dict, description="The configuration that served it; often not named"
    )
    finish_reasons: dict[str, int] = Field(default_factory=dict, description="Why each reply ended")
    failures: dict[str, int] = Field(
        default_factory=dict, description="Requests without a reply, by kind of failure"
    )
    prompts: dict[str, int] = Field(
        default_factory=dict, description="Edition of the prompt, by count of decisions with a request"
    )

    @classmethod
    def of(cls, counted: Iterable[Counts]) -> Replies:
        """Sum up counts of :func:`count_exchanges`."""
        sums: dict[str, Counter[str]] = {}
        for counts in counted:
            for name, values in counts.items():
                sums.setdefault(name, Counter()).update(values)
        fields = {name: dict(sorted(values.items())) for name, values in sums.items()}
        requests = sum(sums.get("requests", Counter()).values())
        return cls.model_validate({**fields, "requests": requests})

    def lines(self) -> Iterator[str]:
        """The counts in words, one line for each field that has any."""
        for name, values in self.model_dump(exclude={"requests"}).items():
            if values:
                yield f"{name.replace('_', ' ')}: {', '.join(f'{one} {n:,}' for one, n in values.items())}"


_OF_REPLIES: Final = {
    "models": "model",
    "providers": "provider",
    "system_fingerprints": "system_fingerprint",
    "finish_reasons": "finish_reason",
}
"""By field of :class:`Replies`, the member of a reply."""


def count_exchanges(decided: Mapping[str, Any], counts: dict[str, dict[str, int]]) -> None:
    """Add the exchanges of one decision, made or failed, to ``counts``.

    Args:
        decided: Data of its event, with ``exchanges``.
        counts: By field of :class:`Replies`.
    """
    exchanges = decided.get("exchanges") or ()
    for exchange in exchanges:
        reply = exchange.get("reply")
        _add(counts, "requests", "recorded")
        if reply is None:
            _add(counts, "failures", (exchange.get("failure") or {"kind": "reply not in the event"})["kind"])
            continue
        for field, member in _OF_REPLIES.items():
            if (value := reply.get(member)) is not None:
                _add(counts, field, value)
    if exchanges:
        _add(counts, "prompts", str(decided.get("prompt") or 1))


def _add(counts: dict[str, dict[str, int]], field: str, value: str) -> None:
    values = counts.setdefault(field, {})
    values[value] = values.get(value, 0) + 1


def settings_differences(claimed: ModelCaptain, call: ModelCall) -> Iterator[str]:
    """Yield how a recorded call was made otherwise than a captain's claimed settings say, field by field.

    Args:
        claimed: The captain with the settings of the manifest.
    """
    recorded = call.about.get(SETTINGS)
    if recorded is None:
        yield "asked: the recorded calls do not state their settings; play the matches again to publish them"
        return
    stated, usual = claimed.sent(), ModelCaptain.model_fields
    for name in sorted(stated.keys() | recorded.keys()):
        here = recorded[name] if name in recorded else usual[name].get_default(call_default_factory=True)
        if stated.get(name) != here:
            yield f"asked.{name}: is claimed to be {stated.get(name)!r:.100}, but calls have {here!r:.100}"
    for name in ("model", "temperature", "max_tokens", "tool_choice"):
        if call.about.get(name) != stated[name]:
            sent = call.about.get(name)
            yield f"asked.{name}: is claimed to be {stated[name]!r:.100}, but {sent!r:.100} was sent"
