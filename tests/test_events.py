"""Events are encoded once, strictly and for ever: golden files hold what each core type looks like."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from spectator.core_events import (
    CORE_EVENTS,
    ActionRefused,
    DecisionMade,
    EpisodeEnded,
    EpisodePaused,
    EpisodeRecovered,
    EpisodeResumed,
    EpisodeStarted,
    EpisodeSuspended,
    ExchangeFailure,
    ModelExchange,
    NarrationClip,
    NarrationLine,
    PaceChanged,
    Parent,
    RecordedReply,
    Seat,
    StepTaken,
    Warned,
    core_fact,
)
from spectator.events import SCHEMA_VERSION, Event, EventData, RecordedEvent, decode, encode_json, record
from spectator.observations import Profile

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES: tuple[EventData, ...] = (
    EpisodeStarted(
        environment="counting",
        environment_version="1.0",
        title="Counting",
        options={"turns": 3, "payload_bytes": 0},
        seed=2**53 - 1,
        seats={"counter": Seat(policy="heuristic", label="Careful counter", source="heuristic")},
        agent="counter",
        pack="default",
        pace="broadcast",
        narration=True,
        spectator_version="0.1.0",
        parent=Parent(episode_id="ep-0", seq=9, turn=2, captains_seed=4),
    ),
    DecisionMade(
        legal=["say", "pass"],
        actor="counter",
        source="fallback",
        action={"text": "ACTION: 1"},
        reasoning="“One” comes first",
        raw_text="I think…\nACTION one",
        parse="failed",
        fallback_reason="no integer after ACTION:",
        model="some-model",
        latency_s=0.25,
        tokens_in=120,
        tokens_out=7,
        cost=0.000134,
        exchanges=[
            ModelExchange(
                request="0" * 64,
                reply=RecordedReply(
                    content="I think…\nACTION one",
                    thought="",
                    refusal=None,
                    tool_calls=[{"id": "c1", "name": "say", "arguments": "{}"}],
                    finish_reason="stop",
                    model="some-model",
                    usage={"tokens_in": 120, "tokens_out": 7, "cached_in": 0, "thought_out": 0},
                ),
            ),
            ModelExchange(
                request="f" * 64, failure=ExchangeFailure(kind="busy", status=429, retry_after_s=2.0)
            ),
        ],
    ),
    ActionRefused(
        actor="counter", action={"text": "?"}, rule="action.text", message="Write ACTION: <n>.", refusals=2
    ),
    StepTaken(
        actor="counter", next_actor=None, reward=1.0, done=True, rubric={"correct": 1.0}, duration_s=1e-06
    ),
    NarrationLine(text="名 3, where 2 was due.", for_seq=4, priority=1, label="slip", at="2"),
    NarrationClip(for_seq=5, url="/audio/ab12.wav", mime="audio/wav", duration_s=1.5),
    EpisodePaused(by="operator"),
    EpisodeResumed(by="operator"),
    PaceChanged(pace="max", by="operator"),
    EpisodeEnded(
        reason="finished", score=1.0, result="3 of 3 right", turns=3, terminated=True, truncated=False
    ),
    Warned(message="the voice is late"),
    EpisodeRecovered(attempt=1),
    EpisodeSuspended(actor="counter", failure_class="rate_limited", detail="counter could not decide: busy"),
)


def golden_events() -> list[RecordedEvent]:
    facts = [core_fact(example) for example in EXAMPLES]
    return [
        record(
            Event(
                "ep-1",
                "4f1c",
                seq,
                "2026-11-21T05:00:00.123Z",
                1,
                fact.type,
                fact.data,
                {"world": {"a": None}},
            )
        )
        for seq, fact in enumerate(facts, 1)
    ]


OPTIONAL: tuple[tuple[type[EventData], str, Any], ...] = (
    (EpisodeStarted, "on_failure", "suspend"),
    (EpisodeStarted, "profile", Profile(rewards="step", reward_min=None)),
    (EpisodeEnded, "total_reward", -0.25),
    (EpisodeStarted, "view", "derived"),
    (DecisionMade, "failure_class", "unparsable"),
    (EpisodeEnded, "failure_class", "killed"),
    (EpisodeStarted, "run_id", "run-7"),
    (EpisodeStarted, "group_id", "run-7:task-3@v1"),
    (EpisodeStarted, "attempt", 2),
    (EpisodeEnded, "truth", "a" * 64),
    (ModelExchange, "digest", "b" * 64),
)


@pytest.mark.parametrize(("model", "name", "value"), OPTIONAL)
def test_an_optional_field_is_left_out_where_it_says_nothing(
    model: type[EventData], name: str, value: Any
) -> None:
    examples = (*EXAMPLES, ModelExchange(request="0" * 64))
    example = next(one for one in examples if type(one) is model)
    assert name not in example.model_dump(mode="json")
    data = example.model_copy(update={name: value}).model_dump(mode="json")
    assert data[name] == (value.model_dump() if isinstance(value, Profile) else value)
    assert getattr(model.model_validate(data), name) == value


def test_no_failure_class_is_recorded_that_is_not_known() -> None:
    with pytest.raises(ValidationError, match="failure_class"):
        EpisodeEnded.model_validate(ended(failure_class="bad luck"))


def schemas() -> dict[str, Any]:
    """What the models take, without the words that explain it."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: bare(item) for name, item in value.items() if name not in ("description", "title")}
        return [bare(item) for item in value] if isinstance(value, list) else value

    return {name: bare(model.model_json_schema()) for name, model in CORE_EVENTS.items()}


