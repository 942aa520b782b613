"""The ledger: streaks by the Laws, judgements only after the equation, and the review's wrong lines."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.show.ledger import grade, moved, noted, place_name
from spectator.environments.cricket.show.phrases import table
from spectator.environments.cricket.show.summary import outlook
from spectator.events import Event
from spectator.json_values import apply_patch
from tests.environments.cricket.playing import play
from tests.environments.cricket.show.staged import BOWLERS, Staged

FIRST, SECOND, _ = BOWLERS


def remarks(text: str, fact: str) -> bool:
    """Whether one of a fact's sentences ends the text."""
    patterns = (re.sub(r"\\\{\w+\\\}", r"\\S+", re.escape(one)) for one in table("remarks")[fact])
    return any(re.search(pattern, text) for pattern in patterns)


def wickets(staged: Staged, *marks: str) -> list[str]:
    """Bowl balls: W bowled, S stumped off a wide, R run out, w wide, n no-ball, . dot."""
    how: dict[str, dict[str, Any]] = {
        "W": {"dismissal": "bowled", "line": "stumps"},
        "S": {"dismissal": "stumped", "wides": 1},
        "R": {"dismissal": "run out"},
    }
    extra: dict[str, dict[str, Any]] = {"w": {"wides": 1, "line": "leg"}, "n": {"noball": True}, ".": {}}
    return [staged.ball(0, **{**how, **extra}[mark]) for mark in marks]


def test_a_hat_trick_is_called_and_so_is_the_ball_before() -> None:
    staged = Staged()
    staged.over(FIRST)
    texts = wickets(staged, ".", "W", "W", "W")
    assert not re.search("hat-trick", texts[1])
    assert remarks(texts[2], "on a hat-trick")
    assert remarks(texts[3], "hat-trick")
    assert "hat-trick" in str(staged.said[0].radio).lower()
    assert not re.search("(?i)two in two|two wickets in two", texts[3])


def test_a_hat_trick_spans_overs_of_another_bowler() -> None:
    staged = Staged()
    staged.over(FIRST)
    wickets(staged, *"....WW")
    answer = staged.ended()[0].reply
    assert answer is not None and "hat-trick" in answer
    staged.over(SECOND)
    wickets(staged, *"......")
    staged.ended()
    lines = staged.tell(
        "bowler_selected",
        innings=1,
        side="away",
        over=2,
        bowler={**staged._bowling(), "name": FIRST, "number": 1, "balls": 6, "overs": "1.0", "wickets": 2},
    )
    assert "hat-trick" in lines[0].text
    staged.over(FIRST)
    assert remarks(wickets(staged, "W")[0], "hat-trick")


@pytest.mark.parametrize("between", ["w", "n", "ww"])
def test_a_wide_or_a_no_ball_does_not_end_the_sequence(between: str) -> None:
    staged = Staged()
    staged.over(FIRST)
    texts = wickets(staged, *f"WW{between}W")
    assert remarks(texts[-1], "hat-trick")


def test_a_stumping_off_a_wide_is_the_bowler_s() -> None:
    staged = Staged()
    staged.over(FIRST)
    assert remarks(wickets(staged, *"WWS")[-1], "hat-trick")


@pytest.mark.parametrize("balls", ["WWR", "WRW", "RWW", "W.WW", "WW.W"])
def test_a_run_out_is_not_the_bowler_s_and_a_ball_without_a_wicket_ends_it(balls: str) -> None:
    staged = Staged()
    staged.over(FIRST)
    assert not any(remarks(text, "hat-trick") for text in wickets(staged, *balls))


def test_the_hat_trick_ball_without_a_wicket_is_told() -> None:
    staged = Staged()
    staged.over(FIRST)
    assert remarks(wickets(staged, *"WW.")[-1], "no hat-trick")
    staged = Staged()
    staged.over(FIRST)
    assert not remarks(wickets(staged, *"WWw")[-1], "no hat-trick")


