"""What an agent is shown, the same in process and on the wire: whole, as changes, as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from server.openenv.worlds import OTHER_VIEWS
from spectator.catalog import load_world
from spectator.episodes.single_agent import AgentView, Observe, SingleAgent
from spectator.errors import InvalidRequest
from spectator.json_values import apply_patch
from spectator.observations import Observation, Refusal
from spectator.policies.policy import ScriptedPolicy
from spectator.policies.turns import TokenEstimate
from tests.openenv.conftest import Client, open_client
from tests.serving import Serving

PER_CHARACTER = 0.38
"""Tokens a character, the most that a BPE vocabulary of 131,072 tokens made of these messages."""

MOST_TOKENS = {"cricket": 20_000, "collider": 13_000, "counting": 400}
"""Tokens that an episode with the default options may cost in `delta`, brief included; docs/openenv.md."""


def captain(world: str) -> ScriptedPolicy:
    """The policy that plays the agent's seat here."""
    found = load_world(world)
    policy = found.captains[found.default_captain].build(1)
    assert isinstance(policy, ScriptedPolicy)
    return policy


def play(world: str, observe: Observe, seed: int = 3) -> list[tuple[Observation, Mapping[str, Any]]]:
    """An episode with its default options, each observation whole and as it is shown."""
    agent, policy = SingleAgent(world), captain(world)
    seen = agent.reset(seed, observe=observe)
    told = [(seen, agent.shown)]
    while not seen.done:
        seen = agent.step(policy.choose(seen).action)
        told.append((seen, agent.shown))
    agent.close()
    return told


@pytest.mark.parametrize("world", MOST_TOKENS)
def test_an_episode_in_delta_costs_no_more_than_is_stated(world: str) -> None:
    told = play(world, "delta")
    brief = told[0][0].metadata["brief"]
    characters = sum(len(json.dumps(one, separators=(",", ":"), ensure_ascii=False)) for _, one in told)
    characters += len(json.dumps(brief, ensure_ascii=False))
    assert TokenEstimate(PER_CHARACTER).of(characters) <= MOST_TOKENS[world]


@pytest.mark.parametrize("world", ["counting", "collider"])
def test_the_patches_make_every_observation_again(world: str) -> None:
    now: Any = None
    for seen, shown in play(world, "delta"):
        now = shown["whole"] if now is None else apply_patch(now, shown["changed"])
        legal = {one["tool"]: one["arguments"] for one in seen.legal_actions}
        told = {name: value for name, value in now.items() if name not in ("legal", "tools", "refused")}
        assert told == without_null({"actor": seen.actor, **seen.content})
        assert now["legal"] == list(legal)
        assert {name: now["tools"][name] for name in legal} == without_null(legal)


def without_null(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: without_null(one) for name, one in value.items() if one is not None}
    return value


def test_the_patches_of_a_world_with_lines_make_its_lines_again() -> None:
    lines = load_world("cricket").briefing.rendering.lines
    assert lines is not None
    now: Any = None
    for seen, shown in play("cricket", "delta"):
        now = shown["whole"] if now is None else apply_patch(now, shown["changed"])
        want = {name: text for name, text in lines(seen).items() if text and name != "last balls"}
        assert {name: now[name] for name in want} == want
        assert set(now) - set(want) == {"opening", "legal", "tools"}


def test_text_is_whole_at_first_then_what_changed() -> None:
    told = [shown["text"] for _, shown in play("cricket", "text")]
    brief = load_world("cricket").briefing
    assert brief.task in told[0]
    assert brief.rendering.guide in told[0]
    assert "Situation now:" in told[0]
    assert all(one.startswith("Changed:\n") for one in told[1:])
    assert max(map(len, told[1:])) < len(told[0])


def test_a_refusal_is_shown_in_every_view_and_goes_away() -> None:
    refused = Observation("counter", (), {"turn": 0}, refused=Refusal("some.rule", "Do otherwise."))
    plain = Observation("counter", (), {"turn": 0})
    briefing = load_world("counting").briefing
    delta = AgentView(briefing, "delta")
    assert [delta.shown(one) for one in (plain, refused, plain)][1:] == [
        {"changed": {"refused": {"rule": "some.rule", "message": "Do otherwise."}}},
        {"changed": {"refused": None}},
    ]
    text = AgentView(briefing, "text")
    shown = [text.shown(one)["text"] for one in (plain, refused, plain)]
    assert shown[1:] == [
        "Refused, by the rule some.rule: Do otherwise.\n\nNothing has changed.",
        "Nothing has changed.",
    ]