def test_there_is_an_example_of_every_core_event_type() -> None:
    assert [type(example) for example in EXAMPLES] == list(CORE_EVENTS.values())


def test_the_encoding_of_every_core_event_type_is_as_it_was() -> None:
    """A change here is a change of what journals hold: raise SCHEMA_VERSION, add golden files."""
    kept = (GOLDEN / f"events.v{SCHEMA_VERSION}.ndjson").read_text(encoding="utf-8").splitlines()
    assert [recorded.text for recorded in golden_events()] == kept


def test_the_fields_of_every_core_event_type_are_as_they_were() -> None:
    kept = json.loads((GOLDEN / f"schemas.v{SCHEMA_VERSION}.json").read_text(encoding="utf-8"))
    assert schemas() == kept


def test_golden_events_still_decode_and_fit_their_models() -> None:
    for text in (GOLDEN / "events.v1.ndjson").read_text(encoding="utf-8").splitlines():
        recorded = decode(text)
        CORE_EVENTS[recorded.event.type].model_validate(recorded.event.data)
        assert record(recorded.event).text == text


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.dictionaries(st.text(), json_values, max_size=4), st.dictionaries(st.text(), json_values, max_size=4)
)
def test_decoding_is_the_inverse_of_recording(data: dict[str, Any], patch: dict[str, Any]) -> None:
    event = Event("ep-1", "e", 7, "2026-11-21T05:00:00.123Z", 3, "counting.number_said", data, patch)
    recorded = record(event)
    assert decode(recorded.text) == recorded
    assert decode(recorded.text.encode().decode()).event == event


@given(json_values)
def test_an_encoding_is_one_line_to_every_reader(value: Any) -> None:
    text = encode_json(value)
    assert text.splitlines() == [text]
    assert json.loads(text) == value


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\n", "\r", "\x0b", "\x1e"])
def test_no_character_breaks_the_line(separator: str) -> None:
    text = encode_json({"é" + separator: "a" + separator + "b"})
    assert text.splitlines() == [text]
    assert json.loads(text) == {"é" + separator: "a" + separator + "b"}


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (math.nan, ValueError),
        ({"x": [math.inf]}, ValueError),
        ("\ud800", ValueError),
        ({"\udfff": 1}, ValueError),
        ({"x": {1, 2}}, TypeError),
        ({"x": b"bytes"}, TypeError),
        ({"x": object()}, TypeError),
        ({(1, 2): 1}, TypeError),
    ],
)
def test_what_has_no_strict_json_or_no_utf8_is_refused(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        encode_json(value)
    with pytest.raises(error):
        record(Event("ep-1", "e", 1, "now", 0, "warning", {"message": value}))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        "{}",
        '{"v":2}',
        '{"v":1}',
        '{"v":1,"episode_id":"e","epoch":"e","seq":1,"at":"","turn":0,"type":"x","data":{},"extra":1}',
        '{"v":1,"episode_id":"e","epoch":"e","seq":1,"at":"","turn":0,"type":"x","data":{"x":NaN}}',
        '{"v":1,"episode_id":"e","epo',
    ],
)
def test_what_is_no_envelope_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        decode(text)


def ended(**changes: Any) -> dict[str, Any]:
    finished = {"reason": "finished", "score": 0.5, "result": None, "turns": 1, "terminated": True}
    return {**finished, "truncated": False, **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"truncated": True},
        {"terminated": False},
        {"reason": "stopped"},
        {"reason": "timeout", "truncated": True},
        {"reason": "bored"},
        {"score": math.nan},
        {"turns": -1},
    ],
)
def test_an_end_is_terminated_or_truncated_and_never_both(changes: dict[str, Any]) -> None:
    EpisodeEnded.model_validate(ended())
    with pytest.raises(ValidationError):
        EpisodeEnded.model_validate(ended(**changes))


@pytest.mark.parametrize("model", CORE_EVENTS.values())
def test_event_data_takes_no_unknown_field_and_cannot_be_changed(model: type[EventData]) -> None:
    example = next(one for one in EXAMPLES if type(one) is model)
    with pytest.raises(ValidationError, match="Extra inputs"):
        model.model_validate({**example.model_dump(), "surprise": 1})
    with pytest.raises(ValidationError, match="frozen"):
        setattr(example, next(iter(model.model_fields)), 1)


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_an_event_is_decoded_as_the_standard_parser_would(data: dict[str, Any]) -> None:
    text = record(Event("ep-1", "e", 7, "", 3, "x.happened", data)).text
    assert repr(decode(text).event.data) == repr(json.loads(text)["data"])


def test_an_event_nested_deeper_than_the_fast_parser_goes_is_decoded() -> None:
    deep: Any = 1
    for _ in range(400):
        deep = [deep]
    recorded = record(Event("ep-1", "e", 7, "", 3, "x.happened", {"deep": deep}))
    assert decode(recorded.text) == recorded


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (EpisodeStarted, {"run_id": ""}),
        (EpisodeStarted, {"run_id": "a b"}),
        (EpisodeStarted, {"group_id": "x" * 65}),
        (EpisodeStarted, {"attempt": 0}),
        (EpisodeEnded, {"truth": "A" * 64}),
    ],
)
def test_names_of_runs_and_digests_have_a_form(model: type[EventData], fields: dict[str, Any]) -> None:
    example = next(one for one in EXAMPLES if type(one) is model)
    (name,) = fields
    with pytest.raises(ValidationError, match=name):
        model.model_validate(example.model_dump(mode="json") | fields)
