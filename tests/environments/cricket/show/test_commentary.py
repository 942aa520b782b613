"""The commentary says what the events say, and nothing that could not have happened."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import pytest

from server.security.masking import HIDDEN, NameMask
from spectator.environments.cricket import WORLD
from spectator.environments.cricket.match.field import preset_field
from spectator.environments.cricket.show.phrases import table
from spectator.events import Event
from tests.environments.cricket.playing import Told, begin, play


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
        asked = re.search(r"(\d+) (?:needed )?from (\d+) balls?(?:\.|: not possible\.)$", text)
        if asked:
            assert (int(asked[1]), int(asked[2])) == (data["need"], data["balls_left"])
            assert ("not possible" in text) == (data["need"] > 6 * data["balls_left"] + 6)
            found += 1
    assert found > 40


def test_it_is_varied(told: list[Told]) -> None:
    sixes = [text.partition(": ")[2] for data, text, _, _ in balls(told) if data["kind"] == "six"]
    assert len(set(sixes)) > 0.7 * len(sixes) > 20


def test_the_same_event_is_told_the_same_way(told: list[Told]) -> None:
    assert play(40, max_overs=5).lines == told[0].lines


def test_over_summaries_innings_and_result_are_told(told: list[Told]) -> None:
    for one in told:
        said = [line.text for _, line in one.lines]
        assert sum(text.startswith("End of over") for text in said) == len(one.of("over_completed"))
        seats = one.state["episode"]["seats"]
        assert re.sub(", captained by [^,]+,", "", said[-1]) == one.of("match_ended")[0]["result"] + "."
        captains = {found for text in said for found in re.findall("captained by ([^,]+),", text)}
        assert captains == {seat["label"] for seat in seats.values()}
        assert all(0 < len(text) <= 300 for text in said)
        assert not any("{" in text or "None" in text or "  " in text for text in said)


def test_unknown_events_are_passed_over() -> None:
    assert list(WORLD.commentator(Event("x", "e", 1, "", 0, "other.thing", {}), {})) == []


def test_no_word_is_said_twice_in_a_row(told: list[Told]) -> None:
    """Nor where any stroke meets any direction that no match of the test brought together."""
    strokes = [word for rows in table("strokes").values() for row in rows for word in row[2]]
    strokes += [word for words in table("edges").values() for word in words]
    places = [place for sector in table("places")["where"] for place in sector] + table("places")["over"]
    lines = [line.text for one in told for _, line in one.lines]
    lines += [f"{stroke} {where}" for stroke in strokes for where in places]
    assert [line for line in lines if re.search(r"\b([a-z]+) \1\b", line)] == []


def test_what_is_said_aloud_is_never_longer_than_what_is_written(told: list[Told]) -> None:
    for event, line in told[1].lines:
        if event.type == "cricket.ball_bowled" and line.radio is not None and not event.data["dismissal"]:
            assert len(line.radio) <= len(line.text)
            assert line.radio[0].isupper()


def test_a_ball_that_turns_the_match_is_named_with_both_chances() -> None:
    told = play(4, max_overs=5, forecast_futures=300)
    swings = [line.text for _, line in told.lines if line.label == "swing"]
    assert swings
    for text in swings:
        before, after = map(int, re.findall(r"\d+", text)[:2])
        assert after - before >= 9
        assert "simulated" in text


def test_a_change_that_the_forecast_s_own_error_may_be_is_no_turning_point() -> None:
    """Half a dozen futures move by chance alone."""
    wild = play(4, max_overs=2, forecast_futures=6)
    assert any(abs(a["home"] - b["home"]) > 0.2 for a, b in pairwise(wild.of("forecast")))
    told = [line for _, line in wild.lines if line.label == "swing"]
    sure = [
        abs(a["home"] - b["home"]) > 3 * math.hypot(a["se"], b["se"])
        for a, b in pairwise(wild.of("forecast"))
        if b["futures"] and a["innings"] == b["innings"]
    ]
    assert len(told) <= sum(sure)


def test_the_page_shows_one_projection() -> None:
    """With a forecast the score's line takes it from there, without one from the resources."""
    environment, observation = begin(9, max_overs=3, forecast_futures=50)
    told = Told(environment)
    seen = 0
    while not observation.done:
        told.note(observation)
        world = told.state["world"]
        if "forecast" in world and not world.get("target") and not world.get("super_over"):
            assert world["equation"]["projected"] == world["forecast"]["total_median"]
            seen += 1
        observation = environment.step({"tool": observation.legal_actions[0]["tool"]})
    assert seen > 20


def said_of(kind: str, seats: dict[str, dict[str, str]], **data: object) -> str:
    """The line about an event of a match between Lakeshire and Capeford."""
    teams = {"home": {"name": "Lakeshire"}, "away": {"name": "Capeford"}}
    state = {"world": {"teams": teams}, "episode": {"seats": seats}}
    (line,) = WORLD.commentator(Event("x", "e", 1, "", 0, f"cricket.{kind}", data), state)
    return line.text


SEATS = {"home": {"label": "Gambler"}, "away": {"label": "A person", "source": "human"}}
INNINGS = {"batting": "away", "overs": 5, "balls": 30, "super_over": False}


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        (
            "toss_made",
            {"winner": "home", "elected": "bat"},
            "Lakeshire, captained by Gambler, win the toss and will bat first.",
        ),
        (
            "innings_started",
            {**INNINGS, "target": 61},
            "Capeford, captained by a person, need 61 from 5 overs, 12.2 an over.",
        ),
        (
            "match_ended",
            {"winner": "home", "result": "Match tied; Lakeshire won the super over"},
            "Match tied; Lakeshire, captained by Gambler, won the super over.",
        ),
        (
            "match_ended",
            {"winner": None, "result": "Match tied"},
            "Match tied: Lakeshire, captained by Gambler, and Capeford, captained by a person, finish level.",
        ),
    ],
)
def test_a_line_names_the_captain_with_the_team(kind: str, data: dict[str, object], text: str) -> None:
    assert said_of(kind, SEATS, **data) == text
    assert "captained" not in said_of(kind, {}, **data)


def test_a_captains_name_is_bounded_and_cannot_steer_a_line() -> None:
    """A stranger's name: long, with control characters and what looks like a slot; the longest is masked."""
    strange = {"home": {"label": "{team}\u202e\n" + "x" * 400}}
    said = said_of("toss_made", strange, winner="home", elected="field")
    longest = "W" * 80
    whole = said_of("toss_made", {"home": {"label": longest}}, winner="home", elected="bat")
    assert NameMask({longest}).text(whole).startswith(f"Lakeshire, captained by {HIDDEN}, win the toss")
    assert said == f"Lakeshire, captained by {{team}} {'x' * 72}…, win the toss and will field first."
    moved = {"moves": [["slip", "deep point", "out"]] * 5, "counts": {}}
    world = {"teams": {"home": {"name": "Lakeshire"}}, "ledger": moved}
    state = {"world": world, "episode": {"seats": strange}}
    event = Event("x", "e", 1, "", 0, "cricket.field_set", {"side": "home"})
    (line,) = WORLD.commentator(event, state)
    assert "Lakeshire under {team} xxx" in line.text and len(line.text) <= 300
