"""Real matches: read, rated, started from any ball, played on, priced."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectator.cast import Cast
from spectator.clock import SystemClock
from spectator.environments.cricket.environment import CricketEnvironment, CricketOptions
from spectator.environments.cricket.imported_matches import (
    COLLECTION,
    import_matches,
    imported_packs,
    price_overs,
    save_matches,
)
from spectator.environments.cricket.match.engine import Match, load_model
from spectator.environments.cricket.match.starts import advance, position
from spectator.environments.cricket.people import Squad, draw_fixture, teams_of
from spectator.environments.cricket.ratings import Duel, rate
from spectator.environments.cricket.real_match_record import ATTRIBUTION, MatchPlace
from spectator.environments.cricket.real_matches import new_match, reach
from spectator.episodes.plan import EpisodeRequest, plan_episode
from spectator.errors import ConfigurationError, InvalidRequest
from tests.environments.cricket.real.cricsheet_files import cricsheet_of, simulated, written


def plain(shown: dict[str, Any]) -> dict[str, Any]:
    """A position without what Cricsheet does not record: styles, and who keeps wicket."""

    def cleaned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: cleaned(one) for key, one in value.items() if key not in ("kind", "bowler")}
        return value.replace("†", "") if isinstance(value, str) else value

    return {**cleaned(shown), "overs": [one.get("overs") for one in shown["scorecards"].values()]}


def test_the_scorecard_at_every_ball_is_the_original_one(tmp_path: Path) -> None:
    for seed, overs in ((1, 20), (2, 50), (3, 5)):
        path = written(tmp_path, f"match {seed}", cricsheet_of(simulated(seed, overs)))
        report = import_matches([path])
        assert not report.refused and len(report.kept) == 1
        record = report.kept[0].record
        assert record.stop is None
        original, at = simulated(seed, overs), {1: 0, 2: 0}
        while original.result is None:
            if original.awaited == "ball":
                number = original.number
                place = MatchPlace(number, at[number])
                match = new_match(record, place, load_model("men", "all"), random.Random(0))
                for _ in reach(match, record, place):
                    pass
                while match.awaited != "ball":
                    bring = original.current
                    if match.awaited == "batter":
                        named = original.teams[original.batting_side].named(
                            bring.striker if match.current.striker is None else bring.non_striker
                        )
                        match.send_in(match.teams[match.batting_side].find(named) or 0)
                    else:
                        named = original.teams[original.fielding_side].named(bring.bowler)
                        match.give_ball(match.teams[match.fielding_side].find(named) or 0)
                assert plain(position(match)) == plain(position(original)), place
                at[number] += 1
            advance(original)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with one match of five overs."""
    found = tmp_path_factory.mktemp("data")
    report = import_matches([written(found / "files", "one", cricsheet_of(simulated(3, 5)))])
    save_matches(found, report.kept)
    return found


def options(folder: Path, **given: Any) -> dict[str, Any]:
    fixed = imported_packs(folder)["real-one"].options
    return CricketOptions.model_validate({**fixed, **given}).model_dump(mode="json")


def begun(chosen: dict[str, Any], seed: int = 5) -> tuple[CricketEnvironment, Any, list[Any]]:
    environment = CricketEnvironment()
    seen = environment.reset(seed=seed, episode_id="one", options=chosen)
    return environment, seen, list(environment.facts())


def test_play_starts_within_an_over_with_the_real_card_bowler_and_batters(folder: Path) -> None:
    environment, seen, facts = begun(options(folder, real_from="2:2.3"))
    arranged, toss, position_set = (fact.data for fact in facts)
    assert toss["elected"] == "bat"
    now = position_set["now"]
    assert (now["score"]["overs"], seen.content["score"]["overs"]) == ("2.3", "2.3")
    assert now["bowler"]["name"] == seen.content["bowler"]["name"]
    assert len(now["marks"]) >= 3
    assert arranged["real"]["attribution"] == ATTRIBUTION
    assert set(arranged["real"]["lines"]) == {"1", "2"}
    assert seen.content["phase"] == "bowl"
    twin = CricketEnvironment()
    assert twin.restore(environment.snapshot()).content == seen.content


def test_a_captain_is_never_shown_what_really_happened_next(folder: Path) -> None:
    _, seen, facts = begun(options(folder, real_from="1:1.0"))
    real = facts[0].data["real"]
    assert real["result"] not in str(seen.content)
    assert "real" not in seen.content and str(real["lines"]["2"]) not in str(seen.content)


def test_the_agent_leads_either_team(folder: Path) -> None:
    first, second = (begun(options(folder, real_team=team))[2][0].data for team in (1, 2))
    assert (first["home"]["name"], first["away"]["name"]) == (second["away"]["name"], second["home"]["name"])
    assert first["real"]["batting"]["1"] != second["real"]["batting"]["1"]


def test_the_day_is_read_from_the_balls_that_were_bowled(folder: Path) -> None:
    """High effects are likely after a high score: the mean over seeds follows the reading."""

    def mean(start: str) -> float:
        drawn = []
        for seed in range(300):
            environment, _, _ = begun(chosen[start], seed)
            match = environment._playing.playing
            drawn.append(match.effects.of(match.number) - match.model.level)
        return sum(drawn) / len(drawn)

    chosen = {start: options(folder, real_from=start) for start in ("1:0.0", "2:3.0")}
    environment, _, _ = begun(chosen["2:3.0"])
    expected = environment._playing.reading.expected(2)
    assert abs(mean("1:0.0")) < 0.06
    assert abs(mean("2:3.0") - expected.mean) < 4 * expected.sd / 300**0.5


