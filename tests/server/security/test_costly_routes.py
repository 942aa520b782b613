"""Every route that reads is either asked for a place among the readers, or is known to need none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from server.app import create_app
from server.security.rate_limits import ConcurrencyLimit
from tests.serving import serve, test_settings

HELD: Final = {
    "/api/episodes/{episode_id}/events": "/api/episodes/none/events",
    "/api/episodes/{episode_id}/events (a part)": "/api/episodes/none/events?limit=5",
    "/api/episodes/{episode_id}/state": "/api/episodes/none/state?at=1",
    "/api/episodes/{episode_id}/export": "/api/episodes/none/export",
    "/api/episodes/{episode_id}/calls": "/api/episodes/none/calls",
    "/api/episodes/{episode_id}/glance": "/api/episodes/none/glance",
    "/api/episodes/{episode_id}/tile": "/api/episodes/none/tile",
    "/api/episodes/{episode_id}/lines/{seq}/clip": "/api/episodes/none/lines/1/clip",
    "/api/leaderboard": "/api/leaderboard",
    "/leaderboard": "/leaderboard",
    "/api/reliability": "/api/reliability",
    "/reliability": "/reliability",
    "/api/rollouts": "/api/rollouts",
    "/api/groups/{group}": "/api/groups/none",
    "/api/episodes/{episode_id}/alternatives": "/api/episodes/none/alternatives?seq=1",
    "/api/votes": "/api/votes",
    "/api/votes/{day}/{voter}": "/api/votes/2026-11-28/0123456789abcdef",
    "/calls": "/calls",
    "/moment/{episode_id}/{seq}": "/moment/none/1",
    "/oembed": "/oembed?url={base}/watch/none",
    "/card/{episode_id}.png": "/card/none.png",
    "/clip/{episode_id}.{kind}": "/clip/none.png",
    "/embed/{episode_id}": "/embed/none",
}
"""Routes that hold a place while they read, and how each is asked."""

PAGES: Final = {
    "/leaderboard",
    "/reliability",
    "/card/{episode_id}.png",
    "/clip/{episode_id}.{kind}",
    "/embed/{episode_id}",
    "/calls",
    "/moment/{episode_id}/{seq}",
}
"""Those that are no part of the API."""

FREE: Final = {
    "/api/episodes": "a page of the index",
    "/api/episodes/{episode_id}": "folded once for all who ask, two records at a time, and kept",
    "/api/episodes/{episode_id}/truth": "one row",
    "/api/episodes/{episode_id}/notes": "a file that only the operator fills",
    "/api/episodes/{episode_id}/questions": "in memory",
    "/api/rollouts/{run}": "looked at once for all who ask",
    "/api/rollouts/{run}/series": "looked at once for all who ask",
    "/live/{episode_id}/events": "counted among the viewers",
    "/live/wall": "counted among the viewers",
    "/api/voice": "nothing is read",
    "/api/address": "nothing is read",
    "/audio/{name}": "a file",
    "/custom/catalog": "nothing is read",
    "/custom/status": "nothing is read",
    "/custom/asked": "for whoever has the seat",
    "/custom/models": "asked of the router once in ten minutes for all",
    "/custom/visitor": "nothing is read",
    "/operator/status": "for the operator",
    "/metrics": "for the operator",
    "/health": "always answered",
    "/readyz": "always answered",
    "/state": "a private environment, counted as one",
    "/schema": "made once",
    "/metadata": "made once",
    "/envs": "nothing is read",
    "/envs/{name}": "made once",
    "/pooled/envs": "nothing is read",
    "/pooled/{env_name}/{env_id}/get_task_prompt": "of a private environment",
    "/pooled/{env_name}/{env_id}/is_done": "of a private environment",
}
"""The others of the API, each with the reason."""


def test_every_route_that_reads_is_in_one_of_the_lists(tmp_path: Path) -> None:
    paths = create_app(test_settings(tmp_path)).openapi()["paths"]
    found = {path for path, methods in paths.items() if "get" in methods}
    listed = {path for path in HELD if not path.endswith(")")} - PAGES | FREE.keys()
    assert found == listed, "does a new one read a record? Then let it hold a place"


def test_a_place_is_held_before_anything_is_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, hold = [], ConcurrencyLimit.hold

    @asynccontextmanager
    async def counted(places: ConcurrencyLimit, address: str) -> AsyncIterator[None]:
        held.append(address)
        async with hold(places, address):
            yield

    monkeypatch.setattr(ConcurrencyLimit, "hold", counted)
    with serve(test_settings(tmp_path)) as serving:
        for route, asked in HELD.items():
            held.clear()
            answer = serving.client.get(asked.replace("{base}", serving.base_url))
            assert answer.status_code in (200, 404) and held == ["127.0.0.1"], route
