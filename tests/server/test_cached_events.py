"""Servers with a cache of newest events: viewers see what they see without one, whatever becomes of it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from server.settings import Settings
from spectator.errors import ConfigurationError
from spectator.journal.stores import event_cache
from spectator.journal.stores.sqlite import SqlJournal
from tests.postgres import Cluster
from tests.redis_server import PASSWORD, RedisServer
from tests.server.test_two_servers import missing_others_soon, running, start, until, watched
from tests.serving import PATIENCE_S, ServerProcess, Serving, serve, serve_process, test_settings

CACHED = event_cache.__name__


@pytest.fixture(scope="module")
def url(postgres: Cluster) -> str:
    return postgres.url(postgres.make())


@pytest.fixture
def playing(url: str, redis_server: RedisServer, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that plays, a process of its own."""
    variables = {"SPECTATOR_JOURNAL_URL": url, "SPECTATOR_CACHE_URL": redis_server.url()}
    with serve_process(tmp_path / "plays", variables=variables) as process:
        yield process


@contextmanager
def showing(folder: Path, url: str, cache: str | None, **changes: Any) -> Iterator[Serving]:
    """A server that plays nothing at first, in this process; it tries its cache again at once."""
    folder.mkdir()
    secret = None if cache is None else SecretStr(cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_cache, "FIRST_PAUSE_S", 0.05)
        patch.setattr(event_cache, "LONGEST_PAUSE_S", 0.1)
        settings = test_settings(folder, journal_url=SecretStr(url), cache_url=secret, **changes)
        with serve(settings) as serving:
            yield serving


def cache_of(base_url: str) -> str:
    return str(httpx.get(f"{base_url}/health", timeout=PATIENCE_S).json()["cache"])


