"""A request is right as a whole or every wrong field of it is named at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from spectator.environments.counting import WORLD as COUNTING
from spectator.environments.world import MAX_SEED, Pack, World
from spectator.episodes import plan as requests
from spectator.episodes.controls import EpisodeLimits, Pace, beats_in, step_duration
from spectator.episodes.plan import EpisodeRequest, plan_episode
from spectator.errors import InvalidRequest
from spectator.events import Fact
from spectator.policies.policy import Preset
from tests.fakes import FakePolicy, counted, world_with
from tests.policies.seats import counting_led_by, endpoint_preset

LEFT_OUT = EpisodeRequest("counting")


def plan(request: EpisodeRequest = LEFT_OUT, drawn: int = 5) -> requests.EpisodePlan:
    return plan_episode(request, draw_seed=lambda: drawn)


def wrong(**fields: Any) -> dict[str, str]:
    with pytest.raises(InvalidRequest) as caught:
        plan(EpisodeRequest(**{"environment": "counting", **fields}))
    return {one.field: one.rule for one in caught.value.fields}


@pytest.fixture
def duel(monkeypatch: pytest.MonkeyPatch) -> World:
    """A world for two, with a pack that fixes an option and its seeds."""

    def preset(name: str, missing: str | None = None) -> Preset:
        return Preset(name, name.title(), "x", "heuristic", lambda seed: FakePolicy(counted), missing)

    world = dataclasses.replace(
        world_with(),
        actors=("home", "away"),
        captains={"heuristic": preset("heuristic"), "model": preset("model", "needs a key")},
        opponents={"heuristic": preset("heuristic"), "random": preset("random")},
        packs={
            "default": Pack("default", "1", "x"),
            "fixed": Pack("fixed", "1", "x", options={"turns": 7}, seeds=(11, 22, 33)),
        },
    )
    monkeypatch.setattr(requests, "load_world", lambda name: world)
    return world


def test_everything_left_out_takes_its_default() -> None:
    planned = plan()
    assert (planned.captain.name, planned.opponent, planned.pack.name) == ("heuristic", None, "default")
    assert (planned.seed, planned.pace, planned.narration) == (5, Pace.BROADCAST, True)
    assert planned.options == {"turns": 10, "payload_bytes": 0}
    assert planned.agent == "counter"


def test_the_first_event_holds_all_that_a_replay_needs(duel: World) -> None:
    started = plan(EpisodeRequest("duel", opponent="random", pack="fixed", pace=Pace.FAST, narration=False))
    data = started.started().model_dump(mode="json")
    assert data["seats"] == {
        "home": {"policy": "heuristic", "label": "Heuristic", "source": "heuristic"},
        "away": {"policy": "random", "label": "Random", "source": "heuristic"},
    }
    assert (data["agent"], data["pack"], data["pace"], data["narration"]) == ("home", "fixed", "fast", False)
    assert (data["options"], data["environment_version"]) == ({"turns": 7, "payload_bytes": 0}, duel.version)


def test_every_wrong_field_is_named_at_once(duel: World) -> None:
    found = wrong(
        captain="modle",
        opponent="hueristic",
        pack="hard",
        seed=-1,
        options={"turns": "many", "payload_bytes": -1, "colour": "red"},
    )
    assert set(found) == {
        "captain_preset",
        "opponent_choice",
        "eval_pack_id",
        "seed",
        "options.turns",
        "options.payload_bytes",
        "options.colour",
    }
    assert "did you mean 'model'?" in found["captain_preset"]
    assert "Known: heuristic, random" in found["opponent_choice"]


def test_an_unknown_world_is_named_together_with_a_wrong_seed() -> None:
    assert set(wrong(environment="countin", seed=-1)) == {"environment", "seed"}


@pytest.mark.parametrize("seed", [-1, MAX_SEED + 1, True, 1.5, "1"])
def test_a_seed_is_an_integer_that_json_carries(seed: Any) -> None:
    assert wrong(seed=seed) == {"seed": f"must be an integer from 0 to {MAX_SEED}, or null to draw one"}


@pytest.mark.parametrize("seed", [0, MAX_SEED])
def test_a_seed_at_the_edge(seed: int) -> None:
    assert plan(EpisodeRequest("counting", seed=seed)).seed == seed


@pytest.mark.parametrize(
    "options", [{"turns": "5"}, {"turns": 5.0}, {"turns": True}, {"turns": None}, {"turns": 10**9}, {"": 1}]
)
def test_options_are_strict(options: Mapping[str, Any]) -> None:
    assert len(wrong(options=options)) == 1


def test_an_empty_name_is_not_the_default(duel: World) -> None:
    assert set(wrong(captain="", opponent="", pack="")) == {
        "captain_preset",
        "opponent_choice",
        "eval_pack_id",
    }


def test_a_preset_that_is_not_available_says_what_is_missing(duel: World) -> None:
    assert wrong(captain="model") == {"captain_preset": "'model' is not available here: needs a key"}


@pytest.mark.parametrize(("timeout_s", "waited"), [(10.0, 120.0), (600.0, 602.0)])
def test_without_an_operator_a_slow_model_is_waited_for(timeout_s: float, waited: float) -> None:
    """Such as one on a processor of one's own: its table says how long a decision may take."""
    slow = endpoint_preset(COUNTING, "http://127.0.0.1:9/v1", timeout_s=timeout_s)
    plan = plan_episode(
        EpisodeRequest("counting"), draw_seed=lambda: 0, load=lambda name: counting_led_by(slow)
    )
    assert EpisodeLimits.patient(plan.patience_s).decision_s == waited


