"""The second commentator answers overs and wickets, and says nothing that the scorebook does not."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from spectator.environments.cricket import WORLD
from tests.environments.cricket.playing import Told, play
from tests.environments.cricket.show.staged import Staged


@pytest.fixture(scope="module")
def told() -> list[Told]:
    """Matches of several lengths, one with simulated chances."""
    return [
        play(45, "aggressive", "tactician", max_overs=20),
        play(40, "heuristic", "random", max_overs=5, forecast_futures=64),
        play(1, start="super_over"),
        play(3, start="collapse"),
    ]


def test_every_wicket_and_every_over_but_the_last_is_answered_and_nothing_else(told: list[Told]) -> None:
    for one in told:
        for event, line in one.lines:
            data = event.data
            wicket = event.type == "cricket.ball_bowled" and line.label == "OUT"
            over = event.type == "cricket.over_completed" and (
                data["balls_left"] > 0
                and data["score"]["wickets"] < 10
                and (data["need"] is None or data["need"] > 0)
            )
            assert (line.reply is not None) == (wicket or over), (event.type, line)


def test_it_is_a_whole_sentence_that_can_be_read_aloud(told: list[Told]) -> None:
    for reply in replies(told):
        assert reply[0].isupper() or reply[0].isdigit()
        assert reply.endswith(".")
        assert not re.search(r"[{}\[\]<>_]|None|  ", reply)
        aloud = WORLD.spoken(reply)
        assert not re.search(r"\d", aloud), aloud
        assert "all out" not in aloud


def test_it_is_varied(told: list[Told]) -> None:
    whole = [line.reply for _, line in told[0].lines if line.reply]
    said = [re.sub(r"\d+(\.\d)?|[A-Z]\w+", "", reply) for reply in whole]
    assert len(said) > 30
    assert len(set(said)) >= 12
    assert all(one != after for one, after in pairwise(said))


def test_what_an_over_did_to_the_chances_is_told_as_it_was_simulated(told: list[Told]) -> None:
    sentences = [reply for reply in replies(told) if "simulation" in reply or "before that over" in reply]
    assert sentences
    chances = {
        round(100 * chance)
        for innings in told[1].state["world"]["chances"].values()
        for one in innings.values()
        for chance in (one["home"], 1 - one["home"])
    }
    for sentence in sentences:
        was, now = map(int, re.findall(r"(\d+) %", sentence))
        assert {was, now} <= chances
        assert now - was >= 4


def test_figures_without_a_wicket_are_no_score() -> None:
    staged = Staged()
    staged.over("Lu Morrow")
    for _ in range(6):
        staged.ball(1)
    assert "none for 6 from 1 over" in str(staged.ended()[0].reply).lower()


def replies(told: list[Told]) -> list[str]:
    found = [line.reply for one in told for _, line in one.lines if line.reply is not None]
    assert len(found) > 40
    return found