@pytest.mark.parametrize(
    ("need", "left", "lost", "found"),
    [
        (None, 60, 2, ""),
        (0, 3, 5, "won"),
        (5, 0, 5, "done"),
        (5, 6, 10, "done"),
        (38, 1, 3, "over"),
        (7, 1, 3, "no-ball"),
        (12, 1, 3, "no-ball"),
        (13, 1, 3, "over"),
        (19, 6, 3, "long"),
        (17, 7, 3, "behind"),
        (71, 78, 0, "easy"),
        (60, 60, 2, "easy"),
        (120, 60, 2, "behind"),
        (150, 60, 2, "long"),
        (24, 4, 2, "long"),
        (300, 300, 0, "behind"),
        (120, 300, 0, "easy"),
    ],
)
def test_the_grade_of_a_chase(need: int | None, left: int, lost: int, found: str) -> None:
    overs = 50 if left > 120 else 20
    made = 8 * (6 * overs - left) // 6
    chance = outlook({"format": {"overs": overs}}).chance(6 * overs - left, lost, made, made + (need or 0))
    assert grade(need, left, lost, chance) == found


def over_answers(need: int, left: int, scored: Sequence[int], tries: int = 8) -> list[str]:
    """All that is answered to an over that leaves ``need`` from ``left``."""
    said = []
    for _ in range(1):
        staged = Staged(target=200, left=left + 6, runs=200 - need - sum(scored))
        for _ in range(tries):
            staged.over(FIRST)
            for one in scored:
                staged.ball(one)
            said += [line.reply or "" for line in staged.ended()]
            staged.balls, staged.runs = staged.balls - 6, staged.runs - sum(scored)
    return said


def test_no_side_takes_so_many_an_over_all_day_when_it_needs_more() -> None:
    said = over_answers(19, 6, [6, 6, 1, 1, 0, 0])
    assert said and not any("all day" in one for one in said)
    staged = Staged()
    answers = []
    for _ in range(6):
        staged.over(FIRST)
        for one in (4, 4, 4, 1, 1, 1):
            staged.ball(one)
        answers.append(staged.ended()[0].reply)
    assert any("all day" in (one or "") for one in answers), "it is said in a first innings"


@pytest.mark.parametrize(("need", "left"), [(17, 7), (60, 60), (36, 20)])
def test_no_boundary_takes_the_pressure_off(need: int, left: int) -> None:
    staged = Staged(target=200, left=left + 4, runs=200 - need - 4)
    staged.over(FIRST)
    texts = [staged.ball(), staged.ball(), staged.ball(), staged.ball(4)]
    assert not any(re.search("pressure|shackles", text) for text in texts)
    assert f"{need} needed from {left} balls" in texts[-1] or left > 12


def test_dots_in_an_easy_chase_are_no_trouble() -> None:
    staged = Staged(target=150, left=84, runs=150 - 71)
    staged.over(FIRST)
    said = [staged.ball(), staged.ball(), staged.ball(), staged.ball(), staged.ball(), staged.ball()]
    said += [staged.ended()[0].reply or ""]
    assert staged.book.need == 71 and staged.book.left == 78
    assert not any(re.search("afford|trouble|a lot|still to get", one) for one in said)


@pytest.mark.parametrize(
    ("need", "left", "words"), [(38, 1, "not possible"), (44, 2, "not possible"), (7, 1, "needed")]
)
def test_what_cannot_be_made_is_called_not_possible(need: int, left: int, words: str) -> None:
    staged = Staged(target=200, left=left + 1, runs=200 - need)
    staged.over(FIRST)
    text = staged.ball()
    assert words in text
    assert ("needed from" in text) == (words == "needed")
    assert staged.said[0].radio is not None and (words in staged.said[0].radio)


def test_the_chance_is_not_graded_after_the_end() -> None:
    staged = Staged(target=200, left=1, runs=150)
    staged.over(FIRST)
    assert remarks(staged.ball(6), "short")


