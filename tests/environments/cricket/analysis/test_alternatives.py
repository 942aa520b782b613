"""The analyst of a match: best first, what was decided marked, sharp differences, the same every time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from spectator.environments.contract import Alternative, Alternatives, Question
from spectator.environments.cricket.analyst import CricketAnalyst
from spectator.environments.cricket.ball.situation import DeliveryPlan
from spectator.environments.cricket.calls import call_words, current_call
from spectator.environments.cricket.captaincy.arguments import TOOLS
from spectator.environments.cricket.environment import CricketEnvironment
from spectator.environments.cricket.forecast.monte_carlo import wins
from spectator.environments.cricket.match.engine import BowlingIntent
from spectator.environments.cricket.match.field import preset_field
from spectator.environments.cricket.match.forecasts import forecast_state, with_bowler
from spectator.environments.cricket.question import question
from spectator.observations import Observation
from tests.environments.cricket.playing import advance, begin, captain, options, play

Action = Mapping[str, Any]


@dataclass
class Asked:
    """One decision of a match: what was shown, what was decided, what the match told next of worths."""

    observation: Observation
    action: Action
    worth: Mapping[str, float]

    @property
    def phase(self) -> str:
        return str(self.observation.content["phase"])


@cache
def decisions(name: str = "planner", seed: int = 5, **given: Any) -> list[Asked]:
    """All decisions of a match that one captain plays against itself."""
    asked: list[Asked] = []
    environment, observation = begin(seed, **given)
    captains = {side: captain(name, seed) for side in ("home", "away")}
    while not observation.done:
        assert observation.actor is not None
        action = captains[observation.actor].choose(observation).action
        following = environment.step(action)
        told = [fact.data for fact in environment.facts() if fact.type == "cricket.forecast"]
        worth = {name: data[f"{name}_value"] for data in told for name in ("batting", "bowling")}
        asked.append(Asked(observation, action, worth))
        observation = following
    return asked


def weighed(
    asked: list[Asked], wanted: Callable[[Asked], bool], seed: int = 5, **given: Any
) -> Iterator[tuple[Asked, Alternatives]]:
    """What the analyst says of those decisions that are wanted."""
    analyst = CricketAnalyst()
    analyst.reset(seed=seed, episode_id="x", options=options(**given))
    for one in asked:
        if wanted(one):
            yield one, analyst.alternatives(one.action)
        analyst.step(one.action)


def played_of(told: Alternatives) -> Alternative:
    (played,) = [call for call in told.best if call.played]
    return played


def at(phase: str, balls: int = 0) -> Callable[[Asked], bool]:
    return lambda asked: asked.phase == phase and asked.observation.content["score"]["balls"] >= balls


@pytest.mark.parametrize("mode", ["ball", "over", "session"])
def test_every_kind_of_decision_has_lines_best_first(mode: str) -> None:
    asked = decisions(max_overs=2, decisions=mode)
    phases = {one.phase for one in asked}
    seen: set[str] = set()

    def first(one: Asked) -> bool:
        return one.phase not in seen and not seen.add(one.phase)  # type: ignore[func-returns-value]  # it is None

    for one, told in weighed(asked, first, max_overs=2, decisions=mode):
        gains = [call.gain for call in told.best]
        assert gains == sorted(gains, reverse=True)
        assert 2 <= len(gains) <= 5
        assert [call.place for call in told.best] == sorted(call.place for call in told.best)
        assert told.best[0].place == 1
        played = played_of(told)
        assert played.action["tool"] == one.action["tool"]
        assert (played.gain, played.gain_error) == (0.0, 0.0)
        assert played.place <= told.weighed
        assert all(call.error < 0.01 and call.words and 0 <= call.chance <= 1 for call in told.best)
        legal = {action["tool"] for action in one.observation.legal_actions}
        assert {call.action["tool"] for call in told.best} <= legal
    assert seen == phases


def test_every_line_is_a_call_that_the_match_accepts() -> None:
    asked = decisions(max_overs=1)
    environment, _ = begin(5, max_overs=1)
    looked_at = asked[::4]
    found = weighed(asked, lambda one: one in looked_at, max_overs=1)
    told = {id(one): told for one, told in found}
    for one in asked:
        for call in told[id(one)].best if id(one) in told else ():
            twin, _ = begin(5, max_overs=1)
            twin.restore(environment.snapshot())
            used = twin._playing.captains[twin._playing.actor or "home"].turn_tools
            assert twin.step(call.action).refused is None or call.action["tool"] in used, call
        environment.step(one.action)
        environment.facts()


def test_the_same_lines_whoever_comes_there_however() -> None:
    asked = decisions(max_overs=2)
    late = asked[20:24]
    along = [told for _, told in weighed(asked, lambda one: one in late, max_overs=2)]
    alone = []
    for number in range(20, 24):
        (told,) = weighed(asked[: number + 1], lambda one: one in asked[number:], max_overs=2)  # noqa: B023 - at once
        alone.append(told[1])
    assert along == alone
    costly: dict[str, Any] = {"max_overs": 2, "forecast_futures": 100, "reward": "decision_value"}
    assert [told for _, told in weighed(asked, lambda one: one in late, **costly)] == along


def test_weighing_changes_nothing_of_the_match() -> None:
    asked = decisions(max_overs=1)
    quiet, curious = CricketAnalyst(), CricketAnalyst()
    for analyst in (quiet, curious):
        analyst.reset(seed=5, episode_id="x", options=options(max_overs=1))
    for number, one in enumerate(asked):
        if number % 5 == 0:
            curious.alternatives(one.action)
        assert curious.step(one.action) == quiet.step(one.action)
    assert curious.snapshot() == quiet.snapshot()


def test_what_a_call_gains_over_real_sides_is_what_the_record_says_it_was_worth() -> None:
    """The record holds what a ball's calls were worth against the usual ones, by fewer and other numbers."""
    given = {"max_overs": 3, "forecast_futures": 10_000}
    asked = decisions("aggressive", 10, **given)
    telling = [one for one in asked if one.phase == "bat" and abs(one.worth.get("batting", 0.0)) > 0.0012]
    differences = []
    for one, told in weighed(asked, lambda it: it in telling, 10, **given):
        usual = [call for call in told.best if call.words == "bat as real sides do"]
        if one.action["tool"] == "play_delivery" and usual:
            differences.append(-usual[0].gain - one.worth["batting"])
    assert len(differences) >= 8
    assert max(map(abs, differences)) < 0.003
    assert abs(float(np.mean(differences))) < 0.0006


