"""The commentary says what the events say, and nothing that could not have happened."""

from __future__ import annotations

import re

import pytest

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.commentary import comment
from spectator.environments.cricket.field import preset_field
from spectator.events import Event
from tests.environments.cricket.playing import Told, play


@pytest.fixture(scope="module")
def told() -> list[Told]:
    """Eight matches of several lengths and styles."""
    pairs = [
        ("heuristic", "heuristic"),
        ("aggressive", "defensive"),
        ("tactician", "spin_first"),
        ("random", "random"),
    ]
    matches = [play(40 + n, *pair, max_overs=overs) for n, pair in enumerate(pairs) for overs in (5, 20)]
    return [*matches, play(1, start="super_over"), play(2, start="chase"), play(3, start="collapse")]


def balls(told: list[Told]) -> list[tuple[dict, str, str | None, int]]:  # type: ignore[type-arg]
    return [
        (dict(event.data), line.text, line.label, line.priority)
        for one in told
        for event, line in one.lines
        if event.type == "cricket.ball_bowled" and line.label is not None
    ]


def test_every_ball_has_its_line_and_its_mark(told: list[Told]) -> None:
    for one in told:
        spoken = [event for event, line in one.lines if event.type == "cricket.ball_bowled" and line.label]
        assert len(spoken) == len(one.of("ball_bowled"))
    for data, text, label, priority in balls(told):
        assert label == ("OUT" if data["dismissal"] else data["mark"])
        assert priority == {"wicket": 0, "six": 1, "four": 1}.get(data["kind"], 3)
        assert text.startswith(
            ("Free hit. " if data["free_hit"] else "") + data["bowler"].partition(" ")[2] + " to "
        )


def test_sixes_fours_and_wickets_are_called_exactly_when_they_happen(told: list[Told]) -> None:
    for data, text, _, _ in balls(told):
        assert ("SIX" in text) == (data["kind"] == "six" or (data["bat"] == 6 and data["boundary"])), text
        called = bool(re.search(r"\bFOUR\b", text))
        assert called == (data["boundary"] and data["bat"] == 4 and not data["ran"]), text
        assert bool(re.search(r"\bOUT\b", text)) == bool(data["dismissal"]), text
        if data["noball"]:
            assert ("free hit" in text.lower()) == (data["free_hit_next"] or data["free_hit"]), text
        if not data["noball"]:
            assert "No-ball" not in text
        if data["wides"] and not data["dismissal"]:
            assert "ide" in text


def test_who_is_out_and_who_caught_it_are_named_rightly(told: list[Told]) -> None:
    wickets = [(data, text) for data, text, _, _ in balls(told) if data["dismissal"]]
    assert len(wickets) > 60
    for data, text in wickets:
        out = data["out"].partition(" ")[2]
        assert out in text or data["striker"].partition(" ")[2] == out, text
        if data["dismissal"] in ("caught", "stumped", "run out") and data["fielder"]:
            assert data["fielder"].partition(" ")[2] in text
        if data["dismissal"] == "caught" and data["position"] != "keeper":
            assert data["position"] in text
        if data["dismissal"] in ("bowled", "lbw", "hit wicket"):
            assert data["fielder"] is None


def test_a_catcher_stands_where_the_field_has_a_fielder(told: list[Told]) -> None:
    for data, _, _, _ in balls(told):
        if data["dismissal"] == "caught" and data["position"] != "keeper":
            field = preset_field(data["intents"]["field"], 2 if data["powerplay"] else 5)
            assert data["position"] in [man.name for man in field.fielders]
            assert data["fielder"] not in (data["bowler"], None)
        if data["dismissal"] == "stumped":
            assert data["position"] == "keeper"


def test_the_equation_in_the_last_two_overs_of_a_chase_is_right(told: list[Told]) -> None:
    found = 0
    for data, text, _, _ in balls(told):
        asked = re.search(r"(\d+) needed from (the last ball|\d+)\.$", text)
        if asked:
            left = 1 if asked[2] == "the last ball" else int(asked[2])
            assert (int(asked[1]), left) == (data["need"], data["balls_left"])
            found += 1
    assert found > 40


def test_it_is_varied(told: list[Told]) -> None:
    sixes = [text.partition(": ")[2] for data, text, _, _ in balls(told) if data["kind"] == "six"]
    assert len(set(sixes)) > 0.7 * len(sixes) > 20


def test_the_same_event_is_told_the_same_way(told: list[Told]) -> None:
    for event, line in told[0].lines:
        again = [one for one in comment(event, told[0].state) if one.label == line.label]
        if event.type == "cricket.ball_bowled":
            assert line in again


def test_over_summaries_innings_and_result_are_told(told: list[Told]) -> None:
    for one in told:
        said = [line.text for _, line in one.lines]
        assert sum(text.startswith("End of over") for text in said) == len(one.of("over_completed"))
        assert said[-1] == one.of("match_ended")[0]["result"] + "."
        assert all(0 < len(text) <= 300 for text in said)
        assert not any("{" in text or "None" in text or "  " in text for text in said)


def test_unknown_events_are_passed_over() -> None:
    assert list(WORLD.commentator(Event("x", "e", 1, "", 0, "other.thing", {}), {})) == []
