"""A run of rollouts and servers on one database: neither plays what is the other's, whoever dies."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from websockets.sync.client import connect

from server.viewers import other_servers
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint
from tests.llm.fake_server import Mode
from tests.postgres import Cluster
from tests.rollouts.shared_runs import begin, held, play, summaries, types, worker
from tests.rollouts.test_fleet import request
from tests.server.test_two_servers import TURNS, missing_others_soon, running, start
from tests.server.watching import watch
from tests.serving import serve, serve_process, test_settings, until


@pytest.fixture
def url(postgres: Cluster) -> str:
    return postgres.url(postgres.make())


def unended(url: str) -> list[str]:
    return [one.episode_id for one in summaries(url) if one.reason is None]


def test_no_server_plays_on_what_a_fleet_left(url: str, tmp_path: Path) -> None:
    settings = {"journal_url": SecretStr(url), "max_episodes": 4}
    with endpoint(counter, [Mode.SLOW], pause_s=0.1) as fake:
        begin(url, request(fake))
        with missing_others_soon(), serve(test_settings(tmp_path / "a", **settings)) as serving:
            playing = worker(url, concurrency=4)
            until("a question", lambda: len(fake.received) > 6)
            listed = httpx.get(f"{serving.base_url}/custom/status", timeout=30).json()
            assert (listed["running"], listed.get("shown", [])) == ([], []), "it is listed with its run"
            playing.kill()
            playing.communicate()
            assert unended(url), "it was killed in the midst"
            until("the server misses it", lambda: held(url) == [])
            left = unended(url)
            mine = serving.start(pace="max")  # a round of looks at what is left goes by meanwhile
            assert serving.finish(mine)["reason"] == "finished"
        with serve(test_settings(tmp_path / "b", **settings)) as serving:
            mine = serving.start(pace="max")
            assert serving.finish(mine)["reason"] == "finished"
            assert running(serving.base_url) == []
            stopped = httpx.post(
                f"{serving.base_url}/custom/stop_episode", json={"episode_id": left[0]}, timeout=30
            )
            assert stopped.status_code in (404, 409), "a server has no say in a fleet's episodes"
        assert unended(url) == left
        assert not any("episode.recovered" in one for one in types(url, *left).values())
        assert asyncio.run(play(url)).over == 12
    assert Counter(one.reason for one in summaries(url)) == {"finished": 12}


def test_no_fleet_plays_on_what_a_server_left(url: str, tmp_path: Path) -> None:
    """It misses the server, as servers do, and leaves its episode to them."""
    with serve_process(tmp_path / "a", variables={"SPECTATOR_JOURNAL_URL": url}) as dying:
        episode_id = start(dying, options={"turns": TURNS})
        until("its start", lambda: held(url))
        dying.kill()
    with endpoint(counter, [Mode.SLOW], pause_s=0.15) as fake:
        begin(url, request(fake, options={"turns": 20}))
        assert asyncio.run(play(url, concurrency=4)).over == 12
        assert held(url) == [], "the server was deposed"
        assert not {"episode.ended", "episode.recovered"} & set(types(url, episode_id)[episode_id])
        settings = test_settings(tmp_path / "b", journal_url=SecretStr(url), max_episodes=2)
        with serve(settings) as serving:
            assert serving.finish(episode_id)["reason"] == "finished"
    assert types(url, episode_id)[episode_id].count("episode.recovered") == 1


def test_a_server_shows_the_run_of_a_fleet_and_its_episodes(url: str, tmp_path: Path) -> None:
    settings = test_settings(
        tmp_path / "a", journal_url=SecretStr(url), max_episodes=2, runs_dir=tmp_path / "runs"
    )
    with endpoint(counter, [Mode.SLOW], pause_s=0.2) as fake, serve(settings) as serving:
        mine = serving.start(pace="max")
        assert serving.finish(mine)["reason"] == "finished"
        begin(url, request(fake))
        playing = worker(url, concurrency=3)

        def shown() -> dict[str, Any]:
            told: dict[str, Any] = serving.client.get("/api/rollouts/first").json()["run"]
            return told

        until("an episode under way", lambda: shown().get("playing"))
        one = unended(url)[0]
        assert serving.client.get(f"/watch/{one}").status_code == 200
        assert serving.client.get(f"/api/episodes/{one}").json()["run_id"] == "first"
        said = playing.communicate(timeout=60)[0]
        assert playing.returncode == 0, said
        until("its end", lambda: shown()["over"] == 12)
        told = shown()
        assert (told["episodes"], told["verdicts"], told["model"], told["environment"]) == (
            12, 12, "m-1", "counting",
        )  # fmt: skip
        (entry,) = serving.client.get("/api/rollouts").json()["runs"]
        assert (entry["name"], entry["over"], entry["problem"]) == ("first", 12, None)
        assert serving.client.get("/rollouts/first").status_code == 200
        group = serving.client.get("/api/groups/g-000001?run=first").json()
        assert len(group["members"]) == 3, group.keys()
        assert serving.client.get("/api/rollouts/last").status_code == 404
        assert serving.client.get("/api/episodes/ep-00000000000000000000000000").status_code == 404
        assert len(serving.events(one)) > 4


@pytest.mark.parametrize("run_is_watched", [False, True])
def test_a_viewer_of_a_fleet_s_episode_is_shown_it_by_notices(
    url: str, postgres: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_is_watched: bool
) -> None:
    """The journal is not asked how far it is, so that nothing but notices can bring the next event."""
    settings = test_settings(tmp_path / "a", journal_url=SecretStr(url), runs_dir=tmp_path / "runs")
    monkeypatch.setattr(other_servers, "SLOW_INTERVAL_S", 3600.0)
    with endpoint(counter, [Mode.SLOW], pause_s=0.4) as fake, serve(settings) as serving:
        begin(url, request(fake, episodes=1, group_size=1, options={"turns": 12}))
        if run_is_watched:
            assert serving.client.get("/rollouts/first").status_code == 200
            board = connect(f"{serving.ws_url}/live/rollouts/first", legacy=True)
        playing = worker(url, concurrency=1)
        until("its beginning", lambda: unended(url))
        listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%%' AND datname = %s"
        name = url.split("?")[0].rpartition("/")[2]
        until("listening", lambda: postgres.execute("postgres", listening, [name]) == [(2,)])
        with watch(f"{serving.ws_url}/live/{unended(url)[0]}") as watcher:
            code, last = watcher.to_the_end()
        assert (code, last["frame"]) == (1000, "bye"), last
        seen = watcher.events()
        assert len(seen) > 10
        assert seen == list(range(seen[0], watcher.seq + 1))
        said = playing.communicate(timeout=60)[0]
        assert playing.returncode == 0, said
        if run_is_watched:
            board.close()