def test_a_world_without_opponents_takes_none() -> None:
    assert plan(EpisodeRequest("counting", opponent="heuristic")).opponent is None
    assert "without an opponent" in wrong(opponent="random")["opponent_choice"]


def test_a_pack_fixes_options_and_seeds(duel: World) -> None:
    assert plan(EpisodeRequest("duel", pack="fixed", options={"turns": 7})).options["turns"] == 7
    assert "is fixed to 7" in wrong(pack="fixed", options={"turns": 8})["options.turns"]
    assert plan(EpisodeRequest("duel", pack="fixed"), drawn=4).seed == 22
    assert plan(EpisodeRequest("duel", pack="fixed", seed=33)).seed == 33
    assert "not a seed of the pack 'fixed'" in wrong(pack="fixed", seed=34)["seed"]


def test_every_actor_gets_a_policy_with_a_seed_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    def build(seed: int) -> FakePolicy:
        seeds.append(seed)
        return FakePolicy(counted)

    preset = Preset("heuristic", "x", "x", "heuristic", build)
    world = dataclasses.replace(
        world_with(), actors=("a", "b"), captains={"heuristic": preset}, opponents={"heuristic": preset}
    )
    monkeypatch.setattr(requests, "load_world", lambda name: world)
    for seed in (1, 1, 2):
        planned = plan(EpisodeRequest("x", seed=seed))
        for actor in world.actors:
            planned.policy(actor)
    assert seeds[:2] == seeds[2:4]
    assert len(set(seeds)) == 4


@pytest.mark.parametrize(
    ("pace", "beats", "seconds"),
    [
        (Pace.BROADCAST, 1.0, 2.0),
        (Pace.BROADCAST, 0.0, 0.15),
        (Pace.BROADCAST, 1.5, 3.0),
        (Pace.FAST, 1.0, 0.1),
        (Pace.FAST, 0.0, 0.1),
        (Pace.MAX, 5.0, 0.0),
    ],
)
def test_how_long_a_step_lasts(pace: Pace, beats: float, seconds: float) -> None:
    assert step_duration(pace, beats) == seconds


def test_beats_are_counted_by_the_worlds_own_measure() -> None:
    facts = [Fact("x.ball", {}), Fact("x.talk", {}), Fact("x.over", {})]
    assert beats_in(facts, {"x.ball": 1.0, "x.over": 0.5}) == 1.5
    assert beats_in(facts, {"x.other": 1.0}) == 0.0
    assert beats_in(facts, {}) == 1.0
    assert beats_in([], {}) == 1.0


def test_a_person_who_plays_waits_a_third_of_the_beats() -> None:
    """The person knows their own reasons, so an over at the broadcast pace takes half a minute."""
    planned = plan()
    world = dataclasses.replace(planned.world, beats={"x.ball": 3.0})
    watched = dataclasses.replace(planned, world=world)
    person = dataclasses.replace(watched.captain, source="human")
    assert watched.beats == {"x.ball": 3.0}
    assert dataclasses.replace(watched, captain=person).beats == {"x.ball": 1.0}


@pytest.mark.parametrize(
    ("pace", "sent", "turns"),
    [(Pace.BROADCAST, {}, 3), (Pace.FAST, {}, 3), (Pace.MAX, {}, 10), (Pace.BROADCAST, {"turns": 5}, 5)],
)
def test_an_episode_that_people_follow_has_what_only_viewers_need(
    monkeypatch: pytest.MonkeyPatch, pace: Pace, sent: dict[str, Any], turns: int
) -> None:
    world = dataclasses.replace(world_with(), watched_options={"turns": 3})
    monkeypatch.setattr(requests, "load_world", lambda name: world)
    assert plan(EpisodeRequest("counting", pace=pace, options=sent)).options["turns"] == turns


def test_an_opponent_that_mirrors_is_whoever_takes_the_agents_seat(
    duel: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    itself = dataclasses.replace(duel.captains["heuristic"], name="self", mirrors=True)
    world = dataclasses.replace(duel, opponents={**duel.opponents, "self": itself})
    monkeypatch.setattr(requests, "load_world", lambda name: world)
    planned = plan(EpisodeRequest("duel", captain="heuristic", opponent="self"))
    assert planned.opponent is planned.captain
    assert planned.started().seats["away"].policy == "heuristic"