def captions(count: int = 40, bat: int = 0, **given: object) -> list[str]:
    """Captions of the same ball, many times."""
    staged = Staged()
    said = []
    for number in range(count):
        if number % 6 == 0:
            staged.over(BOWLERS[number // 6 % 2])
        said.append(staged.ball(bat, **given))
        assert staged.said[0].radio
        said.append(staged.said[0].radio)
    return said


def test_nothing_short_is_in_the_channel_pushed_or_eased() -> None:
    said = captions(length="short", line="outside off", shot="push", zone=5)
    said += captions(bat=1, length="short", line="outside off", shot="push", zone=5)
    assert any(re.search("short|banged in", one) for one in said)
    assert not any(re.search("channel|pushed|eased|nudged", one) for one in said)


def test_a_yorker_outside_off_is_no_blockhole() -> None:
    wide = captions(length="yorker", line="outside off", shot="drive", zone=6)
    assert any("wide yorker" in one.lower() for one in wide)
    assert not any("blockhole" in one.lower() for one in wide)
    assert any(
        "blockhole" in one.lower() for one in captions(length="yorker", line="stumps", shot="drive", zone=6)
    )


def test_nobody_pulls_or_dabs_down_the_ground() -> None:
    said = captions(bat=1, length="short", line="stumps", shot="pull", zone=4)
    said += captions(bat=1, length="full", line="stumps", shot="defend", zone=4)
    assert not any(re.search("pulled|dabbed", one) for one in said)


def test_a_dot_is_no_ball_to_the_bowler() -> None:
    assert not any(
        "ball to the bowler" in one
        for one in captions(shot="none", contact="missed", zone=None, line="stumps")
    )


def test_the_channel_is_not_named_for_every_ball() -> None:
    said = captions(count=120, bat=1, line="outside off")
    assert sum("channel" in one for one in said) <= 3


def test_what_changed_in_the_field_is_said_in_words() -> None:
    staged = Staged()
    staged.set_field("standard")
    assert [line.text for line in staged.said] == []
    (line,) = staged.set_field("custom", moved={"short third": (3.0, -14.0), "deep midwicket": (-23.0, 13.0)})
    assert "short third in to slip" in line.text.lower()
    assert "deep midwicket in to midwicket" in line.text.lower()
    again = [
        staged.set_field("custom", moved={"short third": (3.0, -14.0 - one % 2 * 6)}) for one in range(9)
    ]
    assert not any(again), "one change an over is described"
    staged.over(SECOND)
    assert staged.set_field("standard")


def test_a_big_change_names_two_moves_and_counts_the_rest() -> None:
    old = [{"x": x, "y": y} for x, y in ((3, -14), (26, 1), (22, 16), (9, 34), (-9, 34))]
    new = [{"x": x, "y": y} for x, y in ((33, -46), (63, 2), (57, 32), (22, 70), (-22, 70))]
    moves = moved(old, new)
    assert ["mid-off", "long-off", "out"] in moves and len(moves) == 5
    assert moved(old, old) == []
    assert place_name(-3.0, 3.0) == "short leg"


def test_women_are_she_and_her_and_men_he_and_him() -> None:
    for profile, wanted, never in (("women", "She", "He "), ("men", "He", "She ")):
        said: list[str] = []
        for seed in range(3):
            staged = Staged(profile=profile)
            staged.over(FIRST)
            for _ in range(9 + seed):
                staged.ball(4)
            staged.ball(dismissal="bowled", line="stumps")
            said.append(staged.said[0].reply or "")
        text = " ".join(options.replace("{He}", wanted) for options in said)
        assert never not in text
    assert "{He}" in str(table("answers"))


def test_a_maiden_is_worth_a_wicket_in_a_short_game_only() -> None:
    assert "over maiden short" in answered(20) and "over maiden short" not in answered(50)


def answered(overs: int) -> dict[str, object]:
    staged = Staged(overs=overs)
    staged.over(FIRST)
    for _ in range(6):
        staged.ball()
    staged.ended()
    found: dict[str, object] = staged.ledger["answer"]
    return found


def test_nobody_is_a_batsman() -> None:
    assert not re.search(
        "(?i)batsm[ae]n|paceman|third man|nightwatchman",
        str([table(name) for name in ("written", "air", "answers", "lines", "remarks")]),
    )


def test_the_ledger_is_a_fold_that_can_be_resumed_and_stays_small() -> None:
    """Folding a copy that went through JSON at any event gives the same bytes."""
    world: dict[str, object] = {}
    ledger: dict[str, object] = {}
    largest = 0
    for number, fact in enumerate(play(6, max_overs=50).facts):
        seen = Event("t", "e", number + 1, "2026-01-01T00:00:00.000Z", 0, fact.type, fact.data)
        after = noted(ledger, world, seen)
        assert after == noted(json.loads(json.dumps(ledger)), json.loads(json.dumps(world)), seen)
        world = apply_patch(world, WORLD.projection({"world": world}, seen))
        if after is not None:
            ledger = after
            assert world.get("ledger") == {key: value for key, value in after.items() if value is not None}
        largest = max(largest, len(json.dumps(ledger)))
    assert 500 < largest < 6_000
