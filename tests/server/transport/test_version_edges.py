"""Viewers' connections with the lowest uvicorn and websockets that are allowed, and with unfit ones.

The other tests run with the newest: the set-up of a clean clone installs them.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from websockets.sync.client import connect

from server.settings import Settings
from server.transport import Capacity, choose_protocols, fast_path, private_api
from tests.conftest import ROOT, require
from tests.serving import serve, test_settings

PACKAGES = ("uvicorn", "websockets")
SUITES = ("tests/server/transport/test_patience.py", "tests/server/transport/test_live_channel.py")


@pytest.fixture(scope="module")
def lowest() -> Path:
    """The folder with the lowest versions."""
    folder = ROOT / ".venv" / "lowest"
    return Path(require("the lowest uvicorn and websockets", str(folder) if folder.exists() else None))


def installed(folder: Path) -> dict[str, str]:
    """The versions in a folder."""
    found = importlib.metadata.distributions(path=[str(folder)])
    return {one.name: one.version for one in found if one.name in PACKAGES}


@pytest.mark.timeout(400)
def test_connections_keep_their_promises_with_the_lowest_versions(lowest: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(lowest)}
    versions = [
        sys.executable,
        "-c",
        "import uvicorn, websockets; print(uvicorn.__version__, websockets.__version__)",
    ]
    seen = subprocess.run(versions, env=environ, cwd=ROOT, capture_output=True, text=True, check=True)
    assert seen.stdout.split() == [installed(lowest)[name] for name in PACKAGES]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", *SUITES],
        env=environ,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, f"with {seen.stdout}: {run.stdout[-4000:]}{run.stderr[-2000:]}"


def test_the_lowest_versions_are_those_of_the_ranges(lowest: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = project["optional-dependencies"]["server"]
    for name, version in installed(lowest).items():
        assert any(one.startswith(f"{name}>={version},<") for one in declared), f"{name} {version}"
    assert set(installed(lowest)) == set(PACKAGES)


def test_this_installation_has_every_private_name() -> None:
    assert private_api.missing() == []
    assert choose_protocols(Capacity.of(Settings(), None)) != fast_path.ORDINARY


@pytest.mark.parametrize("lacking", ["a name", "a module"])
def test_where_a_private_name_is_missing_uvicorns_own_connections_serve(
    lacking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if lacking == "a name":
        monkeypatch.setattr(private_api, "NEEDED", {private_api.WebSocketProtocol: ("no_such_name",)})
        reason = "WebSocketProtocol.no_such_name"
    else:
        monkeypatch.setattr(fast_path, "PRIVATE_API", "server.transport.no_such_module")
        reason = "No module named 'server.transport.no_such_module'"
    with serve(test_settings(tmp_path)) as serving:
        assert f"lacks what our connections need ({reason})" in caplog.text
        episode_id = serving.start(options={"turns": 3}, pace="fast")
        with connect(f"{serving.ws_url}/live/{episode_id}") as viewer:
            frames = [json.loads(text) for text in viewer]
        assert frames[0]["frame"] == "hello" and frames[-1]["frame"] == "bye"
        numbers = [one["seq"] for one in frames if one["frame"] in ("snapshot", "event")]
        assert numbers == [*range(numbers[0], len(serving.events(episode_id)) + 1)], "none lost or doubled"
        with connect(f"{serving.ws_url}/ws") as agent:
            agent.send('{"type": "reset"}')
            assert json.loads(agent.recv())["type"] == "observation"
            agent.send('{"type": "close"}')
            assert list(agent) == []
