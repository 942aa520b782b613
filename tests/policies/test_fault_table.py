"""Whatever the endpoint does, the match goes on, and the record says which decisions were the model's."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

import pytest

from spectator.environments.counting import WORLD as COUNTING
from spectator.errors import FailureClass
from spectator.events import Event
from tests.episodes.harness import Played, drive
from tests.llm.brains import counter
from tests.llm.fake_server import FakeModelServer, Mode, serving
from tests.policies.seats import counting_led_by, endpoint_preset

CANARY = "sk-canary-4711-do-not-print"
TURNS = 4


@dataclass(frozen=True)
class Fate:
    """What becomes of the decisions while an endpoint misbehaves.

    Args:
        source: Who decides.
        reason: How ``fallback_reason`` begins.
        parse: How the text was read.
        most_requests: Requests that all decisions together may cost.
    """

    source: str
    reason: str | None
    parse: str | None
    most_requests: int


MODEL = Fate("model", None, "ok", TURNS)
TABLE: dict[Mode, Fate] = {
    Mode.OK: MODEL,
    Mode.SLOW: MODEL,
    Mode.UNAUTHORIZED: Fate("fallback", "refused: the endpoint does not accept the key", None, 1),
    Mode.UNPAID: Fate("fallback", "refused: the endpoint requires payment", None, 1),
    Mode.UNKNOWN: Fate("fallback", "refused: the endpoint does not know this address or model", None, 1),
    Mode.NO_QUOTA: Fate("fallback", "refused: the endpoint requires payment", None, TURNS),
    Mode.REDIRECT: Fate("fallback", "refused: the endpoint redirects the request", None, TURNS),
    Mode.BUSY: Fate("fallback", "busy: the endpoint asks to wait", None, 6 * TURNS),
    Mode.BUSY_FOR: Fate("fallback", "busy: the endpoint asks to wait", None, 6 * TURNS),
    Mode.BROKEN: Fate("fallback", "unavailable: the endpoint failed with status 500", None, 5),
    Mode.CUT: Fate("fallback", "unavailable: the endpoint closed the connection", None, 5),
    Mode.NOT_HTTP: Fate("fallback", "unavailable: the endpoint does not speak HTTP", None, 5),
    Mode.GARBAGE: Fate("fallback", "malformed: the endpoint", None, 5),
    Mode.ERROR_IN_STREAM: Fate("fallback", "", None, 5),
    Mode.ABORTED: Fate("fallback", "unavailable: the endpoint broke off its answer", None, 5),
    Mode.SILENT: Fate("fallback", "timeout: no answer within", None, 2 * TURNS),
    Mode.NEVER_ENDING: Fate("fallback", "timeout: no answer within", None, 2 * TURNS),
    Mode.EMPTY: Fate("fallback", "unusable: the answer is empty", "failed", 2 * TURNS),
    Mode.REFUSAL: Fate("fallback", "unusable: the model declined to answer", "failed", 2 * TURNS),
    Mode.WRONG_TOOL: Fate(
        "fallback", "unusable: 'fly_to_the_moon' is not legal now; legal: say", "failed", 2 * TURNS
    ),
    Mode.HUGE: Fate("fallback", "unusable: the answer names no action", "failed", 2 * TURNS),
    Mode.ECHO: Fate("fallback", "unusable: the answer names no action", "failed", 2 * TURNS),
}

CLASSES: dict[Mode, FailureClass] = {
    Mode.UNAUTHORIZED: "model_rejected",
    Mode.UNPAID: "model_rejected",
    Mode.UNKNOWN: "model_rejected",
    Mode.NO_QUOTA: "model_rejected",
    Mode.REDIRECT: "model_rejected",
    Mode.BUSY: "rate_limited",
    Mode.BUSY_FOR: "rate_limited",
    Mode.BROKEN: "model_infra",
    Mode.CUT: "model_infra",
    Mode.NOT_HTTP: "model_infra",
    Mode.GARBAGE: "model_infra",
    Mode.ERROR_IN_STREAM: "model_infra",
    Mode.ABORTED: "model_infra",
    Mode.SILENT: "timeout",
    Mode.NEVER_ENDING: "timeout",
    Mode.EMPTY: "unparsable",
    Mode.REFUSAL: "declined",
    Mode.WRONG_TOOL: "illegal_action",
    Mode.HUGE: "unparsable",
    Mode.ECHO: "unparsable",
}


def decisions(played: Played) -> list[Event]:
    return [recorded.event for recorded in played.events if recorded.event.type == "decision.made"]


async def play(
    modes: list[Mode], *, stream: bool, style: str = "tools", timeout_s: float = 10.0
) -> tuple[Played, FakeModelServer]:
    """One match; an episode's own limits are far off, so that only the model's decides."""
    async with serving(counter, modes, chunk=64, pause_s=0.002) as fake:
        preset = endpoint_preset(
            COUNTING, fake.base_url, key=CANARY, stream=stream, style=style, timeout_s=timeout_s
        )
        return await drive(counting_led_by(preset), turns=TURNS), fake


def test_every_mode_is_in_the_table() -> None:
    assert set(TABLE) == set(Mode)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("mode", TABLE)
def test_the_match_goes_on(mode: Mode, stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    fate = TABLE[mode]
    caplog.set_level(logging.DEBUG)
    to_the_end = (fate.reason or "").startswith(("timeout", "busy"))  # waited for as long as there is time
    timeout_s = 0.4 if to_the_end else 10.0
    played, fake = asyncio.run(play([mode], stream=stream, timeout_s=timeout_s))

    assert (played.end["reason"], played.end["score"], played.end["turns"]) == ("finished", 1.0, TURNS)
    made = decisions(played)
    assert len(made) == TURNS
    assert {event.data["source"] for event in made} == {fate.source}
    assert {event.data["parse"] for event in made} == {fate.parse}
    first = made[0].data
    if fate.reason is None:
        assert first["fallback_reason"] is None
        assert first["reasoning"].startswith("1 comes next")
        assert (first["model"], first["tokens_in"] > 0, first["tokens_out"] > 0) == ("fake-1", True, True)
    else:
        assert first["fallback_reason"].startswith(fate.reason)
        assert first["failure_class"] == CLASSES[mode]
    assert 1 <= len(fake.received) <= fate.most_requests
    recorded = "".join(recorded.text for recorded in played.events)
    logged = "".join(str(vars(record)) for record in caplog.records)
    assert CANARY not in recorded + logged
    assert fake.base_url not in recorded


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "mode",
    [
        Mode.BUSY,
        Mode.BUSY_FOR,
        Mode.BROKEN,
        Mode.CUT,
        Mode.GARBAGE,
        Mode.NOT_HTTP,
        Mode.ERROR_IN_STREAM,
        Mode.ABORTED,
    ],
)
def test_a_fault_that_passes_costs_no_decision(mode: Mode, stream: bool) -> None:
    played, _ = asyncio.run(play([mode, Mode.OK], stream=stream))
    assert [event.data["source"] for event in decisions(played)] == ["model"] * TURNS


@pytest.mark.parametrize("mode", [Mode.EMPTY, Mode.REFUSAL, Mode.WRONG_TOOL, Mode.HUGE])
@pytest.mark.parametrize("style", ["tools", "json", "xml"])
def test_a_slip_of_form_is_repaired(mode: Mode, style: str) -> None:
    played, fake = asyncio.run(play([mode, Mode.OK], stream=False, style=style))
    made = decisions(played)
    assert [event.data["parse"] for event in made] == ["repaired", "ok", "ok", "ok"]
    assert {event.data["source"] for event in made} == {"model"}
    assert len(fake.received) == TURNS + 1


def test_a_model_that_recovers_is_heard_again() -> None:
    """After a rest, the endpoint is tried; the record shows who decided what."""
    played, _ = asyncio.run(play([Mode.WRONG_TOOL, Mode.WRONG_TOOL, Mode.OK], stream=False))
    assert [event.data["source"] for event in decisions(played)] == ["fallback", "model", "model", "model"]


def test_a_huge_answer_is_recorded_capped() -> None:
    played, _ = asyncio.run(play([Mode.HUGE], stream=False))
    assert all(len(event.data["raw_text"]) <= 8_192 for event in decisions(played))
