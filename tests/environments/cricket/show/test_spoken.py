"""Cricket's notation is read aloud as a commentator would."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.show.spoken import number_in_words, spoken
from tests.environments.cricket.playing import play


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "nought"),
        (7, "seven"),
        (13, "thirteen"),
        (20, "twenty"),
        (45, "forty-five"),
        (100, "one hundred"),
        (101, "one hundred and one"),
        (257, "two hundred and fifty-seven"),
        (999, "nine hundred and ninety-nine"),
        (1000, "one thousand"),
        (1024, "one thousand and twenty-four"),
        (1130, "one thousand one hundred and thirty"),
        (12345, "twelve thousand three hundred and forty-five"),
        (100_007, "one hundred thousand and seven"),
        (1_000_000, "1000000"),
    ],
)
def test_numbers(number: int, words: str) -> None:
    assert number_in_words(number) == words


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("45/3", "forty-five for three"),
        ("They are 45/3.", "They are forty-five for three."),
        ("27 for 0", "twenty-seven for none"),
        ("6/0", "six for none"),
        ("152/10", "one hundred and fifty-two all out"),
        ("102 all out", "one hundred and two all out"),
        ("6.2 overs", "six point two overs"),
        ("from 20 overs", "from twenty overs"),
        ("RRR 9.45", "required rate nine point four five"),
        (
            "RR 8.0, SR 133.33",
            "run rate eight point nought, strike rate one hundred and thirty-three point three three",
        ),
        ("c Smith b Jones", "caught Smith, bowled Jones"),
        ("c †Smith b Jones", "caught the keeper, Smith, bowled Jones"),
        ("c & b Jones", "caught and bowled Jones"),
        ("st †Hugh Smith b Ali Jones", "stumped the keeper, Hugh Smith, bowled Ali Jones"),
        ("lbw b Jones", "leg before to Jones"),
        ("Ravi Okafor b Jones", "Ravi Okafor bowled Jones"),
        ("run out (Smith)", "run out by Smith"),
        ("run out (†Smith)", "run out by Smith"),
        ("Okafor 12 (8b 1x4 1x6).", "Okafor twelve off eight balls, one four, one six."),
        ("50* (1b)", "fifty off one ball"),
        ("1-0-27-0", "none for twenty-seven from one over"),
        ("4-1-18-3", "three for eighteen from four overs, one maiden"),
        ("3.4-0-30-2", "two for thirty from three point four overs"),
        ("2x4 and 3x6", "two fours and three sixes"),
        ("six 4s, two 6s", "six fours, two sixes"),
        ("No. 3 comes in", "number three comes in"),
        ("62% likely", "sixty-two per cent likely"),
        ("0.5 %", "nought point five per cent"),
        ("99.9%", "ninety-nine point nine per cent"),
        ("5%-10%", "five per cent to ten per cent"),
        ("NRR -1.2", "net run rate minus one point two"),
        ("NRR +0.451", "net run rate plus nought point four five one"),
        ("(\u22123)", "(minus three)"),
        ("a swing of -.5", "a swing of minus nought point five"),
        ("3-4 balls, 5 - 2", "three to four balls, five - two"),
        ("15,000 people", "fifteen thousand people"),
        ("1,234,567 balls", "1234567 balls"),
        ("on 12,000.", "on twelve thousand."),
        ("9,10 and 11", "nine,ten and eleven"),
        ("27 needed from 4.", "twenty-seven needed from four."),
        ("FOUR! Driven", "Four! Driven"),
        ("Five wickets for Jones!", "Five wickets for Jones!"),
        ("Team 2 for the win", "Team two for the win"),
        ("no numbers here", "no numbers here"),
        ("mid-on, long-off", "mid-on, long-off"),
    ],
)
def test_notation(written: str, said: str) -> None:
    assert spoken(written) == said


def test_the_world_says_it_that_way() -> None:
    assert WORLD.spoken("45/3") == "forty-five for three"


def test_no_figure_of_a_match_is_left_unread() -> None:
    for seed, overs in ((1, 5), (2, 20), (3, 1)):
        for _, line in play(seed, max_overs=overs).lines:
            said = spoken(line.text)
            assert not re.search(r"\d", said), (line.text, said)
            assert not re.search(r"\b(?:lbw|b|c|st) [A-Z]", said), (line.text, said)


@given(st.text(max_size=300))
def test_whatever_is_written_is_read(text: str) -> None:
    assert isinstance(spoken(text), str)


@given(st.integers(0, 720), st.integers(0, 9), st.integers(0, 50), st.integers(0, 5))
def test_every_score_is_read(runs: int, wickets: int, overs: int, balls: int) -> None:
    said = spoken(f"{runs}/{wickets} after {overs}.{balls} overs")
    lost = "none" if wickets == 0 else number_in_words(wickets)
    points = f"{number_in_words(overs)} point {number_in_words(balls)}"
    assert said == f"{number_in_words(runs)} for {lost} after {points} overs"
