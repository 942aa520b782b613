"""A world as one agent sees it: every other seat is played, and what goes wrong leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from spectator.environments.counting.world import CarefulCounter, CountingEnvironment
from spectator.environments.world import World
from spectator.episodes import plan as requests
from spectator.episodes import single_agent
from spectator.episodes.plan import EpisodeRequest, plan_episode
from spectator.episodes.single_agent import NoEpisode, SingleAgent
from spectator.errors import DecisionTimeout, EnvironmentFault, InvalidRequest, PolicyError
from spectator.events import encode_json
from spectator.observations import Observation
from spectator.policies.policy import Action, Decision, Policy, Preset, ScriptedPolicy
from spectator.steppers.local import OwnThread
from tests.episodes.harness import drive
from tests.fakes import FakePolicy, LyingEnvironment, failing, forever, world_with

Offer = Callable[[World], str]


class TurnTaking(CountingEnvironment):
    """A count in which home and away say the integers in turn."""

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Observation:
        return self._ask(super().reset(seed=seed, episode_id=episode_id, options=options))

    def step(self, action: Action) -> Observation:
        return self._ask(super().step(action))

    def _ask(self, observation: Observation) -> Observation:
        if observation.done:
            return observation
        return replace(observation, actor=("home", "away")[self.state["turn"] % 2])


class AwayFirst(TurnTaking):
    """The same, but away begins."""

    def _ask(self, observation: Observation) -> Observation:
        asked = super()._ask(observation)
        return (
            asked if asked.done else replace(asked, actor={"home": "away", "away": "home"}[asked.actor or ""])
        )


class Babbler(ScriptedPolicy):
    """Says nothing that is legal."""

    def choose(self, observation: Observation) -> Decision:
        return Decision({"text": "hm"}, "random")


def duel(opponent: Callable[[int], Policy] = lambda seed: CarefulCounter(), **changes: Any) -> World:
    presets = {
        "heuristic": Preset("heuristic", "H", "H.", "heuristic", opponent),
        "dear": Preset("dear", "D", "D.", "model", opponent, costs_money=True),
        "absent": Preset("absent", "A", "A.", "model", opponent, missing="a key"),
        "self": Preset("self", "S", "S.", "heuristic", opponent, mirrors=True),
    }
    changes = {"environment": TurnTaking, **changes}
    return replace(world_with(), actors=("home", "away"), opponents=presets, **changes)


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Puts a world into the catalogue; returns its name."""

    def put(world: World) -> str:
        for module in (single_agent, requests):
            monkeypatch.setattr(module, "load_world", lambda name: world)
        return world.name

    return put


def say(number: int) -> Action:
    return {"text": f"ACTION: {number}"}


def test_the_other_seats_are_played(offer: Offer) -> None:
    agent = SingleAgent(offer(duel()))
    first = agent.reset(1, "ep", options={"turns": 5})
    assert (first.actor, first.content["next"], first.done) == ("home", 1, False)
    seen = [agent.step(say(number)) for number in (1, 3, 5)]
    assert [one.content["turn"] for one in seen] == [2, 4, 5]
    assert [one.reward for one in seen] == [0.0, 0.0, 1.0]
    assert [one.done for one in seen] == [False, False, True]
    assert agent.state["step_count"] == 3


def test_an_opponent_who_begins_has_begun(offer: Offer) -> None:
    agent = SingleAgent(offer(duel(environment=AwayFirst)))
    assert agent.reset(1, "ep", options={"turns": 4}).content["turn"] == 1
    assert [fact.type for fact in agent.facts()] == ["counting.number_said"]
    assert agent.state["step_count"] == 0


def test_an_opponent_who_ends_it_brings_the_score(offer: Offer) -> None:
    agent = SingleAgent(offer(duel()))
    agent.reset(1, "ep", options={"turns": 2})
    last = agent.step(say(1))
    assert (last.done, last.reward) == (True, 1.0)


def test_facts_are_those_of_the_last_step_whoever_did_it(offer: Offer) -> None:
    agent = SingleAgent(offer(duel()))
    agent.reset(1, "ep", options={"turns": 5})
    agent.step(say(1))
    assert [fact.data["number"] for fact in agent.facts()] == [1, 2]
    agent.step(say(3))
    assert [fact.data["number"] for fact in agent.facts()] == [3, 4]


def test_a_refusal_is_an_observation_and_counts_as_a_step(offer: Offer) -> None:
    agent = SingleAgent(offer(duel()))
    agent.reset(1, "ep", options={"turns": 5})
    refused = agent.step({"nonsense": 1})
    assert refused.refused is not None
    assert (refused.actor, refused.reward, refused.done, refused.content["turn"]) == ("home", 0.0, False, 0)
    assert agent.state["step_count"] == 1


