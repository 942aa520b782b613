"""The captain's fourteen tools: legal when they should be, refused by rule, counted, and with defaults."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import jsonschema
import pytest

from spectator.environments.cricket.captaincy.arguments import OVERHEAD, TOOLS
from spectator.environments.cricket.match.captain_state import CALLS_A_TURN, FREE_CALLS
from spectator.environments.cricket.match.field import POSITIONS, PRESETS, check_field, custom_field
from spectator.events import encode_json
from spectator.observations import Observation
from tests.environments.cricket.playing import advance, begin, play, tools_of


def phase(name: str) -> Any:
    return lambda observation: observation.content["phase"] == name


def refusal(observation: Observation) -> str:
    assert observation.refused is not None, "it was accepted"
    return observation.refused.rule


def bowler(name: str) -> dict[str, Any]:
    return {"tool": "select_bowler", "arguments": {"bowler": name}}


def place(x: float) -> dict[str, Any]:
    return {"tool": "set_field", "arguments": {"fielders": [{"x": x, "y": 3.0}] * 9}}


def able(observation: Observation) -> list[str]:
    return [choice["name"] for choice in observation.content["choices"]["bowlers"]]


def batter(**named: str) -> dict[str, Any]:
    return {"tool": "select_batter", "arguments": named}


def test_there_are_fourteen_tools_and_every_one_works_without_arguments() -> None:
    rng, used = random.Random(5), set[str]()

    def anything(observation: Observation) -> dict[str, Any]:
        assert observation.refused is None
        new = [tool for tool in tools_of(observation) if tool not in used]
        tool = new[-1] if new else rng.choice(tools_of(observation))
        used.add(tool)
        return {"tool": tool} if rng.random() < 0.5 else {"tool": tool, "arguments": None}

    assert play(3, anything, anything).last.refused is None
    orders = {"bowl_over", "play_over", "bowl_session", "play_session"}
    assert used == set(TOOLS) - orders
    assert len(TOOLS) == 14 + len(orders)


def test_schemas_are_valid_and_say_what_is_accepted() -> None:
    told = play(2, "tactician", "aggressive")
    seen = {}
    for observation in told.observations:
        for legal in observation.legal_actions:
            seen[json.dumps(legal)] = legal
    assert len(seen) > 20
    for legal in seen.values():
        schema = legal["arguments"]
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        assert "required" not in schema
        jsonschema.validate({}, schema)


def test_only_the_fielding_captain_bowls_and_only_the_batting_captain_plays() -> None:
    for observation in play(4).observations[:-1]:
        batting = observation.content.get("batting")
        if batting is None:
            continue
        if {"bowl_delivery", "select_bowler", "set_field"} & set(tools_of(observation)):
            assert observation.actor != batting
        if {"play_delivery", "select_batter", "set_strategy"} & set(tools_of(observation)):
            assert observation.actor == batting


def test_the_winner_of_the_toss_elects() -> None:
    winners = set()
    for seed in range(12):
        environment, observation = begin(seed)
        observation = environment.step({"tool": "call_toss", "arguments": {"call": "tails", "elect": "bat"}})
        if observation.content["phase"] == "elect":
            assert observation.actor == "away"
            observation = environment.step({"tool": "call_toss", "arguments": {"elect": "bat"}})
        toss = next(fact.data for fact in environment.facts() if fact.type == "cricket.toss_made")
        assert observation.content["batting"] == toss["winner"]
        assert toss["elected"] == "bat"
        winners.add(toss["winner"])
    assert winners == {"home", "away"}


@pytest.mark.parametrize(
    ("action", "rule"),
    [
        ({}, "action.shape"),
        ({"tool": 5}, "action.shape"),
        ({"tool": "bowl_delivery", "x": 1}, "action.shape"),
        ({"tool": "fly"}, "tool.unknown"),
        ({"tool": "play_delivery"}, "tool.illegal"),
        ({"tool": "call_toss"}, "tool.illegal"),
        ({"tool": "bowl_delivery", "arguments": []}, "arguments.shape"),
        ({"tool": "bowl_delivery", "arguments": {"speed": 3}}, "arguments.speed"),
        ({"tool": "set_bowling_strategy", "arguments": {"attack": 1.01}}, "arguments.attack"),
        ({"tool": "set_bowling_strategy", "arguments": {"attack": math.nan}}, "arguments.attack"),
        ({"tool": "set_bowling_strategy", "arguments": {"attack": "0.5"}}, "arguments.attack"),
        ({"tool": "set_bowling_strategy", "arguments": {"attack": True}}, "arguments.attack"),
        ({"tool": "set_bowling_strategy", "arguments": {"note": "x" * 501}}, "arguments.note"),
        ({"tool": "set_bowling_strategy", "arguments": {"note": "\ud800"}}, "arguments.note"),
        ({"tool": "set_bowling_strategy", "arguments": {"\ud800\x1b": 1}}, "arguments."),
        ({"tool": "\ud800"}, "tool.unknown"),
        ({"tool": "bowl_delivery", "\ud800": 1}, "action.shape"),
        ({"tool": "plan_delivery", "arguments": {"length": "bouncer"}}, "arguments.length"),
        ({"tool": "plan_delivery", "arguments": {"length": "full toss"}}, "arguments.length"),
        ({"tool": "set_field", "arguments": {"preset": "nonsense"}}, "arguments.preset"),
        ({"tool": "set_field", "arguments": {"preset": "defensive"}}, "F1.outside_ring"),
        ({"tool": "set_field", "arguments": {"fielders": []}}, "arguments.fielders"),
        (
            {"tool": "set_field", "arguments": {"fielders": [{"x": 1e308, "y": 0.0}] * 9}},
            "arguments.fielders.0.x",
        ),
        ({"tool": "set_field", "arguments": {"fielders": [{"x": 3.0, "y": 9.0}] * 9}}, "F4.same_spot"),
        ({"tool": "reflect_after_ball"}, "tool.illegal"),
        ({"tool": "update_match_plan"}, "tool.illegal"),
        ({"tool": "set_match_plan", "arguments": {"death_bowlers": ["Nobody"]}}, "arguments.death_bowlers"),
    ],
)
def test_what_is_wrong_is_refused_by_its_rule_and_nothing_changes(action: Any, rule: str) -> None:
    environment, observation = begin()
    before = advance(environment, observation, phase("bowl"))
    environment.facts()
    state = environment.state
    after = environment.step(action)
    assert refusal(after) == rule
    encode_json(after.to_json()).encode()
    assert environment.state == state
    assert environment.facts() == []
    assert after.content == before.content
    assert after.actor == before.actor


def test_a_refused_call_names_what_would_be_legal() -> None:
    environment, observation = begin()
    advance(environment, observation, phase("bowl"))
    answer = environment.step({"tool": "play_delivery"})
    assert answer.refused is not None
    assert "bowl_delivery" in answer.refused.message


def test_O3_and_O6_are_refused_through_the_tool() -> None:
    environment, observation = begin()
    observation = advance(environment, observation, phase("bowler"))
    first = observation.content["choices"]["bowlers"][-1]["name"]
    observation = environment.step(bowler(first))
    observation = advance(environment, observation, phase("bowler"))
    assert first not in able(observation)
    assert refusal(environment.step(bowler(first))) == "O3.consecutive_overs"
    squads = observation.content["squads"][observation.actor or "home"]["players"]
    keeper = next(player["name"] for player in squads if player["role"] == "keeper")
    assert refusal(environment.step(bowler(keeper))) == "house.keeper"
    assert refusal(environment.step(bowler("W. G."))) == "O3.bowler"
    for _ in range(2):
        observation = environment.step({"tool": "select_bowler"})
        observation = advance(environment, observation, phase("bowler"))
        if first in able(observation):
            observation = environment.step(bowler(first.upper()))
            assert observation.refused is None
            break
    observation = advance(environment, observation, phase("bowler"))
    observation = advance(environment, environment.step({"tool": "select_bowler"}), phase("bowler"))
    assert refusal(environment.step(bowler(first))) == "O5.bowler_limit"


def test_openers_and_the_next_batter_are_the_captains_choice() -> None:
    environment, observation = begin()
    observation = advance(environment, observation, phase("openers"))
    names = observation.content["choices"]["batters"]
    assert refusal(environment.step(batter(batter=names[6], partner=names[6]))) == "K10.batter"
    observation = environment.step(batter(batter=names[6], partner=names[2]))
    assert observation.content["striker"]["name"] == names[6]
    assert observation.content["non_striker"]["name"] == names[2]
    observation = advance(environment, observation, phase("batter"))
    assert names[6] not in observation.content["choices"]["batters"]
    assert refusal(environment.step(batter(batter=names[6]))) == "K10.batter"
    assert refusal(environment.step(batter(batter=names[10], partner=names[9]))) == "arguments.partner"
    observation = environment.step(batter(batter=names[10]))
    assert names[10] in (observation.content["striker"]["name"], observation.content["non_striker"]["name"])


def test_a_field_stays_until_changed_and_the_standard_one_opens_up_after_the_powerplay() -> None:
    told = play(6)
    limits = {
        (
            observation.content["powerplay"],
            observation.content["outside_limit"],
            observation.content["field"]["preset"],
        )
        for observation in told.observations
        if observation.content["phase"] == "bowl"
    }
    assert limits == {(True, 2, "standard"), (False, 5, "standard")}
    outside = {
        observation.content["powerplay"]: [man["name"] for man in observation.content["field"]["fielders"]]
        for observation in told.observations
        if observation.content["phase"] == "bowl"
    }
    assert outside[True] != outside[False]


def test_a_custom_field_is_set_in_metres_and_shown_to_both() -> None:
    environment, observation = begin()
    observation = advance(environment, observation, phase("bowl"))
    men = [{"name": name, "x": POSITIONS[name][0], "y": POSITIONS[name][1]} for name in PRESETS["attacking"]]
    observation = environment.step({"tool": "set_field", "arguments": {"fielders": men}})
    assert observation.content["field"] == {"preset": "custom", "fielders": men}
    batting = environment.step({"tool": "bowl_delivery"})
    assert batting.content["field"] == {"preset": "custom", "fielders": men}
    both = environment.step({"tool": "play_delivery"})
    assert both.refused is None


def test_N9_the_field_stays_for_a_free_hit_unless_the_striker_changed() -> None:
    frozen = changed = 0
    for seed in range(60):
        last = None
        for observation in play(seed, max_overs=3).observations:
            content = observation.content
            if content["phase"] == "bowl":
                tools = tools_of(observation)
                if content["free_hit"] and last == content["striker"]["name"]:
                    assert "set_field" not in tools
                    frozen += 1
                else:
                    assert "set_field" in tools
                    changed += content["free_hit"]
            if content["phase"] == "bat":
                last = content["striker"]["name"]
    assert frozen
    assert changed


def test_six_overhead_calls_an_over_are_free_and_the_rest_are_charged() -> None:
    environment, observation = begin()
    observation = advance(environment, observation, phase("bowl"))
    fielding = observation.actor
    for call in range(FREE_CALLS):
        assert observation.content["you"]["free_calls"] == FREE_CALLS - call
        observation = environment.step({"tool": "set_bowling_strategy"})
    assert observation.content["you"]["charged_calls"] == 0
    observation = environment.step({"tool": "set_field"})
    assert observation.content["you"]["charged_calls"] == 1
    observation = environment.step({"tool": "set_match_plan"})
    assert observation.content["you"]["charged_calls"] == 1, "only the overhead tools are counted"
    observation = advance(environment, observation, phase("bowler"))
    observation = advance(environment, environment.step({"tool": "select_bowler"}), phase("bowl"))
    assert observation.actor == fielding
    assert observation.content["you"]["free_calls"] == FREE_CALLS
    assert observation.content["you"]["charged_calls"] == 1
    assert OVERHEAD == {
        "set_strategy", "set_bowling_strategy", "set_field", "plan_delivery", "plan_shot",
        "reflect_after_ball", "analyze_situation",
    }  # fmt: skip


def test_a_captain_may_not_think_for_ever() -> None:
    environment, observation = begin()
    observation = advance(environment, observation, phase("bat"))
    for _ in range(CALLS_A_TURN):
        observation = environment.step({"tool": "set_strategy"})
        assert observation.refused is None
    assert tools_of(observation) == ["play_delivery"]
    assert refusal(environment.step({"tool": "set_strategy"})) == "tool.illegal"
    assert environment.step({"tool": "play_delivery"}).refused is None


def test_a_planned_shot_holds_for_one_ball_and_a_planned_delivery_for_the_over() -> None:
    environment, observation = begin()
    observation = advance(environment, observation, phase("bowl"))
    planned = {"length": "yorker", "line": "stumps", "pace": "slower"}
    observation = environment.step({"tool": "plan_delivery", "arguments": planned})
    assert observation.content["you"]["delivery"] == planned
    environment.step({"tool": "bowl_delivery"})
    environment.step({"tool": "plan_shot", "arguments": {"shot": "slog", "aggression": 0.9}})
    environment.facts()
    observation = environment.step({"tool": "play_delivery"})
    ball = next(fact.data for fact in environment.facts() if fact.type == "cricket.ball_bowled")
    assert ball["intents"] == {
        "aggression": 0.9, "shot": "slog", "attack": 0.5, "length": "yorker", "line": "stumps",
        "pace": "slower", "field": "standard",
    }  # fmt: skip
    observation = advance(environment, observation, phase("bat"))
    assert observation.content["you"]["shot"] is None
    environment.step({"tool": "play_delivery"})
    second = next(fact.data for fact in environment.facts() if fact.type == "cricket.ball_bowled")
    assert (second["intents"]["shot"], second["intents"]["length"]) == (None, "yorker")
    observation = advance(environment, environment.step({"tool": "bowl_delivery"}), phase("bowler"))
    observation = advance(environment, observation, phase("bowl"))
    assert observation.content["you"]["delivery"] is None


def test_notes_and_plans_persist_and_are_cleaned() -> None:
    environment, observation = begin()
    plan = {"batting_death": 0.9, "summary": "late \x1b[31mhitting\u202e"}
    observation = environment.step({"tool": "set_match_plan", "arguments": plan})
    assert observation.content["you"]["plan"]["summary"] == "late [31mhitting"
    assert "set_match_plan" not in tools_of(observation)
    observation = environment.step({"tool": "update_match_plan", "arguments": {"batting_middle": 0.4}})
    kept = observation.content["you"]["plan"]
    assert (kept["batting_middle"], kept["batting_death"], kept["bowling_death"]) == (0.4, 0.9, 0.5)


def test_what_a_policy_does_to_its_observation_does_not_reach_the_game() -> None:
    environment, observation = begin()
    environment.step({"tool": "set_match_plan"})
    observation = advance(environment, observation, phase("bowl"))
    kept = environment.snapshot()
    content: Any = observation.content
    content["field"]["fielders"][0]["x"] = 99.0
    content["recent"].append("6")
    content["you"]["notes"].append("cheat")
    if content["you"]["plan"]:
        content["you"]["plan"]["batting_death"] = 1.0
    assert environment.snapshot() == kept
    assert begin()[1].content.get("field") is None
    fresh = advance(*begin(), phase("bowl"))
    assert fresh.content["field"]["fielders"][0]["x"] != 99.0


def test_a_plan_declared_before_the_first_ball_binds_it_and_a_later_one_the_next_over() -> None:
    environment, observation = begin()
    observation = advance(environment, observation, phase("bowl"))
    environment.step({"tool": "set_match_plan", "arguments": {"bowling_powerplay": 0.5}})
    game = environment._game
    assert game is not None
    captain = game.captains["home" if observation.actor == "home" else "away"]
    observation = advance(environment, environment.step({"tool": "bowl_delivery"}), phase("bat"))
    observation = advance(environment, environment.step({"tool": "play_delivery"}), phase("bowl"))
    assert captain.closeness == pytest.approx(1.0)
    environment.step({"tool": "update_match_plan", "arguments": {"bowling_powerplay": 0.0}})
    assert captain.bound is not None
    assert captain.bound["bowling_powerplay"] == 0.5


def test_the_analyst_tells_par_and_chances() -> None:
    environment, observation = begin(start="chase")
    observation = advance(environment, observation, phase("bat"))
    observation = environment.step({"tool": "analyze_situation", "arguments": {"question": "Are we ahead?"}})
    found = observation.content["you"]["analysis"]
    assert 0.0 < found["chance_of_win"] < 1.0
    assert found["chance_of_win"] == found["chance_of_chase"]
    assert observation.content["you"]["notes"] == ["Are we ahead?"]


def test_nothing_of_the_rivals_plans_is_in_an_observation() -> None:
    """The batting captain sees the field, not the plan behind it."""
    environment, observation = begin()
    observation = advance(environment, observation, phase("bowl"))
    secret = {"summary": "SECRET", "bowling_death": 0.123}
    environment.step({"tool": "set_match_plan", "arguments": secret})
    environment.step({"tool": "set_bowling_strategy", "arguments": {"attack": 0.321, "note": "SECRET"}})
    environment.step({"tool": "plan_delivery", "arguments": {"length": "yorker"}})
    observation = environment.step({"tool": "bowl_delivery"})
    seen = json.dumps(observation.to_json())
    own = json.dumps(observation.to_json()["legal_actions"])
    assert "SECRET" not in seen
    assert "0.321" not in seen
    assert seen.count("yorker") == own.count("yorker")


JUNK: list[Any] = [
    None, True, 0, -1, 0.5, 1e308, math.nan, math.inf, "", "x" * 600, "\ud800", "Nobody", [], [1], {},
    {"a": 1}, "yorker", "slog", "heads", "bat", "attacking", 2**70, b"x", object(),
]  # fmt: skip
NAMES = ["call", "elect", "batter", "partner", "bowler", "preset", "fielders", "attack", "aggression", "note"]
NAMES += ["length", "line", "pace", "shot", "summary", "batting_death", "death_bowlers", "question", "zzz"]


@pytest.mark.parametrize("seed", range(4))
def test_junk_is_refused_without_a_trace_and_the_match_goes_on(seed: int) -> None:
    rng = random.Random(seed)
    environment, observation = begin(seed, max_overs=1)
    accepted = refused = 0
    while not observation.done:
        tool = rng.choice([rng.choice(tools_of(observation)), rng.choice(list(TOOLS)), rng.choice(JUNK)])
        arguments = rng.choice([None, {rng.choice(NAMES): rng.choice(JUNK)}, rng.choice(JUNK)])
        action: Any = rng.choice([{"tool": tool, "arguments": arguments}, {"tool": tool}, rng.choice(JUNK)])
        environment.facts()
        state = environment.state
        observation = environment.step(action)
        encode_json(observation.to_json()).encode()
        if observation.refused is None:
            accepted += 1
        else:
            refused += 1
            assert environment.state == state
            assert environment.facts() == []
    assert accepted > 15
    assert refused > 100


def test_A4_there_is_no_run_rate_before_a_ball_and_no_required_rate_after_the_last() -> None:
    """Neither nought nor infinite: the rate does not exist."""
    told = [seen.content for seed in range(4) for seen in play(seed, max_overs=1).observations]
    scored = [view for view in told if "score" in view]
    before = [view for view in scored if view["score"]["balls"] == 0]
    after = [view for view in scored if view["score"]["balls_left"] == 0 and "target" in view]
    assert before and {view["run_rate"] for view in before} == {None}
    assert after and {view["required_rate"] for view in after} == {None}


def test_N10_the_field_that_is_set_is_lawful_whenever_a_ball_is_bowled() -> None:
    """An unlawful one is refused when it is set, so no ball is a no-ball for it."""
    told = play(6, "tactician", "spin_first", max_overs=7)
    for seen in told.observations:
        if seen.content["phase"] == "bat":
            view = seen.content
            men = [(man["name"], man["x"], man["y"]) for man in view["field"]["fielders"]]
            check_field(custom_field(men), view["outside_limit"])
