"""The page of a captain: empty at first, then its record, and its best and worst call where they happened."""

from __future__ import annotations

import re
from pathlib import Path

from tests.serving import serve, test_settings, until

HTML = {"accept": "text/html"}
CALL = re.compile(r'([+−][\d.]+) <small>.*?href="\.\./watch/(ep-\w+)\?seq=(\d+)"', re.DOTALL)


def test_a_captain_has_a_page_with_its_calls(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, environment="cricket")) as app:
        unknown = app.client.get("/captains/%3Cb%3Enobody", headers=HTML)
        assert unknown.status_code == 404 and "&lt;b&gt;nobody" in unknown.text
        assert app.client.get("/captains/%3Cb%3Enobody").headers["content-type"].startswith("application/")
        model = app.client.get("/captains/hf:google%2Fgemma", headers=HTML)
        assert model.status_code == 404 and "No captain is called hf:google/gemma here" in model.text
        empty = app.client.get("/captains/aggressive").text
        assert (
            "No best or worst call yet: it has not finished a match here." in empty and ">Gambler<" in empty
        )
        elsewhere = app.client.get("/captains/heuristic?environment=collider").text
        assert "Textbook physicist" in elsewhere and 'href="heuristic?environment=cricket"' in elsewhere
        assert "No best or worst call yet: single calls are not valued in this world." in elsewhere

        options = {"max_overs": 1, "forecast_futures": 20}
        match = app.start(seed=3, captain_preset="aggressive", opponent_choice="anchor", options=options)
        app.finish(match)
        page = until(
            "its calls", lambda: "Best call" in (text := app.client.get("/captains/anchor").text) and text
        )
        found = [(float(points.replace("−", "-")), *where) for points, *where in CALL.findall(page)]
        valued = [
            one for one in app.events(match) if one["type"] == "cricket.forecast" and one["data"]["delivery"]
        ]
        worth = {
            str(one["seq"]): 100
            * one["data"]["batting_value" if one["data"]["batting"] == "away" else "bowling_value"]
            for one in valued
        }
        assert [points for points, *_ in found] == [
            round(end, 1) for end in (max(worth.values()), min(worth.values()))
        ]
        assert [round(worth[seq], 1) for _, _, seq in found] == [points for points, *_ in found]
        assert {episode_id for _, episode_id, _ in found} == {match}
        assert "Gambler" in page and "Other matches here, version " in page and "style=" not in page
        board = app.client.get("/leaderboard").text
        assert 'href="./captains/anchor?environment=cricket"' in board
