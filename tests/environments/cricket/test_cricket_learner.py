"""The learner of the cricket benchmark: its gradient is one, it learns, and its page shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from benchmarks.cricket_learner import TRAINING_FROM, Mark, chart_of, match_of, rises, rises_of, table_of
from benchmarks.cricket_policy import CHOICES, PARTS, Choice, Critic, Learner, Told
from benchmarks.cricket_sight import (
    PLAYER,
    PRESSURES,
    SITUATION,
    STATE,
    Vector,
    candidates,
    people,
    situation,
    state,
)
from tests.environments.cricket.playing import begin, captain

SEEN = np.eye(SITUATION)[0]


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
        told: list[Told] = []
        for _ in range(8):
            (choice,) = drawn(learner, "aggression")
            told.append(([choice], 1.0 if choice.place == 2 else 0.0))
        learner.learn(told)
    assert likeliest(learner, "aggression") == 2


def test_a_choice_is_weighed_without_what_was_chosen_with_it() -> None:
    learner, source = Learner(2), np.random.default_rng(4)
    players = np.eye(PLAYER)[:2]
    for _ in range(60):
        told: list[Told] = []
        for _ in range(12):
            pace, *others = drawn(learner, "pace", "line", "attack")
            who = int(source.integers(2))
            bowler = Choice("bowler", who, range(2), np.array([0.5, 0.5]), players)
            told.append(([bowler, pace, *others], 30.0 * who + (1.0 if pace.place == 2 else 0.0)))
        learner.learn(told)
    assert likeliest(learner, "pace") == 2


def test_the_critic_finds_what_each_choice_is_worth() -> None:
    critic, learner, source = Critic(PARTS["bowling"]), Learner(6), np.random.default_rng(5)
    worth = {name: source.normal(size=len(CHOICES[name])) for name in ("attack", "length")}
    made = [drawn(learner, "attack", "length") for _ in range(600)]
    rewards = np.array([sum(worth[one.name][one.place] for one in choices) for choices in made])
    critic.saw(np.array([critic.row(choices) for choices in made]), rewards, fit=True)
    for choice in made[0]:
        found = critic.values(choice) - critic.values(choice).mean()
        assert found == pytest.approx(worth[choice.name] - worth[choice.name].mean(), abs=0.15)


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
    assert score == pytest.approx(sum(reward for _, reward in told))
    assert score < 0.0, "arguments drawn evenly cost matches"
    made = {choice.name for choices, _ in told for choice in choices}
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
