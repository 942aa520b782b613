"""A rolling upgrade: two servers are replaced by two of the next version, and one by the earlier again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from server.background import recovery
from spectator import __version__
from tests.coming_back import Seen, watch
from tests.postgres import Cluster
from tests.server.test_two_servers import LISTENING, check_record, running, start
from tests.serving import PATIENCE_S, ServerProcess, free_port, serve, serve_process, test_settings, until

EARLIER_VERSION = "0.0.9"

EARLIER = f"import spectator; spectator.__version__ = {EARLIER_VERSION!r}"
"""What makes a server one of the version before: another number."""

TURNS = 400


@dataclass
class Place:
    """Where one of the servers listens, whichever program serves there.

    Args:
        folder: Its data folder, which the next program takes over.
        variables: Its environment.
    """

    folder: Path
    variables: dict[str, str]
    port: int = field(default_factory=free_port)
    server: ServerProcess | None = None
    _life: ExitStack = field(default_factory=ExitStack)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def begin(self, program: str = "") -> None:
        serving = serve_process(self.folder, port=self.port, variables=self.variables, program=program)
        self.server = self._life.enter_context(serving)

    def leave(self) -> None:
        """Stop the server in order, as SIGTERM does; it must say nothing of failures."""
        assert self.server is not None
        assert self.server.terminate() < PATIENCE_S
        assert self.server.process.returncode == 0
        self._life.close()
        assert not [line for line in self.server.log if "Traceback" in line or "ERROR" in line]

    def version(self) -> str:
        return str(httpx.get(f"{self.base_url}/openapi.json", timeout=PATIENCE_S).json()["info"]["version"])


@pytest.fixture
def places(postgres: Cluster, scratch: str, tmp_path: Path) -> Iterator[tuple[Place, Place]]:
    variables = {
        "SPECTATOR_JOURNAL_URL": postgres.url(scratch),
        "SPECTATOR_MAX_EPISODES": "2",
        "SPECTATOR_RUNS_DIR": "",
    }
    pair = Place(tmp_path / "a", variables), Place(tmp_path / "b", variables)
    yield pair
    for place in pair:
        place._life.close()


def watching(
    pool: ThreadPoolExecutor, places: tuple[Place, Place], episodes: list[str]
) -> list[tuple[str, Seen, Future[Seen]]]:
    """Viewers of each episode at each server."""
    found = []
    for episode_id in episodes:
        for order in (places, places[::-1]):
            seen = Seen()
            urls = [one.base_url for one in order]
            found.append((episode_id, seen, pool.submit(watch, urls, episode_id, seen)))
    return found


def test_servers_are_replaced_one_after_the_other_and_no_viewer_misses_an_event(
    postgres: Cluster, scratch: str, places: tuple[Place, Place]
) -> None:
    a, b = places
    url = postgres.url(scratch)
    with ThreadPoolExecutor(4) as pool:
        a.begin(EARLIER)
        b.begin(EARLIER)
        assert a.version() == b.version() == EARLIER_VERSION
        episodes = [start(one.server, options={"turns": TURNS}) for one in places if one.server]
        viewers = watching(pool, places, episodes)

        def shown_on() -> None:
            """Wait until every viewer has seen more."""
            there = [len(seen.numbers) for _, seen, _ in viewers]
            until(
                "more events at every viewer",
                lambda: all(
                    len(seen.numbers) >= before + 8
                    for (_, seen, _), before in zip(viewers, there, strict=True)
                ),
            )

        shown_on()
        b.leave()
        until("the takeover by the older server", lambda: len(running(a.base_url)) == 2)
        b.begin()
        assert b.version() == __version__ != a.version()
        shown_on()
        a.leave()
        until("the takeover by the newer server", lambda: len(running(b.base_url)) == 2)
        a.begin()
        shown_on()
        b.leave()  # back to the version before
        until("the takeover by the server that stays", lambda: len(running(a.base_url)) == 2)
        b.begin(EARLIER)
        shown_on()
        for episode_id in episodes:
            body = {"episode_id": episode_id, "pace": "max"}
            told = httpx.post(f"{a.base_url}/custom/pace", json=body, timeout=PATIENCE_S)
            assert told.status_code == 200, told.text
        seen = [one.result(2 * PATIENCE_S) for _, _, one in viewers]
        check_all(a, url, episodes, [(name, one) for (name, _, _), one in zip(viewers, seen, strict=True)])
        a.leave()
        b.leave()


def test_a_server_that_leaves_wakes_the_others(
    postgres: Cluster, scratch: str, places: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server that stays looks for episodes once an hour here, so that only a notice wakes it."""
    monkeypatch.setattr(recovery, "INTERVAL_S", 3600)
    a, b = places
    a.begin()
    b.folder.mkdir()
    with serve(test_settings(b.folder, journal_url=SecretStr(postgres.url(scratch)))) as stays:
        until("listening", lambda: len(postgres.execute(scratch, LISTENING)) >= 2)
        assert a.server is not None
        episode_id = start(a.server, options={"turns": TURNS})
        a.leave()
        until("the takeover", lambda: episode_id in running(stays.base_url))


def check_all(a: Place, url: str, episodes: list[str], seen: list[tuple[str, Seen]]) -> None:
    """Prove that each record is whole, and that each viewer saw all of it."""
    for episode_id, moves in zip(episodes, (2, 3), strict=True):
        types = check_record(url, episode_id)
        assert (types[0], types[-1]) == ("episode.started", "episode.ended")
        assert types.count("episode.ended") == 1
        assert types.count("episode.recovered") == moves, "played on under the same id and epoch"
        told = httpx.get(f"{a.base_url}/api/episodes/{episode_id}/events", timeout=PATIENCE_S)
        events = [json.loads(line) for line in told.text.splitlines()]
        assert len(events) == len(types) > TURNS
        for name, one in seen:
            if name == episode_id:
                one.check(events)
                assert one.connections >= 2, "each server that one watched at was replaced"