@pytest.mark.parametrize("observe", ["full", "delta", "text"])
def test_the_wire_shows_what_is_shown_in_process(shared: Serving, observe: Observe) -> None:
    agent = SingleAgent("cricket")
    here, policy = agent.reset(5, "e", options={"max_overs": 1}, observe=observe), captain("cricket")
    client = open_client(shared, "/envs/cricket/ws")
    asked = {"seed": 5, "episode_id": "e", "max_overs": 1, "observe": observe}
    with client.socket:
        there = client.ask("reset", asked)
        while True:
            beside = there["observation"].pop("metadata")
            assert there["observation"] == json.loads(json.dumps(agent.shown))
            assert beside == json.loads(json.dumps(dict(here.metadata)))
            assert "value" in beside and "rubric" in beside
            if here.done:
                break
            action = dict(policy.choose(here).action)
            here, there = agent.step(action), client.ask("step", action)
    assert here.metadata["value"] == here.reward == there["metadata"]["value"]


def test_the_brief_is_told_at_reset_and_in_the_metadata(shared: Serving) -> None:
    metadata = shared.client.get("/envs/cricket/metadata").json()
    begun = shared.client.post("/envs/cricket/reset", json={"seed": 1}).json()
    assert begun["observation"]["metadata"]["brief"] == metadata["brief"]
    assert metadata["brief"]["task"].startswith("You captain one side")
    assert "WHAT COUNTS" in metadata["brief"]["legend"]
    assert "brief" not in begun["metadata"]
    told = shared.client.post("/envs/cricket/reset", json={"seed": 1, "observe": "text"}).json()
    assert "brief" not in told["observation"]["metadata"]
    assert metadata["brief"]["task"] in told["observation"]["text"]


def test_the_packs_and_their_seeds_are_told(shared: Serving) -> None:
    for name in ("cricket", "collider", "counting"):
        packs = shared.client.get(f"/envs/{name}/metadata").json()["packs"]
        assert {one["name"]: one["seeds"] for one in packs} == {
            pack.name: list(pack.seeds) for pack in load_world(name).packs.values()
        }


def test_the_schema_tells_the_other_views(shared: Serving) -> None:
    assert shared.client.get("/schema").json()["observation"]["x-observe"] == OTHER_VIEWS


def test_an_unknown_view_is_refused_by_name(client: Client) -> None:
    error = client.fail({"type": "reset", "data": {"observe": "summary"}})
    assert error["code"] == "VALIDATION_ERROR"
    assert error["errors"][0]["field"] == "observe"
    with pytest.raises(InvalidRequest, match="observe"):
        SingleAgent("counting").reset(observe="summary")  # type: ignore[arg-type]


# What is malformed is refused and counted


@pytest.mark.parametrize(
    ("path", "action"),
    [
        ("/ws", {}),
        ("/ws", {"text": 1}),
        ("/ws", {"text": "ACTION: 1", "more": 1}),
        ("/envs/cricket/ws", {"name": "call_toss"}),
        ("/envs/cricket/ws", {"tool": 5}),
        ("/envs/cricket/ws", {"tool": "call_toss", "reason": "because"}),
        ("/envs/collider/ws", {"tool": "configure_beam", "arguments": 3}),
    ],
)
def test_a_malformed_action_is_refused_and_counted(
    shared: Serving, path: str, action: dict[str, Any]
) -> None:
    client = open_client(shared, path)
    with client.socket:
        client.ask("reset", {"seed": 3})
        before = client.ask("state")
        answer = client.ask("step", action)
        assert answer["observation"]["refused"]["rule"] == "action.shape"
        assert (answer["reward"], answer["done"]) == (0.0, False)
        assert "value" in answer["metadata"]
        assert client.ask("state") == {**before, "step_count": 1}


def test_refusals_that_go_on_end_the_episode_which_has_a_value(client: Client) -> None:
    client.ask("reset", {"turns": 2})
    client.ask("step", {"text": "ACTION: 1"})
    for _ in range(102):
        assert client.ask("step", {"nonsense": 1})["done"] is False
    last = client.ask("step", {"nonsense": 1})
    assert last["done"] is True
    assert last["reward"] == 0.0
    assert "104 turns" in last["metadata"]["truncated"]
    assert last["metadata"]["value"] == last["metadata"]["rubric"]["score"] == 0.5
    late = client.ask("step", {"text": "ACTION: 2"})
    assert (late["reward"], late["metadata"]["value"]) == (0.0, 0.5)


def test_a_world_without_a_score_so_far_is_worth_its_rewards() -> None:
    agent = SingleAgent("cricket")
    seen = agent.reset(3, options={"max_overs": 1, "reward": "decision_value"})
    policy, total = captain("cricket"), 0.0
    while not seen.done:
        seen = agent.step(policy.choose(seen).action)
        total += seen.reward
        assert seen.metadata["value"] == pytest.approx(total, abs=1e-5)
    assert seen.metadata["value"] == total
    collider = SingleAgent("collider").reset(3)
    assert collider.metadata["value"] == 0.0
    assert set(collider.metadata["rubric"]) == {"conduct", "score"}
