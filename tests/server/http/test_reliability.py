"""The page of reliability: an honest empty state, then figures, for people and for programs."""

from __future__ import annotations

import time
from pathlib import Path

from tests.serving import serve, test_settings


def test_reliability_is_empty_then_counts_what_finished(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, environment="cricket")) as serving:
        assert serving.client.get("/api/reliability").json() == {"worlds": [], "pending": 0}
        empty = serving.client.get("/reliability")
        assert empty.status_code == 200 and "No match with forecasts" in empty.text
        options = {"max_overs": 1, "forecast_futures": 20}
        serving.finish(serving.start(environment="cricket", seed=3, options=options))
        deadline = time.monotonic() + 30
        while not (worlds := serving.client.get("/api/reliability").json()["worlds"]):
            assert time.monotonic() < deadline, "the match was never counted"
            time.sleep(0.02)
        (cricket,) = worlds
        assert (cricket["environment"], cricket["matches"], len(cricket["tenths"])) == ("cricket", 1, 10)
        assert sum(one["reported"] for one in cricket["tenths"]) > 5
        page = serving.client.get("/reliability").text
        assert "Cricket, 1 match<" in page and "style=" not in page
        for other in ("/", "/leaderboard"):
            assert 'reliability">Reliability' in serving.client.get(other).text
