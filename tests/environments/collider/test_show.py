"""What viewers see and hear of a campaign."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import pytest

from spectator.environments.collider.commentary import comment, spoken
from spectator.environments.collider.events import EVENTS
from spectator.environments.collider.projection import project
from spectator.environments.collider.world import WORLD
from spectator.events import Event
from spectator.json_values import apply_patch
from spectator.policies.policy import ScriptedPolicy

Shown = tuple[Event, Mapping[str, Any]]


@lru_cache
def campaign(seed: int, difficulty: str = "easy") -> tuple[Shown, ...]:
    """Every event of a campaign, with the viewers' state after it."""
    return tuple(_played(seed, difficulty))


def _played(seed: int, difficulty: str) -> Iterator[Shown]:
    environment = WORLD.environment()
    options = WORLD.options_type.model_validate({"difficulty": difficulty}).model_dump(mode="json")
    observation = environment.reset(seed=seed, episode_id="ep", options=options)
    policy = WORLD.captains["heuristic"].build(1)
    assert isinstance(policy, ScriptedPolicy)
    state: dict[str, Any] = {}
    seq = 0
    while True:
        for fact in environment.facts():
            seq += 1
            event = Event("ep", "e", seq, "2026-11-22T00:00:00.000Z", 0, fact.type, dict(fact.data))
            state = apply_patch(state, {"world": project(state, event)})
            yield event, state
        if observation.done:
            return
        observation = environment.step(policy.choose(observation).action)


SEEDS = range(6)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_blinded_is_in_no_state_before_it_is_opened(seed: int) -> None:
    for _, state in campaign(seed):
        for channel in state["world"].get("channels", {}).values():
            spectrum = channel.get("spectrum")
            if spectrum is None or channel.get("open"):
                continue
            low, high = spectrum["blinded_gev"]
            edges, seen = spectrum["edges_gev"], spectrum["sidebands"]
            inside = [
                count
                for count, left, right in zip(seen, edges, edges[1:], strict=False)
                if right > low + 1e-6 and left < high - 1e-6
            ]
            assert inside and not any(inside)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_timeline_keeps_every_step_in_order_and_patches_stay_small(seed: int) -> None:
    events = [event for event, _ in campaign(seed)]
    state: dict[str, Any] = {}
    for event in events:
        patch = project(state, event)
        assert len(patch["timeline"]) == 1, "only the new step travels"
        state = apply_patch(state, {"world": patch})
    shown = [step["type"] for _, step in sorted(state["world"]["timeline"].items())]
    assert shown == [event.type.removeprefix("collider.") for event in events]


def test_no_member_of_an_older_spectrum_survives_unblinding() -> None:
    shown = campaign(0)
    opened = next(state for event, state in shown if event.type == "collider.unblinded")
    spectrum = opened["world"]["channels"][opened["world"]["focus"]]["spectrum"]
    assert set(spectrum) <= set(EVENTS["collider.unblinded"].model_fields)


def test_a_rebuilt_spectrum_removes_its_results() -> None:
    shown = campaign(0)
    last = shown[-1][1]
    channel = last["world"]["focus"]
    assert "scan" in last["world"]["channels"][channel]
    built = next(event for event, _ in shown if event.type == "collider.spectrum_built")
    again = apply_patch(last, {"world": project(last, built)})["world"]["channels"][channel]
    assert again["open"] is False
    assert not {"scan", "significance", "fit", "background"} & set(again)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_state_is_json_without_null(seed: int) -> None:
    def nulls(value: Any) -> bool:
        if isinstance(value, Mapping):
            return any(nulls(one) for one in value.values())
        return value is None

    for _, state in campaign(seed):
        assert not nulls(state)
        json.dumps(state, allow_nan=False)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_event_type_of_a_campaign_is_commented_and_lines_are_short(seed: int) -> None:
    silent = {"channel_selected", "luminosity_allocated", "theory_reviewed"}
    for event, state in campaign(seed):
        lines = comment(event, state)
        assert lines or event.type.removeprefix("collider.") in silent, event.type
        for line in lines:
            assert 0 < len(line.text) <= 300
            assert "None" not in line.text and "nan" not in line.text.lower().split()
        assert comment(event, state) == lines


@pytest.mark.parametrize("seed", SEEDS)
def test_the_commentary_says_what_the_figures_say(seed: int) -> None:
    for event, state in campaign(seed):
        text = " ".join(line.text for line in comment(event, state))
        if event.type == "collider.significance_estimated":
            assert f"{event.data['z_global']:.1f} global" in text
            assert ("discovery" in text) == (event.data["z_global"] >= 3.0)
        if event.type == "collider.claim_made":
            assert ("decline" in text) == (event.data["kind"] == "null")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_last_headline_begins_with_a_capital_and_says_the_verdict(seed: int) -> None:
    graded, state = campaign(seed)[-1]
    assert graded.type == "collider.campaign_graded"
    verdict, headline = graded.data["verdict"], state["world"]["headline"]
    assert headline[0].isupper() and headline[0].lower() == verdict[0]
    assert headline[1:] == f"{verdict[1:]}, score {graded.data['score']:.2f}"


def test_events_of_others_say_nothing_here() -> None:
    other = Event("ep", "e", 1, "2026-11-22T00:00:00.000Z", 0, "episode.paused", {"by": "x"})
    assert project({}, other) == {}
    assert comment(other, {}) == ()


def test_units_are_read_aloud_in_words() -> None:
    assert spoken("5 fb⁻¹ at 13 TeV, 12 %") == "5 inverse femtobarns at 13 T e V, 12 percent"
