"""An episode is planned once, however it is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from spectator.catalog import LoadWorld
from spectator.episodes import plan
from spectator.episodes.plan import EpisodeRequest
from tests.serving import Serving


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The worlds for which episodes are planned, one entry a plan."""
    found: list[str] = []
    real = plan._choose_world

    def counted(request: EpisodeRequest, load: LoadWorld) -> Any:
        found.append(request.environment)
        return real(request, load)

    monkeypatch.setattr(plan, "_choose_world", counted)
    return found


def test_a_start_is_planned_once(serving: Serving, planned: list[str]) -> None:
    body = {"environment": "counting", "pace": "max", "options": {"turns": 3}}
    assert serving.client.post("/custom/start_episode", json=body).status_code == 202
    assert planned == ["counting"]


def test_a_fork_is_planned_once(serving: Serving, planned: list[str]) -> None:
    parent = serving.start(environment="counting", options={"turns": 3})
    serving.finish(parent)
    planned.clear()
    wanted = {"episode_id": parent, "seq": 4, "pace": "max"}
    assert serving.client.post("/custom/fork", json=wanted).status_code == 202
    assert planned == ["counting"]