def test_done_is_sticky_and_the_score_is_given_once(offer: Offer) -> None:
    agent = SingleAgent(offer(duel()))
    agent.reset(1, "ep", options={"turns": 1})
    rewards = [agent.step(say(1)).reward]
    for _ in range(3):
        late = agent.step(say(2))
        assert late.done
        assert late.refused is not None
        assert late.refused.rule == "episode.over"
        rewards.append(late.reward)
    assert rewards == [1.0, 0.0, 0.0, 0.0]
    assert agent.state["step_count"] == 4
    assert agent.facts() == ()


def test_seed_and_id_are_drawn_and_told_when_left_out(offer: Offer) -> None:
    agent = SingleAgent(offer(duel()), draw_seed=lambda: 77, new_id=lambda: "made")
    begun = {"episode_id": "made", "seed": 77, "agent": "home"}
    assert begun.items() <= agent.reset().metadata.items()
    assert agent.state["episode_id"] == "made"


def test_the_id_is_echoed_whatever_it_is(offer: Offer) -> None:
    agent = SingleAgent(offer(duel()))
    for episode_id in ("", "x" * 255, "日本\n\x00"):
        agent.reset(1, episode_id)
        assert agent.state["episode_id"] == episode_id


def test_wrong_parameters_are_named_and_the_episode_goes_on(offer: Offer) -> None:
    agent = SingleAgent(offer(duel()))
    agent.reset(1, "ep", options={"turns": 9})
    agent.step(say(1))
    with pytest.raises(InvalidRequest) as failure:
        agent.reset(-1, options={"turns": 0, "bogus": 1}, opponent="nobody", pack="none")
    assert {wrong.field for wrong in failure.value.fields} >= {
        "seed",
        "options.turns",
        "options.bogus",
        "opponent_choice",
        "eval_pack_id",
    }
    assert agent.state["episode_id"] == "ep"
    assert agent.step(say(3)).content["turn"] == 4


def test_an_opponent_that_costs_money_needs_leave(offer: Offer) -> None:
    name = offer(duel())
    with pytest.raises(InvalidRequest, match="costs money"):
        SingleAgent(name).reset(1, opponent="dear")
    assert SingleAgent(name, may_spend=True).reset(1, opponent="dear").actor == "home"


def test_an_opponent_that_is_missing_is_refused(offer: Offer) -> None:
    with pytest.raises(InvalidRequest, match="a key"):
        SingleAgent(offer(duel()), may_spend=True).reset(1, opponent="absent")


def test_an_opponent_that_mirrors_needs_a_captain_here(offer: Offer) -> None:
    with pytest.raises(InvalidRequest, match="opponent_choice: 'self' needs a captain"):
        SingleAgent(offer(duel())).reset(1, opponent="self")


def test_before_reset_there_is_nothing(offer: Offer) -> None:
    agent = SingleAgent(offer(duel()))
    for use in (lambda: agent.step(say(1)), lambda: agent.state, lambda: agent.observation):
        with pytest.raises(NoEpisode):
            use()


def test_an_opponent_who_waits_runs_on_a_loop_of_its_own_and_is_closed(offer: Offer) -> None:
    made: list[FakePolicy] = []
    loops: set[asyncio.AbstractEventLoop] = set()

    async def answer(observation: Observation) -> Decision:
        loops.add(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return Decision({"text": f"ACTION: {observation.content['next']}"}, "model")

    def build(seed: int) -> Policy:
        made.append(FakePolicy(answer))
        return made[-1]

    agent = SingleAgent(offer(duel(build)))
    for _ in range(2):
        agent.reset(1, "ep", options={"turns": 5})
        assert agent.step(say(1)).content["turn"] == 2
        agent.step(say(3))
    agent.close()
    agent.close()
    assert [(policy.asked, policy.closed) for policy in made] == [(2, 1), (2, 1)]
    assert len(loops) == 1
    assert all(loop.is_closed() for loop in loops)


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        (FakePolicy(failing(ValueError("secret"))), PolicyError),
        (FakePolicy(failing(TimeoutError("its own"))), PolicyError),
        (FakePolicy(forever), DecisionTimeout),
    ],
)
def test_an_opponent_who_fails_ends_the_episode(
    offer: Offer, policy: FakePolicy, error: type[Exception]
) -> None:
    agent = SingleAgent(offer(duel(lambda seed: policy)), decision_s=0.01 if error is DecisionTimeout else 20)
    agent.reset(1, "ep")
    with pytest.raises(error) as failure:
        agent.step(say(1))
    assert type(failure.value) is error
    assert "secret" not in str(failure.value)
    with pytest.raises(NoEpisode):
        agent.step(say(3))
    assert agent.reset(1, "again").content["turn"] == 0
    agent.close()


