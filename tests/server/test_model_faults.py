"""Whatever an endpoint does, a match on the server goes on, and viewers and the record say what happened."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from websockets.sync.client import connect

from tests.llm.brains import counter
from tests.llm.endpoints import endpoint, write_captains
from tests.llm.fake_server import FakeModelServer, Mode
from tests.policies.test_fault_table import TABLE
from tests.serving import Serving, serve, test_settings, until, without_errors

TURNS = 2


def name_of(mode: Mode) -> str:
    return re.sub(r"[^a-z0-9]+", "-", mode.value.lower())


@dataclass
class House:
    """A server, and the endpoint that all its models share."""

    app: Serving
    fake: FakeModelServer


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Each mode has a preset of its own, so that no endpoint rests because of another test."""
    folder = tmp_path_factory.mktemp("faults")
    with endpoint(counter, chunk=64, pause_s=0.002) as fake:
        table = {"base_url": fake.base_url, "retries": 0, "timeout_s": 1}
        captains = write_captains(folder / "captains.toml", **{name_of(mode): table for mode in Mode})
        with without_errors(), serve(test_settings(folder, captains_file=captains)) as app:
            yield House(app, fake)


def watch(app: Serving, episode_id: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a viewer sees at the end, and the data of the decisions."""
    with connect(f"{app.ws_url}/live/{episode_id}", max_size=None) as viewer:
        told = [json.loads(text) for text in viewer]
    assert told[-1]["reason"] == "ended"
    with connect(f"{app.ws_url}/live/{episode_id}", max_size=None) as late:
        state = next(frame for text in late if (frame := json.loads(text))["frame"] == "snapshot")["state"]
    record = app.client.get(f"/api/episodes/{episode_id}/events").text.splitlines()
    events = [json.loads(line) for line in record]
    return state, [event["data"] for event in events if event["type"] == "decision.made"]


@pytest.mark.parametrize("mode", TABLE)
def test_the_match_goes_on_and_everybody_is_told(house: House, mode: Mode) -> None:
    fate = TABLE[mode]
    house.fake.mode = lambda number: mode
    episode_id = house.app.start(captain_preset=f"llm:{name_of(mode)}", options={"turns": TURNS})
    state, made = watch(house.app, episode_id)
    ended = house.app.finish(episode_id)

    assert (ended["reason"], ended["score"], ended["turns"]) == ("finished", 1.0, TURNS)
    assert [one["source"] for one in made] == [fate.source] * TURNS
    assert {one["parse"] for one in made} == {fate.parse}
    assert made[0]["fallback_reason"] is None if fate.reason is None else made[0]["fallback_reason"]
    if fate.reason is not None:
        assert made[0]["fallback_reason"].startswith(fate.reason)
    shown = state["decisions"]["counter"]
    assert (shown["source"], shown.get("fallback_reason")) == (fate.source, made[-1]["fallback_reason"])
    used = state["usage"]["counter"]
    assert (used["decisions"], used["fallbacks"]) == (TURNS, TURNS * (fate.source == "fallback"))
    assert ended["usage"]["counter"] == used
    assert house.fake.base_url not in json.dumps(made)


def test_a_model_that_comes_back_is_heard_again(house: House) -> None:
    """The same match goes from the model to its fallback and back, and says so decision by decision."""
    begun = len(house.fake.received)
    script = [Mode.OK, Mode.WRONG_TOOL, Mode.WRONG_TOOL, Mode.OK, Mode.HUGE, Mode.OK, Mode.OK]
    house.fake.mode = lambda number: script[min(number - begun, len(script) - 1)]
    episode_id = house.app.start(captain_preset="llm:ok", options={"turns": 5})
    _, made = watch(house.app, episode_id)
    assert [one["source"] for one in made] == ["model", "fallback", "model", "model", "model"]
    assert [one["parse"] for one in made] == ["ok", "failed", "ok", "repaired", "ok"]


def test_a_stop_closes_the_request_to_the_model(house: House) -> None:
    house.fake.mode = lambda number: Mode.SILENT
    begun = len(house.fake.received)
    episode_id = house.app.start(captain_preset="llm:silent", options={"turns": 50})
    until("a request to the model", lambda: len(house.fake.received) > begun)
    answer = house.app.client.post("/custom/stop_episode", json={"episode_id": episode_id})
    assert answer.json()["reason"] == "stopped"
    assert house.app.finish(episode_id)["reason"] == "stopped"
    until("the end of the request", lambda: house.fake.received[-1].left_at is not None)
