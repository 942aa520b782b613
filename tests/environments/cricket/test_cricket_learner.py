"""The learner of the cricket benchmark: its gradient is one, it learns, and its page shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from spectator.environments.cricket.ball.situation import SECTORS
from tests.environments.cricket.playing import begin, captain
from tools.cricket_learner import TRAINING_FROM, Mark, chart_of, match_of, rises, rises_of, table_of
from tools.cricket_policy import CHOICES, PARTS, USUAL_BALLS, Choice, Critic, Decided, Learner
from tools.cricket_sight import (
    PLAYER,
    PRESSURES,
    SITUATION,
    STATE,
    Vector,
    candidates,
    formed,
    ground,
    people,
    situation,
    state,
    thrower,
)

SEEN = np.eye(SITUATION)[0]

OFTEN = 10.0
"""Rows and rewards so many times as large count as if they had been seen a hundred times."""


@pytest.mark.parametrize("name", ["attack", "bowler"])
def test_the_gradient_is_that_of_the_logarithm_of_the_probability(name: str) -> None:
    learner, source = Learner(3), np.random.default_rng(1)
    learner.weights[name] = source.normal(size=learner.weights[name].shape)
    seen = source.normal(size=SITUATION) if name == "attack" else source.normal(size=(4, PLAYER))
    open_to = (1, 3, 4, 7) if name == "attack" else range(4)
    choice = learner.choose(name, seen, open_to, best=False)
    gradient = choice.gradient(choice.of_likelihood)

    def logarithm(weights: Vector) -> float:
        scores = (weights @ seen)[list(open_to)] if seen.ndim == 1 else seen @ weights[0]
        return float(scores[choice.place] - np.log(np.exp(scores).sum()))

    weights, step = learner.weights[name], 1e-6
    for at in np.ndindex(*weights.shape):
        moved = weights.copy()
        moved[at] += step
        assert (logarithm(moved) - logarithm(weights)) / step == pytest.approx(gradient[at], abs=1e-4)


def drawn(learner: Learner, *names: str) -> list[Choice]:
    return [learner.choose(name, SEEN, range(len(CHOICES[name])), best=False) for name in names]


def likeliest(learner: Learner, name: str) -> int:
    return learner.choose(name, SEEN, range(len(CHOICES[name])), best=True).place


def test_what_brought_more_becomes_likelier() -> None:
    learner = Learner(1)
    for _ in range(40):
        told: list[Decided] = []
        for _ in range(8):
            (choice,) = drawn(learner, "aggression")
            told.append(Decided([choice], 1.0 if choice.place == 2 else 0.0, 3))
        learner.learn(told)
    assert likeliest(learner, "aggression") == 2


def test_a_choice_is_weighed_without_what_was_chosen_with_it() -> None:
    learner, source = Learner(2), np.random.default_rng(4)
    players = np.eye(PLAYER)[:2]
    for _ in range(60):
        told: list[Decided] = []
        for _ in range(12):
            pace, *others = drawn(learner, "pace", "line", "attack")
            who = int(source.integers(2))
            bowler = Choice("bowler", who, range(2), np.array([0.5, 0.5]), players)
            reward = 30.0 * who + (1.0 if pace.place == 2 else 0.0)
            told.append(Decided([bowler, pace, *others], reward, 3))
        learner.learn(told)
    assert likeliest(learner, "pace") == 2


def test_the_critic_finds_what_each_choice_is_worth() -> None:
    critic, learner, source = Critic(PARTS["bowling"]), Learner(6), np.random.default_rng(5)
    worth = {name: source.normal(size=len(CHOICES[name])) for name in ("attack", "length")}
    made = [drawn(learner, "attack", "length") for _ in range(600)]
    rewards = np.array([sum(worth[one.name][one.place] for one in choices) for choices in made])
    rows = np.array([critic.row(Decided(choices, 0.0, 3)) for choices in made])
    critic.saw(OFTEN * rows, OFTEN * rewards, fit=True)
    for choice in made[0]:
        found = critic.values(choice) - critic.values(choice).mean()
        assert found == pytest.approx(worth[choice.name] - worth[choice.name].mean(), abs=0.15)


def test_orders_are_worth_what_they_bring_a_ball() -> None:
    critic, learner = Critic(PARTS["bowling"]), Learner(6)
    told = [Decided(drawn(learner, "attack"), 0.0, 1 + at % 6) for at in range(600)]
    rewards = np.array([one.balls * (one.choices[0].place == 4) for one in told], np.float64)
    rows = np.array([critic.row(one) for one in told])
    critic.saw(OFTEN * rows, OFTEN * rewards, fit=True)
    found = critic.values(told[0].choices[0])
    assert found[4] - np.delete(found, 4) == pytest.approx([USUAL_BALLS] * 8, abs=0.1)


def test_what_makes_no_difference_stays_open() -> None:
    learner = Learner(2)
    learner.weights["pace"][1, 0] = 3.0
    before = drawn(learner, "pace")[0].chances
    for _ in range(30):
        learner.learn([Decided(drawn(learner, "pace", "attack"), 0.0, 3) for _ in range(8)])
    after = drawn(learner, "pace")[0].chances
    assert before.max() > 0.8 and after.max() < before.max() - 0.1


def test_a_wrong_critic_bends_no_step() -> None:
    """What it missed takes back what it says: the mean step is the one of REINFORCE alone."""
    told = np.array([0.0, 3.0, 0.0, -2.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    true = np.arange(9.0) % 4
    (choice,) = drawn(Learner(1), "attack")
    chances = choice.chances
    by_critic = chances * (told - chances @ told)
    missed = sum(
        chance * (true[place] - told[place]) * choice._replace(place=place).of_likelihood
        for place, chance in enumerate(chances)
    )
    alone = sum(
        chance * true[place] * choice._replace(place=place).of_likelihood
        for place, chance in enumerate(chances)
    )
    assert by_critic + missed == pytest.approx(alone)


def batting_view() -> Mapping[str, Any]:
    environment, observation = begin(5, max_overs=2, decisions="over")
    usual = captain("heuristic", 1)
    while observation.content["phase"] != "batting_plan":
        observation = environment.step(usual.choose(observation).action)
    return observation.content


def test_it_sees_what_suits_the_batters_who_are_in() -> None:
    view = batting_view()
    pair = [view["striker"]["name"], view["non_striker"]["name"]]
    two = [man for man in view["squads"][view["batting"]]["players"] if man["name"] in pair]
    told = [3.0 * sum(man[name] for man in two) for name in ("bat_spin", "bat_short", "bat_leg")]
    assert people(view, pair)[:3] == pytest.approx(told) and len(two) == 2
    seen = situation(view, pair)
    assert list(seen[STATE + 1 : STATE + 4]) == pytest.approx(told) and len(seen) == SITUATION
    assert candidates(view, pair, bowling=False).shape == (2, PLAYER)


def test_it_sees_ground_form_and_tiredness() -> None:
    view = dict(batting_view())
    names = [view[end]["name"] for end in ("striker", "non_striker")]
    metres = dict(zip(SECTORS, (68.0, 76.0, 68.0, 68.0, 68.0, 68.0, 60.0, 68.0), strict=True))
    squads = {
        side: {**squad, "players": [{**man, "bats": "right", "bat_form": 0.1} for man in squad["players"]]}
        for side, squad in view["squads"].items()
    }
    view |= {"squads": squads, "ground": {"now": metres}}
    view["striker"] = {**view["striker"], "bats": "right"}
    assert ground(view, names) == [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0]
    assert formed(view, names) == pytest.approx(1.0) and thrower(view, None) == (0.0,) * 4
    other = squads["home" if view["batting"] == "away" else "away"]["players"][0]["name"]
    view["tired"] = {other: 1.5}
    assert thrower(view, other)[-1] == 1.5 == candidates(view, [other], bowling=True)[0, -2]
    for man in squads[view["batting"]]["players"]:
        man["bats"] = "left" if man["name"] == names[1] else "right"
    assert ground(view, names[1:]) == [0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0], "as a left-hander sees it"
    assert ground(view, names) == [0.0] * 8
    view["striker"] = {**view["striker"], "bats": "left"}
    assert ground(view, names[1:]) == [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0], (
        "as he sees it who is shown it"
    )
    assert len(situation(view, names)) == SITUATION


@pytest.mark.parametrize("need", [0, 1, 30, 60, 500])
def test_a_chase_is_told_by_the_two_bumps_it_lies_between(need: int) -> None:
    view = {**batting_view(), "need": need}
    told = state(view)
    assert len(told) == STATE
    bumps = told[6 : 6 + len(PRESSURES)]
    assert sum(bumps) == pytest.approx(1.0 if need else 0.0) and sum(bump > 0.0 for bump in bumps) <= 2
    assert (told[0] == 0.0) is bool(need)


def test_a_match_pays_what_its_choices_brought_and_is_the_same_again() -> None:
    score, told = match_of(Learner(5), TRAINING_FROM, overs=2)
    again, told_again = match_of(Learner(5), TRAINING_FROM, overs=2)
    assert score == again and len(told) == len(told_again) >= 8
    assert score == pytest.approx(sum(one.reward for one in told))
    assert 12 <= sum(one.balls for one in told) <= 48, "two innings of two overs, with extras"
    assert score < 0.0, "arguments drawn evenly cost matches"
    made = {choice.name for one in told for choice in one.choices}
    assert made == {*CHOICES, "bowler", "batter"}
    assert match_of(None, TRAINING_FROM, overs=2)[0] == 0.0, "the usual decisions are worth nothing"


def test_the_curve_shows_every_mark() -> None:
    marks = [Mark(0, 0.0, [-9.0, -7.0]), Mark(120, 12.5, [1.0, 2.0])]
    assert marks[1].mean == 1.5 and marks[1].error == pytest.approx(0.98)
    assert table_of(marks)[-1] == "| 120 | 12 s | +1.50 ± 0.98 | 2 |"
    assert "<svg" in chart_of(marks) and "learner" in chart_of(marks)


def test_the_rise_is_that_of_the_same_seeds() -> None:
    marks = [Mark(9, 100.0, [4.0]), Mark(20, 300.0, [-10.0, 30.0]), Mark(40, 600.0, [-9.0, 32.0])]
    ((first, last, by, error),) = rises(marks, 300.0)
    assert (first, last, by) == (marks[1], marks[2], 1.5) and error == pytest.approx(0.98)
    assert rises_of(marks, 300.0)[-3:] == ["- 300 s to 600 s: +1.50 ± 0.98", "", "It still climbs."]
    level = [*marks[:2], Mark(40, 600.0, [-11.0, 33.0])]
    assert "not shown" in rises_of(level, 300.0)[-1]
    assert rises_of(marks[:2], 300.0) == []