def test_common_numbers_make_differences_sharp() -> None:
    environment, observation = begin(5, max_overs=5)
    advance(environment, observation, lambda seen: seen.content["phase"] == "bowler")
    match = environment._playing.playing
    state = forecast_state(match)
    assert state is not None
    one, two = (with_bowler(state, bowler) for bowler in match.eligible_bowlers()[-2:])
    n = 4000
    first, second, other = (
        wins(state, n, seed, match.model) for state, seed in ((one, 1), (two, 1), (two, 2))
    )
    assert np.array_equal(first, wins(one, n, 1, match.model))
    assert (first - second).std() < 0.7 * (first - other).std()
    assert abs(first.mean() - wins(one, n, 3, match.model).mean()) < 4 * 0.5 * np.sqrt(2 / n)


def test_a_refused_call_says_so_and_has_none() -> None:
    asked = decisions(max_overs=1)
    analyst = CricketAnalyst()
    analyst.reset(seed=5, episode_id="x", options=options(max_overs=1))
    for one in asked:
        if one.phase == "bowl":
            break
        analyst.step(one.action)
    unlawful = {"tool": "set_field", "arguments": {"fielders": [{"name": "slip", "x": 3.0, "y": -14.0}]}}
    wrong = {"tool": "plan_delivery", "arguments": {"length": 7}}
    senseless: tuple[Action, ...] = ({}, {"tool": "nonsense"}, wrong, {"tool": None})
    for action in (unlawful, *senseless):
        told = analyst.alternatives(action)
        assert told.best == ()
        assert "refused" in told.how


