"""The league on a server: a whole season across a crash, visitors who need the slot, and its page."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from threading import Barrier
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from server.background.league import CaptainLeague, league_captains
from spectator.cast import Cast
from spectator.catalog import load_world
from spectator.clock import SystemClock
from spectator.errors import ConfigurationError
from spectator.evaluation.figures import LEAGUE
from spectator.evaluation.league import LeagueMatch, round_robin
from tests.llm.endpoints import write_captains
from tests.postgres import Cluster
from tests.serving import PATIENCE_S, ROOT, serve, serve_process, test_settings, until, without_errors

FOUR = ("heuristic", "aggressive", "anchor", "defensive")
VARIABLES = {
    "SPECTATOR_ENVIRONMENT": "cricket",
    "SPECTATOR_LEAGUE": "on",
    "SPECTATOR_LEAGUE_CAPTAINS": " ".join(FOUR),
    "SPECTATOR_LEAGUE_LEGS": "1",
    "PYTHONPATH": str(ROOT),
}


def recorded(base_url: str) -> list[dict[str, Any]]:
    """The league's matches, oldest first."""
    answer = httpx.get(f"{base_url}/api/episodes", params={"run_id": LEAGUE, "limit": 100}, timeout=30)
    return sorted(answer.json()["episodes"], key=lambda one: str(one["episode_id"]))


def test_a_season_is_played_across_a_crash(tmp_path: Path) -> None:
    """Killed in the middle of a match: that match goes on, and the journal names every later fixture."""
    with serve_process(tmp_path, variables=VARIABLES) as serving:
        (first,) = until("the first match", lambda: recorded(serving.base_url))
        until("a ball", lambda: httpx.get(f"{serving.base_url}/custom/status").json()["running"][0]["turn"])
        serving.kill()
    with serve_process(tmp_path, variables=VARIABLES | {"SPECTATOR_LEAGUE_PACE": "max"}) as serving:
        sent = {"episode_id": first["episode_id"], "pace": "max"}
        assert httpx.post(f"{serving.base_url}/custom/pace", json=sent).status_code == 200
        until(
            "the second season",
            lambda: any(one["group_id"].startswith("2.") for one in recorded(serving.base_url)),
        )
        matches = [one for one in recorded(serving.base_url) if one["group_id"].startswith("1.")]
        page = httpx.get(f"{serving.base_url}/league").text
        types = httpx.get(f"{serving.base_url}/api/episodes/{first['episode_id']}/events").text
    assert '"type":"episode.recovered"' in types
    assert matches[0]["episode_id"] == first["episode_id"]
    *fixtures, final = matches
    assert [(one["captain"], one["opponent"]) for one in fixtures] == [
        one[1:] for one in round_robin(FOUR, 1)
    ]
    assert {one["reason"] for one in matches} == {"finished"} and len({one["seed"] for one in matches}) == 7
    points = dict.fromkeys(FOUR, 0.0)
    for one in fixtures:
        points[one["captain"]] += 2 * one["outcome"]
        points[one["opponent"]] += 2 - 2 * one["outcome"]
    best = sorted(points.values(), reverse=True)
    assert [points[final["captain"]], points[final["opponent"]]] == best[:2]
    assert re.search(r"Champion of season 1: <b>[A-Za-z ]+</b> \([A-Za-z ]+\)", page)


def test_it_gives_its_slot_to_visitors_and_plays_the_match_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.background.exhibition.LOOK_S", 0.02)
    monkeypatch.setattr("server.background.exhibition.REST_S", 0.01)
    settings = test_settings(
        tmp_path, environment="cricket", league=True, league_captains=FOUR, league_legs=1
    )
    with serve(settings) as serving:
        (cut,) = until("a match", lambda: recorded(serving.base_url))
        visitor = serving.start(max_overs=1)
        assert serving.finish(cut["episode_id"])["reason"] == "stopped"
        assert serving.finish(visitor)["reason"] == "finished"
        again = until("the match again", lambda: recorded(serving.base_url)[1:])[0]
        same = ("group_id", "seed", "captain", "opponent")
        assert {name: again[name] for name in same} == {name: cut[name] for name in same}
        assert (cut["attempt"], again["attempt"]) == (1, 2)
        first = serving.events(again["episode_id"])[0]["data"]
        assert {"home_team", "away_team"} <= first["options"].keys()
        page = serving.client.get("/").text
        for text in (first["options"]["home_team"], first["options"]["away_team"], "0 of 7 matches"):
            assert text in page


