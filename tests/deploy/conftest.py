"""Model captains behind HTTP and HTTPS, and the match that each of them must play on an installed server."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from tests.llm.brains import counter
from tests.llm.endpoints import endpoint, write_captains


@dataclass(frozen=True)
class Models:
    """Two model captains.

    Args:
        folder: Holds their captains file and the certificate of their authority.
    """

    folder: Path

    def variables(self) -> dict[str, str]:
        """What a server's environment must hold for it to know and trust them."""
        return {
            "SPECTATOR_CAPTAINS_FILE": str(self.folder / "captains.toml"),
            "SSL_CERT_FILE": str(self.folder / "authority.pem"),
        }


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    """``llm:plain`` behind HTTP and ``llm:encrypted`` behind HTTPS."""
    folder, authority = tmp_path_factory.mktemp("models"), trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    with endpoint(counter) as plain, endpoint(counter, tls=tls) as encrypted:
        write_captains(
            folder / "captains.toml",
            plain={"base_url": plain.base_url, "style": "xml"},
            encrypted={"base_url": encrypted.base_url, "style": "xml"},
        )
        yield Models(folder)


def play_with_both(client: httpx.Client) -> None:
    """Let each model play the smallest world to its end, and check that it made every decision."""
    for name in ("llm:plain", "llm:encrypted"):
        events = _play(client, name)
        ended, made = events[-1]["data"], [one for one in events if one["type"] == "decision.made"]
        assert (ended["reason"], ended["score"]) == ("finished", 1.0)
        assert {one["data"]["source"] for one in made} == {"model"}
    assert "pip install" not in client.get("/custom/catalog").text


def _play(client: httpx.Client, captain: str) -> list[dict[str, Any]]:
    body = {"environment": "counting", "captain_preset": captain, "pace": "max"}
    started = client.post("/custom/start_episode", json=body)
    assert started.status_code == 202, started.text
    episode_id = started.json()["episode_id"]
    client.get(f"/live/{episode_id}/events")  # which ends with the episode
    return [json.loads(line) for line in client.get(f"/api/episodes/{episode_id}/events").text.splitlines()]
