"""A run of rollouts and servers on one database: neither plays what is the other's, whoever dies."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from tests.llm.brains import counter
from tests.llm.endpoints import endpoint
from tests.llm.fake_server import Mode
from tests.postgres import Cluster
from tests.rollouts.joint.joint_runs import begin, play, summaries, worker
from tests.rollouts.joint.test_joint_runs import held, types
from tests.rollouts.test_fleet import request
from tests.server.test_two_servers import TURNS, missing_others_soon, running, start, until
from tests.serving import serve, serve_process, test_settings


@pytest.fixture
def url(postgres: Cluster) -> str:
    return postgres.url(postgres.make())


def unended(url: str) -> list[str]:
    return [one.episode_id for one in summaries(url) if one.reason is None]


def test_no_server_plays_on_what_a_fleet_left(url: str, postgres: Cluster, tmp_path: Path) -> None:
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
            until("the server misses it", lambda: held(postgres, url) == [])
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
        assert not any("episode.recovered" in types(url, one) for one in left)
        assert asyncio.run(play(url)).over == 12
    assert Counter(one.reason for one in summaries(url)) == {"finished": 12}


def test_no_fleet_plays_on_what_a_server_left(url: str, postgres: Cluster, tmp_path: Path) -> None:
    """It misses the server, as servers do, and leaves its episode to them."""
    with serve_process(tmp_path / "a", variables={"SPECTATOR_JOURNAL_URL": url}) as dying:
        episode_id = start(dying, options={"turns": TURNS})
        until("its start", lambda: held(postgres, url))
        dying.kill()
    with endpoint(counter, [Mode.SLOW], pause_s=0.15) as fake:
        begin(url, request(fake, options={"turns": 20}))
        assert asyncio.run(play(url, concurrency=4)).over == 12
        assert held(postgres, url) == [], "the server was deposed"
        assert "episode.ended" not in types(url, episode_id)
        assert "episode.recovered" not in types(url, episode_id)
        settings = test_settings(tmp_path / "b", journal_url=SecretStr(url), max_episodes=2)
        with serve(settings) as serving:
            assert serving.finish(episode_id)["reason"] == "finished"
    assert types(url, episode_id).count("episode.recovered") == 1
