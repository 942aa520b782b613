"""The leaderboard: nothing, something, everything; as a page without a script, and for programs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from spectator.catalog import load_world
from spectator.evaluation.bundles.board import keep_verified, shipped_results
from tests.commands import spectator
from tests.evaluation.verified import a_verified_result
from tests.serving import Serving, serve, test_settings


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server without cricket episodes at the start."""
    with serve(test_settings(tmp_path_factory.mktemp("board"), max_episodes=4)) as serving:
        yield serving


def board(serving: Serving, episodes: int, **asked: str) -> Any:
    """The leaderboard once it holds so many episodes."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        answer = serving.client.get("/api/leaderboard", params=asked)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        if found["episodes"] >= episodes and not found["pending"]:
            return found
        time.sleep(0.01)
    raise AssertionError(f"there were never {episodes} episodes")


class Page(HTMLParser):
    """What a browser without scripts makes of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag == "a":
            self.links.append(str(known.get("href")))
        if tag == "script":
            self.scripts.append(str(known.get("src")))
        assert not any(name.startswith("on") or name == "style" for name in known), known

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def page(serving: Serving, **asked: str) -> Page:
    answer = serving.client.get("/leaderboard", params=asked)
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")
    return Page(answer.text)


def test_from_nothing_to_a_table_with_links_to_replays(served: Serving) -> None:
    empty = page(served)
    assert "No match has been played on this server yet" in empty.text
    assert board(served, 0)["rows"] == []

    match = {"environment": "cricket", "max_overs": 1, "seed": 3}
    first = served.start(**match, captain_preset="tactician", opponent_choice="anchor")
    second = served.start(**match, captain_preset="anchor", opponent_choice="anchor")
    for number in range(2):
        served.finish(served.start(environment="counting", seed=number))
    for episode_id in (first, second):
        served.finish(episode_id)

    found = board(served, 4)
    rows = {(row["environment"], row["captain"]): row for row in found["rows"]}
    assert set(rows) == {("counting", "heuristic"), ("cricket", "tactician"), ("cricket", "anchor")}
    anchor = rows["cricket", "anchor"]
    assert (anchor["episodes"], anchor["mirrored"]) == (2, 1)
    assert anchor["wins"] + anchor["losses"] + anchor["ties"] == 1
    assert 0 <= anchor["share"]["low"] < anchor["share"]["high"] <= 1
    assert {"coherence", "adaptation", "tool_validity", "latency_s"} <= set(anchor["measures"])
    assert set(anchor["recent"]) == {first, second}
    counter = rows["counting", "heuristic"]
    assert counter["share"] is None and counter["measures"]["score"] == {
        "mean": 1.0, "error": 0.0, "episodes": 2,
    }  # fmt: skip
    assert counter["own_share"] == 1.0 and anchor["measures"]["score"]["error"] is None

    shown = page(served)
    assert f"./replay/{first}" in shown.links
    assert served.client.get(f"/replay/{first}").status_code == 200
    assert (
        "scored 1.000 ± 0.000 over 2 episodes" in shown.text and "2 episodes, own share 100.0 %" in shown.text
    )
    assert "Tactician" in shown.text and "What the measures mean" in shown.text
    assert all("theme.js" in script for script in shown.scripts)


def test_it_can_be_narrowed_and_says_when_nothing_is_left(served: Serving) -> None:
    board(served, 4)
    against = page(served, environment="cricket", opponent="anchor")
    assert "Tactician" in against.text and "Counting" not in against.text.split("Show", 1)[1]
    assert 'value="anchor" selected' in served.client.get("/leaderboard?opponent=anchor").text
    assert [row["captain"] for row in board(served, 4, environment="counting", pack="default")["rows"]] == [
        "heuristic"
    ]
    assert "No episode matches" in page(served, pack="no such pack").text
    assert (
        served.client.get("/leaderboard", params={"environment": "", "pack": "", "opponent": ""}).status_code
        == 200
    )


def test_what_is_asked_for_is_shown_as_text_and_bounded(served: Serving) -> None:
    hostile = served.client.get("/leaderboard", params={"pack": "<script>alert(1)</script>"})
    assert hostile.status_code == 200 and "<script>alert" not in hostile.text
    assert served.client.get("/api/leaderboard", params={"pack": "x" * 65}).status_code == 422
    assert served.client.get("/leaderboard", params={"pack": "x" * 65}).status_code == 422


def test_it_is_described_and_linked_from_the_lobby(served: Serving) -> None:
    described = served.client.get("/openapi.json").json()
    assert "/api/leaderboard" in described["paths"] and "BoardRow" in described["components"]["schemas"]
    assert "./leaderboard" in Page(served.client.get("/").text).links


