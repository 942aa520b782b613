"""What routes need is found on the event loop: with a thread for it every request would change threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.dependencies import utils

from tests.serving import serve, test_settings

TOKEN = "-of-sixteen-or-more-"


def test_no_route_looks_for_what_it_needs_on_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []

    async def noted(function: Any, *args: Any, **kwargs: Any) -> Any:
        called.append(function.__qualname__)
        return function(*args, **kwargs)

    monkeypatch.setattr(utils, "run_in_threadpool", noted)
    with serve(test_settings(tmp_path, operator_token=TOKEN)) as serving:
        serving.client.headers["Authorization"] = f"Bearer {TOKEN}"
        for path in ("/health", "/custom/status", "/api/episodes", "/api/leaderboard", "/operator/status"):
            assert serving.client.get(path).status_code == 200, path
        episode_id = serving.start(environment="counting", options={"turns": 2})
        serving.client.post("/custom/act", json={"episode_id": episode_id})
        serving.client.post("/reset", json={"seed": 1})
    assert called == []
