"""Odd and broken match files: each gets a sentence that names its place, and nothing crashes."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from spectator.environments.cricket.cricsheet import CricsheetError, read_scorebook
from spectator.environments.cricket.imported_matches import Imported, import_matches
from spectator.environments.cricket.laws import Innings, format_of
from spectator.environments.cricket.match.engine import load_model
from spectator.environments.cricket.real_match_record import MatchPlace, RecordError, place_of, teams_at
from spectator.environments.cricket.real_matches import new_match, reach
from spectator.environments.cricket.scorer import decide
from tests.environments.cricket.real.cricsheet_files import cricsheet_of, deliveries, simulated, written

Match = dict[str, Any]
FIRST = "innings.0.overs.0.deliveries.0"


@cache
def _kept(overs: int) -> str:
    return json.dumps(cricsheet_of(simulated(3, overs)))


def whole(overs: int = 5) -> Match:
    loaded: Match = json.loads(_kept(overs))
    return loaded


def imported(match: Match, folder: Path) -> Imported:
    report = import_matches([written(folder, "match", match)])
    assert not report.refused, report.refused
    return report.kept[0]


def refusal(match: object) -> str:
    with pytest.raises(CricsheetError) as refused:
        read_scorebook(json.dumps(match).encode(), "match")
    message = str(refused.value)
    assert "\n" not in message
    return message


def _set(path: str, value: object) -> Callable[[Match], None]:
    def change(match: Match) -> None:
        *parts, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        at: Any = match
        for part in parts:
            at = at[part]
        if value is None:
            del at[last]
        else:
            at[last] = value

    return change


@pytest.mark.parametrize(
    ("path", "value", "error"),
    [
        ("info.balls_per_over", 5, "info.balls_per_over is 5; the world plays overs of six balls"),
        ("info.overs", None, "info.overs is missing (match type T20)"),
        ("info.overs", 90, "info.overs is 90"),
        ("info.gender", "mixed", "info.gender: input should be 'male' or 'female'"),
        ("info.teams", ["A"], "info.teams: list should have at least 2 items"),
        ("info.toss.winner", "Somebody Else", "info.toss.winner is 'Somebody Else'"),
        ("info.players", {}, "info.players has no list for"),
        ("innings", [], "innings is empty: no ball was bowled"),
        ("innings.0.forfeited", True, "innings[0] was forfeited"),
        ("innings.1.team", "Nobody", "innings[1].team is 'Nobody'"),
        (f"{FIRST}.batter", "Unknown", "innings[0].overs[0].deliveries[0].batter: 'Unknown'"),
        (f"{FIRST}.runs.total", 9, "innings[0].overs[0].deliveries[0].runs: batter and extras"),
        (f"{FIRST}.runs.batter", "4", "innings[0].overs[0].deliveries[0].runs.batter: "),
        (f"{FIRST}.wickets", [{"kind": "vanished", "player_out": "x"}], "unknown kind"),
        ("meta.data_version", "0.92", "meta.data_version is '0.92'"),
        ("meta", None, "meta: field required"),
    ],
)  # fmt: skip
def test_what_cannot_be_played_is_refused_with_its_place(path: str, value: object, error: str) -> None:
    match = whole()
    _set(path, value)(match)
    assert error in refusal(match)


@pytest.mark.parametrize("text", [b"", b"{", b"[1, 2", b"\xff\xfe\x00", b"[" * 100_000, b"null", b'"text"'])
def test_a_torn_file_is_refused(text: bytes) -> None:
    with pytest.raises(CricsheetError, match=r"JSON|the file"):
        read_scorebook(text, "torn")


def test_a_folder_goes_on_past_bad_files_and_counts_them(tmp_path: Path) -> None:
    written(tmp_path, "good", whole())
    written(tmp_path / "deep", "also good", whole())
    (tmp_path / "torn.json").write_text(json.dumps(whole())[:500])
    test = whole()
    test["info"]["match_type"] = "Test"
    del test["info"]["overs"]
    written(tmp_path, "test match", test)
    report = import_matches([tmp_path])
    assert [one.key for one in report.kept] == ["real-good", "real-also-good"]
    assert report.counted == 2
    assert {path.name: "JSON" in why or "Test" in why for path, why in report.refused} == {
        "torn.json": True,
        "test match.json": True,
    }


def test_only_the_latest_matches_are_kept(tmp_path: Path) -> None:
    for year in (2021, 2023, 2022):
        match = whole()
        match["info"]["dates"] = [f"{year}-05-01"]
        written(tmp_path, str(year), match)
    report = import_matches([tmp_path], keep=2)
    assert [one.key for one in report.kept] == ["real-2023", "real-2022"]
    assert report.counted == 3


def test_people_without_an_id_are_known_by_name_and_said(tmp_path: Path) -> None:
    match = whole()
    match["info"]["registry"] = {"people": {}}
    one = imported(match, tmp_path)
    assert any(note.startswith("info.registry.people: no id for") for note in one.notes)


def test_a_tie_is_played_on_and_a_super_over_left_out(tmp_path: Path) -> None:
    match = whole()
    match["info"]["outcome"] = {"result": "tie", "eliminator": match["info"]["teams"][0]}
    match["innings"].append({"team": match["info"]["teams"][0], "super_over": True, "overs": []})
    one = imported(match, tmp_path)
    assert one.record.result == f"Match tied; {match['info']['teams'][0]} won the decider"
    assert any("innings[2] is a super over" in note for note in one.notes)


def test_a_match_without_result_is_played_on_from_its_last_ball(tmp_path: Path) -> None:
    match = whole()
    match["info"]["outcome"] = {"result": "no result"}
    del match["innings"][1]
    match["innings"][0]["overs"] = match["innings"][0]["overs"][:3]
    one = imported(match, tmp_path)
    assert one.record.result == "No result"
    place = place_of(one.record, "3.0")
    for _ in reach(
        new_match(one.record, place, load_model("men", "all"), random.Random(1)), one.record, place
    ):
        pass
    with pytest.raises(RecordError, match=r"innings 1 has only 3\.0 overs"):
        place_of(one.record, "3.1")


@pytest.mark.parametrize("target", [{"overs": 3, "runs": 20}, {"overs": 5, "runs": 999}])
def test_a_shortened_match_is_played_on_from_its_first_innings_only(target: Match, tmp_path: Path) -> None:
    match = whole()
    match["innings"][1]["target"] = target
    match["info"]["outcome"]["method"] = "D/L"
    one = imported(match, tmp_path)
    assert "innings[1].target." in one.notes[-1] and "D/L" in one.notes[-1]
    assert place_of(one.record, "1:2.3") == (1, sum(1 for _ in _until(match, 15)))
    with pytest.raises(RecordError, match="only the first innings"):
        place_of(one.record, "2:0.0")


def _until(match: Match, valid: int) -> Any:
    """The deliveries of the first innings up to so many valid balls."""
    for ball in deliveries(match, 1):
        if not valid:
            return
        valid -= not {"wides", "noballs"} & ball.get("extras", {}).keys()
        yield ball


def test_a_match_that_was_shorter_from_the_start_is_played_at_its_own_length(tmp_path: Path) -> None:
    match = whole()
    match["info"]["overs"] = 20
    one = imported(match, tmp_path)
    assert one.record.overs == 5
    assert one.record.stop is None


def test_a_miscounted_over_stops_the_record_there(tmp_path: Path) -> None:
    match = whole()
    over = match["innings"][0]["overs"][2]["deliveries"]
    valid = [at for at, ball in enumerate(over) if not {"wides", "noballs"} & ball.get("extras", {}).keys()]
    plain = next(at for at in reversed(valid) if "wickets" not in over[at])
    del over[plain]
    del match["innings"][1]["target"]
    one = imported(match, tmp_path)
    assert one.record.stop is not None
    assert (one.record.stop.innings, one.record.stop.why) == (
        1,
        "over 3 does not have six valid balls (miscounted)",
    )
    assert place_of(one.record, "1:2.0").innings == 1
    with pytest.raises(RecordError, match="cannot follow"):
        place_of(one.record, "1:4.0")


def test_a_substitute_takes_a_place_and_names_who_went(tmp_path: Path) -> None:
    match = whole()
    team = match["innings"][1]["team"]
    first = next(iter(deliveries(match, 1)))
    bowled, fresh = first["bowler"], "New Name"
    match["info"]["players"][team].append(fresh)
    match["info"]["registry"]["people"][fresh] = "id-new"
    next(iter(deliveries(match, 2)))["replacements"] = {
        "match": [{"in": fresh, "out": bowled, "team": team, "reason": "impact_player"}]
    }
    one = imported(match, tmp_path)
    assert any(f"{fresh} came in for {bowled}" in note for note in one.notes)
    before, after = (
        {player.name for team in teams_at(one.record, MatchPlace(*place)).values() for player in team.players}
        for place in ((1, 3), (2, 1))
    )
    assert bowled in before and fresh not in before
    assert bowled not in after and f"{fresh} (for {bowled})" in after


def test_a_batter_who_retires_hurt_may_come_back(tmp_path: Path) -> None:
    match = whole(20)
    balls = list(deliveries(match, 1))
    at = next(
        n
        for n, ball in enumerate(balls[:-1])
        if n > 5 and "wickets" not in ball and _same(ball, balls[n + 1])
    )
    hurt = balls[at]["batter"]
    team = match["info"]["players"][match["innings"][0]["team"]]
    used = {ball[end] for ball in balls for end in ("batter", "non_striker")}
    spare = next((name for name in reversed(team) if name not in used), None)
    if spare is None:
        pytest.skip("everyone batted in this match")
    balls[at]["wickets"] = [{"kind": "retired hurt", "player_out": hurt}]
    for ball in balls[at + 1 : at + 3]:
        for end in ("batter", "non_striker"):
            if ball[end] == hurt:
                ball[end] = spare
    balls[at + 2].setdefault("wickets", []).append({"kind": "retired not out", "player_out": spare})
    one = imported(match, tmp_path)
    assert one.record.stop is None
    place = MatchPlace(1, at + 1)
    played = new_match(one.record, place, load_model("men", "all"), random.Random(1))
    for _ in reach(played, one.record, place):
        pass
    assert (played.current.limit, played.awaited) == (9, "batter")


def test_a_batter_replaced_for_an_injury_is_retired_hurt(tmp_path: Path) -> None:
    match = whole(20)
    balls = list(deliveries(match, 1))
    used = {ball[end] for ball in balls for end in ("batter", "non_striker")}
    eleven = match["info"]["players"][match["innings"][0]["team"]]
    spare = next(name for name in eleven if name not in used)
    gone = balls[20]["batter"]
    for ball in balls[20:]:
        for end in ("batter", "non_striker"):
            if ball[end] == gone:
                ball[end] = spare
        for wicket in ball.get("wickets", []):
            if wicket["player_out"] == gone:
                wicket["player_out"] = spare
    balls[20]["replacements"] = {"role": [{"in": spare, "out": gone, "reason": "injury", "role": "batter"}]}
    one = imported(match, tmp_path)
    assert one.record.stop is None
    place = MatchPlace(1, 20)
    played = new_match(one.record, place, load_model("men", "all"), random.Random(1))
    for _ in reach(played, one.record, place):
        pass
    line = next(one for one in played.current.batting.values() if one.how == "retired hurt")
    assert played.teams[played.batting_side].named(line.player) == gone


def _same(one: Match, other: Match) -> bool:
    return {one["batter"], one["non_striker"]} == {other["batter"], other["non_striker"]}


def test_another_bowler_may_finish_an_over(tmp_path: Path) -> None:
    match = whole(20)
    over = match["innings"][0]["overs"][4]["deliveries"]
    used = [ball["bowler"] for ball in deliveries(match, 1)]
    near = {match["innings"][0]["overs"][at]["deliveries"][0]["bowler"] for at in (3, 4, 5)}
    relief = next(name for name in dict.fromkeys(used) if name not in near)
    for ball in over[3:]:
        ball["bowler"] = relief
    one = imported(match, tmp_path)
    stop = one.record.stop
    assert stop is None or (stop.innings, stop.at) > (1, 40)


def test_penalty_runs_between_balls_count_for_the_side_that_bats(tmp_path: Path) -> None:
    match = whole()
    match["innings"][0]["penalty_runs"] = {"pre": 5, "post": 0}
    match["innings"][1]["target"]["runs"] += 5
    one = imported(match, tmp_path)
    place = MatchPlace(1, 0)
    played = new_match(one.record, place, load_model("men", "all"), random.Random(1))
    for _ in reach(played, one.record, place):
        pass
    assert (played.current.runs, played.current.penalties) == (5, 5)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("three", "must name an innings and overs"),
        ("3:1.0", "must name"),
        ("1:2.6", "must name"),
        ("2:9.0", "innings 2 has only"),
    ],
)
def test_a_place_that_is_not_in_the_match_is_refused(text: str, error: str, tmp_path: Path) -> None:
    record = imported(whole(), tmp_path).record
    assert place_of(record, "1:0.0+9") == (1, 9)
    with pytest.raises(RecordError, match=error):
        place_of(record, text)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, one in items for found in _paths(one, (*path, key)))]


def _spoilt(match: Match, rng: random.Random) -> bytes:
    """The match with one thing wrong in it."""
    spoilt = copy.deepcopy(match)
    *parts, last = rng.choice(_paths(spoilt)[1:])
    at: Any = spoilt
    for part in parts:
        at = at[part]
    kind = rng.randrange(5)
    if kind == 0:
        del at[last]
    elif kind == 1:
        at[last] = rng.choice([None, -1, 10**30, "x" * 500, [], {}, True, 1.5, "\x00\u202e"])
    elif kind == 2 and isinstance(at[last], list):
        rng.shuffle(at[last])
    elif kind == 3 and isinstance(at, list):
        at.insert(rng.randrange(len(at) + 1), at[last])
    text = json.dumps(spoilt).encode()
    return text[: rng.randrange(len(text))] if kind == 4 else text


@pytest.mark.parametrize("seed", range(4))
def test_no_spoilt_file_crashes_the_import(seed: int, tmp_path: Path) -> None:
    rng, match = random.Random(seed), whole(2)
    for number in range(60):
        (tmp_path / f"{number}.json").write_bytes(_spoilt(match, rng))
    report = import_matches([tmp_path])
    assert report.counted + len(report.refused) == 60
    assert all(why and "\n" not in why and len(why) < 400 for _, why in report.refused)
    for one in report.kept:
        ends = [(number, len(innings.balls)) for number, innings in enumerate(one.record.innings, 1)]
        stop = one.record.stop
        place = (
            MatchPlace(1, 0)
            if stop is None or (stop.innings, stop.at) == (2, 0)
            else MatchPlace(stop.innings, stop.at)
        )
        assert place <= ends[-1]
        match_at = new_match(one.record, place, load_model("men", "all"), random.Random(1))
        for _ in reach(match_at, one.record, place):
            pass


def test_a_batter_who_is_hurt_still_counts_in_the_margin() -> None:
    first, second = Innings(format_of(5)), Innings(format_of(5), target=11)
    first.runs, second.runs, second.wickets, second.limit = 10, 12, 2, 9
    result = decide([first, second], ["home", "away"])
    assert result is not None and (result.kind, result.margin) == ("wickets", 8)
