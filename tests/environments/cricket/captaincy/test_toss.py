"""The toss: elected by the length of the innings and the evening, with a reason that says so."""

from __future__ import annotations

import pytest

from spectator.environments.cricket.ball.grounds import EVENINGS, Evening
from spectator.environments.cricket.captaincy.captains import CRICSHEET, STYLES, StyledCaptain
from spectator.environments.cricket.captaincy.reasons import SHORT_OVERS, FirstTask, better_first
from spectator.environments.cricket.simulation import open_match, play_out
from spectator.environments.world import derive_seed
from tests.environments.cricket.playing import begin, captain
from tools.cricket_blind import named
from tools.cricket_search import contest
from tools.cricket_tools import toss_value

USUAL = STYLES[0]


def _elected(style: str, evening: Evening, overs: int) -> tuple[set[str], set[str]]:
    """What captains elected on three evenings of one kind, and the reasons they gave."""
    elected, reasons, found = set[str](), set[str](), 0
    for seed in range(100):
        environment, observation = begin(seed, max_overs=overs)
        if observation.content["conditions"]["evening"] != evening:
            continue
        chosen = captain(style, seed).choose(observation)
        while chosen.action["tool"] != "call_toss":
            observation = environment.step(chosen.action)
            chosen = captain(style, seed).choose(observation)
        elected.add(chosen.action["arguments"]["elect"])
        reasons.add(chosen.reasoning)
        found += 1
        if found == 3:
            return elected, reasons
    raise AssertionError(f"no three evenings of the kind {evening}")


@pytest.mark.parametrize("evening", EVENINGS)
def test_in_five_overs_everybody_fields_first(evening: Evening) -> None:
    for style in ("heuristic", "aggressive", "planner"):
        elected, reasons = _elected(style, evening, 5)
        assert elected == {"field"}
        assert all("short" in reason and "field" in reason for reason in reasons)


@pytest.mark.parametrize(("evening", "wanted", "word"), [("dew", "field", "dew"), ("wearing", "bat", "wear")])
def test_in_twenty_overs_the_evening_decides(evening: Evening, wanted: FirstTask, word: str) -> None:
    for style in ("heuristic", "planner"):
        elected, reasons = _elected(style, evening, 20)
        assert elected == {wanted}
        assert all(word in reason for reason in reasons)


def test_an_even_evening_of_twenty_overs_is_left_to_habit() -> None:
    """As often as real sides field first, 70 %; of fifty overs they bat."""
    elected = [StyledCaptain(USUAL, seed).elect(20, "even")[1] for seed in range(300)]
    assert 0.6 < elected.count("field") / 300 < 0.8
    assert StyledCaptain(USUAL, 1).elect(50, "even")[1] == "bat"


@pytest.mark.parametrize("evening", EVENINGS)
def test_the_data_elect_as_real_sides_did(evening: Evening) -> None:
    elected = [StyledCaptain(CRICSHEET, seed).elect(5, evening)[1] for seed in range(300)]
    assert 0.6 < elected.count("field") / 300 < 0.8


def test_to_field_first_always_changes_no_short_match() -> None:
    """It used to win 0.514 of them against the percentage captain."""
    fielding = next(one for one in named() if one.name == "toss: field")
    score = contest(fielding, SHORT_OVERS, 20, seed=21)
    assert (score.share, score.error) == (0.5, 0.0)


def test_the_side_that_bats_second_is_ahead_in_five_overs() -> None:
    """0.538 ± 0.013 of 6,000 matches (docs/cricket-game.md)."""
    won = 0.0
    for number in range(800):
        match = open_match(5, derive_seed(4, "toss", number))
        for _ in play_out(match):
            pass
        assert match.result is not None
        winner = match.result.winner
        won += 0.5 if winner is None else winner != match.batting[0]
    assert won / 800 > 0.5


def test_an_election_is_worth_something() -> None:
    assert sum(toss_value(seed, 5) for seed in range(20)) > 0
    assert better_first(20, "even") is None
    even = [seed for seed in range(12) if open_match(20, seed).conditions.evening == "even"]
    assert [toss_value(seed, 20) for seed in even[:1]] == [0.0]
