"""What a cricket event holds is frozen: golden files keep an example and the fields of every type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spectator.environments.cricket.events import EVENTS
from spectator.events import SCHEMA_VERSION, Fact, decode, record
from tests.environments.cricket.playing import play

GOLDEN = Path(__file__).parents[3] / "golden"
EXAMPLES = GOLDEN / f"cricket.events.v{SCHEMA_VERSION}.ndjson"
FIELDS = GOLDEN / f"cricket.schemas.v{SCHEMA_VERSION}.json"


def lines() -> list[str]:
    return EXAMPLES.read_text(encoding="utf-8").splitlines()


def schemas() -> dict[str, Any]:
    """What the models take, without the words that explain it."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: bare(item) for name, item in value.items() if name not in ("description", "title")}
        return [bare(item) for item in value] if isinstance(value, list) else value

    return {name: bare(model.model_json_schema()) for name, model in EVENTS.items()}


@pytest.fixture(scope="module")
def told() -> list[Fact]:
    """Everything said in a few matches, which between them have every type."""
    matches = (
        play(3, "tactician", "aggressive", max_overs=2, forecast_futures=40),
        play(1, "defensive", "spin_first", start="super_over"),
        play(2, max_overs=20),
    )
    return [fact for match in matches for fact in match.facts]


def test_there_is_an_example_of_every_cricket_event_type() -> None:
    assert {decode(line).event.type for line in lines()} == set(EVENTS)


def test_golden_cricket_events_still_decode_fit_their_models_and_encode_alike() -> None:
    for line in lines():
        recorded = decode(line)
        model = EVENTS[recorded.event.type]
        assert model.model_validate(recorded.event.data).model_dump(mode="json") == recorded.event.data
        assert record(recorded.event).text == line


def test_the_fields_of_every_cricket_event_type_are_as_they_were() -> None:
    """A field may be added, with the golden file; one that goes or changes breaks what journals hold."""
    assert schemas() == json.loads(FIELDS.read_text(encoding="utf-8"))


def test_what_a_match_says_has_the_fields_of_the_golden_events(told: list[Fact]) -> None:
    """Models are checked at the edge only, so what is really said is compared with what is frozen."""
    assert {fact.type for fact in told} == set(EVENTS)
    kept = {event.type: set(event.data) for event in (decode(line).event for line in lines())}
    for fact in told:
        assert set(fact.data) == kept[fact.type], fact.type
        said = json.loads(json.dumps(fact.data))
        assert EVENTS[fact.type].model_validate(said).model_dump(mode="json") == said
