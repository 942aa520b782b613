"""Orders for an over or a session: fewer decisions, the same game, and being asked when wanted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import jsonschema
import pytest

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.captaincy.planner import PlannerCaptain
from spectator.environments.cricket.environment import CricketEnvironment, CricketObservation
from spectator.environments.world import derive_seed
from spectator.events import encode_json
from spectator.observations import Observation
from tests.environments.cricket.playing import (
    SCRIPTED,
    Told,
    advance,
    begin,
    captain,
    last_of,
    options,
    play,
    tools_of,
)


def decisions(told: Told) -> Counter[str]:
    """How many decisions each side made."""
    return Counter(observation.actor for observation in told.observations[:-1] if observation.actor)


def ordering(**orders: Any) -> Any:
    """The usual captain, whose orders for the batting are these."""
    usual = captain("heuristic", 3)

    def choose(observation: Observation) -> Mapping[str, Any]:
        action = usual.choose(observation).action
        return {**action, "arguments": orders} if action["tool"].startswith("play_") else action

    return choose


def reach(phase: str, **given: Any) -> tuple[CricketEnvironment, Observation]:
    """A match where ``phase`` is decided for the first time."""
    environment, observation = begin(**given)
    return environment, advance(environment, observation, lambda seen: seen.content["phase"] == phase)


@pytest.mark.parametrize(("mode", "most"), [("over", 14.0), ("session", 10.0)])
def test_a_five_over_match_takes_a_dozen_decisions_a_side(mode: str, most: float) -> None:
    counted = [decisions(play(seed, decisions=mode)) for seed in range(12)]
    mean = sum(count.total() for count in counted) / len(counted) / 2
    assert 7.0 < mean < most
    assert sum(decisions(play(1)).values()) / 2 > 60


@pytest.mark.parametrize("name", sorted(SCRIPTED))
@pytest.mark.parametrize("mode", ["over", "session"])
def test_every_captain_plays_by_orders_without_a_refusal(name: str, mode: str) -> None:
    told = play(31, name, "heuristic", max_overs=5, decisions=mode)
    assert told.of("match_ended")
    assert [seen.refused for seen in told.observations if seen.refused is not None] == []


@pytest.mark.parametrize("mode", ["over", "session"])
def test_the_same_orders_play_the_same_balls_as_ball_by_ball(mode: str) -> None:
    """The engine is the same: captains whose decisions are the same see the same match, event for event."""

    def balls(told: Told) -> list[Any]:
        kinds = ("ball_bowled", "wicket_fell", "over_completed", "match_ended")
        return [fact for fact in told.facts if fact.type.removeprefix("cricket.") in kinds]

    for seed in range(4):
        by_orders = balls(play(seed, "heuristic", "cricsheet", decisions=mode))
        assert len(by_orders) > 30
        assert by_orders == balls(play(seed, "heuristic", "cricsheet"))


def test_schemas_of_orders_are_valid_and_accept_what_captains_send() -> None:
    for mode in ("over", "session"):
        environment, observation = begin(4, decisions=mode)
        captains = {side: captain("tactician", 5) for side in ("home", "away")}
        while not observation.done:
            CricketObservation.model_validate(json.loads(encode_json(observation.to_json())))
            action = captains[observation.actor or ""].choose(observation).action
            legal = {one["tool"]: one["arguments"] for one in observation.legal_actions}
            for schema in legal.values():
                jsonschema.Draft202012Validator.check_schema(schema)
            jsonschema.validate(action["arguments"], legal[action["tool"]])
            observation = environment.step(action)


def plans_of_home(told: Told) -> list[Mapping[str, Any]]:
    """What the home captain was told of himself whenever he had to plan his batting."""
    seen = [one.content for one in told.observations if one.actor == "home"]
    return [content["you"] for content in seen if content["phase"] == "batting_plan"]


@pytest.fixture(scope="module")
def usual() -> list[Mapping[str, Any]]:
    """The same of matches in which nothing is asked for."""
    return [you for seed in range(8) for you in plans_of_home(play(seed, ordering(), decisions="over"))]


@pytest.mark.parametrize(
    ("ask", "asked"),
    [({"wicket": True}, "wicket"), ({"boundary": True}, "boundary"), ({"new_batter": True}, "new_batter"),
     ({"rate_above": 9.0}, "rate")],
)  # fmt: skip
def test_a_captain_is_asked_when_he_wanted_and_told_what_happened(
    ask: dict[str, Any], asked: str, usual: list[Mapping[str, Any]]
) -> None:
    wanted = [
        you for seed in range(8) for you in plans_of_home(play(seed, ordering(ask=ask), decisions="over"))
    ]
    for you in (*wanted, *usual):
        assert you["asked"] == "innings" or you["since"], "he is told the balls since his last orders"
    assert asked in {you["asked"] for you in wanted}
    assert {you["asked"] for you in usual} <= {"innings", "over"}


def test_after_the_condition_only_the_captain_who_set_it_is_asked() -> None:
    environment, observation = reach("batting_plan", decisions="over", max_overs=5)
    side = observation.actor
    for _ in range(30):
        observation = environment.step({"tool": "play_over", "arguments": {"ask": {"boundary": True}}})
        if observation.content["you"].get("asked") == "boundary":
            break
        observation = advance(environment, observation, lambda seen: "play_over" in tools_of(seen))
    assert observation.actor == side and tools_of(observation)[0] == "play_over"
    assert environment.step({"tool": "play_over"}).refused is None


def test_single_batters_may_be_told_to_play_otherwise_and_the_order_is_kept() -> None:
    environment, observation = reach("batting_plan", decisions="session", max_overs=20)
    striker = observation.content["striker"]["name"]
    last = observation.content["choices"]["batters"][-1]
    orders = {
        "aggression": 0.9,
        "by_batter": [{"batter": striker, "aggression": 0.1}],
        "next_batters": [last],
    }
    environment.facts()
    observation = environment.step({"tool": "play_session", "arguments": orders})
    assert observation.refused is None
    facts = environment.facts()
    balls = [fact.data for fact in facts if fact.type == "cricket.ball_bowled"]
    assert len(balls) >= 36, "the whole powerplay"
    assert {ball["intents"]["aggression"] for ball in balls if ball["striker"] == striker} == {0.1}
    assert {ball["intents"]["aggression"] for ball in balls if ball["striker"] != striker} == {0.9}
    came_in = [fact.data["player"]["name"] for fact in facts if fact.type == "cricket.batter_selected"]
    assert came_in and came_in[0] == last


def test_a_captain_who_asks_at_a_wicket_chooses_who_comes_in() -> None:
    seen = [
        observation.content["phase"]
        for seed in range(6)
        for observation in play(seed, ordering(ask={"wicket": True}), decisions="over").observations
        if observation.actor == "home"
    ]
    assert "batter" in seen
    assert "batter" not in [
        seen.content["phase"] for seed in range(6) for seen in play(seed, decisions="over").observations
    ]


def test_a_session_is_bowled_by_those_who_were_named() -> None:
    environment, observation = reach("bowling_plan", decisions="session", max_overs=5)
    choices = observation.content["choices"]
    assert choices["overs"] == [1, 2]
    first, second = (bowler["name"] for bowler in choices["bowlers"][:2])
    refused = environment.step({"tool": "bowl_session", "arguments": {"bowlers": [first, first]}})
    assert refused.refused is not None and refused.refused.rule == "O3.bowler"
    environment.step({"tool": "bowl_session", "arguments": {"bowlers": [first, second], "length": "full"}})
    environment.facts()
    environment.step({"tool": "play_session"})
    facts = environment.facts()
    named = [fact.data["bowler"]["name"] for fact in facts if fact.type == "cricket.bowler_selected"]
    assert named == [first, second]
    balls = [fact.data for fact in facts if fact.type == "cricket.ball_bowled"]
    assert {ball["intents"]["length"] for ball in balls} == {"full"}


@pytest.mark.parametrize(
    ("tool", "arguments", "rule"),
    [
        ("bowl_over", {"bowler": "Nobody At All"}, "O3.bowler"),
        ("bowl_over", {"preset": "everywhere"}, "arguments.preset"),
        ("bowl_over", {"preset": "defensive"}, "F1.outside_ring"),
        ("bowl_over", {"attack": 2.0}, "arguments.attack"),
        ("bowl_over", {"ask": {"wicket": "yes"}}, "arguments.ask.wicket"),
        ("bowl_over", {"ask": {"rain": True}}, "arguments.ask.rain"),
        ("play_over", {}, "tool.illegal"),
        ("bowl_session", {}, "tool.illegal"),
        ("bowl_delivery", {}, "tool.illegal"),
    ],
)
def test_orders_that_are_wrong_are_refused_by_their_rule(
    tool: str, arguments: dict[str, Any], rule: str
) -> None:
    environment, _ = reach("bowling_plan", decisions="over", max_overs=5)
    environment.facts()
    before = environment.snapshot()
    answer = environment.step({"tool": tool, "arguments": arguments})
    assert answer.refused is not None and answer.refused.rule == rule
    assert environment.facts() == []
    after, then = json.loads(environment.snapshot()), json.loads(before)
    for whole in (after, then):
        del whole["steps"]  # a refusal is a step towards the cap
        for seat in whole["seats"].values():
            del seat["refusals"], seat["refused_in_a_row"]
    assert after == then


def test_a_bowler_who_began_an_over_finishes_it() -> None:
    def boundary(seen: Observation) -> Any:
        if tools_of(seen)[0] == "bowl_over":
            return {"tool": "bowl_over", "arguments": {"ask": {"boundary": True}}}
        return {"tool": tools_of(seen)[0]}

    environment, observation = begin(5, decisions="over")
    while observation.content["phase"] != "bowling_plan" or observation.content["bowler"] is None:
        observation = environment.step(boundary(observation))
    assert "bowlers" not in observation.content["choices"]
    [schema] = [legal["arguments"] for legal in observation.legal_actions if legal["tool"] == "bowl_over"]
    assert "bowler" not in schema["properties"]
    squad = observation.content["squads"][observation.actor]["players"]
    other = next(man["name"] for man in squad if man["name"] != observation.content["bowler"]["name"])
    refused = environment.step({"tool": "bowl_over", "arguments": {"bowler": other}}).refused
    assert refused is not None and refused.rule == "O4.bowler"


def test_the_rival_never_sees_orders() -> None:
    environment, _ = reach("bowling_plan", decisions="over", max_overs=5)
    seen = environment.step({"tool": "bowl_over", "arguments": {"line": "wide outside off", "attack": 0.77}})
    text = encode_json(seen.to_json())
    assert '"attack":0.77' not in text and "orders" not in seen.content["you"]


def test_starts_in_the_middle_and_super_overs_are_played_by_orders_too() -> None:
    for start in ("chase", "death", "collapse", "super_over"):
        for mode in ("over", "session"):
            told = play(3, start=start, decisions=mode)
            assert told.of("match_ended")


def test_the_oracle_uses_orders_to_win() -> None:
    def won(seed: int) -> float:
        oracle = WORLD.captains["oracle"].build(derive_seed(seed, "policy", "home"))
        environment, observation = begin(seed, decisions="over", max_overs=2)
        usual = captain("heuristic", 1)
        while not observation.done:
            if observation.actor == "home":
                oracle.see(environment.snapshot())  # type: ignore[attr-defined]  # it sees the truth
                observation = environment.step(oracle.answer(observation).action)  # type: ignore[attr-defined]  # without a loop
            else:
                observation = environment.step(usual.choose(observation).action)
        return float(observation.metadata["rubric"]["result"])

    assert sum(won(seed) for seed in range(30)) > 16


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="decisions"):
        options(decisions="match")


@pytest.mark.parametrize("covers", ["over", "session"])
def test_the_planner_gives_orders_of_its_own_that_are_never_refused(covers: str) -> None:
    """Bowlers, deliveries, fields, strokes and intents; and it asks to be asked about a new batter."""
    told = play(3, "planner", "planner", decisions=covers, ground="drawn", form="drawn", fatigue=True)
    assert all(one.refused is None for one in told.observations)
    plans = [data["plan"] for data in told.of("plan_changed") if data["part"] in ("batting", "bowling")]
    assert all(plan["ask"] == {"new_batter": True} for plan in plans)
    planned = {name for plan in plans for name in plan}
    assert {"shot", "by_batter", "line"} <= planned
    assert {data["preset"] for data in told.of("field_set")} - {"standard"}


@pytest.mark.parametrize("seed", [5, 7])
def test_the_planner_orders_nobody_who_has_no_overs_left(seed: int) -> None:
    """Sessions of ten overs, where several are bowled between two orders; and what is told of them stays."""
    told = play(seed, "planner", "heuristic", decisions="session", max_overs=10)
    assert all(one.refused is None for one in told.observations)
    assert told.of("match_ended")
    orders = [data["plan"] for data in told.of("plan_changed") if data["part"] == "bowling"]
    assert any(len(plan.get("bowlers", ())) > 1 for plan in orders)
    assert all(plan.get("bowlers", ["as usual"]) for plan in orders), "who has bowled is still named"


@pytest.mark.parametrize("covers", ["over", "session"])
def test_the_planner_s_orders_are_worth_something(covers: str) -> None:
    """By the value of decisions, which is 0 for the percentage captain; the table is in cricket-game.md."""
    worth = []
    for seed in range(3):
        last = last_of(seed, "planner", decisions=covers, reward="decision_value")
        worth.append(last.metadata["rubric"]["decision_value"])
    assert sum(worth) > 0.0


def test_a_planner_goes_on_with_the_bowlers_it_has_ordered() -> None:
    """Asked in the middle of a session, after it was put down and taken up again, it names the same ones."""
    planner = PlannerCaptain(1)
    environment, observation = begin(4, decisions="session")
    while not observation.done:
        if observation.actor == "home":
            twin = PlannerCaptain(1)
            twin.restore(json.loads(json.dumps(planner.snapshot())))
            action = planner.choose(observation).action
            assert twin.choose(observation).action == action
        else:
            action = captain("heuristic", 2).choose(observation).action
        observation = environment.step(action)
        assert observation.refused is None