def test_options_that_fit_no_real_match_are_refused(folder: Path) -> None:
    for given, error in (
        ({"real_from": "2:9.0"}, "innings 2 has only"),
        ({"real_from": "nine"}, "must name an innings"),
        ({"start": "chase"}, "needs start toss"),
        ({"max_overs": 20}, "max_overs 5"),
        ({"home_team": "Tamarind"}, "omit home_team"),
    ):
        with pytest.raises(ValueError, match=error):
            options(folder, **given)
    with pytest.raises(ValueError, match="needs a real match"):
        CricketOptions.model_validate({"real_from": "2:1.0"})
    assert "real_match" not in CricketOptions().model_dump(mode="json")


def test_a_record_that_someone_made_up_is_checked(folder: Path) -> None:
    record = dict(imported_packs(folder)["real-one"].options["real_match"])
    for change, error in (
        ({"elevens": [record["elevens"][0], record["elevens"][0]]}, "different names"),
        ({"innings": [{"batting": 0, "balls": [[0, 0, 1, 99]]}]}, "players 0 to 10"),
        ({"innings": [{"batting": 0, "balls": [[0, 0, 0, 9]]}]}, "both ends"),
    ):
        with pytest.raises(ValueError, match=error):
            options(folder, real_match={**record, **change}, real_from="1:0.0+1")


def test_an_imported_match_is_a_pack_of_every_episode(folder: Path) -> None:
    cast = Cast.from_file(None, live="llm:hf-gemma", variables={}, clock=SystemClock(), data_dir=folder)
    request = EpisodeRequest("cricket", pack="real-one", options={"real_from": "2:1.2"})
    plan = plan_episode(request, draw_seed=lambda: 1, load=cast.load)
    assert plan.options["real_match"]["title"] and plan.options["max_overs"] == 5
    assert "real_match" not in plan.pack.shown_options
    with pytest.raises(InvalidRequest, match="eval_pack_id"):
        plan_episode(request, draw_seed=lambda: 1)


def test_a_collection_that_is_torn_says_what_to_do(tmp_path: Path) -> None:
    for text in ("{", "[]", '{"version": 2, "matches": {}}', '{"version": 1, "matches": {"a": 3}}'):
        (tmp_path / COLLECTION).write_text(text)
        with pytest.raises(ConfigurationError, match="delete it and import again"):
            imported_packs(tmp_path)


def test_every_over_is_priced_and_the_luck_adds_up(folder: Path) -> None:
    pack = imported_packs(folder)["real-one"].options
    chosen = CricketOptions.model_validate(pack)
    assert chosen.real_match is not None
    prices = list(price_overs(chosen.real_match, "men", chosen.level))
    assert [(one.innings, one.over) for one in prices][:6] == [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (2, 1)]
    for one in prices:
        assert one.best >= one.before - 1e-9
        assert 0.0 <= one.after <= 1.0
    chased = [one for one in prices if one.innings == 2]
    assert chased[-1].after in (0.0, 1.0)
    made = sum(one.runs for one in prices if one.innings == 1)
    assert made == sum(sum(row[4:10]) for row in chosen.real_match.innings[0].balls)


def test_few_balls_leave_a_rating_near_one_and_many_move_it() -> None:
    def of(balls: int) -> float:
        made = [Duel(0, "hitter", "bowler", 1.3, 0.05, 0.04, 2, 0, 0)] * balls
        usual = [
            Duel(0, "other", f"b{n % 6}", 1.3, 0.05, 0.04, int(n % 10 < 3) + 1, 0, 0) for n in range(9000)
        ]
        return rate([*made, *usual], ["ground"], ["2024"]).of("hitter").bat_runs

    ratios = [of(balls) for balls in (6, 60, 600, 6000)]
    assert ratios == sorted(ratios)
    assert ratios[0] < 1.03 < 1.2 < ratios[-1]


def test_a_ground_and_a_season_are_told_from_the_players() -> None:
    """The same players make a fifth more at one ground: it is the ground's."""
    balls, grounds = [], []
    for match in range(40):
        grounds.append("small" if match % 2 else "large")
        for number in range(240):
            made = int((number % 5 < 2) + (match % 2 and number % 5 == 3)) * 2
            who, by = f"bat{number % 7}", f"bowl{number % 6}"
            balls.append(Duel(match, who, by, 0.96, 0.05, 0.04, made, 0, 0))
    found = rate(balls, grounds, ["2024"] * 40)
    assert found.scoring("small", "2024") > 1.2 * found.scoring("large", "2024")
    assert all(abs(one.bat_runs - 1.0) < 0.12 for one in found.people.values())


def test_strong_batters_are_found_in_order_in_many_matches(tmp_path: Path) -> None:
    strengths = (1.45, 1.2, 1.0, 0.85, 0.7)
    home, away = draw_fixture(11)
    players = tuple(
        replace(player, bat_runs=strength) for player, strength in zip(home.players, strengths, strict=False)
    )
    squads = (Squad(home.name, (*players, *home.players[5:])), away)

    def change(match: Match) -> None:
        match.teams = teams_of(squads)

    for seed in range(60):
        written(tmp_path, str(seed), cricsheet_of(simulated(seed, 20, change)))
    report = import_matches([tmp_path])
    found = [report.ratings.of(f"id-{player.name}").bat_runs for player in players]
    assert report.counted == 60
    assert found == sorted(found, reverse=True), found
    assert found[0] > 1.1 > 0.95 > found[-1]
