"""Packs are versioned and their development seeds can never be sealed ones; starts are lawful positions."""

from __future__ import annotations

import pytest

from spectator.environments.cricket.world import PACKS, development_seeds
from spectator.environments.world import MAX_SEED, SEALED_BIT, sealed_seeds
from tests.environments.cricket.playing import begin, options, play

NAMES = {"default", "powerplay", "chase", "defend", "death", "super-over", "collapse", "varied"}


def test_the_packs_are_there_with_options_that_fit() -> None:
    assert NAMES <= set(PACKS)
    for pack in PACKS.values():
        assert pack.version
        options(**pack.options)


def test_development_and_sealed_seeds_are_disjoint_by_construction() -> None:
    chase = PACKS["chase"]
    for pack in PACKS.values():
        sealed = sealed_seeds("cricket", pack, "a phrase kept elsewhere", 200)
        assert all(0 <= seed < SEALED_BIT for seed in pack.seeds)
        assert all(SEALED_BIT <= seed <= MAX_SEED for seed in sealed)
        assert len(set(sealed)) == 200
    assert len({seed for name in NAMES for seed in development_seeds(name, "1")}) == 40 * len(NAMES)
    assert development_seeds("chase", "1") != development_seeds("chase", "2")
    assert sealed_seeds("cricket", chase, "one phrase or", 40) != sealed_seeds(
        "cricket", chase, "another one", 40
    )
    with pytest.raises(ValueError, match="phrase"):
        sealed_seeds("cricket", chase, "short", 40)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("overs", [2, 5, 20])
def test_starts_are_what_they_say(seed: int, overs: int) -> None:
    def start(name: str) -> dict:  # type: ignore[type-arg]
        environment, observation = begin(seed, start=name, max_overs=overs)
        return {
            **observation.content,
            "innings_list": environment.state["innings"],
            "actor": observation.actor,
        }

    chase = start("chase")
    assert (chase["innings"], chase["batting"], chase["score"]["balls"]) == (2, "home", 0)
    assert chase["target"] == chase["innings_list"][0]["runs"] + 1
    defend = start("defend")
    assert (defend["innings"], defend["batting"], defend["actor"]) == (2, "away", "away")
    death = start("death")
    assert (death["innings"], death["batting"]) == (1, "home")
    assert death["score"]["balls_left"] == 6 * max(1, -(-overs // 4))
    collapse = start("collapse")
    assert (collapse["innings"], collapse["batting"]) == (1, "home")
    assert collapse["score"]["wickets"] >= {2: 1, 5: 3, 20: 5}[overs]
    tied = start("super_over")
    assert (tied["innings"], tied["super_over"], tied["batting"]) == (3, True, "home")
    assert tied["innings_list"][0]["runs"] == tied["innings_list"][1]["runs"]
    first = start("bat_first")
    assert (first["innings"], first["batting"], first["score"]["balls"]) == (1, "home", 0)


def test_the_balls_after_a_start_do_not_repeat_those_before_it() -> None:
    """What is to come has its own generator, untouched by the tries that found the position."""
    told = play(9, start="death", max_overs=20)
    assert told.of("position_set")[0]["now"]["balls_left"] == 30
    assert told.of("ball_bowled")[0]["at"] == "15.1"
