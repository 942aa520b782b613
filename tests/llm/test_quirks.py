"""Every provider's documented quirks, replayed to the real client over a real socket.

A case in ``quirks/PROVIDER.json`` has the responses to a captain's requests, in order and then from the
start again, fields of the captain, and what must come of its first decisions. Responses are those of
:mod:`spectator.llm.recorded_responses`; their bodies may also be a whole ``message``, any ``json``,
or as the ``events`` of a stream, where chunks of chat completions need only ``delta`` and ``finish_reason``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from spectator.environments.counting import WORLD as COUNTING
from spectator.llm.playback_server import serving_playback
from spectator.llm.recorded_responses import RecordedResponse, ResponsePlayback
from tests.episodes.harness import drive
from tests.policies.seats import counting_led_by, endpoint_preset

FOLDER = Path(__file__).with_name("quirks")
TOGETHER = 16
"""Cases that are played at once: most of them wait for a moment before they ask again."""


@dataclass(frozen=True)
class Case:
    """One documented behaviour, and what must come of it."""

    provider: str
    name: str
    captain: Mapping[str, Any]
    expected: Mapping[str, Any]
    responses: list[RecordedResponse]


def cases() -> list[Case]:
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        for one in json.loads(path.read_text(encoding="utf-8")):
            captain = one.get("captain", {})
            form = captain.get("form", "openai")
            responses = [response_of(response, form) for response in one["responses"]]
            found.append(Case(path.stem, one["case"], captain, one["expected"], responses))
    return found


def response_of(written: Mapping[str, Any], form: str) -> RecordedResponse:
    """The response that a case describes."""
    fields = dict(written)
    model, done, body = fields.pop("model", "m-1"), fields.pop("done", True), list(fields.get("body", ()))
    kind = "application/json"
    if "events" in fields:
        kind = "text/event-stream"
        for event in fields.pop("events"):
            named = f"event: {event['type']}\n" if form == "anthropic" else ""
            chunk = chunk_of(event, model) if form == "openai" else event
            body.append(f"{named}data: {json.dumps(chunk, ensure_ascii=False)}\n\n")
        body += ["data: [DONE]\n\n"] * done
    elif "message" in fields:
        choice = {
            "index": 0,
            "message": {"role": "assistant", **fields.pop("message")},
            "finish_reason": fields.pop("finish_reason"),
            **fields.pop("choice", {}),
        }
        completion = {"id": "c-1", "model": model, "choices": [choice], "usage": fields.pop("usage", None)}
        body.append(json.dumps({**completion, "object": "chat.completion"}))
    elif "json" in fields:
        body.append(json.dumps(fields.pop("json")))
    headers = {"content-type": kind, **fields.pop("headers", {})}
    return RecordedResponse(**{**fields, "headers": headers, "body": body})


def chunk_of(event: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    if "delta" in event:
        event = {"choices": [{"index": 0, **event}]}
    return {"id": "c-1", "object": "chat.completion.chunk", "model": model, **event}


async def outcome(case: Case) -> Mapping[str, Any]:
    """What came of the case: the first decision, and sums."""
    playback = ResponsePlayback(case.responses)
    async with serving_playback(playback, "127.0.0.1", 0) as url:
        preset = endpoint_preset(COUNTING, f"{url}/v1", **case.captain)
        played = await drive(counting_led_by(preset), turns=case.expected.get("turns", 1))
    made = [recorded.event.data for recorded in played.events if recorded.event.type == "decision.made"]
    return {
        **made[0],
        "turns": len(made),
        "sources": sorted({one["source"] for one in made}),
        "models": [one["model"] for one in made],
        "requests": playback.asked,
    }


@cache
def outcomes() -> Mapping[tuple[str, str], Mapping[str, Any] | BaseException]:
    """What came of every case; they are played together."""

    async def run() -> list[Mapping[str, Any] | BaseException]:
        places = asyncio.Semaphore(TOGETHER)

        async def play(case: Case) -> Mapping[str, Any]:
            async with places:
                return await outcome(case)

        return await asyncio.gather(*map(play, CASES), return_exceptions=True)

    return dict(zip(((case.provider, case.name) for case in CASES), asyncio.run(run()), strict=True))


CASES = cases()


def test_no_two_cases_share_a_name() -> None:
    assert len({(case.provider, case.name) for case in CASES}) == len(CASES) >= 125


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.provider}: {case.name}")
def test_a_documented_quirk_is_decided_as_its_file_says(case: Case) -> None:
    came = outcomes()[case.provider, case.name]
    if isinstance(came, BaseException):
        raise came
    assert {name: came[name] for name in case.expected} == case.expected, came["fallback_reason"]
    assert came["sources"] == [case.expected["source"]]