def test_where_the_ball_is_played_its_planned_stroke_is_weighed_again() -> None:
    asked = decisions(max_overs=2)
    plans = [n for n, one in enumerate(asked) if one.action["tool"] == "plan_shot"][:2]
    played = [asked[number + 1] for number in plans]
    for one, told in weighed(asked, lambda it: it in played, max_overs=2):
        assert one.action["tool"] == "play_delivery"
        tools = [call.action["tool"] for call in told.best]
        assert "plan_shot" in tools
        words = played_of(told).words
        assert words.startswith("bat on: ")
        assert words.removeprefix("bat on: ") not in [call.words for call in told.best], "once is enough"
        assert "set_strategy" not in tools, "it would not change this ball"


def test_super_overs_and_ends_have_none() -> None:
    environment, observation = begin(3, max_overs=1, start="super_over")
    analyst = CricketAnalyst()
    analyst.reset(seed=3, episode_id="x", options=options(max_overs=1, start="super_over"))
    while not observation.done:
        action = {"tool": observation.legal_actions[0]["tool"]}
        assert analyst.alternatives(action).best == ()
        analyst.step(action)
        observation = environment.step(action)
    assert analyst.alternatives({"tool": "play_delivery"}).best == ()


def test_every_tool_has_words() -> None:
    field = preset_field("leg_side", 5)
    assert current_call(BowlingIntent(0.6, DeliveryPlan("yorker", "leg"), field)) == (
        "bowl on: yorker, leg, leg side field, attack more (0.6)"
    )
    assert current_call(BowlingIntent()) == "bowl on as real sides do"
    for tool, arguments in TOOLS.items():
        words = call_words(tool, arguments().model_dump())
        assert 3 < len(words) <= 100, tool
        assert "_" not in words
    assert call_words("select_batter", {"batter": "A", "partner": "B"}) == "A and B to open"
    assert call_words("bowl_over", {"bowler": "A", "length": "yorker", "attack": 0.6}) == (
        "A to bowl, yorker, attack more (0.6)"
    )


def test_the_day_is_read_off_the_balls_as_the_forecast_reads_it() -> None:
    told = play(4, max_overs=2, forecast_futures=10)
    analyst = CricketAnalyst()
    analyst.reset(seed=4, episode_id="x", options=options(max_overs=2, forecast_futures=10))
    twin, observation = begin(4, max_overs=2, forecast_futures=10)
    captains = {side: captain("heuristic", 1) for side in ("home", "away")}
    while not observation.done:
        assert observation.actor is not None
        action = captains[observation.actor].choose(observation).action
        observation = twin.step(action)
        analyst.step(action)
    assert told.observations
    assert analyst._playing.reading.dump() == twin._playing.reading.dump()


@pytest.mark.parametrize("mode", ["ball", "over", "session"])
def test_viewers_are_offered_three_calls_that_are_legal_and_weighed(mode: str) -> None:
    asked = decisions(max_overs=5, decisions=mode, seed=6)
    analyst = CricketAnalyst()
    analyst.reset(seed=6, episode_id="x", options=options(max_overs=5, decisions=mode))
    offered: Question | None = None
    answered: set[str] = set()
    for one in asked:
        offered = question(one.observation) or offered
        if offered is not None and (one.observation.actor, one.action["tool"]) == (
            offered.actor,
            offered.answered_by,
        ):
            if offered.answered_by not in answered:
                weighed = analyst.alternatives(one.action, [card.action for card in offered.cards])
                best = weighed.best[0].chance
                assert [card.chance <= best for card in weighed.cards] == [True] * 3
                assert len({str(card.action) for card in offered.cards}) == 3
                assert len({card.words for card in offered.cards}) == 3
            if mode != "ball" or offered.answered_by.startswith("select_"):
                for card in offered.cards:
                    twin = CricketEnvironment()
                    twin.restore(analyst.snapshot())
                    assert twin.step(card.action).refused is None, card
            answered.add(offered.answered_by)
            offered = None
        analyst.step(one.action)
    by_ball = {"play_delivery", "bowl_delivery", "select_batter"}
    assert answered >= (by_ball if mode == "ball" else {f"play_{mode}"})


def test_no_cards_in_a_super_over_or_before_the_match() -> None:
    _, first = begin(5, max_overs=1)
    assert question(first) is None
    assert question(replace(first, content={**first.content, "score": {}, "super_over": True})) is None
