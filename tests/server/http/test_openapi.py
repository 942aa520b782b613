"""The OpenAPI document is made beside what is played."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fastapi.openapi.utils import get_openapi

from server.security import faults
from tests.serving import serve, test_settings


def test_the_document_is_made_once_and_not_by_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, make = [], get_openapi

    def note(**named: Any) -> dict[str, Any]:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        made.append(named["title"])
        return make(**named)

    monkeypatch.setattr(faults, "get_openapi", note)
    with serve(test_settings(tmp_path)) as serving:
        first, again = (serving.client.get("/openapi.json") for _ in range(2))
    assert made == ["Spectator"]
    assert first.headers["content-type"] == "application/json" and first.content == again.content
    assert "/custom/start_episode" in first.json()["paths"]