def figures(serving: Serving) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(serving.client.get("/metrics").text)
    return {
        (sample.name.removeprefix("spectator_cache_"), *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith("spectator_cache_")
    }


def recorded(url: str, episode_id: str) -> list[str]:
    """The texts of an episode in the database."""

    async def look() -> list[str]:
        journal = await SqlJournal.open(url, writable=False)
        try:
            return await journal.texts(episode_id)
        finally:
            await journal.aclose()

    return asyncio.run(look())


def check_entries(redis_server: RedisServer, url: str) -> int:
    """Prove that the cache holds rows of the database and nothing else; how many."""
    streams = redis_server.streams()
    for key, entries in streams.items():
        texts = recorded(url, key.split(":")[2])
        assert [(number, texts[number - 1]) for number, _ in entries] == entries
    return sum(map(len, streams.values()))


def check_frames(found: list[tuple[dict[str, Any], list[dict[str, Any]]]], texts: int) -> None:
    """Prove that several viewers were shown the same events, all of them once, and came to the same state."""
    for state, frames in found:
        assert [one["frame"] for one in frames[:2]] == ["hello", "snapshot"]
        events = [one for one in frames if one["frame"] == "event"]
        assert [one["seq"] for one in events] == list(range(frames[1]["seq"] + 1, texts + 1))
        assert frames[-1]["reason"] == "ended"
        assert state == found[0][0]
    first = max(frames[1]["seq"] for _, frames in found)
    shared = [
        [one for one in frames if one["frame"] == "event" and one["seq"] > first] for _, frames in found
    ]
    assert all(one == shared[0] for one in shared)
    assert shared[0]


def wait_for_more(showing: Serving, episode_id: str, count: int = 12) -> None:
    """Wait until so many events more are recorded."""
    there = len(showing.events(episode_id))
    until(f"{count} events more", lambda: len(showing.events(episode_id)) >= there + count)


def test_viewers_see_the_same_with_a_cache_and_without_whatever_becomes_of_it(
    playing: ServerProcess,
    redis_server: RedisServer,
    url: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    with (
        showing(tmp_path / "with", url, redis_server.url()) as cached,
        showing(tmp_path / "without", url, None) as plain,
        ThreadPoolExecutor(2) as viewers,
    ):
        assert plain.client.get("/health").json() == {"status": "healthy"}
        assert not figures(plain)
        for base_url in (playing.base_url, cached.base_url):
            until("the cache", lambda base_url=base_url: cache_of(base_url) == "works")
        episode_id = start(playing, options={"turns": 90})
        found = [viewers.submit(watched, one, episode_id) for one in (cached, plain)]
        until("hits", lambda: figures(cached).get(("reads_total", "hit"), 0) >= 5)
        assert check_entries(redis_server, url) > 5

        redis_server.execute("FLUSHALL")
        hits = figures(cached)["reads_total", "hit"]
        until("hits", lambda: figures(cached)["reads_total", "hit"] >= hits + 3)

        redis_server.freeze()
        try:
            wait_for_more(plain, episode_id)
            until("the failure", lambda: cache_of(playing.base_url) == cache_of(cached.base_url) == "away")
        finally:
            redis_server.thaw()
        until("its end", lambda: cache_of(playing.base_url) == cache_of(cached.base_url) == "works")

        redis_server.stop()
        wait_for_more(plain, episode_id)
        until("the failure", lambda: cache_of(playing.base_url) == cache_of(cached.base_url) == "away")
        assert figures(cached)["works",] == 0
        redis_server.start()
        until("its end", lambda: cache_of(playing.base_url) == cache_of(cached.base_url) == "works")
        hits = figures(cached)["reads_total", "hit"]
        until("hits", lambda: figures(cached)["reads_total", "hit"] >= hits + 3)

        check_frames([one.result(PATIENCE_S) for one in found], len(recorded(url, episode_id)))
        assert check_entries(redis_server, url) > 3
        assert figures(cached)["read_events_total",] > 10
    playing.terminate()
    for lines in ([one.getMessage() for one in caplog.records if one.name == CACHED], playing.log):
        said = [part for one in lines for part in ("is not used", "cached again") if part in one]
        failures = max(2, len(said) // 2)  # on a busy machine an answer may come too late once more
        assert said == failures * ["is not used", "cached again"], "one line for each failure"
    assert PASSWORD not in caplog.text + "".join(playing.log)
    assert "Traceback" not in "".join(playing.log)


def test_what_a_deposed_server_sends_is_neither_recorded_nor_cached(
    playing: ServerProcess, redis_server: RedisServer, url: str, tmp_path: Path
) -> None:
    with (
        missing_others_soon(),
        showing(tmp_path / "with", url, redis_server.url(), max_episodes=1) as surviving,
        showing(tmp_path / "third", url, redis_server.url(), max_episodes=1) as third,
        ThreadPoolExecutor(1) as viewers,
    ):
        busy = third.start(pace="broadcast", options={"turns": 500})
        episode_id = start(playing, options={"turns": 60})
        found = viewers.submit(watched, third, episode_id)
        wait_for_more(surviving, episode_id)
        playing.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, playing.process.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            until("the takeover", lambda: episode_id in running(surviving.base_url))
            wait_for_more(surviving, episode_id, 3)
        finally:
            playing.process.send_signal(signal.SIGCONT)
        until("its letting go", lambda: episode_id not in running(playing.base_url))
        assert surviving.finish(episode_id)["reason"] == "finished"
        texts = recorded(url, episode_id)
        assert check_entries(redis_server, url) >= len(texts) / 2
        check_frames([found.result(PATIENCE_S)], len(texts))
        assert figures(third)["reads_total", "hit"] > 5
        third.client.post("/custom/stop_episode", json={"episode_id": busy})
    playing.terminate()
    assert "played elsewhere" in "".join(playing.log)


def test_a_server_starts_and_plays_without_its_cache(url: str, tmp_path: Path) -> None:
    variables = {
        "SPECTATOR_JOURNAL_URL": url,
        "SPECTATOR_CACHE_URL": f"redis://:{PASSWORD}@127.0.0.1:1/0",
    }
    with serve_process(tmp_path, variables=variables) as process:
        episode_id = start(process, options={"turns": 3}, pace="max")
        until("the end", lambda: len(recorded(url, episode_id)) > 3)
        assert cache_of(process.base_url) == "away"
        process.terminate()
        told = [one for one in process.log if "is not used" in one]
    assert len(told) == 1
    assert "redis://127.0.0.1:1/0" in told[0]
    assert PASSWORD not in "".join(process.log)


@pytest.mark.parametrize(
    "cache", ["host:6379", "http://:s3cret@host/0", "redis://:s3/cret@host/0", "redis://"]
)
def test_a_url_that_is_none_of_a_cache_is_refused_by_its_setting(cache: str) -> None:
    given = {"SPECTATOR_JOURNAL_URL": "postgresql://host/x", "SPECTATOR_CACHE_URL": cache}
    with pytest.raises(
        ConfigurationError, match="SPECTATOR_CACHE_URL: must be the URL of a Redis"
    ) as refused:
        Settings.from_environ(given)
    assert "s3" not in str(refused.value)
    assert Settings.from_environ({**given, "SPECTATOR_CACHE_URL": ""}).cache_url is None


def test_a_cache_is_one_of_a_journal_in_postgresql() -> None:
    given = {"SPECTATOR_CACHE_URL": "redis://:s3cret@host/0"}
    with pytest.raises(
        ConfigurationError, match="CACHE_URL: needs SPECTATOR_JOURNAL_URL beside it"
    ) as refused:
        Settings.from_environ(given)
    settings = Settings.from_environ({**given, "SPECTATOR_JOURNAL_URL": "postgresql://host/x"})
    assert settings.cache_url is not None
    assert "s3cret" not in f"{refused.value}{settings!r}{settings}{settings.model_dump_json()}"