def test_who_only_sat_opposite_to_itself_or_was_cut_short_has_a_row_too(served: Serving) -> None:
    """Without wins and scores the row says so instead of failing."""
    before = board(served, 0)["episodes"]
    episode_id = served.start(
        environment="cricket", captain_preset="random", opponent_choice="defensive", pace="broadcast"
    )
    served.client.post("/custom/stop_episode", json={"episode_id": episode_id}).raise_for_status()
    found = board(served, before + 1)
    cut = next(row for row in found["rows"] if row["captain"] == "defensive")
    assert (cut["unfinished"], cut["share"], cut["measures"]) == (1, None, {})
    assert "1 cut short" in page(served).text


def test_a_restart_keeps_what_was_read(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving:
        serving.finish(serving.start())
        board(serving, 1)
    assert (tmp_path / "figures.db").exists()
    with serve(test_settings(tmp_path)) as serving:
        assert board(serving, 1)["rows"][0]["episodes"] == 1


def test_evaluations_rank_and_single_matches_stand_apart_with_the_reason(tmp_path: Path) -> None:
    """The folder of an evaluation is served: its captains rank; a match that is added to it does not."""
    out = tmp_path / "evaluation"
    done = spectator(
        "evaluate", "--captains", "tactician,anchor", "--matches", "4", "--overs", "1", "--out", out
    )
    assert done.exit_code == 0, done.stderr
    with serve(test_settings(out, environment="cricket")) as serving:
        match = {"environment": "cricket", "max_overs": 1, "seed": 9, "options": {"forecast_futures": 0}}
        single = serving.start(**match, captain_preset="tactician", opponent_choice="anchor")
        serving.finish(single)
        rows = board(serving, 5)["rows"]
        found = {(row["captain"], row["unranked"]): row for row in rows}
        assert set(found) == {(name, why) for name in ("tactician", "anchor") for why in (None, "history")}
        best = found["tactician", None]
        assert (best["ranked"], best["wins"] + best["losses"] + best["ties"], best["repeats"]) == (True, 4, 0)
        assert best["options"]["max_overs"] == 1 and best["failed_decisions"] == "random"
        assert (best["fingerprint"], best["models"]) == ("", [])
        assert best["share"]["high"] - best["share"]["low"] > 0.4, "four matches are two seeds"
        shown = page(serving).text
        assert "Not ranked" in shown and "played outside evaluations" in shown
        assert "max overs 1" in shown and "failed decisions: random" in shown
        assert "No one is ranked here yet" in shown, "where there is only history, it says how to rank"


def test_a_fresh_install_shows_what_its_captains_are_worth(tmp_path: Path) -> None:
    """The evaluation that comes with the package, by rank, with intervals, and no command line."""
    with serve(test_settings(tmp_path)) as serving:
        text = Page(serving.client.get("/leaderboard").text).text
    assert "No match has been played on this server yet" in text
    assert "comes with Spectator" in text and "Out of date" not in text
    ranked = [one.label for one in shipped_results()[0].captains if one.rank is not None]
    places = [text.index(label) for label in ranked]
    assert len(ranked) >= 5 and places == sorted(places)


def test_a_result_of_another_version_of_its_world_says_so(tmp_path: Path) -> None:
    old = a_verified_result().model_copy(update={"environment_version": "1.0"})
    with serve(test_settings(tmp_path)) as serving:
        keep_verified(tmp_path, old)
        text = Page(serving.client.get("/leaderboard").text).text
        now = load_world("cricket").version
        assert f"it used version 1.0 of this world; this server has version {now}" in text


def test_verified_results_stand_apart_and_no_episode_of_theirs_is_in_the_journal(tmp_path: Path) -> None:
    result = a_verified_result()
    with serve(test_settings(tmp_path)) as serving:
        (shipped,) = serving.client.get("/api/leaderboard").json()["verified"]
        keep_verified(tmp_path, result)
        found = serving.client.get("/api/leaderboard").json()
        assert found["verified"] == [result.model_dump(mode="json"), shipped]
        assert found["rows"] == [] and found["episodes"] == 0
        assert serving.client.get("/api/episodes").json()["episodes"] == []
        text = Page(serving.client.get("/leaderboard").text).text
        assert (
            "Verified results" in text and result.digest in text and "240 matches on 20 sealed seeds" in text
        )
        for asked, there in (("environment=counting", 0), ("pack=default", 2), ("opponent=llm:home", 1)):
            assert len(serving.client.get(f"/api/leaderboard?{asked}").json()["verified"]) == there