def test_two_servers_that_see_the_same_table_play_each_match_once(
    postgres: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both read the table before either starts a match; from then on they play as fast as they can."""
    both, read = Barrier(2), CaptainLeague._matches
    waited: set[CaptainLeague] = set()

    async def together(league: CaptainLeague) -> list[LeagueMatch]:
        found = await read(league)
        if league not in waited:
            waited.add(league)
            await asyncio.to_thread(both.wait, PATIENCE_S)
        return found

    async def keep(league: CaptainLeague) -> None:
        """Remove nothing: a match that was played twice would be."""

    monkeypatch.setattr(CaptainLeague, "_matches", together)
    monkeypatch.setattr(CaptainLeague, "tidy", keep)
    league = {"environment": "cricket", "league": True, "league_pace": "max", "league_legs": 1}
    league |= {"league_captains": FOUR[:3], "journal_url": SecretStr(postgres.url(postgres.make()))}
    with (
        serve(test_settings(tmp_path / "a", **league)) as one,
        serve(test_settings(tmp_path / "b", **league)),
    ):
        until("a season", lambda: any(each["group_id"] == "2.1" for each in recorded(one.base_url)))
        season = [each["group_id"] for each in recorded(one.base_url) if each["group_id"].startswith("1.")]
    assert sorted(season) == ["1.1", "1.2", "1.3", "1.final"]


@pytest.mark.parametrize(
    ("named", "why"),
    [
        (("heuristic", "nobody"), "'nobody' cannot take both seats"),
        (("heuristic", "oracle"), "'oracle' cannot take both seats"),
        (("heuristic", "human"), "'human' cannot take both seats"),
        (("heuristic", "llm:openai"), "'llm:openai' needs"),
        (("heuristic",) * 17, "names 17 captains; use at most 16"),
    ],
)
def test_captains_that_cannot_play_are_named(named: tuple[str, ...], why: str) -> None:
    cast = Cast.from_file(None, live="llm:hf-gemma", variables={}, clock=SystemClock(), person_s=60)
    with pytest.raises(ConfigurationError, match=re.escape(why)):
        league_captains(cast.load("cricket"), named)


def test_by_default_the_captains_worth_watching_play_and_cost_nothing() -> None:
    found = league_captains(load_world("cricket"), ())
    assert {"trained", "planner", "aggressive"} <= found.keys() and len(found) == 8
    assert not any(one.costs_money for one in found.values())
    assert not league_captains(load_world("counting"), ())


def test_a_league_goes_on_with_a_model_that_is_dead(tmp_path: Path) -> None:
    """Its endpoint does not answer: the fallback finishes each match, which counts for neither captain."""
    dead = {"base_url": "http://127.0.0.1:9/v1", "retries": 0, "timeout_s": 1}
    settings = test_settings(
        tmp_path,
        environment="cricket",
        league=True,
        league_pace="max",
        league_captains=("heuristic", "llm:dead"),
        league_legs=1,
        captains_file=write_captains(tmp_path / "captains.toml", dead=dead),
    )
    with without_errors(), serve(settings) as serving:
        until(
            "a season and a match",
            lambda: any(one["group_id"] == "2.final" for one in recorded(serving.base_url)),
        )
        season = [one for one in recorded(serving.base_url) if one["group_id"].startswith("1.")]
        page = serving.client.get("/league").text
    assert [one["group_id"] for one in season] == ["1.1", "1.final"]
    assert {one["reason"] for one in season} == {"finished"}
    assert "No result: " in page and "mark--N" in page and "mark--W" not in page


def test_one_captain_plays_no_league_and_the_page_says_so(tmp_path: Path) -> None:
    settings = test_settings(tmp_path, environment="cricket", league=True, league_captains=("planner",))
    with serve(settings) as serving:
        for path in ("/", "/league"):
            assert "A league needs two captains, but only one can play here" in serving.client.get(path).text
    with serve(test_settings(tmp_path)) as serving:
        assert "No league is played here" in serving.client.get("/league").text
        assert 'id="league"' not in serving.client.get("/").text