@pytest.mark.parametrize("reward", [math.nan, 1.5, -0.1, 0.5])
def test_a_world_that_lies_about_its_reward_ends_the_episode(offer: Offer, reward: float) -> None:
    def build() -> LyingEnvironment:
        return LyingEnvironment(lambda observation: replace(observation, reward=reward))

    agent = SingleAgent(offer(world_with(environment=build)))
    agent.reset(1, "ep")
    with pytest.raises(EnvironmentFault):
        agent.step(say(1))
    with pytest.raises(NoEpisode):
        agent.step(say(2))


def test_a_world_that_raises_is_replaced(offer: Offer) -> None:
    built: list[LyingEnvironment] = []

    def build() -> LyingEnvironment:
        built.append(LyingEnvironment(failing(ZeroDivisionError()) if not built else lambda answer: answer))
        return built[-1]

    agent = SingleAgent(offer(world_with(environment=build)))
    agent.reset(1, "ep")
    with pytest.raises(ZeroDivisionError):
        agent.step(say(1))
    agent.reset(1, "ep")
    assert agent.step(say(1)).content["turn"] == 1
    assert len(built) == 2


@pytest.mark.parametrize("babbling", ["agent", "opponent"])
def test_a_game_that_does_not_end_is_cut_short(offer: Offer, babbling: str) -> None:
    opponent = Babbler() if babbling == "opponent" else CarefulCounter()
    agent = SingleAgent(offer(duel(lambda seed: opponent, step_cap=lambda options: 7)))
    agent.reset(1, "ep")
    seen: list[Observation] = []
    while not seen or not seen[-1].done:
        seen.append(agent.step(say(1) if babbling == "opponent" else {"text": "hm"}))
    assert len(seen) == (1 if babbling == "opponent" else 7)
    assert seen[-1].metadata["truncated"] == "cut short after 7 turns"
    assert (seen[-1].actor, list(seen[-1].legal_actions), seen[-1].reward) == (None, [], 0.0)
    assert agent.step(say(1)).refused is not None


@pytest.mark.parametrize(("world", "options"), [("counting", {}), ("cricket", {"max_overs": 2})])
def test_it_is_the_same_episode_as_a_live_one(world: str, options: dict[str, Any]) -> None:
    """Same seed, opponent and captain: the world tells the same facts, to the byte."""
    plan = plan_episode(EpisodeRequest(world, seed=11, options=options), draw_seed=lambda: 0)
    live = [recorded.event for recorded in asyncio.run(drive(plan.world, seed=11, **options)).events]
    told = [[event.type, event.data] for event in live if event.type.startswith(f"{world}.")]
    agent, captain = SingleAgent(world), plan.policy(plan.agent)
    assert isinstance(captain, ScriptedPolicy)
    seen = agent.reset(11, "ep-test", options=options)
    facts = [*agent.facts()]
    while not seen.done:
        seen = agent.step(captain.choose(seen).action)
        facts.extend(agent.facts())
    assert json.loads(encode_json([[fact.type, fact.data] for fact in facts])) == told
    assert len(told) > 5
    ended = next(event for event in live if event.type == "episode.ended")
    assert ended.data["score"] == seen.reward


def test_the_same_seed_is_the_same_episode_again() -> None:
    def trace(agent: SingleAgent) -> list[str]:
        seen = agent.reset(5, "ep", options={"max_overs": 1})
        told = [encode_json(seen.to_json())]
        while not seen.done:
            seen = agent.step({"tool": seen.legal_actions[0]["tool"]})
            told.append(encode_json([seen.to_json(), seen.reward, agent.state]))
        return told

    agent = SingleAgent("cricket")
    assert trace(agent) == trace(agent) == trace(SingleAgent("cricket"))


async def test_a_stepper_disposes_of_its_environment_last() -> None:
    told: list[str] = []
    disposed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def dispose(environment: str) -> None:
        told.append(f"disposed of {environment}")
        loop.call_soon_threadsafe(disposed.set)

    stepper = OwnThread(lambda: "it", dispose=dispose)
    told.append(await stepper.call_within(None, lambda environment: environment))
    stepper.close()
    async with asyncio.timeout(10):
        await disposed.wait()
    assert told == ["it", "disposed of it"]
